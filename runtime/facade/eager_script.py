"""``cuplug.jit``: what programs write for PyTorch's compiler of scripts, where functions run as they are.

Many programs script functions and save no scripts: the functions compute the same without. Modules
are scripted to be saved without their Python, or run by another language, and that is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from ...allocators.errors import CuplugError
from .eager_compiler import tell

__all__ = [
    "Final",
    "annotate",
    "export",
    "ignore",
    "is_scripting",
    "is_tracing",
    "script",
    "script_if_tracing",
    "unused",
]

F = TypeVar("F", bound=Callable[..., Any])


def script(obj: F) -> F:
    """Give back a function or class as it is. Nothing is compiled: the first call of a process warns so.

    Raises:
        CuplugError: it is a module, or anything else.
    """
    if not (isinstance(obj, type) or hasattr(obj, "__code__")):
        raise CuplugError(
            f"jit.script of {type(obj).__name__} is not part of cuplug: functions and classes are given back as they "
            "are, and modules are not made scripts; use the module itself"
        )
    tell()
    return obj


def script_if_tracing(fn: F) -> F:
    """Give back ``fn``: nothing is traced."""
    return fn


def ignore(drop: Any = False, **settings: Any) -> Any:
    """Give back what is to be left to Python, as all is.

    Args:
        drop: the function; or, for a decorator, a bool without effect.
        settings: without effect.
    """
    return drop if callable(drop) else unused


def unused(fn: F) -> F:
    """Give back ``fn``, of which no script is made."""
    return fn


def export(fn: F) -> F:
    """Give back ``fn``, of which no script is made."""
    return fn


_overload = _overload_method = unused


def annotate(the_type: Any, the_value: Any) -> Any:
    """Give back the value.

    Args:
        the_type: without effect.
        the_value: the value.
    """
    return the_value


def is_scripting() -> bool:
    """Whether this runs within a script: False."""
    return False


def is_tracing() -> bool:
    """Whether this runs while a module is traced: False."""
    return False
