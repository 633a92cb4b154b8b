"""Products of matrices."""

from __future__ import annotations

from math import prod
from typing import Any

from ...core.casting_seam import seam
from ...core.dtypes import bool_
from ...core.layout import Layout
from ...core.needed_tensors import layout_of, needed, no_tensor
from ...core.shapes import Shape, broadcast_shapes
from ...core.tensor import Tensor, make_tensor
from ...core.tensor_errors import ElementTypeError, ShapeError
from ...places.dispatch import Plan, PlanForOnce, dispatch, plan_for
from ...places.place import place_at
from ...places.tables_with_gradients.elementwise_table import BY_NAME, COPY
from ..copying.copying import copied_to
from ..elementwise.elementwise import apply_into, apply_into2, common_place
from ..elementwise.results import into
from ..shapes.reshape import reshape
from ..shapes.views import expand, transpose, unsqueeze

_ADD = BY_NAME["add"]


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of matrices, of vectors, or of batches of matrices, whose leading dimensions broadcast.

    Args:
        input: a tensor of one dimension or more; one dimension is a row.
        other: a tensor of the same element type; one dimension is a column.
        out: where to write the result; it is given the result's shape.

    Returns:
        Of shapes (..., n, k) and (..., k, m) a tensor of shape (..., n, m); a vector's n or m is left out. Half types
        are added up in float32.

    Raises:
        DeviceMismatchError: the operands are on different devices.
        TypeError: one is no tensor, or their types differ or are bool: torch does not convert here.
        ValueError: the shapes do not fit.
    """
    try:
        plan = input._layout.plans.get(("matmul", other._layout))
    except AttributeError:  # one is no tensor
        plan = None
    result: Tensor = dispatch("matmul", _prepare, (input, other)) if plan is None or seam.on else plan(input, other)
    return result if out is None else into(out, result, exact=True)


def matmul_operator(input: Tensor, other: Any) -> Tensor:
    """``input @ other``: ``matmul``, but for what is no tensor, which Python then asks."""
    return matmul(input, other) if isinstance(other, Tensor) else NotImplemented


def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices, of shapes (n, k) and (k, m). Otherwise as ``matmul``.

    Raises:
        ValueError: an operand has not two dimensions, or the shapes do not fit.
    """
    try:
        fits = len(input._layout.shape) == len(mat2._layout.shape) == 2
    except AttributeError:
        raise no_tensor(input, mat2) from None
    if not fits:
        raise ShapeError(f"mm: both must have two dimensions; they have {input.ndim} and {mat2.ndim}")
    return matmul(input, mat2, out=out)


def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of two batches of matrices, of shapes (b, n, k) and (b, k, m). Otherwise as ``matmul``.

    Raises:
        ValueError: an operand has not three dimensions, the batches differ in size, or the shapes do not fit.
    """
    if len(layout_of(input).shape) != 3 or len(layout_of(mat2).shape) != 3 or input.shape[0] != mat2.shape[0]:
        own, other = layout_of(input).shape, layout_of(mat2).shape
        raise ShapeError(f"bmm: batches of matrices of equal size are needed; got {own} and {other}")
    return matmul(input, mat2, out=out)


def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of a matrix, of shape (n, k), and a vector of k elements. Otherwise as ``matmul``.

    Raises:
        ValueError: they are not a matrix and a vector, or do not fit.
    """
    if len(layout_of(input).shape) != 2 or len(layout_of(vec).shape) != 1:
        raise ShapeError(
            f"mv: a matrix and a vector are needed; they have {input.ndim} and {needed(vec).ndim} dimensions"
        )
    return matmul(input, vec, out=out)


