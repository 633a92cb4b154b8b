"""``tensor[...]``: views by integers, slices, None and Ellipsis; copies by integer and boolean tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .core import TensorCore, make
from .dtypes import bool_, int64, uint8
from .elementwise import apply, apply_into
from .errors import ShapeError
from .layout import Layout, Size, broadcast_shapes
from .operations import BY_NAME, COPY
from .places import Place
from .storage import Storage

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["IndexMethods"]


class IndexMethods(TensorCore):
    """The methods of a tensor that pick elements."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Tensor:
        if isinstance(key, TensorCore) and _is_plain(key._layout, self._layout):
            return _taken(self, [key], key._layout.shape)  # type: ignore[arg-type, list-item]
        view, indices = _resolve(self, key, writing=False)  # type: ignore[arg-type]
        return view if indices is None else _take(view, indices)

    def __setitem__(self, key: Any, value: Any) -> None:
        target: Tensor = self  # type: ignore[assignment]
        if isinstance(value, (list, tuple, np.ndarray)):
            value = _tensor(value)
        if isinstance(key, TensorCore) and key.dtype is bool_ and not (isinstance(value, TensorCore) and value.ndim):
            _check_mask(key.shape, self.shape, 0)
            mask: Any = key if key._layout.place is self._layout.place else key.to(self.device)  # type: ignore[attr-defined]
            _fill_where(target, mask, value)
            return
        view, indices = _resolve(target, key, writing=True)
        if indices is not None:
            _put(view, indices, value)
        elif isinstance(value, TensorCore):
            view.copy_(_shortened(value, view.ndim))
        else:
            apply_into(COPY, view, value)

    def masked_fill_(self, mask: Tensor, value: Any) -> Tensor:
        """Write ``value``, a number or a tensor without dimensions, where ``mask``, which broadcasts, is True.

        Raises:
            ValueError: ``value`` has dimensions.
        """
        return apply_into(BY_NAME["where"], self, mask, _filling(self, value), self)  # type: ignore[arg-type]

    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        """A copy with ``value`` where ``mask`` is True; it has the shape to which both broadcast."""
        return apply(BY_NAME["where"], mask, _filling(self, value), self)

    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where ``mask``, which broadcasts with this tensor, is True, in one dimension."""
        shape = broadcast_shapes(self.shape, mask.shape)
        if not shape:
            return self.reshape(1)[mask.reshape(1)]
        source: Any = self if self.shape == shape else self.expand(*shape)
        return source[mask if mask.shape == shape else mask.expand(*shape)]  # type: ignore[no-any-return]

    def nonzero(self, as_tuple: bool = False) -> Any:
        """The indices of the elements that are not 0: one row each, or one tensor a dimension. Waits for the device."""
        place = self._layout.place
        if _is_searched_there(self._layout):
            there = _found_there(self.reshape(self.shape or (1,)))
            return there.unbind(0) if as_tuple else there[: self.ndim].t()
        elements = place.read(self)  # type: ignore[arg-type]
        if as_tuple:
            return tuple(_on(place, each) for each in _nonzero(elements.reshape(self.shape or (1,))))
        found = _nonzero(elements) if self.ndim else []
        rows = np.empty((len(found[0]) if found else np.count_nonzero(elements), self.ndim), np.int64)
        for axis, each in enumerate(found):
            rows[:, axis] = each
        return _on(place, rows)

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """The positions ``index`` of one dimension, in that order.

        Raises:
            IndexError: ``index`` has more than one dimension.
        """
        if index.ndim != 1:
            if index.ndim:
                raise IndexError(f"index_select: the index has {index.ndim} dimensions, and must have one")
            index = index.reshape(1)
        return self[(slice(None),) * (dim % (self.ndim or 1)) + (index,)]

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("a tensor without dimensions has nothing to go through")
        return iter(self.unbind(0))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a tensor without dimensions has no length")
        return int(self.shape[0])

    if TYPE_CHECKING:

        def clone(self) -> Tensor: ...
        def expand(self, *size: Any) -> Tensor: ...
        def reshape(self, *shape: Any) -> Tensor: ...
        def unbind(self, dim: int = 0) -> tuple[Tensor, ...]: ...
        def item(self) -> Any: ...


def _is_plain(index: Layout, target: Layout) -> bool:
    """Whether an index tensor can be used as it is, and alone."""
    ready = index.dtype is int64 and index.contiguous and index.place is target.place
    return ready and bool(index.shape) and bool(target.shape)


def _fill_where(target: Tensor, mask: Tensor, value: Any) -> None:
    """``value`` written where ``mask``, which covers the first dimensions, is True."""
    layout = target._layout
    place = layout.place
    if not (place.numpy_indices and mask.ndim):
        if 0 < mask.ndim < target.ndim:
            mask = mask.reshape(*mask.shape, *(1,) * (target.ndim - mask.ndim))
        target.masked_fill_(mask, value)
        return
    value = _filling(target, value)
    written: Any = getattr(value, "_layout", None)
    key = ("put", written, mask._layout)
    kernel = layout.plans.get(key)
    if kernel is None:
        kernel = layout.plans[key] = place.put(layout, written, [mask._layout])
    kernel(target, value if written else layout.dtype.scalar(value), mask)


def _filling(target: TensorCore, value: Any) -> Any:
    """``value`` as what fills a tensor, in its type."""
    kind = target._layout.dtype
    if isinstance(value, TensorCore):
        if value.ndim:
            raise ShapeError(f"masked_fill: the value has {value.ndim} dimensions, and must have none")
        if value._layout.place is target._layout.place:
            return value if value.dtype is kind else value.to(kind)  # type: ignore[attr-defined]
        value = value.item()  # type: ignore[attr-defined]
    check = COPY.check(kind)
    if check is not None:
        check(value)
    return _PYTHONS[kind.kind](value)


_PYTHONS: dict[str, Any] = {"b": bool, "u": int, "i": int, "f": float}
"""By the kind of an element type, the class of Python's numbers that stands for it."""


