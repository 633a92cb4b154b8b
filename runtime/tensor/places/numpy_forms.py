"""What NumPy computes for lines of ``elementwise_table.py`` where that is not one function of its own.

Each writes to ``out``, which can be the memory of an operand, or makes a new array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .choice import constant


def sigmoid(a: Any, out: Any = None) -> Any:
    """``1 / (1 + exp(-a))``."""
    out = np.empty_like(a) if out is None else out
    np.exp(np.negative(a, out=out), out=out)
    return np.reciprocal(np.add(out, constant(1, out.dtype), out=out), out=out)


def rsqrt(a: Any, out: Any = None) -> Any:
    """``1 / sqrt(a)``."""
    return np.reciprocal(np.sqrt(a, out=out), out=out)


def times(factor: float) -> Callable[..., Any]:
    """What multiplies by a number."""
    return lambda a, out=None: np.multiply(a, constant(factor, a.dtype), out=out)


def relu(a: Any, out: Any = None) -> Any:
    """``a``, and 0 for what is negative."""
    return np.maximum(a, constant(0, a.dtype), out=out)


def integers_stay(rounding: np.ufunc) -> Callable[..., Any]:
    """A rounding that leaves integers as they are."""

    def rounded(a: Any, out: Any = None) -> Any:
        return rounding(a, out=out) if a.dtype.kind == "f" else np.positive(a, out=out)

    return rounded


def power(a: Any, b: Any, out: Any = None) -> Any:
    """``a`` to the power of ``b``; of integers whole numbers."""
    if a.dtype.kind == "f" and not np.ndim(b) and b == 2:
        return np.multiply(a, a, out=out)
    if a.dtype.kind == "f" and not np.ndim(b) and b == 0.5:
        endless = np.isneginf(a)
        root = np.sqrt(a, out=out)  # as NumPy does, for whom the root of -inf is NaN, and not inf as its power
        return np.positive(np.where(endless, np.inf, root).astype(a.dtype), out=out) if np.any(endless) else root
    if a.dtype.kind != "i":
        return np.power(a, b, out=out)
    positive = np.power(a, np.maximum(b, 0))  # 1 / a**n is 0 in integers, unless a is 1 or -1
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0))
    return np.positive(np.where(b < 0, inverse.astype(positive.dtype), positive), out=out)


def logical(ufunc: np.ufunc) -> Callable[..., Any]:
    """A function of truth, in few steps where ``b`` is a number."""

    def combined(a: Any, b: Any, out: Any = None) -> Any:
        # NumPy is much faster with a bool than with another number.
        return ufunc(a, b, out=out) if np.ndim(b) else ufunc(a, np.bool_(b), out=out)

    return combined


def sign(a: Any, out: Any = None) -> Any:
    """1, 0 or -1."""
    if a.dtype.kind == "f":  # 0 for NaN in torch
        out = np.empty_like(a) if out is None else out
        zero = constant(0, a.dtype)
        return np.subtract(np.greater(a, zero).view(np.int8), np.less(a, zero).view(np.int8), out=out)
    return np.logical_or(a, a, out=out) if a.dtype.kind == "b" else np.sign(a, out=out)


def tested(test: np.ufunc) -> Callable[..., Any]:
    """A test of floats by NumPy, which writes wrong answers where those do not lie side by side (seen in 2.4)."""

    def tested(a: Any, out: Any = None) -> Any:
        if out is None or out.flags.c_contiguous:
            return test(a, out=out)
        np.copyto(out, test(a))
        return out

    return tested


_test_sign = tested(np.signbit)


def signbit(a: Any, out: Any = None) -> Any:
    """Whether the sign is negative, also of -0.0."""
    return _test_sign(a, out=out) if a.dtype.kind == "f" else np.less(a, 0, out=out)


def lerp(a: Any, b: Any, weight: Any, out: Any = None) -> Any:
    """``a + weight * (b - a)``."""
    # From the nearer end: the result at a weight of 1 is exactly the other end, however far away it is.
    if not np.ndim(weight):
        if abs(weight) < 0.5:
            return np.add(a, weight * (b - a), out=out)
        return np.subtract(b, (b - a) * (1 - weight), out=out)
    # The ends are chosen by their bits, for NumPy jumps for each element that it chooses. All bits of ``far`` are set
    # where the weight is at least 0.5, whose bits without the sign are then no fewer than those of 0.5.
    kind = weight.dtype
    magnitude, below_half, shift, one = _bits_of(kind)
    integer = magnitude.dtype
    far = (below_half - (weight.view(integer) & magnitude)) >> shift
    start = a.view(integer)
    end = start ^ ((start ^ b.view(integer)) & far)
    return np.add(end.view(kind), (weight - (far & one).view(kind)) * (b - a), out=out)


@cache
def _bits_of(kind: np.dtype[Any]) -> tuple[Any, ...]:
    """Of floating-point numbers, as integers of their size: all bits but the sign, the bits of the number below 0.5,
    how far the sign is from the last bit, and the bits of 1. As arrays, which NumPy takes faster than its numbers."""
    integer = np.dtype(f"i{kind.itemsize}")
    half, one = (np.array(number, kind).view(integer) for number in (0.5, 1))
    found = np.iinfo(integer).max, half - 1, 8 * kind.itemsize - 1, one
    return tuple(np.array(each, integer) for each in found)


_FEW = 1024
"""Up to so many elements ``np.clip`` spends most of its time before it begins."""


def clamp_both(a: Any, low: Any, high: Any, out: Any = None) -> Any:
    """``a`` kept within ``low`` and ``high``, which is ``high`` where they are the wrong way round."""
    if a.size <= _FEW:
        return np.minimum(np.maximum(a, low), high, out=out)
    return np.clip(a, low, high, out=out)


def add_scaled(a: Any, b: Any, alpha: Any, out: Any = None) -> Any:
    """``a + alpha * b``."""
    return np.add(a, b * alpha, out=out)


def sub_scaled(a: Any, b: Any, alpha: Any, out: Any = None) -> Any:
    """``a - alpha * b``."""
    return np.subtract(a, b * alpha, out=out)


def repaired(a: Any, high: Any, low: Any, out: Any = None) -> Any:
    """``a`` with 0 for NaN, ``high`` for infinity and ``low`` for negative infinity."""
    endless = ~np.isfinite(a)
    if not endless.any():
        return np.positive(a, out=out)
    instead = np.where(np.isnan(a), a.dtype.type(0), np.where(a > 0, high, low))
    return np.positive(np.where(endless, instead, a).astype(a.dtype), out=out)


def frac(a: Any, out: Any = None) -> Any:
    """The part behind the point."""
    return np.subtract(a, np.trunc(a), out=out)


def divide_truncated(a: Any, b: Any, out: Any = None) -> Any:
    """The quotient rounded towards 0."""
    if a.dtype.kind == "f":
        return np.trunc(np.divide(a, b, out=out), out=out)
    quotient = np.floor_divide(a, b)
    return np.add(quotient, ((quotient < 0) & (quotient * b != a)).astype(quotient.dtype), out=out)
