"""Elements at the positions that integer tensors name: taken, and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.dtypes import int64
from ...core.gradient_seam import begin_history
from ...core.layout import Layout
from ...core.needed_tensors import layout_of
from ...core.shapes import Shape, broadcast_shapes
from ...core.tensor import Tensor
from ...core.tensor_errors import IndexShapeError, ShapeError
from ...places.dispatch import Plan, dispatch, plan_for
from ...places.place import Place, place_at
from ...places.tables_with_gradients.elementwise_table import BY_NAME, COPY
from ..arguments.scalars import item
from ..copying.copying import copy_, to
from ..elementwise.elementwise import apply, apply_into
from ..shapes.reshape import contiguous, reshape
from ..shapes.views import expand, permute, squeeze


def take_at(view: Tensor, indices: list[Tensor | None]) -> Tensor:
    """The elements of ``view`` at index tensors: one for each dimension, or None where all positions stay."""
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if len(given) == 1 and place_at(view._layout).numpy_indices:
        axis, index = given[0]
        return take(view, [index], axis)
    source, ready, shape, first = arranged(view, indices)
    made = take(source, ready, 0)
    return contiguous(_moved_back(made, len(shape), first)) if first else made


def take(source: Tensor, indices: list[Tensor], axis: int) -> Tensor:
    """``source`` at indices of its dimensions from ``axis`` on, which are as ``Place.take`` wants them."""
    return dispatch(("take", axis), _prepare_take, (source, *indices))  # type: ignore[no-any-return]


def take_plan(source: Tensor, index: Tensor) -> Plan:
    """What ``take`` does with one index of the first dimension, for tensors of these layouts."""
    return plan_for(("take", 0), _prepare_take, (source, index))


def _prepare_take(asked: tuple[str, int], source: Tensor, *indices: Tensor) -> Plan:
    axis, layout = asked[1], source._layout
    place, own = place_at(layout), tuple(layout.shape)
    shape = _common_shape(indices)
    _check_elements(shape, own[axis : axis + len(indices)])
    target = Layout.of(place, layout.dtype, (*own[:axis], *shape, *own[axis + len(indices) :]))
    if not target.numel:
        return lambda *_: place.empty(target)
    kernel = place.take(target, layout, [each._layout for each in indices], axis)
    new: Plan | None = getattr(kernel, "new", None)
    if new is not None:
        return new

    def taken(*tensors: Tensor) -> Tensor:
        out = place.empty(target)
        kernel(out, *tensors)
        return out

    return taken


def _check_elements(wanted: Shape, lengths: Shape) -> None:
    """Raise IndexError where elements are wanted of a dimension without any: a device would notice too late."""
    if 0 in lengths and 0 not in wanted:
        raise IndexError("index is out of bounds for dimension with size 0")


def put_at(view: Tensor, indices: list[Tensor | None], value: Any) -> None:
    """Write ``value``, which broadcasts, to the elements of ``view`` at index tensors: one for each dimension, or None
    where all positions are meant.

    Raises:
        ShapeError: it does not broadcast.
    """
    target, ready, shape, first = arranged(view, indices)
    layout = target._layout
    place = place_at(layout)
    own = tuple(layout.shape)
    wanted = shape if len(ready) == len(own) else (*shape, *own[len(ready) :])
    try:
        values = _written(target, place, value, wanted, len(shape), first)
    except ShapeError:
        if not isinstance(value, Tensor):
            raise
        raise ShapeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing result of "
            f"shape {list(wanted)}"
        ) from None
    if 0 not in wanted:
        target._storage.version += 1
        operands = target, values, *ready
        plan_for("put", _prepare_put, operands)(*operands)  # mixed precision converts nothing here


def _written(target: Tensor, place: Place, value: Any, wanted: Shape, indexed: int, first: int) -> Any:
    """What ``put_at`` writes, in the shape wanted; or what NumPy broadcasts to it."""
    layout = target._layout
    values: Any
    if place.numpy_indices and not isinstance(value, Tensor):
        values = layout.dtype.scalar(fill_value_of(target, value))
    elif place.numpy_indices and not first and _is_ready(value, target, wanted):
        values = value if value._layout.shape == wanted else shortened(value, len(wanted))
    elif isinstance(value, Tensor) and not place.numpy_indices and not first and _lies_ready(value, target, wanted):
        values = value
    else:
        values = place.empty(Layout.of(place, layout.dtype, wanted))
        natural = _moved_back(values, indexed, first)
        if isinstance(value, Tensor):
            begin_history(values, value)
            natural = _moved_back(values, indexed, first)
            copy_(natural, shortened(value, natural.ndim))
        else:
            apply_into(COPY, natural, value)
    return values


def put_plan(target: Tensor, index: Tensor, values: Tensor) -> Plan | None:
    """What writes ``values`` at an index of the first dimension, for tensors of these layouts of which none lies over
    the target, where a kernel takes them as they are and there are no gradients; else None. It takes the target, the
    values and the index."""
    own, where = target._layout, index._layout
    plain = where.dtype is int64 and where.contiguous and where.place is own.place and where.shape and own.shape
    if not plain or own.tracked or own.overlaps_itself() or place_at(own).numpy_indices:
        return None
    wanted = (*where.shape, *own.shape[1:])
    if 0 in wanted or not _lies_ready(values, target, wanted):
        return None
    return plan_for("put", _prepare_put, (target, values, index))


def _prepare_put(_: str, target: Tensor, values: Any, *indices: Tensor) -> Plan:
    written = values._layout if isinstance(values, Tensor) else None
    _check_elements(_common_shape(indices), tuple(target._layout.shape)[: len(indices)])
    return place_at(target._layout).put(target._layout, written, [each._layout for each in indices])


def _is_ready(value: Tensor, target: Tensor, wanted: tuple[int, ...]) -> bool:
    """Whether NumPy can write ``value`` as it is: broadcast to the shape wanted, and converted."""
    own = value._layout
    if own.place is not target._layout.place or value._storage is target._storage:
        return False
    return own.shape == wanted or broadcast_shapes(shortened(value, len(wanted)).shape, wanted) == wanted


def _lies_ready(value: Tensor, target: Tensor, wanted: tuple[int, ...]) -> bool:
    """Whether a device's kernel can write ``value`` as it lies."""
    own, alike = value._layout, target._layout
    there = own.place is alike.place and own.dtype is alike.dtype and value._storage is not target._storage
    return there and own.contiguous and not own.tracked and own.shape == wanted