def _resolve(tensor: Tensor, key: Any, *, writing: bool) -> tuple[Tensor, list[Tensor | None] | None]:
    """The view that the basic parts of ``key`` give, and the index tensors at its dimensions, None at others."""
    if isinstance(key, TensorCore) and key.ndim and tensor.ndim:
        return _resolve_one(tensor, key, writing)  # type: ignore[arg-type]
    parts = _parts(key, tensor.ndim)
    shape, strides, offset = [], [], tensor._offset
    own_shape, own_strides = tensor.shape, tensor._layout.strides
    indices: list[Tensor | None] = []
    axis = 0
    for part in parts:
        if part is None:
            shape.append(1)
            strides.append(own_shape[axis] * own_strides[axis] if axis < len(own_shape) else 1)
            indices.append(None)
        elif isinstance(part, slice):
            start, stop, step = part.indices(own_shape[axis])
            length = len(range(start, stop, step))
            if length:
                offset += start * own_strides[axis]
            shape.append(length)
            strides.append(own_strides[axis] * step)
            indices.append(None)
            axis += 1
        elif isinstance(part, int):
            length = own_shape[axis]
            if not -length <= part < length:
                raise IndexError(f"index {part} is out of bounds for dimension {axis} of length {length}")
            offset += part % length * own_strides[axis]
            axis += 1
        elif not part._layout.shape and part.dtype in (bool_, uint8):  # a new dimension, which it takes or leaves out
            home = tensor._layout.place if not tensor._layout.place.numpy_indices else _host()
            shape.append(1)
            strides.append(0)
            indices.append(_on(home, np.zeros(int(bool(part)), np.int64)))
        else:
            for each in _integer_indices(part, tensor._layout, axis):
                shape.append(own_shape[axis])
                strides.append(own_strides[axis])
                indices.append(each)
                axis += 1
    view = tensor._view(tuple(shape), tuple(strides), offset)
    return view, (indices if any(each is not None for each in indices) else None)


def _resolve_one(tensor: Tensor, index: Tensor, writing: bool) -> tuple[Tensor, list[Tensor | None]]:
    """The same for one index tensor, in fewer steps. Dimensions that a mask covers are made one."""
    layout, mask = tensor._layout, index._layout
    covered = len(mask.shape)
    if mask.dtype in (bool_, uint8) and covered > 1 and (layout.contiguous or not writing):
        _check_mask(mask.shape, layout.shape, 0)
        tensor = tensor.reshape(mask.numel, *layout.shape[covered:])
        index = index.reshape(-1)
    indices: list[Tensor | None] = [*_integer_indices(index, tensor._layout, 0)]
    return tensor, indices + [None] * (tensor.ndim - len(indices))


