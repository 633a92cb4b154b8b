"""Several tensors made one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .elementwise import apply_into, common_place
from .errors import ShapeError
from .layout import Layout, normal_axis
from .operations import COPY
from .promotion import common_dtype

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["cat", "stack"]


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after the other along a dimension.

    Raises:
        ValueError: there are none, or their other dimensions differ.
        DeviceMismatchError: they are on different devices.
    """
    given = list(tensors)
    if not given:
        raise ShapeError("cat: there must be a tensor at least")
    # torch leaves out empty tensors of one dimension, whatever the others' shape.
    shaped = [each for each in given if tuple(each.shape) != (0,)] or given[:1]
    first = shaped[0]
    axis = normal_axis(dim, first.ndim)
    rest = [(*each.shape[:axis], *each.shape[axis + 1 :]) for each in shaped]
    if not first.ndim or any(each != rest[0] for each in rest):
        shapes = ", ".join(str(list(each.shape)) for each in given)
        raise ShapeError(f"cat: all dimensions but {axis} must have equal lengths, and there must be one; got {shapes}")
    place = common_place("cat", given)
    length = sum(each.shape[axis] for each in shaped)
    shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
    out = place.empty(Layout.of(place, common_dtype(given), shape))
    start = 0
    for each in shaped:
        apply_into(COPY, out.narrow(axis, start, each.shape[axis]), each)
        start += each.shape[axis]
    return out


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape side by side along a new dimension.

    Raises:
        ValueError: there are none, or their shapes differ.
        DeviceMismatchError: they are on different devices.
    """
    given = list(tensors)
    if len({each.shape for each in given}) > 1:
        raise ShapeError(f"stack: the shapes differ: {', '.join(str(list(each.shape)) for each in given)}")
    return cat([each.unsqueeze(dim) for each in given], normal_axis(dim, given[0].ndim + 1) if given else 0)
