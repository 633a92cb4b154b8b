"""``tensor[...]``: views by integers, slices, None and Ellipsis; copies by integer and boolean tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...backends.on_host.cpu_place import HOST
from ...core.dtypes import bool_, int64
from ...core.gradient_seam import begin_history
from ...core.kept_views import shown_as
from ...core.layout import Layout
from ...core.needed_tensors import layout_of
from ...core.printed_names import entitle, printed_as
from ...core.shapes import broadcast_shapes, normal_axis
from ...core.tensor import Tensor, make_tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError
from ...places.place import place_at
from ...places.tables_with_gradients.elementwise_table import BY_NAME, COPY
from ..arguments.scalars import truth
from ..copying.copying import clone, copy_, to
from ..elementwise.elementwise import apply, apply_into, common_place
from ..elementwise.results import into
from ..making.from_values import tensor
from ..reductions.reductions import any as any_of
from ..shapes.reshape import reshape
from ..shapes.views import expand, narrow, select, t, unbind, unsqueeze
from .index_parts import check_index_place, check_mask, found_there, is_searched_there, positions, put_on, resolve
from .take_and_put import fill_value_of, fill_where, put_at, shortened, take, take_at


def get_item(input: Tensor, key: Any) -> Tensor:
    """``input[key]``: a view where ``key`` has only integers, slices, None and Ellipsis, else a copy.

    Raises:
        IndexError: there are more indices than dimensions, one is out of range, or a mask does not fit.
    """
    kind = type(key)
    if kind is slice and input._layout.shape:
        return _part(input, key)
    if kind is int and input._layout.shape:
        return select(input, 0, key)
    if key is None:
        return unsqueeze(input, 0)
    if key is Ellipsis:
        own = input._layout
        if not own.tracked:
            return make_tensor(input._storage, input._offset, own)
        return shown_as(input, own.plain, None, "AliasBackward")
    if kind is tuple and Tensor not in map(type, key):
        found = _basic_view(input, key)
        if found is not None:
            return found
    if isinstance(key, Tensor):
        mask = key._layout
        if _is_plain(mask, layout_of(input)):
            return take(input, [key], 0)
        row = len(mask.shape) == 1 and mask.dtype is bool_ and mask.place is input._layout.place
        if row and mask.shape == input._layout.shape and is_searched_there(mask):
            where = found_there(key)
            chosen = Layout.of(mask.place, int64, (where._layout.shape[1],))
            return take(input, [make_tensor(where._storage, where._offset, chosen)], 0)
    view, indices = resolve(input, key, writing=False)
    return view if indices is None else take_at(view, indices)


def _title(key: tuple[Any, ...]) -> str:
    """What torch calls the last step to what a key shows."""
    for part in reversed(key):
        if part is None:
            return "UnsqueezeBackward"
        if type(part) is int:
            return "SelectBackward"
        if part is not Ellipsis:
            return "SliceBackward"
    return "AliasBackward"


def _part(input: Tensor, key: slice) -> Tensor:
    """A slice of the first dimension, in fewer steps."""
    own = input._layout
    start, stop, step = key.indices(tuple.__getitem__(own.shape, 0))
    length = len(range(start, stop, step))
    found = own.plans.get((_part, length, step))
    if found is None:
        shape, strides = (length, *own.shape[1:]), (own.strides[0] * step, *own.strides[1:])
        found = own.plans[_part, length, step] = Layout.of(own.place, own.dtype, shape, strides)
    begin = start * own.strides[0] if length or step > 0 else 0
    return shown_as(input, found, input._offset + begin, "SliceBackward")


def _basic_view(input: Tensor, key: tuple[Any, ...]) -> Tensor | None:
    """What integers, slices, None and Ellipsis show; None for other keys, and for those that are refused.

    The layout of the view is kept by all that it depends on: the lengths and steps of slices, but not where they begin.
    """
    own, offset, axis = input._layout, input._offset, 0
    lengths, strides = tuple(own.shape), own.strides
    parts: list[Any] = [get_item]
    for part in key:
        kind = type(part)
        if kind is int or kind is slice:
            if not 0 <= axis < len(lengths):
                return None
            length = lengths[axis]
            if kind is int:
                if not -length <= part < length:
                    return None
                start = part % length
                parts.append(int)
            else:
                start, stop, step = part.indices(length)
                count = len(range(start, stop, step))
                if not count and step < 0:
                    start = 0
                parts += count, step
            offset += start * strides[axis]
            axis += 1
        elif part is None:
            parts.append(None)
        elif part is Ellipsis and part not in parts:
            parts.append(part)
            axis += len(lengths) - sum(each is not None and each is not Ellipsis for each in key)
        else:
            return None
    settled = tuple(parts)
    known = own.plans.get(settled)
    if known is None:
        view, indices = resolve(input, key, writing=False)
        if indices is not None:
            return None
        known = own.plans[settled] = view._layout.plain, _title(key)
    return shown_as(input, known[0], offset, known[1])


def set_item(input: Tensor, key: Any, value: Any) -> None:
    """``input[key] = value``: a number, a tensor, an array or a list, which broadcasts to what ``key`` names.

    Raises:
        IndexError: there are more indices than dimensions, one is out of range, or a mask does not fit.
        ValueError: ``value`` does not broadcast to what is to be written.
    """
    if isinstance(value, (list, tuple, np.ndarray)):
        value = tensor(value, device=HOST.device)  # from where it is copied at once, as is what is assigned
    if isinstance(value, Tensor) and value._layout.tracked:
        begin_history(input, value)
    if isinstance(key, Tensor) and key._layout.dtype is bool_ and not (isinstance(value, Tensor) and value.ndim):
        own, asked = input._layout, key._layout
        check_index_place(asked, own)
        check_mask(asked.shape, own.shape, 0)
        mask = key if asked.place is own.place else to(key, input.device)
        fill_where(input, mask, value)
        return
    if isinstance(key, Tensor) and _is_plain(key._layout, input._layout):
        put_at(input, [key, *[None] * (len(input._layout.shape) - 1)], value)
        return
    basic = _basic_view(input, key) if type(key) is tuple and Tensor not in map(type, key) else None
    view, indices = resolve(input, key, writing=True) if basic is None else (basic, None)
    if indices is not None:
        put_at(view, indices, value)
    elif isinstance(value, Tensor):
        if value._storage is view._storage and value._layout.numel == 1:
            value = clone(
                value
            )  # ``x[0] = x[0][1]``: one element is a number, which is read before anything is written
        copy_(view, shortened(value, view.ndim))
    else:
        apply_into(COPY, view, value)


def masked_fill_(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Write ``value``, a number or a tensor without dimensions, where ``mask``, which broadcasts, is True.

    Raises:
        ValueError: ``value`` has dimensions, or ``mask`` does not broadcast to the tensor.
        TypeError: ``mask`` is not of bool.
    """
    _check_mask_type(mask)
    return apply_into(_WHERE, input, mask, fill_value_of(input, value), input)


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """A copy with ``value``, a number or a tensor without dimensions, where ``mask`` is True. It has the shape to which
    both broadcast.

    Raises:
        ValueError: ``value`` has dimensions, or the shapes do not broadcast.
        TypeError: ``mask`` is not of bool.
    """
    _check_mask_type(mask)
    made = apply(_WHERE, mask, fill_value_of(input, value), input)
    if made._layout.tracked:
        entitle("MaskedFillBackward0", made)
    return made


