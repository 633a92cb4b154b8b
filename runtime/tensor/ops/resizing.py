"""Shapes changed in place, and windows that slide along a dimension."""

from __future__ import annotations

from typing import Any

from ..core.layout import Layout
from ..core.shapes import as_lengths, normal_axis, shape_of
from ..core.tensor import Tensor, make_tensor, view_of
from ..core.tensor_errors import ArgumentError, RangeError, ShapeError
from ..places.elementwise_table import COPY
from ..places.place import place_at
from .elementwise import apply_into

__all__ = ["resize_", "resize_as_", "unfold"]


def resize_(input: Tensor, *lengths: Any) -> Tensor:
    """The tensor itself with another shape, contiguous, over the same memory; if that does not suffice, over new
    memory, to which what was there is copied. What is new is uninitialised.

    Raises:
        OutOfMemoryError: the device has not that much memory left.
        ValueError: a length is negative.
    """
    shape = shape_of((as_lengths(lengths),))
    own = input._layout
    target = Layout.of(own.place, own.dtype, shape)
    have, need = input._storage.length, input._offset * own.dtype.itemsize + target.nbytes
    if need > have:
        before = Layout.of(own.place, own.dtype, (have // own.dtype.itemsize,))
        storage = place_at(own).allocate(need)
        apply_into(COPY, make_tensor(storage, 0, before), make_tensor(input._storage, 0, before))
        input._storage = storage
    input._layout, input._array = target, None
    return input


def resize_as_(input: Tensor, other: Tensor) -> Tensor:
    """``resize_`` to the shape of ``other``."""
    return resize_(input, *other.shape)


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """A view of all windows of ``size`` positions along a dimension, ``step`` apart; a window's positions come last.

    Raises:
        IndexError: there is no such dimension, or it is shorter than a window.
        ValueError: ``size`` is negative, or ``step`` is not 1 or more.
    """
    axis = normal_axis(dimension, input.ndim)
    shape, strides = input._layout.shape or (1,), input._layout.strides or (1,)
    if step < 1:
        raise ArgumentError(f"unfold: windows are 1 or more positions apart, not {step}")
    if size < 0:
        raise ShapeError(f"unfold: windows have 0 or more positions, not {size}")
    if size > shape[axis]:
        raise RangeError(f"unfold: windows of {size} positions in a dimension of length {shape[axis]}")
    if not input.ndim:
        return view_of(input, (size,), (1,))
    count = (shape[axis] - size) // step + 1
    return view_of(
        input,
        (*shape[:axis], count, *shape[axis + 1 :], size),
        (*strides[:axis], strides[axis] * step, *strides[axis + 1 :], strides[axis]),
    )