def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The scalar product of two vectors of equal length, without dimensions. Otherwise as ``matmul``.

    Raises:
        ValueError: an operand has not one dimension, or the lengths differ.
    """
    try:
        fits = len(input._layout.shape) == len(tensor._layout.shape) == 1
    except AttributeError:
        raise no_tensor(input, tensor) from None
    if not fits:
        raise ShapeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    if seam.on and out is None:  # in mixed precision the wider of both types, and none that is narrower
        operands = seam.convert(("dot",), (input, tensor))
        return plan_for("matmul", _prepare, operands)(*operands)  # type: ignore[no-any-return]
    return matmul(input, tensor, out=out)


def product_plan(
    a: Tensor, b: Tensor, *, turned: tuple[bool, bool] = (False, False), row: Tensor | None = None
) -> Plan:
    """What multiplies two tensors of these layouts, of one place and type. It takes no notice of gradients, and no
    care of mixed precision.

    Args:
        a: a tensor that requires no gradients.
        b: another one.
        turned: of each, a matrix then, whether its transpose is multiplied.
        row: another one, of one dimension, of which the plan adds one to all rows of the product, in its own memory.

    Raises:
        ValueError: the shapes do not fit.
    """
    shown = [transpose(each, 0, 1) if turn else each for each, turn in zip((a, b), turned, strict=True)]
    _check(*shown)
    if b.ndim == 2 and (a.ndim == 2 or (a.ndim > 2 and a._layout.contiguous)):
        place, shape = place_at(a._layout), (*shown[0].shape[:-1], shown[1].shape[1])
        if shown[0].numel() and shown[1].numel():
            out = Layout.of(place, a.dtype, shape)
            plan = place.product(out, a._layout, b._layout, turned, None if row is None else row._layout)
            if plan is not None:
                return plan
    product = _Product(*shown)
    return product if row is None else lambda a, b, row: apply_into2(_ADD, product(a, b), row)


def _prepare(_: str, a: Any, b: Any) -> Plan:
    for each in (a, b):
        if not isinstance(each, Tensor):
            raise TypeError(f"matmul: both operands must be tensors; one is of {type(each).__name__}")
    place = common_place("matmul", (a, b))
    there = [each._layout.place is place for each in (a, b)]
    if all(there):
        return product_plan(a, b)

    def plan(a: Tensor, b: Tensor) -> Tensor:
        a, b = (each if here or not each.ndim else copied_to(each, place) for here, each in zip(there, (a, b)))  # noqa: B905
        return _Product(a, b)(a, b)

    return PlanForOnce(plan)


class _Product:
    """The product of tensors of two layouts, as a batch of products of matrices."""

    def __init__(self, a: Tensor, b: Tensor) -> None:
        _check(a, b)
        place, kind = place_at(a._layout), a.dtype
        left = unsqueeze(a, 0) if a.ndim == 1 else a
        right = unsqueeze(b, 1) if b.ndim == 1 else b
        (rows, inner), columns = left.shape[-2:], right.shape[-1]
        batch = broadcast_shapes(left.shape[:-2], right.shape[:-2])
        shape = (*batch, *((rows,) if a.ndim > 1 else ()), *((columns,) if b.ndim > 1 else ()))
        self._final, self._empty = Layout.of(place, kind, shape), place.empty
        if right.ndim == 2 and left._layout.contiguous:
            # One matrix on the right: all rows on the left make one larger product.
            rows, batch = prod(batch) * rows, ()
        self._a, self._b = _Batch(a, batch, (rows, inner)), _Batch(b, batch, (inner, columns))
        self._product = Layout.of(place, kind, (prod(batch), rows, columns))
        self._kernel = None
        if inner and self._product.numel:
            self._kernel = place.matmul(self._product, self._a(a)._layout, self._b(b)._layout)
        self._by_address = self._a.is_view and self._b.is_view and getattr(self._kernel, "by_address", False)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        out = self._empty(self._final)
        if self._by_address:
            self._kernel(out, a, b)  # type: ignore[misc]
        elif self._kernel is not None:
            self._kernel(make_tensor(out._storage, 0, self._product), self._a(a), self._b(b))
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
        self.is_view = self._layout is not None
        """Whether nothing is copied: only where a tensor begins matters then, not its own layout."""

    def __call__(self, tensor: Tensor) -> Tensor:
        if self._layout is None:
            return self._shown(tensor)
        return make_tensor(tensor._storage, tensor._offset, self._layout)

    def _shown(self, tensor: Tensor) -> Tensor:
        rows, columns = self._matrix
        count = prod(self._batch)
        if prod(tensor.shape) == rows * columns:
            return expand(reshape(tensor, rows, columns), count, rows, columns)
        return reshape(expand(tensor, *self._batch, rows, columns), count, rows, columns)


def _check(a: Tensor, b: Tensor) -> None:
    if a.dtype is not b.dtype:
        raise ElementTypeError(
            f"expected m1 and m2 to have the same dtype, but got: {a.dtype!r} != {b.dtype!r}; "
            "convert one with .to(dtype)"
        )
    if a.dtype is bool_:
        raise ElementTypeError("matmul: bool has no products of matrices; convert to another type first")
    if not a.ndim or not b.ndim:
        raise ShapeError("matmul: both operands need a dimension at least; use * for numbers")
    inner, inner_too = a.shape[-1], b.shape[-1 if b.ndim == 1 else -2]
    if inner != inner_too:
        raise ShapeError(_misfit(tuple(a.shape), tuple(b.shape)))


def _misfit(a: Shape, b: Shape) -> str:
    """What torch says of operands whose inner lengths differ; batches of rows by one matrix are one matrix there."""
    if len(a) == len(b) == 1:
        return (
            f"inconsistent tensor size, expected tensor {list(a)} and src {list(b)} to have the same number of "
            f"elements, but got {a[0]} and {b[0]} elements respectively"
        )
    if len(b) == 1 and len(a) == 2:
        return f"size mismatch, got input ({a[0]}), mat ({a[0]}x{a[1]}), vec ({b[0]})"
    if len(b) > 2:
        wanted = [*b[:-2], a[-1]]
        return f"Expected size for first two dimensions of batch2 tensor to be: {wanted} but got: {list(b[:-1])}."
    columns = b[1] if len(b) == 2 else 1
    return f"mat1 and mat2 shapes cannot be multiplied ({prod(a[:-1])}x{a[-1]} and {b[0]}x{columns})"
