"""``cuplug.compile`` and ``cuplug.compiler``: what programs ask of a compiler of Python, of which there is none.

What PyTorch's ``compile`` gives computes the same as what it was given. Here every operation runs when it is called, so
what was given is that callable already. ``torch._dynamo`` and ``torch._inductor`` lead here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from ...allocators.errors import CuplugError
from ..machine.callers import warn_program

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "graph_break",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "mark_dynamic",
    "reset",
]

F = TypeVar("F", bound=Callable[..., Any])

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> Any:
    """Give back ``model``, a function or module, as it is. Nothing is compiled: the first call of a process warns so.

    It is a decorator, too, with arguments and without. A module is itself afterwards, not wrapped in another: its
    ``state_dict`` has no prefix ``_orig_mod.``.

    Args:
        model: what to compile; None for a decorator that is given it.
        fullgraph: without effect, as are all others but ``disable``.
        dynamic: without effect.
        backend: without effect, and not called.
        mode: one of PyTorch's, of its compiler alone.
        options: without effect; not together with ``mode``.
        name: without effect.
        disable: that nothing is compiled is meant, and not warned of.
        recompile_limit: without effect.
        isolate_recompiles: without effect.

    Raises:
        CuplugError: both ``mode`` and ``options`` are given, ``mode`` is none that PyTorch has, or ``model`` cannot be
            called.
    """
    if model is None:

        def decorator(given: Any) -> Any:
            if given is None:
                raise CuplugError("compile: there is nothing to compile: a function or a module is needed, not None")
            return compile(given, backend=backend, mode=mode, options=options, disable=disable)

        return decorator
    if mode is not None and options is not None:
        raise CuplugError("compile: either mode or options can be given, not both")
    if mode and mode not in _MODES and backend in (None, "inductor"):
        raise CuplugError(f"compile: mode {mode!r} is none of {', '.join(_MODES)}")
    if not callable(model):
        raise CuplugError(f"compile: a function or a module is needed, not {type(model).__name__}")
    if not disable:
        tell()
    return model


@cache
def tell() -> None:
    """Warn that nothing is compiled, once: a second call is answered by the first one's result."""
    warn_program("cuplug compiles nothing: what torch.compile and torch.jit take runs as without them, no faster")


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Give back ``fn``, which is not compiled in any case; without it a decorator.

    Args:
        fn: a function or module.
        recursive: without effect.
        reason: without effect.
    """
    return fn if fn is not None else _itself


def _itself(fn: F) -> F:
    return fn


def allow_in_graph(fn: F) -> F:
    """Give back ``fn``: there is no graph."""
    return fn


def assume_constant_result(fn: F) -> F:
    """Give back ``fn``: it is called each time."""
    return fn


def is_compiling() -> bool:
    """Whether this runs while a compiler looks on: False."""
    return False


def is_dynamo_compiling() -> bool:
    """Whether this runs while a compiler looks on: False."""
    return False


def is_exporting() -> bool:
    """Whether this runs while a program is exported: False."""
    return False


def reset() -> None:
    """Forget what was compiled, which is nothing."""


def cudagraph_mark_step_begin() -> None:
    """Begin another step, after which results of the one before may be overwritten: here they never are."""


def graph_break() -> None:
    """End what is compiled as one: nothing is."""


def mark_dynamic(t: Any, index: Any, **hints: Any) -> None:
    """Let sizes of a tensor be other ones later: they may be in any case.

    Args:
        t: the tensor.
        index: its dimension, or several.
        hints: without effect.
    """


class OptimizedModule:
    """What PyTorch's ``compile`` makes of a module. Nothing is one here, as programs may ask."""