def _parts(key: Any, ndim: int) -> list[Any]:
    """The parts of an index, one for each dimension, None and slices added where dimensions go unnamed."""
    if isinstance(key, list) and any(map(_stands_in_tuple, key)):
        key = tuple(key)
    given = list(key) if isinstance(key, tuple) else [key]
    parts: list[Any] = []
    used = 0
    ellipsis = None
    for part in given:
        if part is None or part is Ellipsis:
            if part is Ellipsis:
                if ellipsis is not None:
                    raise IndexError("an index has one Ellipsis (...) at most")
                ellipsis = len(parts)
                continue
        elif isinstance(part, (bool, np.bool_)):
            part = _tensor([bool(part)]).reshape(())
        elif isinstance(part, slice):
            used += 1
        elif isinstance(part, TensorCore):
            if part.ndim == 0 and part.dtype.kind in "iu" and part.dtype is not uint8:
                part = part.item()  # type: ignore[attr-defined]
            used += part.ndim if isinstance(part, TensorCore) and part.dtype in (bool_, uint8) else 1
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
    if used > ndim:
        raise IndexError(f"{used} indices for a tensor of {ndim} dimensions")
    position = len(parts) if ellipsis is None else ellipsis
    parts[position:position] = [slice(None)] * (ndim - used)
    return parts


def _stands_in_tuple(part: Any) -> bool:
    """Whether a list with this part means what a tuple means: torch keeps to what NumPy did once."""
    return part is None or part is Ellipsis or isinstance(part, (list, tuple, slice, TensorCore))


def _integer_indices(part: Tensor, target: Layout, axis: int) -> list[Tensor]:
    """Integer tensors for the dimensions of a layout that ``part`` indexes from ``axis`` on."""
    here = part._layout
    if here.dtype in (bool_, uint8):
        _check_mask(here.shape, target.shape, axis)
        if _is_searched_there(here) and here.place is target.place:
            return list(_found_there(part).unbind(0))
        home = target.place if not target.place.numpy_indices else _host()
        return [_on(home, each) for each in _nonzero(here.place.read(part))]
    if here.dtype.kind not in "iu":
        raise IndexError(f"tensors used as indices are of an integer type or bool, not of {here.dtype!r}")
    if not target.place.numpy_indices:
        return [part.to(target.place.device, int64)]
    return [part if here.place is target.place else part.to("cpu", copy=True)]


def _check_mask(mask: Size, shape: Size, axis: int) -> None:
    if mask != shape and mask != shape[axis : axis + len(mask)]:
        raise IndexError(
            f"a mask of shape {list(mask)} does not fit dimensions of lengths {list(shape[axis : axis + len(mask)])}"
        )


def _is_searched_there(layout: Layout) -> bool:
    return not layout.place.numpy_indices and layout.numel > 0


def _found_there(tensor: Tensor) -> Tensor:
    """The indices of what is not 0, found by the device: a row for each dimension. Waits for their number."""
    flags = tensor if tensor.dtype is bool_ else apply(BY_NAME["ne"], tensor, 0)
    flags = flags.contiguous()
    layout = flags._layout
    find = layout.plans.get("positions")
    if find is None:
        find = layout.plans["positions"] = layout.place.positions(layout)
    return find(flags)


def _nonzero(elements: Any) -> list[Any]:
    """The indices of what is not 0, one array for each dimension: from the flat ones, which NumPy finds faster."""
    flat = elements.ravel().nonzero()[0].astype(np.int64, copy=False)
    return [flat] if elements.ndim == 1 else [*map(np.ascontiguousarray, np.unravel_index(flat, elements.shape))]


def _take(view: Tensor, indices: list[Tensor | None]) -> Tensor:
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if len(given) == 1 and view._layout.place.numpy_indices:
        axis, index = given[0]
        return _taken(view, [index], index._layout.shape, axis)
    source, ready, shape, first = _arranged(view, indices)
    taken = _taken(source, ready, shape)
    return _moved_back(taken, len(shape), first).contiguous() if first else taken


