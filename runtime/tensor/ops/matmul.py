"""Products of matrices."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ..core.dtypes import bool_
from ..core.layout import Layout, Shape, broadcast_shapes
from ..core.tensor import make
from ..core.tensor_errors import ElementTypeError, ShapeError
from ..places.elementwise_table import COPY
from .copying import copied_to
from .elementwise import apply_into, common_place

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["matmul"]


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # noqa: A002 - torch's name
    """The product of matrices, of vectors, or of batches of matrices, whose leading dimensions broadcast.

    Raises:
        DeviceMismatchError: the operands are on different devices.
        TypeError: their types differ or are bool: torch does not convert here.
        ValueError: the shapes do not fit.
    """
    a, b = input, other
    key = ("matmul", b._layout)
    plan = a._layout.plans.get(key)
    if plan is None:
        place = common_place("matmul", (a, b))
        a, b = (each if each._layout.place is place or not each.ndim else copied_to(each, place) for each in (a, b))
        plan = _Plan(a, b)
        if a is input and b is other:
            a._layout.plans[key] = plan
    result: Tensor = plan(a, b)
    return result if out is None else apply_into(COPY, out, result)


class _Plan:
    """The product of tensors of two layouts, as a batch of products of matrices."""

    def __init__(self, a: Tensor, b: Tensor) -> None:
        _check(a, b)
        place, kind = a._layout.place, a.dtype
        left = a.unsqueeze(0) if a.ndim == 1 else a
        right = b.unsqueeze(1) if b.ndim == 1 else b
        (rows, inner), columns = left.shape[-2:], right.shape[-1]
        batch = broadcast_shapes(left.shape[:-2], right.shape[:-2])
        shape = (*batch, *((rows,) if a.ndim > 1 else ()), *((columns,) if b.ndim > 1 else ()))
        self._final = Layout.of(place, kind, shape)
        if right.ndim == 2 and left._layout.contiguous:
            # One matrix on the right: all rows on the left make one larger product.
            rows, batch = prod(batch) * rows, ()
        self._a, self._b = _Batch(a, batch, (rows, inner)), _Batch(b, batch, (inner, columns))
        self._product = Layout.of(place, kind, (prod(batch), rows, columns))
        self._kernel = None
        if inner and self._product.numel:
            self._kernel = place.matmul(self._product, self._a(a)._layout, self._b(b)._layout)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        out = self._final.place.empty(self._final)
        if self._kernel is not None:
            self._kernel(make(out._storage, 0, self._product), self._a(a), self._b(b))
        elif self._final.numel:
            apply_into(COPY, out, 0)
        return out


class _Batch:
    """Presents tensors of one layout as a batch of matrices: as a view if possible, else as a copy."""

    def __init__(self, tensor: Tensor, batch: Shape, matrix: Shape) -> None:
        self._batch = batch
        self._matrix = matrix
        self._layout: Layout | None = None
        shown = self._shown(tensor)
        if shown._storage is tensor._storage and shown._offset == tensor._offset:
            self._layout = shown._layout

    def __call__(self, tensor: Tensor) -> Tensor:
        if self._layout is None:
            return self._shown(tensor)
        return make(tensor._storage, tensor._offset, self._layout)

    def _shown(self, tensor: Tensor) -> Tensor:
        rows, columns = self._matrix
        count = prod(self._batch)
        if prod(tensor.shape) == rows * columns:
            return tensor.reshape(rows, columns).expand(count, rows, columns)
        return tensor.expand(*self._batch, rows, columns).reshape(count, rows, columns)


def _check(a: Tensor, b: Tensor) -> None:
    if a.dtype is not b.dtype:
        raise ElementTypeError(f"matmul: the operands are of {a.dtype!r} and {b.dtype!r}; convert one with .to(dtype)")
    if a.dtype is bool_:
        raise ElementTypeError("matmul: bool has no products of matrices; convert to another type first")
    if not a.ndim or not b.ndim:
        raise ShapeError("matmul: both operands need a dimension at least; use * for numbers")
    inner, inner_too = a.shape[-1], b.shape[-1 if b.ndim == 1 else -2]
    if inner != inner_too:
        raise ShapeError(f"matmul: shapes {list(a.shape)} and {list(b.shape)} do not fit: {inner} is not {inner_too}")
