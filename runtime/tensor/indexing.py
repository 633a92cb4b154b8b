"""``tensor[...]``: views by integers, slices, None and Ellipsis; copies by integer and boolean tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .core import TensorCore
from .dtypes import bool_, int64, uint8
from .elementwise import apply, apply_into
from .layout import Layout, broadcast_shapes
from .operations import BY_NAME, COPY

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["IndexMethods"]


class IndexMethods(TensorCore):
    """The methods of a tensor that pick elements."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Tensor:
        if isinstance(key, TensorCore) and _is_plain(key._layout, self._layout):
            return _taken(self, [key], key._layout.shape)  # type: ignore[arg-type, list-item]
        view, indices = _resolve(self, key)  # type: ignore[arg-type]
        return view if indices is None else _take(view, indices)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, TensorCore) and key.dtype is bool_ and not (isinstance(value, TensorCore) and value.ndim):
            self.masked_fill_(key, value)  # type: ignore[arg-type]
            return
        view, indices = _resolve(self, key)  # type: ignore[arg-type]
        if indices is None:
            if isinstance(value, TensorCore):
                view.copy_(_shortened(value, view.ndim))
            else:
                apply_into(COPY, view, value if not isinstance(value, (list, tuple)) else _tensor(value))
        else:
            _put(view, indices, value)

    def masked_fill_(self, mask: Tensor, value: Any) -> Tensor:
        """Write ``value``, a number or a tensor without dimensions, where ``mask`` is True."""
        target: Tensor = self  # type: ignore[assignment]
        if mask.ndim < self.ndim and mask.shape == self.shape[: mask.ndim]:  # as x[mask] = value
            mask = mask.reshape(*mask.shape, *(1,) * (self.ndim - mask.ndim))
        if isinstance(value, TensorCore) and value._layout.place is not self._layout.place:
            value = value.item()  # type: ignore[attr-defined]
        selected = apply(BY_NAME["where"], mask, value, target)
        return apply_into(COPY, target, selected)

    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        """A copy with ``value`` where ``mask`` is True."""
        return self.clone().masked_fill_(mask, value)

    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where ``mask``, which broadcasts with this tensor, is True, in one dimension."""
        shape = broadcast_shapes(self.shape, mask.shape)
        return self.expand(*shape)[mask.expand(*shape)] if shape else self.reshape(1)[mask.reshape(1)]

    def nonzero(self, as_tuple: bool = False) -> Any:
        """The indices of the elements that are not 0: one row each, or one tensor a dimension. Waits for the device."""
        place = self._layout.place
        found = np.nonzero(place.read(self)) if self.ndim else (np.arange(int(bool(self.item()))),)  # type: ignore[arg-type]
        if as_tuple:
            return tuple(_on(place, each.astype(np.int64)) for each in found)
        rows = np.stack(found, axis=1) if self.ndim else np.empty((len(found[0]), 0))
        return _on(place, np.ascontiguousarray(rows.astype(np.int64)))

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """The positions ``index`` of one dimension, in that order."""
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


def _resolve(tensor: Tensor, key: Any) -> tuple[Tensor, list[Tensor | None] | None]:
    """The view that the basic parts of ``key`` give, and the index tensors at its dimensions, None at others."""
    parts = _parts(key, tensor.ndim)
    shape, strides, offset = [], [], tensor._offset
    own_shape, own_strides = tensor.shape, tensor._layout.strides
    indices: list[Tensor | None] = []
    axis = 0
    for part in parts:
        if part is None:
            shape.append(1)
            strides.append(0)
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
        else:
            for each in _integer_indices(part, own_shape, axis):
                shape.append(own_shape[axis])
                strides.append(own_strides[axis])
                indices.append(each)
                axis += 1
    view = tensor._view(tuple(shape), tuple(strides), offset)
    return view, (indices if any(each is not None for each in indices) else None)


def _parts(key: Any, ndim: int) -> list[Any]:
    """The parts of an index, one for each dimension, None and slices added where dimensions go unnamed."""
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
        elif isinstance(part, (list, np.ndarray, range)):
            part = _tensor(part if not isinstance(part, range) else list(part))
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


def _integer_indices(part: Tensor, shape: tuple[int, ...], axis: int) -> list[Tensor]:
    """Index tensors of int64 for the dimensions that ``part`` indexes from ``axis`` on."""
    if part.dtype in (bool_, uint8):
        own = tuple(part.shape)
        if own != tuple(shape[axis : axis + len(own)]):
            raise IndexError(
                f"a mask of shape {list(own)} does not fit dimensions of lengths {list(shape[axis : axis + len(own)])}"
            )
        if not own:
            raise IndexError("a mask without dimensions is not supported as an index; use x[None][mask[None]]")
        return list(part.nonzero(as_tuple=True))
    if part.dtype.kind not in "iu":
        raise IndexError(f"tensors used as indices are of an integer type or bool, not of {part.dtype!r}")
    return [part.to(int64)]


def _take(view: Tensor, indices: list[Tensor | None]) -> Tensor:
    source, ready, shape, first = _arranged(view, indices)
    return _moved_back(_taken(source, ready, shape), len(shape), first)


def _taken(source: Tensor, ready: list[Tensor], shape: tuple[int, ...]) -> Tensor:
    """``source`` at indices of its first dimensions, which are int64, contiguous, of one shape and at its place."""
    place = source._layout.place
    out = place.empty(Layout.of(place, source.dtype, (*shape, *source.shape[len(ready) :])))
    if out.numel():
        key = ("take", out._layout, *[each._layout for each in ready])
        plans = source._layout.plans
        kernel = plans.get(key)
        if kernel is None:
            kernel = plans[key] = place.take(out._layout, source._layout, [each._layout for each in ready])
        kernel(out, source, *ready)
    return out


def _put(view: Tensor, indices: list[Tensor | None], value: Any) -> None:
    target, ready, shape, first = _arranged(view, indices)
    place = target._layout.place
    wanted = (*shape, *target.shape[len(ready) :])
    buffer = place.empty(Layout.of(place, target.dtype, wanted))
    natural = _moved_back(buffer, len(shape), first)
    if not isinstance(value, TensorCore) and isinstance(value, (list, tuple, np.ndarray)):
        value = _tensor(value)
    if isinstance(value, TensorCore):
        natural.copy_(_shortened(value, natural.ndim))
    else:
        apply_into(COPY, natural, value)
    if buffer.numel():
        place.put(target._layout, buffer._layout, [each._layout for each in ready])(target, buffer, *ready)


def _arranged(view: Tensor, indices: list[Tensor | None]) -> tuple[Tensor, list[Tensor], tuple[int, ...], int]:
    """The view with the indexed dimensions in front, the indices broadcast and on its device, their shape, and where
    the result's dimensions from the indices belong: at the first, or in front if the indices are not neighbours."""
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    given = [each for each in indices if each is not None]
    shape = broadcast_shapes(*(tuple(each.shape) for each in given))
    place = view._layout.place
    ready = []
    for each in given:
        local = each if each._layout.place is place else each.to(view.device)
        ready.append(local.expand(*shape).contiguous() if shape else local)
    rest = [axis for axis in range(view.ndim) if axis not in axes]
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    return view.permute(*axes, *rest), ready, shape, axes[0] if together else 0


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


def _tensor(values: Any) -> Tensor:
    from .factories import tensor

    return tensor(values)


def _on(place: Any, array: Any) -> Tensor:
    from .copying import copied_to
    from .factories import wrap

    return copied_to(wrap(array), place)
