"""A call of a module that has hooks: what they may change, and which of them are called whatever happens."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ...allocators.errors import CuplugError
from ..autograd.graph import RemovableHandle
from .backward_hooks import BackwardHooks

__all__ = [
    "OF_ALL",
    "called_with_hooks",
    "register_in",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
]

Hook = Callable[..., Any]


# Hooks that are called for every module, before its own: by their numbers as the hooks of a module are.
_BEFORE: dict[int, Hook] = {}
_AFTER: dict[int, Hook] = {}
_WITH_KWARGS: dict[int, bool] = {}
_ALWAYS: dict[int, bool] = {}
OF_ALL: dict[int, bool] = {}
"""The numbers of all of them: empty where there are none."""


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, result)`` after the ``forward`` of every module, before hooks of its own; it may return
    another result.

    Args:
        hook: the function.
        with_kwargs: whether the hook is called with the keywords, too, before the result.
        always_call: whether also where ``forward`` or another hook raises an error; the result may then be None.
    """
    marks = [*([_WITH_KWARGS] if with_kwargs else []), *([_ALWAYS] if always_call else [])]
    return register_in(_AFTER, hook, OF_ALL, *marks)


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, args)`` before the ``forward`` of every module, before hooks of its own; it may return other
    arguments."""
    return register_in(_BEFORE, hook, OF_ALL)


def register_in(hooks: dict[int, Hook], hook: Hook, *marks: dict[int, bool], first: bool = False) -> RemovableHandle:
    """Add a hook behind those that are there, or in front of them; its number is in each of ``marks``, too."""
    handle = RemovableHandle(hooks, hook, marks)
    if first:
        for each in [each for each in hooks if each != handle.id]:
            hooks[each] = hooks.pop(each)
    return handle


def called_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``forward`` returns, with the module's hooks around it."""
    called: set[int] = set()
    result = None
    try:
        args, kwargs = _arguments(module, args, kwargs)
        watched = None
        if module._backward_hooks or module._backward_pre_hooks:
            watched = BackwardHooks(module, module._backward_hooks, module._backward_pre_hooks)
            args = watched.around_arguments(args)
        result = module.forward(*args, **kwargs)
        for number, hook in [*_AFTER.items(), *module._forward_hooks.items()]:
            called.add(number)
            changed = _answer(module, number, hook, args, kwargs, result)
            result = result if changed is None else changed
        return result if watched is None else watched.around_result(result)
    except Exception:
        for number, hook in [*_AFTER.items(), *module._forward_hooks.items()]:
            always = number in _ALWAYS or number in module._forward_hooks_always_called
            if always and number not in called:
                try:
                    changed = _answer(module, number, hook, args, kwargs, result)
                except Exception as error:
                    warnings.warn(
                        "forward hook with ``always_call=True`` raised an exception that was silenced as another "
                        f"error was raised in forward: {error}",
                        stacklevel=2,
                    )
                else:
                    result = result if changed is None else changed
        raise


def _arguments(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for number, hook in [*_BEFORE.items(), *module._forward_pre_hooks.items()]:
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
    if number in _WITH_KWARGS or number in module._forward_hooks_with_kwargs:
        return hook(module, args, kwargs, result)
    return hook(module, args, result)
