"""Several tensors made one."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.layout import Layout
from ...core.memory_formats import channels_last, channels_last_3d, keeps_channels_last, strides_in
from ...core.shapes import Shape, normal_axis
from ...core.tensor import Tensor, make_tensor
from ...core.tensor_errors import ShapeError
from ...places.dispatch import Plan, dispatch
from ...places.tables_with_gradients.elementwise_table import COPY
from ..arguments.promotion import common_dtype
from ..elementwise.elementwise import apply_into, common_place
from ..elementwise.results import into
from ..shapes.views import narrow, unsqueeze

__all__ = ["cat", "stack"]


def cat(tensors: Sequence[Tensor], dim: int = 0, *, axis: int | None = None, out: Tensor | None = None) -> Tensor:
    """The tensors one after the other along a dimension.

    Args:
        tensors: one at least. Their shapes are equal but for this dimension; empty tensors of one dimension count as
            nothing. Different element types are promoted.
        dim: the dimension; ``axis`` means the same.
        out: where to write the result; it is given the result's shape.

    Raises:
        ShapeError: there are none, or their other dimensions differ.
        TypeError: one tensor is given in place of a sequence.
        DeviceMismatchError: they are on different devices.
    """
    made = _joined(tensors, dim if axis is None else axis, "cat")
    return made if out is None else into(out, made)


def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape side by side along a new dimension, ``dim`` of the result.

    ``out`` says where to write the result; it is given the result's shape.

    Raises:
        ShapeError: there are none, or their shapes differ.
        TypeError: one tensor is given in place of a sequence.
        DeviceMismatchError: they are on different devices.
    """
    made = _joined(tensors, dim, "stack")
    return made if out is None else into(out, made)


def _joined(tensors: Sequence[Tensor], dim: int, name: str) -> Tensor:
    if isinstance(tensors, Tensor):
        raise TypeError(
            f"{name}: a sequence of tensors is needed, and this is one tensor; .unbind() makes several of it"
        )
    given = tuple(tensors)
    if not given:
        raise ShapeError(f"{name} expects a non-empty list of tensors")
    return dispatch((name, dim), _prepare, given)  # type: ignore[no-any-return]


def _prepare(asked: tuple[str, int], *given: Tensor) -> Plan:
    name, dim = asked
    if not all(isinstance(each, Tensor) for each in given):
        raise TypeError(f"{name}: all must be tensors; got {', '.join(type(each).__name__ for each in given)}")
    return _Join(given, dim, name)


class _Join:
    """How tensors of given layouts are joined."""

    def __init__(self, given: tuple[Tensor, ...], dim: int, name: str) -> None:
        place = common_place(name, given)
        shown = given
        if name == "stack":
            for k, each in enumerate(given):
                if each.shape != given[0].shape:
                    raise ShapeError(
                        f"stack expects each tensor to be equal size, but got {list(given[0].shape)} at entry 0 and "
                        f"{list(each.shape)} at entry {k}"
                    )
            shown = tuple(unsqueeze(each, dim) for each in given)
            self._axis = normal_axis(dim, shown[0].ndim)
        # torch leaves out empty tensors of one dimension, whatever the others' shape.
        self._used = [k for k, each in enumerate(shown) if tuple(each.shape) != (0,)] or [0]
        self._layouts = [shown[k]._layout for k in self._used]
        first = self._layouts[0].shape
        if name == "cat":
            self._axis = normal_axis(dim, len(first)) if first != (0,) else 0
        axis = self._axis
        for k, layout in zip(self._used, self._layouts, strict=True):
            _check_joins(first, layout.shape, axis, k)
        length = sum(each.shape[axis] for each in self._layouts)
        shape, kind = (*first[:axis], length, *first[axis + 1 :]), common_dtype(given)
        self._shown: Layout | None = None
        """The result's layout, where its channels lie last: then all are joined with the channels as last dimension."""
        if name == "cat" and all(keeps_channels_last(each.shape, each._layout.strides) for each in given):
            order = (0, *range(2, len(first)), 1)
            strides = strides_in(channels_last if len(first) == 4 else channels_last_3d, shape)
            self._shown = Layout.of(place, kind, shape, strides)
            self._layouts = [
                Layout.of(each.place, each.dtype, _in_order(each.shape, order), _in_order(each.strides, order))
                for each in self._layouts
            ]
            shape, self._axis = _in_order(shape, order), order.index(axis)
            axis = self._axis
        self._target = Layout.of(place, kind, shape)
        self._empty = place.empty
        self._kernel = None
        if all(each.place is place for each in self._layouts):
            self._kernel = place.join(self._target, self._layouts, axis)
        # A kernel that takes nothing of its operands but where they begin takes them as they are, of whatever shape.
        as_they_are = len(self._used) == len(given) and (name == "cat" or getattr(self._kernel, "by_address", False))
        self._as_they_are = self._kernel is not None and as_they_are and self._shown is None

    def __call__(self, *given: Tensor) -> Tensor:
        out = self._empty(self._target)
        if self._as_they_are:
            self._kernel(out, *given)  # type: ignore[misc]
            return out
        self._join(out, given)
        return out if self._shown is None else make_tensor(out._storage, out._offset, self._shown)

    def _join(self, out: Tensor, given: tuple[Tensor, ...]) -> None:
        parts = [
            make_tensor(given[k]._storage, given[k]._offset, layout)
            for k, layout in zip(self._used, self._layouts, strict=True)
        ]
        if self._kernel is not None:
            self._kernel(out, *parts)
            return
        start = 0
        for each in parts:  # of peers: each copy waits for the other device
            length = each.shape[self._axis]
            apply_into(COPY, narrow(out, self._axis, start, length), each)
            start += length


def _in_order(each: Shape, order: Sequence[int]) -> Shape:
    """Lengths or strides of dimensions in another order."""
    return tuple(each[axis] for axis in order)


def _check_joins(first: Shape, shape: Shape, axis: int, k: int) -> None:
    if not shape:
        raise ShapeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
    if len(shape) != len(first):
        raise ShapeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}")
    for position, (wanted, length) in enumerate(zip(first, shape, strict=True)):
        if position != axis and length != wanted:
            raise ShapeError(
                f"Sizes of tensors must match except in dimension {axis}. Expected size {wanted} but got size {length} "
                f"for tensor number {k} in the list."
            )
