"""What stands in the brackets of ``tensor[...]``: its basic parts make a view, its tensors become integer indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....allocators.errors import DeviceMismatchError
from ....machine.callers import warn_program
from ...backends.on_host.cpu_place import HOST
from ...core.dtypes import bool_, dtype, int64, uint8
from ...core.layout import Layout
from ...core.shapes import Size
from ...core.storage import ArrayStorage
from ...core.tensor import Tensor, make_tensor, view_of
from ...places.dispatch import Plan, dispatch
from ...places.place import Place, place_at
from ...places.tables_with_gradients.elementwise_table import BY_NAME
from ..arguments.scalars import item, truth
from ..copying.copying import clone, copied_to, to
from ..elementwise.elementwise import apply
from ..making.from_values import tensor as tensor_from
from ..shapes.reshape import contiguous, reshape
from ..shapes.views import unbind


def resolve(tensor: Tensor, key: Any, *, writing: bool) -> tuple[Tensor, list[Tensor | None] | None]:
    """The view that the basic parts of ``key`` give, and the index tensors at its dimensions, None at others.

    Raises:
        IndexError: a number is outside its dimension.
    """
    if isinstance(key, Tensor) and key._layout.shape and tensor._layout.shape:
        return _resolve_one(tensor, key, writing)
    parts = _parts(key, tensor.ndim)
    shape, strides, offset = [], [], tensor._offset
    own_shape, own_strides = tuple(tensor._layout.shape), tensor._layout.strides
    indices: list[Tensor | None] = []
    axis = 0
    picks, shows_all = False, True
    for part in parts:
        if part is _ALL:
            shape.append(own_shape[axis])
            strides.append(own_strides[axis])
            indices.append(None)
            axis += 1
            continue
        if isinstance(part, Tensor) and (part._layout.shape or not _is_mask(part._layout.dtype)):
            picks = True
            for each in _integer_indices(part, tensor._layout, axis):
                shape.append(own_shape[axis])
                strides.append(own_strides[axis])
                indices.append(each)
                axis += 1
            continue
        shows_all = False
        if part is None:
            shape.append(1)
            strides.append(own_shape[axis] * own_strides[axis] if axis < len(own_shape) else 1)
            indices.append(None)
        elif isinstance(part, slice):
            start, stop, step = part.indices(own_shape[axis])
            length = len(range(start, stop, step))
            if length or step > 0:
                offset += start * own_strides[axis]
            shape.append(length)
            strides.append(own_strides[axis] * step)
            indices.append(None)
            axis += 1
        elif isinstance(part, int):
            length = own_shape[axis]
            if not -length <= part < length:
                raise IndexError(f"index {part} is out of bounds for dimension {axis} with size {length}")
            offset += part % length * own_strides[axis]
            axis += 1
        else:  # a mask without dimensions: a new dimension, which it takes or leaves out
            picks = True
            home = place_at(tensor._layout) if not place_at(tensor._layout).numpy_indices else HOST
            shape.append(1)
            strides.append(0)
            indices.append(put_on(home, np.zeros(int(truth(part)), np.int64)))
    view = tensor if picks and shows_all else view_of(tensor, tuple(shape), tuple(strides), offset)
    return view, indices if picks else None


_ALL = slice(None)


def _is_mask(kind: dtype) -> bool:
    return kind is bool_ or kind is uint8


def _resolve_one(tensor: Tensor, index: Tensor, writing: bool) -> tuple[Tensor, list[Tensor | None]]:
    """The same for one index tensor, in fewer steps. Dimensions that a mask covers are made one."""
    layout, mask = tensor._layout, index._layout
    covered = len(mask.shape)
    if covered > 1 and _is_mask(mask.dtype) and (layout.contiguous or not writing):
        check_index_place(mask, layout)
        check_mask(mask.shape, layout.shape, 0)
        merged = Layout.of(layout.place, layout.dtype, (mask.numel, *tuple(layout.shape)[covered:]))
        tensor = view_of(tensor, merged.shape, merged.strides) if layout.contiguous else reshape(tensor, merged.shape)
        if place_at(layout).numpy_indices:
            found = put_on(HOST, positions(place_at(mask).read(index).ravel())[0])
            return tensor, [found, *[None] * (tensor.ndim - 1)]
        index = reshape(index, -1)
    indices: list[Tensor | None] = [*_integer_indices(index, tensor._layout, 0)]
    return tensor, indices + [None] * (len(tensor._layout.shape) - len(indices))


def _parts(key: Any, ndim: int) -> list[Any]:
    """The parts of an index, one for each dimension, None and slices added where dimensions go unnamed."""
    if isinstance(key, list) and any(map(_stands_in_tuple, key)):
        key = tuple(key)
    given = list(key) if isinstance(key, tuple) else [key]
    parts: list[Any] = []
    used = 0
    ellipsis = None
    for part in given:
        if isinstance(part, Tensor):
            shape, kind = part._layout.shape, part._layout.dtype
            if _is_mask(kind):
                used += len(shape)
            else:
                used += 1
                if not shape and kind.kind in "iu":
                    part = item(part)
        elif part is None or part is Ellipsis:
            if part is Ellipsis:
                if ellipsis is not None:
                    raise IndexError("an index has one Ellipsis (...) at most")
                ellipsis = len(parts)
                continue
        elif isinstance(part, (bool, np.bool_)):
            part = put_on(HOST, np.array(bool(part)), bool_)
        elif isinstance(part, slice):
            used += 1
            part = _ALL if part == _ALL else part
        elif isinstance(part, (list, tuple, np.ndarray, range)) and not (
            isinstance(part, np.ndarray) and not part.ndim
        ):
            part = _index_of(part)
            used += part.ndim if part.dtype is bool_ else 1
        else:
            try:
                part = part.__index__()
            except AttributeError:
                raise IndexError(
                    f"an index is made of integers, slices, None, Ellipsis and tensors; got {type(part).__name__}"
                ) from None
            used += 1
        parts.append(part)
    if used and not ndim:
        raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` to convert it to a number")
    if used > ndim:
        raise IndexError(f"too many indices for tensor of dimension {ndim}: there are {used}")
    position = len(parts) if ellipsis is None else ellipsis
    parts[position:position] = [_ALL] * (ndim - used)
    return parts


def _stands_in_tuple(part: Any) -> bool:
    """Whether a list with this part means what a tuple means: torch keeps to what NumPy did once."""
    return part is None or part is Ellipsis or isinstance(part, (list, tuple, slice, Tensor))


def _integer_indices(part: Tensor, target: Layout, axis: int) -> list[Tensor]:
    """Integer tensors for the dimensions of a layout that ``part`` indexes from ``axis`` on."""
    here = part._layout
    check_index_place(here, target)
    if _is_mask(here.dtype):
        check_mask(here.shape, target.shape, axis)
        place = place_at(target)
        if here.place is place and is_searched_there(here):
            return list(unbind(found_there(part), 0))
        home = HOST if place.numpy_indices else place
        return [put_on(home, each) for each in positions(place_at(here).read(part))]
    if here.dtype.kind not in "iu":
        raise IndexError(f"tensors used as indices are of an integer type or bool, not of {here.dtype!r}")
    if not place_at(target).numpy_indices:
        return [to(part, target.place.device, int64)]
    if here.place is target.place:
        return [part]
    return [clone(part)]  # what is queued must not see later changes


def check_index_place(index: Layout, target: Layout) -> None:
    """Raise DeviceMismatchError for an index that is neither on the CPU nor beside the tensor. Warn of uint8 masks."""
    if index.dtype is uint8:
        warn_program("an index of uint8 is taken for a mask, as it once was; use bool")
    if index.place is not HOST and index.place is not target.place:
        own = target.place.device
        raise DeviceMismatchError(
            f"indices should be either on cpu or on the same device as the indexed tensor ({own}): this one is on "
            f"{index.place.device}; move it with .to({str(own)!r})"
        )


def check_mask(mask: Size, shape: Size, axis: int) -> None:
    """Raise IndexError unless a mask of the shape ``mask`` covers the dimensions of ``shape`` from ``axis`` on."""
    if mask != shape and mask != tuple(shape)[axis : axis + len(mask)]:
        raise IndexError(
            f"a mask of shape {list(mask)} does not fit dimensions of lengths {list(shape[axis : axis + len(mask)])}"
        )


def is_searched_there(layout: Layout) -> bool:
    """Whether the device itself finds the elements that are not 0: see ``found_there``."""
    return not place_at(layout).numpy_indices and layout.numel > 0


def found_there(tensor: Tensor) -> Tensor:
    """The indices of what is not 0, found by the device: a row for each dimension. Waits for their number."""
    flags = tensor if tensor.dtype is bool_ else apply(BY_NAME["ne"], tensor, 0)
    return dispatch("positions", _prepare_positions, (contiguous(flags),))  # type: ignore[no-any-return]


def _prepare_positions(_: str, flags: Tensor) -> Plan:
    return place_at(flags._layout).positions(flags._layout)


def positions(elements: Any) -> list[Any]:
    """The indices of what is not 0, one array for each dimension: from the flat ones, which NumPy finds faster."""
    if elements.ndim == 1:
        (flat,) = elements.nonzero()
        return [flat if flat.dtype is _INT64 else flat.astype(np.int64)]
    flat = elements.ravel().nonzero()[0].astype(np.int64, copy=False)
    return [*map(np.ascontiguousarray, np.unravel_index(flat, elements.shape))]


_INT64 = np.dtype(np.int64)


def _index_of(values: Any) -> Tensor:
    """A list, a range or NumPy's array as an index tensor."""
    if isinstance(values, range) or set(map(type, values)) <= {int}:
        return put_on(HOST, np.array(values, np.int64))
    return tensor_from(values, device=HOST.device)


def put_on(place: Place, array: Any, kind: dtype = int64) -> Tensor:
    """An array of the type ``kind``, made for the purpose, as a tensor of a place."""
    tensor = make_tensor(ArrayStorage(HOST, array.nbytes, array), 0, Layout.of(HOST, kind, array.shape), array)
    return tensor if place is HOST else copied_to(tensor, place)
