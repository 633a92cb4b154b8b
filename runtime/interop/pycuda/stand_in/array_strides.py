"""Shapes and strides of arrays, in bytes: of those in C's and in Fortran's order, and of those without gaps."""

from __future__ import annotations

from typing import Any

import numpy as np


def lie_alike(array: Any, other: Any) -> bool:
    """Whether the elements of two arrays of one size, the first without gaps, follow each other in the same order."""
    flags = other.flags
    if array.shape == other.shape:
        return bool(array.strides == other.strides or (array.flags.c_contiguous and flags.c_contiguous))
    return bool(flags.c_contiguous or flags.f_contiguous)


def shape_of(shape: Any) -> tuple[int, ...]:
    """The lengths that NumPy would take a shape for: a sequence of them, or one number."""
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    return tuple(int(size) for size in shape) if isinstance(shape, (tuple, list)) else (int(shape),)


def strides_of(shape: tuple[int, ...], itemsize: int, order: str) -> tuple[int, ...]:
    """The strides of an array without gaps, whose last dimension is the innermost (``C``) or the first (``F``)."""
    strides, step = [], itemsize
    for size in shape if order == "F" else reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(strides if order == "F" else reversed(strides))


def dense_strides(array: Any, itemsize: int | None = None) -> tuple[int, ...]:
    """The strides of an array without gaps whose dimensions follow each other as another's do."""
    itemsize = itemsize or array.dtype.itemsize
    strides, step = [0] * len(array.shape), itemsize
    ordered = sorted(range(len(array.shape)), key=lambda axis: (-abs(array.strides[axis]), axis))
    for axis in reversed(ordered):
        strides[axis] = step
        step *= max(array.shape[axis], 1)
    return tuple(strides)


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, order: str) -> bool:
    """Whether an array of these strides has no gaps in this order."""
    step = itemsize
    if 0 in shape:
        return True
    for size, stride in (
        zip(shape, strides, strict=True) if order == "F" else zip(reversed(shape), reversed(strides), strict=True)
    ):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
