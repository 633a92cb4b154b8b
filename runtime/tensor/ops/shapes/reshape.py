"""The same elements in another shape, in the same order: a view where strides allow it, else a copy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...core.dtypes import dtype as element_type
from ...core.gradient_seam import begin_history
from ...core.kept_views import kept, titled
from ...core.layout import Layout
from ...core.memory_formats import contiguous_format, is_in_format, strides_in
from ...core.needed_tensors import layout_of, needed, no_tensor
from ...core.shapes import Shape, as_lengths, contiguous_strides, existing_axis, given_once, normal_axis, shape_of
from ...core.tensor import Tensor, make_tensor, view_of
from ...core.tensor_errors import ArgumentError, ShapeError
from ...places.place import place_at
from ...places.tables_with_gradients.elementwise_table import COPY
from ..elementwise.elementwise import apply_into


@kept
def view(input: Tensor, *lengths: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """The same elements in another shape, in which one length may be -1; or, given a dtype, the same bytes as
    elements of another type: of another size, the last dimension becomes longer or shorter.

    Raises:
        ValueError: the number of elements differs, or the strides do not allow it without a copy.
    """
    if size is not None or dtype is not None:
        lengths = given_once(lengths, size, "size")
        lengths = given_once(lengths, dtype, "dtype")
    if len(lengths) == 1 and isinstance(lengths[0], element_type):
        return _view_as_type(input, lengths[0])
    shape = completed(lengths, input._layout.numel)
    strides = strides_for(input._layout, shape)
    if strides is None:
        raise ShapeError(
            f"view: a tensor of shape {list(input.shape)} and strides {list(input.stride())} cannot be seen as "
            f"{list(shape)} without a copy; use .reshape(...), which copies where it must"
        )
    return view_of(input, shape, strides)


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """``view`` with the shape of ``other``."""
    return view(input, *layout_of(other).shape)


@kept
def reshape(input: Tensor, *lengths: Any, shape: Any = None) -> Tensor:
    """The same elements in another shape, in which one length may be -1: a view if it can be, else a copy.

    Raises:
        ValueError: the number of elements differs.
    """
    wanted = completed(given_once(lengths, shape, "shape"), layout_of(input).numel)
    strides = strides_for(input._layout, wanted)
    if strides is None:
        return titled(view_of(contiguous(input), wanted, contiguous_strides(wanted)), "UnsafeViewBackward")
    return view_of(input, wanted, strides)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """``reshape`` with the shape of ``other``."""
    return reshape(input, *layout_of(other).shape)


@kept
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions from ``start_dim`` to ``end_dim`` made one.

    Raises:
        IndexError: there is no such dimension.
    """
    shape = layout_of(input).shape
    first, last = normal_axis(start_dim, len(shape)), normal_axis(end_dim, len(shape))
    if not shape:
        return reshape(input, 1)
    if first > last:
        raise ArgumentError(f"flatten: dimension {start_dim} comes after dimension {end_dim}")
    if first == last:
        return input
    return reshape(input, *shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])


def ravel(input: Tensor) -> Tensor:
    """All dimensions made one, contiguous: a view of a contiguous tensor, else a copy."""
    return reshape(contiguous(input), -1)


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension made several, one of which may be -1."""
    axis = existing_axis(dim, needed(input).ndim)
    parts = completed(tuple(sizes), input.shape[axis])
    return reshape(input, *input.shape[:axis], *parts, *input.shape[axis + 1 :])


def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """This tensor if its elements lie side by side in row-major order, else a copy in which they do; or in the order
    that ``memory_format`` names.

    Raises:
        ValueError: there is no such order, or not for tensors of so many dimensions.
    """
    if memory_format is not None and memory_format is not contiguous_format:
        return _in_order(input, memory_format)
    try:
        if input._layout.contiguous:
            return input
    except AttributeError:
        raise no_tensor(input) from None
    return place_at(input._layout).contiguous_copy(input)


def _in_order(input: Tensor, memory_format: Any) -> Tensor:
    own = input._layout
    if is_in_format(memory_format, own.shape, own.strides):
        return input
    made = place_at(own).empty(Layout.of(own.place, own.dtype, own.shape, strides_in(memory_format, own.shape)))
    begin_history(made, input)
    return apply_into(COPY, made, input)


def completed(size: Sequence[Any], numel: int) -> Shape:
    """The shape wanted, with -1 replaced by what makes ``numel`` elements.

    Raises:
        ShapeError: no such shape has that many elements.
    """
    wanted = as_lengths(size)
    if wanted.count(-1) == 1:
        known = prod(length for length in wanted if length != -1)
        if known and numel % known == 0:
            wanted = tuple(numel // known if length == -1 else length for length in wanted)
    if prod(wanted) != numel or min(wanted, default=0) < 0:
        if wanted.count(-1) == 1 and not numel and 0 in wanted:
            raise ShapeError(
                f"cannot reshape tensor of 0 elements into shape {list(wanted)} because the unspecified dimension size "
                "-1 can be any value and is ambiguous"
            )
        if -1 not in wanted:
            shape_of(wanted)  # says so if a length is negative
        raise ShapeError(f"shape '{list(wanted)}' is invalid for input of size {numel}")
    return wanted


def strides_for(layout: Layout, shape: Shape) -> Shape | None:
    """The strides with which the elements appear in ``shape``, in order; None if they need a copy."""
    if layout.contiguous or not layout.numel:
        return contiguous_strides(shape)
    # Merge neighbouring dimensions that step evenly, then split each group over the new lengths, from the back.
    groups: list[tuple[int, int]] = []
    for length, stride in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
        if length == 1:
            continue
        if groups and stride == groups[-1][0] * groups[-1][1]:
            groups[-1] = (groups[-1][0] * length, groups[-1][1])
        else:
            groups.append((length, stride))
    strides: list[int] = []
    remaining, step = 1, 1
    upcoming = iter(groups)
    for length in reversed(shape):
        if length == 1:
            strides.append(step)
            continue
        if remaining == 1:
            remaining, step = next(upcoming)
        if remaining % length:
            return None
        strides.append(step)
        step *= length
        remaining //= length
    return tuple(reversed(strides))


def _view_as_type(tensor: Tensor, kind: element_type) -> Tensor:
    """The same bytes as elements of another type.

    Raises:
        ValueError: the types differ in size, and the last dimension's bytes do not lie side by side or do not suffice.
    """
    own = tensor._layout
    place, shape, strides, offset = own.place, own.shape, own.strides, tensor._offset
    if kind.itemsize == own.dtype.itemsize:
        return make_tensor(tensor._storage, offset, Layout.of(place, kind, shape, strides))
    smaller = kind.itemsize < own.dtype.itemsize
    ratio = max(kind.itemsize, own.dtype.itemsize) // min(kind.itemsize, own.dtype.itemsize)
    fits = bool(shape) and strides[-1] == 1
    if fits and not smaller:
        fits = not any(each % ratio for each in (shape[-1], offset, *strides[:-1]))
    if not fits:
        raise ShapeError(
            f"view: elements of {own.dtype!r} with shape {list(shape)} and strides {list(strides)} cannot be seen as "
            f"{kind!r}, of another size; .to({kind!r}) converts the values"
        )

    def scaled(number: int) -> int:
        return number * ratio if smaller else number // ratio

    lengths = (*shape[:-1], scaled(shape[-1]))
    return make_tensor(
        tensor._storage, scaled(offset), Layout.of(place, kind, lengths, (*map(scaled, strides[:-1]), 1))
    )
