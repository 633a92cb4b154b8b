"""Elements at the positions that integer tensors name: taken, and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.layout import Layout, broadcast_shapes
from ..core.tensor import TensorCore
from ..core.tensor_errors import IndexShapeError, ShapeError
from ..places.elementwise_table import COPY
from .elementwise import apply_into

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["fill_where", "filling", "put", "shortened", "take", "taken"]


def take(view: Tensor, indices: list[Tensor | None]) -> Tensor:
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if len(given) == 1 and view._layout.place.numpy_indices:
        axis, index = given[0]
        return taken(view, [index], index._layout.shape, axis)
    source, ready, shape, first = _arranged(view, indices)
    made = taken(source, ready, shape)
    return _moved_back(made, len(shape), first).contiguous() if first else made


def taken(source: Tensor, ready: list[Tensor], shape: tuple[int, ...], axis: int = 0) -> Tensor:
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


def put(view: Tensor, indices: list[Tensor | None], value: Any) -> None:
    target, ready, shape, first = _arranged(view, indices)
    layout = target._layout
    place = layout.place
    wanted = (*shape, *tuple(layout.shape)[len(ready) :])
    if place.numpy_indices and not isinstance(value, TensorCore):
        values = layout.dtype.scalar(filling(target, value))
    elif place.numpy_indices and not first and _is_ready(value, target, wanted):
        values = shortened(value, len(wanted))
    else:
        values = place.empty(Layout.of(place, layout.dtype, wanted))
        natural = _moved_back(values, len(shape), first)
        if isinstance(value, TensorCore):
            natural.copy_(shortened(value, natural.ndim))
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
    return own.shape == wanted or broadcast_shapes(shortened(value, len(wanted)).shape, wanted) == wanted


def _arranged(view: Tensor, indices: list[Tensor | None]) -> tuple[Tensor, list[Tensor], tuple[int, ...], int]:
    """The view with the indexed dimensions in front, the indices as its place takes them, their common shape, and where
    the result's dimensions from the indices belong: at the first, or in front if the indices are not neighbours."""
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    given = [each for each in indices if each is not None]
    shape: tuple[int, ...] = given[0]._layout.shape
    if len(given) > 1:
        try:
            shape = broadcast_shapes(*[each._layout.shape for each in given])
        except ShapeError as error:
            raise IndexShapeError(f"index tensors: {error}") from None
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


def shortened(value: Any, ndim: int) -> Any:
    """Without leading dimensions of length 1, which an assignment may have too many of."""
    while value.ndim > ndim and value.shape[0] == 1:
        value = value.squeeze(0)
    return value


def fill_where(target: Tensor, mask: Tensor, value: Any) -> None:
    """``value`` written where ``mask``, which covers the first dimensions, is True."""
    layout = target._layout
    place = layout.place
    if not (place.numpy_indices and mask.ndim):
        if 0 < mask.ndim < target.ndim:
            mask = mask.reshape(*mask.shape, *(1,) * (target.ndim - mask.ndim))
        target.masked_fill_(mask, value)
        return
    value = filling(target, value)
    written: Any = getattr(value, "_layout", None)
    key = ("put", written, mask._layout)
    kernel = layout.plans.get(key)
    if kernel is None:
        kernel = layout.plans[key] = place.put(layout, written, [mask._layout])
    kernel(target, value if written else layout.dtype.scalar(value), mask)


def filling(target: TensorCore, value: Any) -> Any:
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