_WHERE = BY_NAME["where"]


def _check_mask_type(mask: Tensor) -> None:
    if layout_of(mask).dtype is not bool_:
        raise ElementTypeError(f"masked_fill: the mask must be of {bool_!r}, and is of {mask.dtype!r}")


@printed_as("MaskedSelectBackward0")
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where ``mask``, which broadcasts with the tensor, is True, in one dimension. Waits for the device.

    ``out`` says where to write the result; it is given the result's shape.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: ``mask`` is not of bool.
    """
    if layout_of(mask).dtype is not bool_:
        raise ElementTypeError(f"masked_select: the mask must be of {bool_!r}, and is of {mask.dtype!r}")
    common_place("masked_select", (input, mask))
    shape = broadcast_shapes(layout_of(input).shape, layout_of(mask).shape)
    if not shape:
        return into(out, get_item(reshape(input, 1), reshape(mask, 1)), exact=True)
    source = input if input.shape == shape else expand(input, *shape)
    return into(out, get_item(source, mask if mask.shape == shape else expand(mask, *shape)), exact=True)


def nonzero(input: Tensor, as_tuple: bool = False, *, out: Tensor | None = None) -> Any:
    """The indices of the elements that are not 0, as int64. Waits for the device.

    Args:
        input: the tensor.
        as_tuple: whether to return a tensor of indices for each dimension, instead of one with a row for each element.
        out: where to write the result, if that is one tensor; it is given the result's shape.

    Raises:
        ValueError: ``out`` is given with ``as_tuple``.
        TypeError: ``out`` is no tensor, or not of int64.
    """
    if out is not None and not isinstance(out, Tensor):
        raise TypeError(f"nonzero: out= must be a tensor, not {type(out).__name__}")
    if out is not None and out.dtype is not int64:
        raise ElementTypeError(
            f"nonzero: Expected out tensor to have scalar type Long but got {out.dtype!r}: positions are of int64"
        )
    if as_tuple and out is not None:
        raise ArgumentError("nonzero: out= names one tensor, and as_tuple=True gives several")
    place = place_at(layout_of(input))
    if is_searched_there(input._layout):
        there = found_there(reshape(input, input.shape or (1,)))
        if there._storage.length != there._layout.nbytes:
            there = place.contiguous_copy(there)
        return unbind(there, 0) if as_tuple else into(out, t(narrow(there, 0, 0, input.ndim)), exact=True)
    elements = place.read(input)
    if as_tuple:
        return unbind(put_on(place, np.array(positions(elements.reshape(input.shape or (1,))))), 0)
    found = positions(elements) if input.ndim else []
    rows = np.empty((len(found[0]) if found else np.count_nonzero(elements), input.ndim), np.int64)
    for axis, each in enumerate(found):
        rows[:, axis] = each
    return into(out, put_on(place, rows), exact=True)


def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The positions ``index``, integers in one dimension, of dimension ``dim``, in that order.

    ``out`` says where to write the result; it is given the result's shape.

    Raises:
        IndexError: ``index`` has more than one dimension, or on the CPU is out of range.
    """
    asked = layout_of(index)
    if out is None and type(dim) is int and dim == 0 and len(asked.shape) == 1 and _is_plain(asked, input._layout):
        made = take(input, [index], 0)
    else:
        made = into(out, _selected(input, dim, index), exact=True)
    if made._layout.tracked:
        entitle("IndexSelectBackward0", made)
    return made


