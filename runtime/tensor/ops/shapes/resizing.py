"""Shapes and memory changed in place, and windows that slide along a dimension."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as integer
from typing import Any

from ...core.kept_views import titled
from ...core.layout import Layout
from ...core.memory_formats import preserve_format, strides_in
from ...core.needed_tensors import layout_of, needed, no_tensor
from ...core.shapes import as_lengths, contiguous_strides, given_once, normal_axis, shape_of
from ...core.storage import Storage
from ...core.tensor import Tensor, make_tensor, view_of
from ...core.tensor_errors import ArgumentError, ElementTypeError, RangeError, ShapeError
from ...places.place import place_at
from ...places.tables_with_gradients.elementwise_table import COPY
from ..elementwise.elementwise import apply_into, same_memory
from .typed_storage import TypedStorage
from .views import as_strided


def resize_(input: Tensor, *lengths: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """The tensor itself with another shape, contiguous, over the same memory; if that does not suffice, over new
    memory, to which what was there is copied. What is new is uninitialised.

    Args:
        input: the tensor.
        lengths: the shape, as integers or as one sequence; ``size`` means the same.
        size: the shape.
        memory_format: in which order elements lie: ``contiguous_format``, if None, or ``channels_last``.

    Raises:
        OutOfMemoryError: the device has not that much memory left.
        ValueError: a length is negative, or there is no such order for so many dimensions.
    """
    shape = shape_of((as_lengths(given_once(lengths, size, "size")),))
    own = layout_of(input)
    if own.shape == shape and memory_format is None:
        return input
    if memory_format is preserve_format:
        raise ArgumentError("resize_: elements lie in an order that is named; preserve_format names none")
    target = Layout.of(own.place, own.dtype, shape, None if memory_format is None else strides_in(memory_format, shape))
    have, need = input._storage.length, input._offset * own.dtype.itemsize + target.nbytes
    if need > have:
        before = Layout.of(own.place, own.dtype, (have // own.dtype.itemsize,))
        storage = place_at(own).allocate(need)
        apply_into(COPY, make_tensor(storage, 0, before), make_tensor(input._storage, 0, before))
        input._storage = storage
    input._layout, input._array = target, None
    return input


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """``resize_`` to the shape of ``the_template``; with ``memory_format=preserve_format`` in its order, too."""
    if memory_format is not preserve_format:
        return resize_(input, *layout_of(the_template).shape, memory_format=memory_format)
    resize_(input, *the_template.shape)
    own = input._layout
    input._layout, input._array = Layout.of(own.place, own.dtype, own.shape, the_template._layout.kept_strides()), None
    return input


def set_(
    input: Tensor,
    source: Tensor | Storage | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Let the tensor be elements of other memory: from now on it shares that of ``source``.

    Args:
        input: the tensor that changes.
        source: a tensor, whose shape and strides count where ``size`` is None; memory, all of which is taken there; or
            None for no elements.
        storage_offset: where the elements begin, in elements; with ``size``, or of memory.
        size: the shape.
        stride: the strides, in elements; row-major ones if None.

    Raises:
        TypeError: ``source`` has elements of another type.
        ValueError: shape and strides reach beyond the memory, or ``source`` is on another device.
    """
    own = input._layout
    if source is None:
        source = place_at(own).allocate(0)
    if isinstance(source, (Tensor, TypedStorage)) and source.dtype is not own.dtype:
        raise ElementTypeError(f"set_: the elements are of {own.dtype!r}, and those given of {source.dtype!r}")
    if isinstance(source, TypedStorage):
        source = source.untyped()
    if isinstance(source, Tensor):
        storage, offset = source._storage, source._offset
    elif isinstance(source, Storage):
        storage, offset = source, integer(storage_offset)
    else:
        raise no_tensor(source)
    if storage.place is not own.place:
        raise ArgumentError(f"set_: the tensor is on {input.device}, and what is given on {storage.device}")
    if isinstance(source, Tensor) and size is None:
        layout = source._layout.plain
    else:
        offset = integer(storage_offset)
        shape = shape_of((tuple(size),)) if size is not None else (storage.length // own.dtype.itemsize - offset,)
        strides = contiguous_strides(shape) if stride is None else as_lengths((stride,))
        whole = Layout.of(own.place, own.dtype, (storage.length // own.dtype.itemsize,))
        layout = as_strided(make_tensor(storage, 0, whole), shape, strides, offset)._layout
    input._storage, input._offset, input._layout, input._array = storage, offset, layout, None
    return input


def is_set_to(input: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors are the same elements of the same memory, in the same order.

    Raises:
        TypeError: one is no tensor.
    """
    return same_memory(needed(input), needed(tensor))


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """A view of all windows of ``size`` positions along a dimension, ``step`` apart; a window's positions come last.

    Raises:
        IndexError: there is no such dimension, or it is shorter than a window.
        ValueError: ``size`` is negative, or ``step`` is not 1 or more.
    """
    axis, size, step = normal_axis(dimension, input.ndim), integer(size), integer(step)
    shape, strides = input._layout.shape or (1,), input._layout.strides or (1,)
    if step < 1:
        raise ArgumentError(f"step is {step} but must be > 0: windows are 1 or more positions apart")
    if size < 0:
        raise ShapeError(f"size is {size} but must be >= 0: windows have 0 or more positions")
    if size > shape[axis]:
        raise RangeError(f"maximum size for tensor at dimension {axis} is {shape[axis]} but size is {size}")
    if not input.ndim:
        return titled(view_of(input, (size,), (1,)), "UnfoldBackward")
    count = (shape[axis] - size) // step + 1
    made = view_of(
        input,
        (*shape[:axis], count, *shape[axis + 1 :], size),
        (*strides[:axis], strides[axis] * step, *strides[axis + 1 :], strides[axis]),
    )
    return titled(made, "UnfoldBackward")
