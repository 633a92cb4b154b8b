"""What occurs in a tensor, and how often: distinct elements and histograms."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import float64, int64
from ...core.needed_tensors import layout_of
from ...core.shapes import existing_axis
from ...core.tensor import Tensor, view_of
from ...core.tensor_errors import ArgumentError, ElementTypeError, RangeError, ShapeError
from ...places.tables_with_gradients.elementwise_table import BY_NAME
from ..arguments.promotion import floating
from ..arguments.scalars import item
from ..copying.copying import clone, to
from ..elementwise import elementwise_functions as each
from ..elementwise.elementwise import apply
from ..elementwise.results import into
from ..indexing.indexing import index_select, nonzero
from ..joining.joining import cat
from ..making.creation import empty, full, ones, zeros
from ..making.patterns import arange
from ..reductions.along import as_rows, run_rows
from ..reductions.reductions import amax, amin
from ..reductions.reductions import any as any_of
from ..reductions.scans import cumsum
from ..scattering.scattering import scatter_add_
from ..shapes.reshape import reshape
from ..shapes.views import movedim, narrow
from .sorting import argsort, sort

__all__ = ["bincount", "histc", "unique", "unique_consecutive"]

_SUB = BY_NAME["sub"]


def unique(
    input: Tensor,
    sorted: bool = True,  # noqa: ARG001 - they always are
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements, in order. That waits for a device.

    Args:
        input: the tensor.
        sorted: whether in order: here they always are.
        return_inverse: whether to return, too, where in the result each element is.
        return_counts: whether to return, too, how often each occurs.
        dim: a dimension whose distinct positions are wanted instead.

    Returns:
        A tensor, or a tuple of it and what else was asked for.

    Raises:
        IndexError: there is no such dimension.
    """
    if dim is not None:
        return _unique_positions(input, existing_axis(dim, input.ndim), return_inverse, return_counts, ordered=False)
    flat = reshape(input, -1)
    count = flat.shape[0]
    few = count <= (_FEW if input.dtype.itemsize < 8 else _FEW // 2)
    if count and few and not (return_inverse or return_counts or input._layout.tracked):
        values, found = run_rows("distinct", (input.dtype, int64), (1, count), [as_rows(flat, 0)])
        first = view_of(found, (), ())
        return view_of(values, (int(item(first)),), (1,))
    ordered, places = sort(flat, 0)
    return _runs(ordered, _changes(ordered), places, tuple(input.shape), return_inverse, return_counts)


_FEW = 4096
"""Elements up to which a block of a device finds the distinct ones, and counts in bins, in one launch; half as many
distinct ones of 8 bytes."""


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Of equal elements that follow each other the first. That waits for a device.

    Arguments, results and errors are those of ``unique``; what is counted is how many followed each other.
    """
    if dim is not None:
        return _unique_positions(input, existing_axis(dim, input.ndim), return_inverse, return_counts, ordered=True)
    flat = reshape(input, -1)
    return _runs(flat, _changes(flat), None, tuple(input.shape), return_inverse, return_counts)


def _changes(flat: Tensor) -> Tensor:
    """Whether each position of the first dimension differs from the one before; the first does."""
    count = flat.shape[0]
    if count < 2:
        return ones(count, dtype=bool, device=flat.device)
    differ = each.ne(narrow(flat, 0, 1, count - 1), narrow(flat, 0, 0, count - 1))
    if differ.ndim > 1:
        differ = any_of(reshape(differ, count - 1, -1), 1)
    return cat([ones(1, dtype=bool, device=flat.device), differ])


def _runs(values: Tensor, new: Tensor, places: Tensor | None, shape: Any, inverse: bool, counts: bool) -> Any:
    """The values where ``new`` is True; their numbers for all elements, which ``places`` puts back; their counts."""
    starts = reshape(nonzero(new), -1)
    made: list[Tensor] = [index_select(values, 0, starts) if new.numel() else clone(values)]
    if inverse:
        number = apply(_SUB, cumsum(new, 0), 1)
        if places is not None and new.numel():
            number = scatter_add_(zeros(new.numel(), dtype=int64, device=values.device), 0, places, number)
        made.append(reshape(number, shape))
    if counts:
        end = full((1,), new.numel(), dtype=int64, device=values.device)
        bounds = cat([starts, end])
        found = starts.numel()
        made.append(apply(_SUB, narrow(bounds, 0, 1, found), narrow(bounds, 0, 0, found)))
    return made[0] if len(made) == 1 else tuple(made)


def _unique_positions(input: Tensor, axis: int, inverse: bool, counts: bool, *, ordered: bool) -> Any:
    moved = movedim(input, axis, 0) if input.ndim else reshape(input, 1)
    count = moved.shape[0]
    rows = reshape(moved, count, -1) if moved.numel() else empty((count, 0), dtype=input.dtype, device=input.device)
    if not moved.numel() and 0 in moved.shape[1:]:
        raise ShapeError("unique: there are no elements along the other dimensions")
    places = None
    if not ordered:
        # By the last column first: each sort is stable, so the first column decides in the end.
        places = arange(count, device=input.device)
        for column in reversed(range(rows.shape[1])):
            order = argsort(index_select(rows[:, column], 0, places), 0)
            places = index_select(places, 0, order)
        rows = index_select(rows, 0, places)
        moved = index_select(moved, 0, places)
    found = _runs(moved, _changes(rows), places, (count,), inverse, counts)
    first, *rest = found if isinstance(found, tuple) else (found,)
    back = movedim(first, 0, axis) if input.ndim else first
    return (back, *rest) if rest else back


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each integer occurs, from 0 on; with ``weights`` the sum of the weights there. Waits for a device.

    Args:
        input: integers that are not negative, in one dimension.
        weights: as many numbers.
        minlength: the least number of counts.

    Returns:
        int64, or float64 with weights (float32 for float32).

    Raises:
        TypeError: the elements are not integers.
        ValueError: one is negative, there is more than one dimension, or there are not as many weights.
    """
    if layout_of(input).dtype.kind not in "iu":
        raise ElementTypeError(f"bincount() counts integers, and this tensor has {input.dtype!r}")
    if input.ndim != 1 or minlength < 0:
        raise ShapeError(
            f"bincount only supports 1-d non-negative integral inputs, and lengths of 0 or more; this has {input.ndim} "
            f"dimensions, and minlength is {minlength}"
        )
    if weights is not None and weights.shape != input.shape:
        raise ShapeError(f"bincount: weights of shape {list(weights.shape)} for shape {list(input.shape)}")
    if not input.numel():
        return zeros(minlength, dtype=int64, device=input.device)
    if input.dtype.kind == "i" and item(amin(input)) < 0:
        raise ArgumentError("bincount only supports 1-d non-negative integral inputs, and an element is negative")
    length = max(int(item(amax(input))) + 1, minlength)
    if weights is None:
        return reshape(run_rows("count_values", (int64,), (1, length), [as_rows(input, 0)], length)[0], length)
    kind = weights.dtype if weights.dtype.name == "float32" else float64
    target = zeros(length, dtype=kind, device=input.device)
    return scatter_add_(target, 0, to(input, int64), to(weights, kind))


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Tensor | None = None) -> Tensor:
    """How many elements lie in each of ``bins`` equal parts of a range; those outside are not counted.

    Args:
        input: the tensor.
        bins: how many parts.
        min: where the range begins.
        max: where it ends, including; if both are equal, the elements' own range is taken.
        out: where to write the result; it is given the result's shape.

    Raises:
        TypeError: the elements are of bool.
        ValueError: there are no bins, or the range is none.
    """
    if layout_of(input).dtype.kind == "b" or (input.dtype.kind != "f" and not input.is_cuda):
        raise ElementTypeError(f"histc() counts floating-point elements, and this tensor has {input.dtype!r}")
    if bins <= 0:
        raise ArgumentError(f"histc: there must be 1 bin or more, not {bins}")
    flat = reshape(input, -1)
    low, high = float(min), float(max)
    if low == high and flat.numel():
        low, high = float(item(amin(flat))), float(item(amax(flat)))
    if low == high:
        low, high = low - 1, high + 1
    if not (high > low and high - low < float("inf")):
        raise RangeError(f"histc: the range from {low} to {high} is none")
    kind = floating(input.dtype) if input.dtype.kind == "f" else input.dtype
    if not flat.numel():
        return into(out, zeros(bins, dtype=kind, device=input.device), exact=True)
    wide = flat if flat.dtype.kind == "f" and not flat.dtype.is_half else to(flat, float64)
    # Few are counted by one block, which writes what it found in the result's type.
    few = flat.numel() <= _FEW and bins <= _FEW and not input._layout.tracked
    made = run_rows("count_parts", (kind if few else int64,), (1, bins), [as_rows(wide, 0)], bins, low, high)[0]
    counts = reshape(made, bins)
    counts = counts if few else to(counts, kind)
    return into(out, counts, exact=True)
