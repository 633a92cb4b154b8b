"""Order: sorting along a dimension, what is chosen by rank, and places in what is sorted."""

from __future__ import annotations

from operator import index as integer
from typing import Any

from ...core.dtypes import bool_, int32, int64
from ...core.named_results import ValuesAndIndices
from ...core.needed_tensors import layout_of, needed
from ...core.printed_names import printed_as
from ...core.shapes import normal_axis
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError, NoElementsError, RangeError, ShapeError
from ...places.tables_with_gradients.elementwise_table import BY_NAME
from ..arguments.promotion import common_dtype
from ..copying.copying import copied_to, to
from ..elementwise import elementwise_functions as each
from ..elementwise.elementwise import apply, common_place
from ..elementwise.results import into
from ..making.creation import full
from ..making.from_values import tensor
from ..reductions.along import are_rows, as_rows, from_rows, rows_as_they_lie, run_rows
from ..reductions.reductions import max as max_of
from ..reductions.reductions import sum as sum_of
from ..scattering.scattering import gather
from ..shapes.reshape import contiguous, reshape
from ..shapes.views import narrow, squeeze

__all__ = [
    "argsort",
    "bucketize",
    "isin",
    "kthvalue",
    "median",
    "msort",
    "nanmedian",
    "searchsorted",
    "sort",
    "topk",
]


@printed_as("SortBackward0")
def sort(
    input: Tensor,
    dim: int = -1,
    descending: bool = False,
    *,
    axis: int | None = None,
    stable: bool | None = None,  # noqa: ARG001 - it always is
    out: tuple[Tensor, Tensor] | None = None,
) -> ValuesAndIndices:
    """The elements in order along a dimension, and where each was. NaN counts as the largest number.

    Args:
        input: the tensor.
        dim: the dimension; ``axis`` means the same.
        descending: whether the largest comes first.
        stable: whether equal elements keep their order: here they always do.
        out: where to write values and indices, two tensors, which are given the result's shape.

    Raises:
        IndexError: there is no such dimension.
    """
    return into(out, ValuesAndIndices(*_sorted(input, dim if axis is None else axis, descending)), exact=True)


def argsort(
    input: Tensor,
    dim: int = -1,
    descending: bool = False,
    *,
    axis: int | None = None,
    stable: bool = False,  # noqa: ARG001 - it always is
) -> Tensor:
    """Where the elements are that ``sort``, whose arguments and errors these are, puts in order along a dimension."""
    return _sorted(input, dim if axis is None else axis, descending)[1]


