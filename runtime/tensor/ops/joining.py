"""Several tensors made one: plans, kept under all the layouts, as in ``elementwise``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.layout import Layout, normal_axis
from ..core.tensor import make
from ..core.tensor_errors import ShapeError
from ..places.elementwise_table import COPY
from .elementwise import apply_into, common_place
from .promotion import common_dtype

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["cat", "stack"]


def cat(tensors: Sequence[Tensor], dim: int = 0, *, axis: int | None = None, out: Tensor | None = None) -> Tensor:
    """The tensors one after the other along a dimension, which may be called ``axis``; written to ``out`` if given.

    Raises:
        ShapeError: there are none, or their other dimensions differ.
        DeviceMismatchError: they are on different devices.
    """
    joined = _joined(tuple(tensors), dim if axis is None else axis, "cat")
    return joined if out is None else apply_into(COPY, out, joined)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape side by side along a new dimension.

    Raises:
        ShapeError: there are none, or their shapes differ.
        DeviceMismatchError: they are on different devices.
    """
    return _joined(tuple(tensors), dim, "stack")


def _joined(given: tuple[Tensor, ...], dim: int, name: str) -> Tensor:
    if not given:
        raise ShapeError(f"{name}: there must be a tensor at least")
    try:
        plans = given[0]._layout.plans
        key = (name, dim, *[each._layout for each in given])
    except AttributeError:
        raise TypeError(
            f"{name}: all must be tensors; got {', '.join(type(each).__name__ for each in given)}"
        ) from None
    plan = plans.get(key)
    if plan is None:
        plan = plans[key] = _Plan(given, dim, name)
    return plan(given)


class _Plan:
    """How tensors of given layouts are joined."""

    def __init__(self, given: tuple[Tensor, ...], dim: int, name: str) -> None:
        place = common_place(name, given)
        shown = given
        if name == "stack":
            if any(each.shape != given[0].shape for each in given):
                raise ShapeError(f"stack: the shapes differ: {', '.join(str(list(each.shape)) for each in given)}")
            shown = tuple(each.unsqueeze(dim) for each in given)
            self._axis = normal_axis(dim, shown[0].ndim)
        # torch leaves out empty tensors of one dimension, whatever the others' shape.
        self._used = [k for k, each in enumerate(shown) if tuple(each.shape) != (0,)] or [0]
        self._layouts = [shown[k]._layout for k in self._used]
        first = self._layouts[0].shape
        if name == "cat":
            self._axis = normal_axis(dim, len(first))
        axis = self._axis
        rest = [(*each.shape[:axis], *each.shape[axis + 1 :]) for each in self._layouts]
        if not first or any(each != rest[0] for each in rest):
            shapes = ", ".join(str(list(each.shape)) for each in given)
            raise ShapeError(
                f"cat: all dimensions but {axis} must have equal lengths, and there must be one; got {shapes}"
            )
        length = sum(each.shape[axis] for each in self._layouts)
        self._target = Layout.of(place, common_dtype(given), (*first[:axis], length, *first[axis + 1 :]))
        self._kernel = None
        if all(each.place is place for each in self._layouts):
            self._kernel = place.join(self._target, self._layouts, axis)

    def __call__(self, given: tuple[Tensor, ...]) -> Tensor:
        out = self._target.place.empty(self._target)
        parts = [make(given[k]._storage, given[k]._offset, layout) for k, layout in zip(self._used, self._layouts)]  # noqa: B905
        if self._kernel is not None:
            self._kernel(out, *parts)
            return out
        start = 0
        for each in parts:  # of peers: each copy waits for the other device
            length = each.shape[self._axis]
            apply_into(COPY, out.narrow(self._axis, start, length), each)
            start += length
        return out