def _taken(source: Tensor, ready: list[Tensor], shape: tuple[int, ...], axis: int = 0) -> Tensor:
    """``source`` at indices of its dimensions from ``axis`` on, as ``Place.take`` wants them; ``shape`` is their common
    one."""
    layout = source._layout
    place = layout.place
    own = tuple(layout.shape)
    target = Layout.of(place, layout.dtype, (*own[:axis], *shape, *own[axis + len(ready) :]))
    if not target.numel:
        return place.empty(target)
    key = ("take", axis, target, *[each._layout for each in ready])
    kernel = layout.plans.get(key)
    if kernel is None:
        kernel = layout.plans[key] = place.take(target, layout, [each._layout for each in ready], axis)
    if new := getattr(kernel, "new", None):
        return new(source, *ready)  # type: ignore[no-any-return]
    out = place.empty(target)
    kernel(out, source, *ready)
    return out


def _put(view: Tensor, indices: list[Tensor | None], value: Any) -> None:
    target, ready, shape, first = _arranged(view, indices)
    layout = target._layout
    place = layout.place
    wanted = (*shape, *tuple(layout.shape)[len(ready) :])
    if place.numpy_indices and not isinstance(value, TensorCore):
        values = layout.dtype.scalar(value)
    elif place.numpy_indices and not first and _is_ready(value, target, wanted):
        values = _shortened(value, len(wanted))
    else:
        values = place.empty(Layout.of(place, layout.dtype, wanted))
        natural = _moved_back(values, len(shape), first)
        if isinstance(value, TensorCore):
            natural.copy_(_shortened(value, natural.ndim))
        else:
            apply_into(COPY, natural, value)
    if 0 in wanted:
        return
    written: Any = getattr(values, "_layout", None)
    key = ("put", written, *[each._layout for each in ready])
    kernel = layout.plans.get(key)
    if kernel is None:
        kernel = layout.plans[key] = place.put(layout, written, [each._layout for each in ready])
    kernel(target, values, *ready)


def _is_ready(value: Tensor, target: Tensor, wanted: tuple[int, ...]) -> bool:
    """Whether NumPy can write ``value`` as it is: broadcast to the shape wanted, and converted."""
    own = value._layout
    if own.place is not target._layout.place or value._storage is target._storage:
        return False
    return own.shape == wanted or broadcast_shapes(_shortened(value, len(wanted)).shape, wanted) == wanted


def _arranged(view: Tensor, indices: list[Tensor | None]) -> tuple[Tensor, list[Tensor], tuple[int, ...], int]:
    """The view with the indexed dimensions in front, the indices as its place takes them, their common shape, and where
    the result's dimensions from the indices belong: at the first, or in front if the indices are not neighbours."""
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    given = [each for each in indices if each is not None]
    shape: tuple[int, ...] = given[0]._layout.shape
    if len(given) > 1:
        shape = broadcast_shapes(*[each._layout.shape for each in given])
    if not view._layout.place.numpy_indices:
        given = [each.expand(*shape).contiguous() if shape else each for each in given]
    if axes[-1] == len(axes) - 1:
        return view, given, shape, 0
    rest = [axis for axis in range(view.ndim) if axis not in axes]
    together = axes[-1] - axes[0] == len(axes) - 1
    return view.permute(*axes, *rest), given, shape, axes[0] if together else 0


def _moved_back(result: Tensor, count: int, first: int) -> Tensor:
    """The ``count`` dimensions from the indices moved from the front to ``first``."""
    if not first or not count:
        return result
    return result.permute(*range(count, count + first), *range(count), *range(count + first, result.ndim))


def _shortened(value: Any, ndim: int) -> Any:
    """Without leading dimensions of length 1, which an assignment may have too many of."""
    while value.ndim > ndim and value.shape[0] == 1:
        value = value.squeeze(0)
    return value


def _index_of(values: Any) -> Tensor:
    """A list, a range or NumPy's array as an index tensor."""
    if isinstance(values, range) or set(map(type, values)) == {int}:
        return _on(_host(), np.array(values, np.int64))
    return _tensor(values)


def _tensor(values: Any) -> Tensor:
    from .factories import tensor

    return tensor(values)


def _on(place: Place, array: Any) -> Tensor:
    """An array of int64 as a tensor, made for the purpose."""
    from .backends.host import HOST
    from .copying import copied_to

    tensor = make(Storage(HOST, array.nbytes, array), 0, Layout.of(HOST, int64, array.shape), array)
    return tensor if place is HOST else copied_to(tensor, place)


def _host() -> Place:
    from .backends.host import HOST

    return HOST
