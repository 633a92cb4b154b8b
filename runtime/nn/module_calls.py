"""A call of a module that has hooks: what they may change, and which of them are called whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...allocators.errors import CuplugError
from ..autograd.graph import RemovableHandle
from ..machine.callers import warn_program
from ..tensor.ops.arguments.facts import typename
from .backward_hooks import BackwardHooks

Hook = Callable[..., Any]
_PACKAGE = __name__.partition(".")[0]


OF_ALL_WITH_KWARGS: dict[int, bool] = {}
OF_ALL_ALWAYS_CALLED: dict[int, bool] = {}
"""The numbers of hooks of all modules that are called with the keywords, and whatever happens."""


def register_in(hooks: dict[int, Hook], hook: Hook, *marks: dict[int, bool], first: bool = False) -> RemovableHandle:
    """Add a hook behind those that are there, or in front of them; its number is in each of ``marks``, too."""
    handle = RemovableHandle(hooks, hook, marks)
    if first:
        for each in [each for each in hooks if each != handle.id]:
            hooks[each] = hooks.pop(each)
    return handle


def called_with_hooks(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], before: dict[int, Hook], after: dict[int, Hook]
) -> Any:
    """What ``forward`` returns, with hooks around it: those of all modules, ``before`` and ``after``, and then the
    module's own."""
    called: set[int] = set()
    result = None
    try:
        args, kwargs = _arguments(module, args, kwargs, before)
        watched = None
        if module._backward_hooks or module._backward_pre_hooks:
            watched = BackwardHooks(module, module._backward_hooks, module._backward_pre_hooks)
            args = watched.around_arguments(args)
        result = module.forward(*args, **kwargs)
        for number, hook in [*after.items(), *module._forward_hooks.items()]:
            called.add(number)
            changed = _answer(module, number, hook, args, kwargs, result)
            result = result if changed is None else changed
        return result if watched is None else watched.around_result(result)
    except Exception:
        for number, hook in [*after.items(), *module._forward_hooks.items()]:
            always = number in OF_ALL_ALWAYS_CALLED or number in module._forward_hooks_always_called
            if always and number not in called:
                try:
                    changed = _answer(module, number, hook, args, kwargs, result)
                except Exception as error:
                    warn_program(
                        "forward hook with ``always_call=True`` raised an exception that was silenced as another "
                        f"error was raised in forward: {error}",
                    )
                else:
                    result = result if changed is None else changed
        raise


def what_is_no_tensor(module: Any, args: tuple[Any, ...]) -> str:
    """For a layer of the package that asked an argument for what only tensors have: which one is none, as a sentence.
    Empty for modules of the program, and where nothing but tensors was given."""
    if type(module).__module__.partition(".")[0] != _PACKAGE:
        return ""
    for position, each in enumerate(args, 1):
        if isinstance(each, (np.ndarray, list, str, int, float)) or (each is None and position == 1):
            advice = "; from_numpy() makes a tensor of an array" if isinstance(each, np.ndarray) else ""
            return f"{type(module).__name__}(): argument {position} must be Tensor, not {typename(each)}{advice}"
    return ""


def name_the_layer(module: Any, error: TypeError) -> None:
    """Where Python says of ``forward`` that it was called wrongly: name the module's class, not the base whose function
    it is."""
    function = getattr(type(module).forward, "__qualname__", "")
    text = str(error)
    if text.startswith(f"{function}()"):
        error.args = (f"{type(module).__name__}.forward{text.removeprefix(function)}",)


def _arguments(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], before: dict[int, Hook]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for number, hook in [*before.items(), *module._forward_pre_hooks.items()]:
        if number not in module._forward_pre_hooks_with_kwargs:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
            continue
        changed = hook(module, args, kwargs)
        if changed is not None:
            if not isinstance(changed, tuple) or len(changed) != 2:
                raise CuplugError(
                    "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                    f"but got {type(changed).__name__}."
                )
            args, kwargs = changed
    return args, kwargs


def _answer(module: Any, number: int, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    if number in OF_ALL_WITH_KWARGS or number in module._forward_hooks_with_kwargs:
        return hook(module, args, kwargs, result)
    return hook(module, args, result)