def _selected(input: Tensor, dim: int, index: Tensor) -> Tensor:
    common_place("index_select", (input, index))
    if index.ndim != 1:
        if index.ndim:
            raise IndexError(f"index_select: the index has {index.ndim} dimensions, and must have one")
        index = reshape(index, 1)
    if not input.ndim:
        return reshape(index_select(reshape(input, 1), dim, index), ())
    return get_item(input, (slice(None),) * normal_axis(dim, input.ndim) + (index,))


def iterate(input: Tensor) -> Iterator[Tensor]:
    """The positions of the first dimension, one after the other, as views.

    Raises:
        TypeError: the tensor has no dimensions.
    """
    if not input.ndim:
        raise TypeError("a tensor without dimensions has nothing to go through")
    return iter(unbind(input, 0))


def length(input: Tensor) -> int:
    """The length of the first dimension.

    Raises:
        TypeError: the tensor has no dimensions.
    """
    if not input.ndim:
        raise TypeError("a tensor without dimensions has no length")
    return input._layout.shape[0]  # type: ignore[no-any-return]


def contains(input: Tensor, value: Any) -> bool:
    """Whether an element equals ``value``, a number or a tensor that broadcasts. Waits until the elements are there.

    Raises:
        TypeError: ``value`` is neither.
    """
    if not isinstance(value, (Tensor, bool, int, float, np.generic)):
        raise ElementTypeError(f"a tensor holds numbers; whether it holds a {type(value).__name__} cannot be asked")
    return truth(any_of(apply(BY_NAME["eq"], input, value)))


def _is_plain(index: Layout, target: Layout) -> bool:
    """Whether an index tensor can be used as it is, and alone."""
    ready = index.dtype is int64 and index.contiguous and index.place is target.place
    return ready and bool(index.shape) and bool(target.shape)