def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements in order along the first dimension. ``out`` is where to write the result; it is given its shape."""
    return into(out, _sorted(input, 0, False)[0], exact=True)


def _sorted(input: Tensor, dim: int, descending: bool) -> list[Tensor]:
    axis = normal_axis(dim, needed(input).ndim)
    rows = as_rows(input, axis)
    made = run_rows("sort", (input.dtype, int64), tuple(rows.shape), [rows], int(descending))
    return [from_rows(one, input.shape, axis) for one in made]


@printed_as("TopkBackward0")
def topk(
    input: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: ARG001 - it always is
    *,
    axis: int | None = None,
    out: tuple[Tensor, Tensor] | None = None,
) -> ValuesAndIndices:
    """The ``k`` largest (or smallest) elements along a dimension, in order, and where they are.

    Other arguments are those of ``sort``.

    Args:
        k: how many.
        largest: whether the largest are wanted, or the smallest.
        sorted: whether in order: here they always are.

    Raises:
        IndexError: there is no such dimension, or it has not so many elements.
    """
    dim = dim if axis is None else axis
    if isinstance(dim, bool):
        raise TypeError(f"topk: the dimension is an integer, not {dim!r}; largest= says which elements are wanted")
    axis, k = normal_axis(dim, needed(input).ndim), integer(k)
    if not 0 <= k <= (input.shape[axis] if input.ndim else 1):
        raise RangeError(f"topk: {k} of a dimension of length {input.shape[axis] if input.ndim else 1}")
    if input.ndim and k <= _SELECTED:
        rows = as_rows(input, axis)
        made = run_rows("topk", (input.dtype, int64), (rows.shape[0], k), [rows], int(largest), k)
        shape = (*input.shape[:axis], k, *input.shape[axis + 1 :])
        return into(out, ValuesAndIndices(*(from_rows(one, shape, axis) for one in made)), exact=True)
    found = _sorted(input, axis, largest)
    if input.ndim:
        found = [contiguous(narrow(one, axis, 0, k)) for one in found]
    return into(out, ValuesAndIndices(*found), exact=True)


_SELECTED = 2048
"""The most elements of a row that are selected. More are taken from the sorted row."""


@printed_as("KthvalueBackward0")
def kthvalue(
    input: Tensor,
    k: int,
    dim: int = -1,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    out: tuple[Tensor, Tensor] | None = None,
) -> ValuesAndIndices:
    """The ``k``-th smallest element along a dimension, counted from 1, and where it is.

    Other arguments are those of ``sort``.

    Args:
        k: its rank, from 1 on.
        keepdim: whether the dimension stays, with length 1.

    Raises:
        IndexError: there is no such dimension.
        ValueError: it has not so many elements.
    """
    dim = dim if axis is None else axis
    axis, k = normal_axis(dim, needed(input).ndim), integer(k)
    length = input.shape[axis] if input.ndim else 1
    if not length:
        raise NoElementsError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= length:
        raise ArgumentError(f"kthvalue: the {k}. of a dimension of length {length}")
    return into(out, _ranked(input, axis, k, keepdim), exact=True)


def median(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    out: tuple[Tensor, Tensor] | None = None,
) -> Any:
    """The middle element in order, the smaller one of two; NaN if there is one.

    Args:
        input: the tensor.
        dim: a dimension, or None for all elements; ``axis`` means the same.
        keepdim: whether the dimension stays, with length 1.
        out: with ``dim``: where to write values and indices, which are given the result's shape.

    Returns:
        Without ``dim`` a tensor without dimensions. With ``dim`` a named tuple of ``values`` and ``indices``.

    Raises:
        IndexError: there is no such dimension, or it has no elements.
    """
    return _median(input, dim if axis is None else axis, keepdim, out, ignoring=False)


def nanmedian(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    out: tuple[Tensor, Tensor] | None = None,
) -> Any:
    """The middle element in order of those that are not NaN: see ``median``, whose arguments and errors these are."""
    return _median(input, dim if axis is None else axis, keepdim, out, ignoring=True)


def _median(input: Tensor, dim: int | None, keepdim: bool, out: Any, *, ignoring: bool) -> Any:
    if dim is None and not layout_of(input).numel:
        return to(full((), float("nan"), device=input.device), input.dtype)
    if input.dtype.kind == "b":
        raise ElementTypeError("median() does not take elements of bool; convert them first")
    if dim is None:
        return into(out, _median(reshape(input, -1), 0, False, None, ignoring=ignoring).values)
    axis = normal_axis(dim, input.ndim)
    length = input.shape[axis] if input.ndim else 1
    if not length:
        raise NoElementsError(f"median(): Expected reduction dim {dim} to have non-zero size.")
    if length <= (_SORTED if input.dtype.itemsize < 8 else _SORTED // 2):
        return into(out, _ranked(input, axis, -int(ignoring), keepdim, "median"), exact=True)
    if input.dtype.kind != "f":
        return into(out, _ranked(input, axis, (length + 1) // 2, keepdim), exact=True)
    if length > _SORTED and not ignoring:
        found = max_of(each.isnan(input), axis, True)  # and where the first NaN is
        middle = _ranked(input, axis, (length + 1) // 2, True).indices
        indices = apply(BY_NAME["where"], found.values, found.indices, middle)
        found = ValuesAndIndices(gather(input, axis, indices), indices)
        return into(out, found if keepdim else ValuesAndIndices(*(squeeze(one, axis) for one in found)), exact=True)
    values, indices = _sorted(input, axis, False)
    # NaN comes last. Of rows that have one, the first NaN is the median; or they count only up to it.
    numbers = sum_of(each.bitwise_not(each.isnan(values)), axis, True)
    middle = each.clamp_min(each.floor_divide(apply(BY_NAME["sub"], numbers, 1), 2), 0)
    if not ignoring:
        usual = full((), (length - 1) // 2, dtype=int64, device=input.device)
        whole = each.eq(numbers, length)
        middle = apply(BY_NAME["where"], whole, usual, each.clamp_max(numbers, length - 1))
    found = ValuesAndIndices(gather(values, axis, middle), gather(indices, axis, middle))
    if not keepdim:
        found = ValuesAndIndices(squeeze(found.values, axis), squeeze(found.indices, axis))
    return into(out, found, exact=True)


_SORTED = 4096
"""Elements of a row up to which it is sorted to find one of them: a block of a device does that in one launch, and of
half as many that have 8 bytes."""


def _ranked(input: Tensor, axis: int, rank: int, keepdim: bool, line: str = "kthvalue") -> ValuesAndIndices:
    """The element of a rank in order, counted from 1, along a dimension, and where it is."""
    rows = as_rows(input, axis)
    made = run_rows(line, (input.dtype, int64), (rows.shape[0], 1), [rows], rank)
    kept = (1,) if keepdim and input.ndim else ()
    shape = (*input.shape[:axis], *kept, *input.shape[axis + 1 :])
    return ValuesAndIndices(*(reshape(one, shape) for one in made))


def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Where in a sorted dimension each value belongs: before the first element that is not less than it.

    Args:
        sorted_sequence: sorted along its last dimension; of one dimension, or of the same others as ``input``.
        input: the values, a tensor or a number.
        out_int32: whether the result is of int32, instead of int64.
        right: whether values belong behind the elements equal to them.
        side: ``left`` or ``right``, which means the same.
        sorter: the order of ``sorted_sequence``, if it is not sorted itself: see ``argsort``.
        out: where to write the result; it is given the result's shape.

    Raises:
        ValueError: the dimensions do not fit, or ``side`` contradicts ``right``.
        DeviceMismatchError: the tensors are on different devices.
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ArgumentError(
            f"searchsorted: side is 'left' or 'right', as right says; it is {side!r} with right={right}"
        )
    after = int(right or side == "right")
    if out is None and sorter is None and isinstance(input, Tensor):
        plan = layout_of(sorted_sequence).plans.get((searchsorted, bool(out_int32), input._layout))
        if plan is not None:
            return plan(sorted_sequence, input, after)[0]  # type: ignore[no-any-return]
    values = input if isinstance(input, Tensor) else tensor(input, dtype=None, device=sorted_sequence.device)
    if not sorted_sequence.ndim:
        raise ShapeError("searchsorted: what is sorted must have a dimension")
    if sorter is not None:
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    if sorted_sequence.ndim > 1 and sorted_sequence.shape[:-1] != values.shape[:-1]:
        raise ShapeError(
            f"searchsorted: values of shape {list(values.shape)} in a tensor of shape {list(sorted_sequence.shape)}: "
            "all dimensions but the last must be the same, or the second must have one dimension"
        )
    kind = common_dtype((sorted_sequence, values))
    common_place("searchsorted", (sorted_sequence, values))
    layouts = sorted_sequence._layout, values._layout
    if sorter is None and layouts[0].dtype is layouts[1].dtype is kind and are_rows(values.ndim - 1, *layouts):
        # Of one dimension each, or of as many, with the same rows.
        found = (int32 if out_int32 else int64), values.shape
        layouts[0].plans[searchsorted, bool(out_int32), layouts[1]] = rows_as_they_lie("search", [found], layouts)
    within = as_rows(to(sorted_sequence, kind), sorted_sequence.ndim - 1)
    values = to(values, kind)
    looked = reshape(contiguous(values), 1, -1) if sorted_sequence.ndim == 1 else as_rows(values, values.ndim - 1)
    made = run_rows(
        "search",
        (int32 if out_int32 else int64,),
        tuple(looked.shape),
        [within, looked],
        after,
    )[0]
    return into(out, reshape(made, values.shape), exact=True)


def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Tensor | None = None
) -> Tensor:
    """Between which ``boundaries``, sorted and of one dimension, each value lies: see ``searchsorted``, whose other
    arguments and errors these are.

    Raises:
        ValueError: the boundaries have not one dimension.
    """
    if needed(boundaries).ndim != 1:
        raise ShapeError(f"bucketize: the boundaries have {boundaries.ndim} dimensions, and must have one")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


def isin(
    elements: Any,
    test_elements: Any,
    *,
    assume_unique: bool = False,  # noqa: ARG001 - it makes no difference here
    invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Whether each element is one of ``test_elements``.

    Args:
        elements: a tensor or a number.
        test_elements: a tensor or a number.
        assume_unique: whether there are no equal elements in either: makes no difference here.
        invert: whether to tell of each element that it is none of them.
        out: where to write the result; it is given the result's shape.

    Raises:
        DeviceMismatchError: the tensors are on different devices.
    """
    place = common_place("isin", [one for one in (elements, test_elements) if isinstance(one, Tensor)])
    kind = common_dtype((elements, test_elements))
    looked, known = (
        to(one, kind) if isinstance(one, Tensor) else copied_to(tensor(one, dtype=kind), place)
        for one in (elements, test_elements)
    )
    if not known.numel():
        found = full(looked.shape, False, device=looked.device)
    else:
        ordered = _sorted(reshape(known, -1), 0, False)[0]
        rows = [reshape(ordered, 1, -1), reshape(contiguous(looked), 1, -1)]
        found = reshape(run_rows("among", (bool_,), tuple(rows[1].shape), rows)[0], looked.shape)
    return into(out, each.logical_not(found) if invert else found, exact=True)
