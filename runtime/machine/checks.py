"""Checks of arguments, so that a wrong one is named where it was passed."""

from __future__ import annotations

from numbers import Real
from operator import index
from typing import Any


def whole_number(value: Any, name: str) -> int:
    """``value`` as an int, if it is one or converts to one without loss (``__index__``), as NumPy's integers do.

    Raises:
        TypeError: it is not. The message says ``name``.
    """
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None


def flag(value: Any, name: str) -> bool:
    """``value`` as a bool, if it is True or False, also NumPy's, or 1 or 0.

    Raises:
        TypeError: it is not. The message says ``name``.
    """
    try:
        number = index(bool(value) if type(value).__module__ == "numpy" else value)
    except TypeError:
        number = -1
    if number not in (0, 1):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return bool(number)


def fraction(value: Any, name: str) -> float:
    """``value`` as a float, if it is a number from 0 to 1.

    Raises:
        TypeError: it is no number. The message says ``name``.
        ValueError: it is below 0 or above 1.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number from 0 to 1, not {value!r}")
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1, not {value!r}")
    return number