def arranged(view: Tensor, indices: list[Tensor | None]) -> tuple[Tensor, list[Tensor], Shape, int]:
    """The view with the indexed dimensions in front, the indices as its place takes them, the shape that these have
    together, and where in the result it belongs: at the first dimension indexed, or in front if they are no neighbours.
    """
    axes = [axis for axis, each in enumerate(indices) if each is not None] if len(indices) > 1 else [0]
    if axes == [0]:  # the most usual case
        (index, *_) = indices
        assert index is not None
        ready = index if place_at(view._layout).numpy_indices else contiguous(index)
        return view, [ready], index._layout.shape, 0
    given = [each for each in indices if each is not None]
    shape = _common_shape(given)
    if not place_at(view._layout).numpy_indices:
        given = [contiguous(expand(each, *shape)) if shape else each for each in given]
    if axes[-1] == len(axes) - 1:
        return view, given, shape, 0
    rest = [axis for axis in range(view.ndim) if axis not in axes]
    together = axes[-1] - axes[0] == len(axes) - 1
    return permute(view, *axes, *rest), given, shape, axes[0] if together else 0


def _common_shape(indices: Sequence[Tensor]) -> Shape:
    if len(indices) == 1:
        return indices[0]._layout.shape
    try:
        return broadcast_shapes(*[each._layout.shape for each in indices])
    except ShapeError as error:
        shapes = ", ".join(str(list(each._layout.shape)) for each in indices)
        raise IndexShapeError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}: {error}"
        ) from None


def _moved_back(result: Tensor, count: int, first: int) -> Tensor:
    """The ``count`` dimensions from the indices moved from the front to ``first``."""
    if not first or not count:
        return result
    return permute(result, *range(count, count + first), *range(count), *range(count + first, result.ndim))


def shortened(value: Any, ndim: int) -> Any:
    """Without leading dimensions of length 1, which an assignment may have too many of."""
    while value.ndim > ndim and value.shape[0] == 1:
        value = squeeze(value, 0)
    return value


def fill_where(target: Tensor, mask: Tensor, value: Any) -> None:
    """``value`` written where ``mask``, which covers the first dimensions, is True."""
    layout = target._layout
    if not (place_at(layout).numpy_indices and mask._layout.shape):
        if 0 < mask.ndim < target.ndim:
            mask = reshape(mask, *mask.shape, *(1,) * (target.ndim - mask.ndim))
        apply_into(BY_NAME["where"], target, mask, fill_value_of(target, value), target)
        return
    written = fill_value_of(target, value)
    kind: Any
    if isinstance(written, Tensor):
        kind = written._layout
    else:
        written = layout.dtype.scalar(written)
        kind = type(written)
    target._storage.version += 1
    plan = layout.plans.get(("put", kind, mask._layout))  # as ``dispatch`` does, in fewer steps
    if plan is None:
        dispatch("put", _prepare_put, (target, written, mask))
    else:
        plan(target, written, mask)


def fill_value_of(target: Tensor, value: Any) -> Any:
    """``value`` as what fills a tensor, in its type.

    Raises:
        ShapeError: the value has dimensions.
    """
    kind = layout_of(target).dtype
    if isinstance(value, Tensor):
        if value.ndim:
            raise ShapeError(f"masked_fill: the value has {value.ndim} dimensions, and must have none")
        if value._storage is target._storage:
            return apply(COPY, value) if value.dtype is kind else to(value, kind)
        if value._layout.place is target._layout.place:
            return value if value.dtype is kind else to(value, kind)
        value = item(value)
    check = COPY.check(kind)
    if check is not None:
        check(value)
    return _PYTHONS[kind.kind](value)


_PYTHONS: dict[str, Any] = {"b": bool, "u": int, "i": int, "f": float}
"""By the kind of an element type, the class of Python's numbers that stands for it."""
