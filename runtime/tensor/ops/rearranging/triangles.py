"""Diagonals and the triangles on either side of them."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import bool_, int64
from ...core.gradient_seam import begin_history
from ...core.layout import Layout
from ...core.memory_formats import check_layout
from ...core.needed_tensors import layout_of, needed
from ...core.printed_names import printed_as
from ...core.shapes import normal_axis
from ...core.tensor import Tensor, make_tensor
from ...core.tensor_errors import ArgumentError, ShapeError
from ...places.dispatch import Plan, dispatch
from ...places.place import place_at
from ...places.tables_with_gradients.elementwise_table import BY_NAME, COPY
from ...places.tables_with_gradients.fused_table import FUSED
from ..copying.copying import clone
from ..elementwise import elementwise_functions as each
from ..elementwise.elementwise import apply, apply_into
from ..elementwise.results import in_place, into
from ..indexing.indexing import nonzero
from ..making.creation import empty, ones, zeros
from ..making.patterns import arange, prepare_fill
from ..reductions.reductions import sum as sum_of
from ..shapes.reshape import contiguous, reshape
from ..shapes.views import diagonal, t, unsqueeze

__all__ = ["diag", "diag_embed", "diagflat", "trace", "tril", "tril_indices", "triu", "triu_indices"]


@printed_as("TrilBackward0")
def tril(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The lower triangle of matrices, 0 elsewhere.

    Args:
        input: a tensor of two dimensions or more.
        diagonal: the last diagonal that belongs to it; 0 is the main one, 1 the one above.
        out: where to write the result; it is given the result's shape.

    Raises:
        ValueError: there are fewer than two dimensions.
    """
    made = _triangle("tril", input, diagonal)
    return made if out is None else into(out, made, exact=True)


@printed_as("TriuBackward0")
def triu(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The upper triangle of matrices, 0 elsewhere: from ``diagonal`` on. Arguments and errors are those of ``tril``."""
    made = _triangle("triu", input, diagonal)
    return made if out is None else into(out, made, exact=True)


def _triangle(name: str, input: Tensor, diagonal: int) -> Tensor:
    own = layout_of(input)
    plan = own.plans.get((name, "triangle"))
    if plan is not None and type(diagonal) is int and abs(diagonal) < _SMALL:
        return plan(input, diagonal)  # type: ignore[no-any-return]
    if own.contiguous and 0 < own.numel < 1 << 31 and len(own.shape) > 1 and not own.tracked:
        own.plans[name, "triangle"] = _plan(own, upper=name == "triu")
    if input.ndim < 2:
        raise ShapeError(f"{name}: the tensor has {input.ndim} dimensions, and must have two at least")
    kept = _side(name, input.shape[-2], input.shape[-1], diagonal, input.device)
    nothing = False if input.dtype.kind == "b" else 0
    return contiguous(apply(BY_NAME["where"], kept, input, nothing))


def _plan(own: Layout, *, upper: bool) -> Plan:
    """What makes the triangle of plain tensors of this layout, which lie in row-major order, in one launch."""
    place, (rows, columns) = place_at(own), own.shape[-2:]
    flat = Layout.of(own.place, own.dtype, (own.numel // columns, columns))
    kernel = place.rows(FUSED["triangle"], [flat], [flat])

    def plan(tensor: Tensor, diagonal: int) -> Tensor:
        out = place.empty(own)
        given = make_tensor(tensor._storage, tensor._offset, flat)
        kernel(make_tensor(out._storage, 0, flat), given, rows, diagonal, upper)
        return out

    return plan


_SMALL = 1 << 20
"""Elements of a mask that one launch makes sooner than several, though it divides for each."""


def _side(name: str, rows: int, columns: int, diagonal: int, device: Any) -> Tensor:
    if 0 < rows * columns <= _SMALL and type(diagonal) is int:
        made = empty((rows, columns), dtype=bool_, device=device)
        dispatch("lower" if name == "tril" else "upper", prepare_fill, (made,), columns, diagonal)
        return made
    down = unsqueeze(arange(rows, device=device), 1)
    right = arange(columns, device=device)
    compare = each.le if name == "tril" else each.ge
    return compare(right, apply(BY_NAME["add"], down, diagonal))


tril_ = in_place(tril)
triu_ = in_place(triu)


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = int64, device: Any = None, layout: Any = None
) -> Tensor:
    """The indices of the lower triangle of a matrix: a row of rows and one of columns. Waits for a device."""
    check_layout(layout)
    return _indices("tril", row, col, offset, dtype, device)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = int64, device: Any = None, layout: Any = None
) -> Tensor:
    """The indices of the upper triangle of a matrix: a row of rows and one of columns. Waits for a device."""
    check_layout(layout)
    return _indices("triu", row, col, offset, dtype, device)


def _indices(name: str, row: int, col: int, offset: int, dtype: Any, device: Any) -> Tensor:
    if row < 0 or col < 0:
        raise ArgumentError(f"{name}_indices: a matrix of {row} rows and {col} columns is none")
    found = nonzero(_side(name, row, col, offset, ones(0, device=device).device))
    return contiguous(t(found)).to(dtype)


def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A matrix with the elements of one dimension on a diagonal; or the diagonal of a matrix, as a copy.

    Args:
        input: a tensor of one or two dimensions.
        diagonal: which one; 0 is the main one, 1 the one above.
        out: where to write the result; it is given the result's shape.

    Raises:
        ValueError: there are other than one or two dimensions.
    """
    if needed(input).ndim not in (1, 2):
        raise ShapeError(f"diag: the tensor has {input.ndim} dimensions, and must have one or two")
    return into(out, diag_embed(input, diagonal) if input.ndim == 1 else clone(_diagonal(input, diagonal)), exact=True)


_diagonal = diagonal


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the elements of the last dimension on a diagonal, 0 elsewhere.

    Args:
        input: a tensor of one dimension or more.
        offset: which diagonal; 0 is the main one, 1 the one above.
        dim1: the dimension of the rows in the result.
        dim2: the dimension of the columns in the result.

    Raises:
        IndexError: there is no such dimension.
        ValueError: the two dimensions are one.
    """
    a, b = normal_axis(dim1, needed(input).ndim + 1), normal_axis(dim2, input.ndim + 1)
    if a == b:
        raise ArgumentError("diag_embed: the two dimensions must differ")
    length = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for axis in sorted((a, b)):
        shape.insert(axis, length)
    out = zeros(shape, dtype=input.dtype, device=input.device)
    begin_history(out, input)
    apply_into(COPY, diagonal(out, offset, a, b), input)
    return out


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements, flattened, on a diagonal."""
    return diag_embed(reshape(input, -1), offset)


@printed_as("TraceBackward0")
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal.

    Raises:
        ValueError: there are other than two dimensions.
    """
    if needed(input).ndim != 2:
        raise ShapeError(f"trace: the tensor has {input.ndim} dimensions, and must have two")
    return sum_of(diagonal(input))
