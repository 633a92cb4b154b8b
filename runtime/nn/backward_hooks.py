"""Hooks of a module's backward pass: they see the gradients of its result, and those of its arguments.

A call of a module that has such hooks is put between two operations that change nothing. Autograd runs the one behind
it before the module's own backward pass, and the one in front of it after that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...allocators.errors import CuplugError
from ..autograd import Function, is_grad_enabled
from ..machine.callers import warn_program
from ..tensor.core.tensor import Tensor

Hook = Callable[..., Any]


class BackwardHooks:
    """The hooks of one call of a module."""

    def __init__(self, module: Any, hooks: dict[int, Hook] | None, pre_hooks: dict[int, Hook] | None) -> None:
        self._module = module
        self._hooks = list((hooks or {}).values())
        self._pre_hooks = list((pre_hooks or {}).values())
        self._argument_count = 0
        self._arguments: list[int] | None = None  # which are tensors; None where none of them requires a gradient
        self._of_result: tuple[Any, ...] | None = None  # its gradients, until those of the arguments are there

    def around_arguments(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments that ``forward`` is to be called with."""
        self._argument_count = len(arguments)
        if not self._hooks:
            return arguments
        made, self._arguments = _passed_through(
            arguments, lambda which, of_arguments, _: self._arguments_are_done(which, of_arguments)
        )
        return made

    def around_result(self, result: Any) -> Any:
        """What the call is to return in place of what ``forward`` has returned."""
        results = result if isinstance(result, tuple) else (result,)

        made, _ = _passed_through(
            results, lambda which, _, of_results: self._result_is_done(which, of_results, len(results))
        )
        if not isinstance(result, tuple):
            return made[0]
        return type(result)(*made) if hasattr(result, "_fields") else made

    def _result_is_done(self, which: list[int], gradients: Sequence[Any], count: int) -> tuple[Any, ...]:
        given = _at(which, gradients, count)
        for hook in self._pre_hooks:
            given = _checked(hook(self._module, given), given, "Backward pre hook", "grad_output")
        self._of_result = given
        if self._hooks and self._arguments is None:
            warn_program(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                f"inputs require gradients: the gradients that hooks of {type(self._module).__name__} get of its "
                "arguments are None; call requires_grad_() on an argument to have them",
            )
            nothing = (None,) * self._argument_count
            for hook in self._hooks:
                answer = hook(self._module, nothing, given)
                if answer is not None and not (isinstance(answer, tuple) and all(each is None for each in answer)):
                    raise CuplugError(
                        "Backward hook for Modules where no input requires gradient should always return None or None "
                        "for all gradients."
                    )
            self._of_result = None
        return tuple(given[number] for number in which)

    def _arguments_are_done(self, which: list[int], gradients: Sequence[Any]) -> tuple[Any, ...] | None:
        if self._of_result is None:  # they were asked for by themselves, and not by way of the result
            return None
        made = _at(which, gradients, self._argument_count)
        for hook in self._hooks:
            made = _checked(hook(self._module, made, self._of_result), made, "Backward hook", "grad_input")
        self._of_result = None
        return tuple(made[number] for number in which)


class _Through(Function):
    """Gives its arguments as they are, and their gradients, too."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.mark_non_differentiable(*(each for each in tensors if not each.requires_grad))
        return tensors

    @staticmethod
    def backward(_ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return gradients


def _passed_through(
    values: tuple[Any, ...], done: Callable[[list[int], Sequence[Any], Sequence[Any]], tuple[Any, ...] | None]
) -> tuple[tuple[Any, ...], list[int] | None]:
    """The values, and which of them are tensors. In the backward pass ``done`` is called with the gradients of those,
    which it may replace: with zeros for what was not used, and with None for it.

    Nothing is done, and the second result is None, where no gradient will be computed.
    """
    which = [number for number, each in enumerate(values) if isinstance(each, Tensor)]
    if not (is_grad_enabled() and any(values[number].requires_grad for number in which)):
        return values, None
    made = list(values)
    for number, tensor in zip(which, _Through.apply(*(values[number] for number in which)), strict=True):
        made[number] = tensor
    node = next(each.grad_fn for each in (made[number] for number in which) if each.grad_fn is not None)
    node.register_hook(lambda made, given: done(which, made, given))
    return tuple(made), which


def _at(which: list[int], gradients: Sequence[Any], count: int) -> tuple[Any, ...]:
    found: list[Any] = [None] * count
    for number, gradient in zip(which, gradients, strict=True):
        found[number] = gradient
    return tuple(found)


def _checked(answer: Any, before: tuple[Any, ...], what: str, of: str) -> tuple[Any, ...]:
    """What a hook has answered, or what it was given, if it answered nothing."""
    if answer is None:
        return before
    answered = answer if isinstance(answer, (tuple, list)) else (answer,)
    if len(answered) != len(before):
        raise CuplugError(f"{what} returned an invalid number of {of}, got {len(answered)}, but expected {len(before)}")
    return tuple(answered)
