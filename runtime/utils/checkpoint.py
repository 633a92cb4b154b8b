"""``cuplug.utils.checkpoint``: what gradients need is not kept, but computed again when they are computed.

A checkpointed function is recorded as any other; only the tensors that its nodes would keep are left out. The first
node that asks for one has the function run again, up to the last tensor that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...allocators.errors import CuplugError
from ..autograd.grad_mode import enable_grad, recording
from ..autograd.graph import plain, saved_tensors_hooks
from ..nn.module import Module
from ..tensor.core.casting_seam import autocasting, casting_as
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.random.random_states import CUDA_FUNCTIONS, get_rng_state, set_rng_state

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    **kwargs: Any,
) -> Any:
    """What ``function`` returns, without keeping what its gradients need: it runs a second time in ``backward``.

    Args:
        function: it must compute the same again from the same arguments.
        args: its arguments.
        use_reentrant: as torch's; there is one way here, which has the limits of neither.
        preserve_rng_state: whether the second run draws the same random numbers.
        determinism_check: ``none`` to take what the second run keeps without a look at its shape and type.
        kwargs: its keyword arguments.

    Raises:
        ValueError: ``determinism_check`` is neither ``default`` nor ``none``.
        CuplugError: in ``backward``: the second run kept other tensors than the first, or gradients of gradients are
            computed.
    """
    del use_reentrant
    if determinism_check not in ("default", "none"):
        raise ArgumentError(f"determinism_check should be one of 'default', 'none', got {determinism_check!r}")
    if not recording.enabled:
        return function(*args, **kwargs)
    frame = _Frame(function, args, kwargs, preserve_rng_state, determinism_check == "default")
    with saved_tensors_hooks(frame.leave_out, _call):
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Module | Sequence[Callable[..., Any]],
    segments: int,
    input: Tensor,  # noqa: A002 - torch's name
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Run functions one after the other, in ``segments`` parts that are checkpointed; the last part is not.

    Raises:
        ValueError: there are fewer functions than segments.
    """
    del use_reentrant
    steps: list[Callable[..., Any]] = list(functions.children()) if isinstance(functions, Module) else list(functions)
    if not 0 < segments <= len(steps):
        raise ArgumentError(f"checkpoint_sequential: {segments} segments of {len(steps)} functions")
    length = len(steps) // segments
    made: Any = input
    for number in range(segments - 1):
        part = steps[number * length : (number + 1) * length]
        made = checkpoint(_chain, part, made, preserve_rng_state=preserve_rng_state)
    return _chain(steps[(segments - 1) * length :], made)


def _chain(steps: Sequence[Callable[..., Any]], made: Any) -> Any:
    for step in steps:
        made = step(made)
    return made


class _AllThereError(Exception):
    """Ends the second run: everything is computed that was missing."""


class _Frame:
    """One call of a checkpointed function: how it was called, and what was computed again."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, preserve: bool, checks: bool) -> None:
        self._call = function, args, kwargs
        self._checks = checks
        self._random = _random_state(args) if preserve else None
        self._fast = dict(autocasting.fast)
        self._count = 0
        self._found: dict[int, tuple[Any, Tensor]] = {}
        self._taken: set[int] = set()

    def leave_out(self, tensor: Tensor) -> Callable[[], Tensor]:
        number, layout = self._count, tensor._layout.plain
        self._count += 1

        def again() -> Tensor:
            return self._get(number, layout)

        return again

    def _get(self, number: int, layout: Any) -> Tensor:
        if recording.enabled:
            raise CuplugError("gradients of gradients cannot be computed through checkpoint; run the function itself")
        if number not in self._found:
            self._run()
        made = self._found[number]
        # Each is asked for once in a pass; a pass that keeps the graph may ask again, and has it computed again.
        self._taken.add(number)
        if len(self._taken) == self._count:
            self._found.clear()
            self._taken.clear()
        if self._checks and made[0] is not layout:
            raise CuplugError(
                f"checkpoint: the function kept a tensor of shape {list(layout.shape)}, and when it ran again one of "
                f"shape {list(made[0].shape)}; it must compute the same again"
            )
        return made[1]

    def _run(self) -> None:
        function, args, kwargs = self._call
        seen: dict[int, tuple[Any, Tensor]] = {}

        def keep(tensor: Tensor) -> Callable[[], Tensor]:
            made = plain(tensor)
            seen[len(seen)] = tensor._layout.plain, made
            if len(seen) == self._count:
                raise _AllThereError
            return lambda: made

        before = None if self._random is None else _random_state(args)
        try:
            if self._random is not None:
                _set_random_state(self._random)
            with enable_grad(), saved_tensors_hooks(keep, _call), casting_as(self._fast, {}):
                function(*_cut(args), **_cut(kwargs))
        except _AllThereError:
            pass
        finally:
            if before is not None:
                _set_random_state(before)
        if len(seen) != self._count:
            raise CuplugError(
                f"checkpoint: the function kept {self._count} tensors for its gradients, and {len(seen)} when it ran "
                "again; it must compute the same again"
            )
        self._found = seen


def _call(again: Callable[[], Tensor]) -> Tensor:
    return again()


def _cut(given: Any) -> Any:
    """Arguments whose tensors are leaves, which require gradients where they did."""
    if isinstance(given, Tensor):
        return given.detach().requires_grad_() if given.requires_grad else given
    if isinstance(given, dict):
        return {name: _cut(each) for name, each in given.items()}
    if type(given) in (tuple, list):
        return type(given)(_cut(each) for each in given)
    return given


def _random_state(args: Any) -> list[tuple[Any, Any]]:
    """The states of the CPU's random numbers, and of those of the devices of the arguments."""
    states: list[tuple[Any, Any]] = [(None, get_rng_state())]
    devices = {each.device for each in args if isinstance(each, Tensor) and each.is_cuda}
    states += [(each, CUDA_FUNCTIONS["get_rng_state"](each)) for each in sorted(devices, key=str)]
    return states


def _set_random_state(states: list[tuple[Any, Any]]) -> None:
    for device, state in states:
        if device is None:
            set_rng_state(state)
        else:
            CUDA_FUNCTIONS["set_rng_state"](state, device)
