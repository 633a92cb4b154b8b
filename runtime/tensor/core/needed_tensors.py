"""What is said of an argument that should be a tensor and is none. Nothing is looked at before that was noticed."""

from __future__ import annotations

import re
import sys
from inspect import CO_VARARGS
from typing import Any, TypeVar

import numpy as np

from .layout import Layout

Value = TypeVar("Value")
_PACKAGE = __name__.partition(".")[0]


def layout_of(value: Any) -> Layout:
    """The layout of a tensor.

    Raises:
        TypeError: it is none; the error names the function that the program called, and the argument.
    """
    try:
        return value._layout  # type: ignore[no-any-return]
    except AttributeError:
        raise no_tensor(value) from None


def needed(value: Value) -> Value:
    """A tensor itself. Raises as ``layout_of`` does."""
    layout_of(value)
    return value


def no_tensor(*values: Any) -> TypeError:
    """The error for the first of these values that is no tensor. It names the outermost function of the package that
    was given the value, and the argument, as torch does."""
    value = next(each for each in values if not hasattr(each, "_layout"))
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    said = f"a tensor is needed, not {name}"
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        code, here = frame.f_code, frame.f_locals
        called = here["function"].__name__ if code.co_name in _AROUND else code.co_name
        hints = getattr(frame.f_globals.get(code.co_name), "__annotations__", {})
        count = code.co_argcount
        named = count + code.co_kwonlyargcount + bool(code.co_flags & CO_VARARGS)
        if called[0] != "_" and called not in _INNER and code.co_varnames[:1] != ("args",):
            for position, argument in enumerate(code.co_varnames[:named], 1):
                if not re.search("Tensor|Any|^$", str(hints.get(argument, ""))):  # the 0 of a dimension
                    continue
                given = here.get(argument)
                where = f"{called}(): argument {argument!r}" + (f" (position {position})" if position <= count else "")
                if given is value:
                    said = f"{where} must be Tensor, not {name}"
                    break
                if argument != "args" and isinstance(given, (list, tuple)) and any(each is value for each in given):
                    said = f"{where} must be tuple of Tensors, but found element of type {name}"
                    break
        frame = frame.f_back
    advice = "; from_numpy() makes a tensor of an array" if isinstance(value, np.ndarray) else ""
    return TypeError(said + advice)


_AROUND = frozenset(("called", "shown"))
"""Functions around others, which they know as ``function``."""
_INNER = frozenset(("forward", "layout_of", "needed"))
"""Functions that programs do not call by these names."""
