"""The table of work along rows: scans, sorts, and what moves elements to and from places that other tensors name.

Every tensor of such an operation is contiguous and has two dimensions, (rows, elements of a row); who calls brings it
into this form, unless the place ``scatters_as_it_lies``. A line has NumPy's implementation and, for the kernel, the
name of a functor in ``backends/cuda_rows.py`` and its companions. Where an operation computes in another type than it
stores, its operands come to NumPy in the type to compute in, and results are converted when they are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..row_selection import first_of_rows, ranked_in_rows, sorted_rows


@dataclass(frozen=True, eq=False)
class RowOperation:
    """One line of the table."""

    name: str
    kind: str
    """Which kernels do it: ``scan``, ``sort``, ``first``, ``ranked``, ``distinct``, ``gather``, ``scatter``,
    ``histogram``, ``search`` or ``soft``."""
    numpy: Callable[..., Any]
    """``numpy(*operands, *parameters)`` returns the results; of ``scatter`` it changes the first operand instead."""
    cuda: str = ""
    """The name of the functor, where kernels of one kind differ by it."""
    parameters: int = 0
    """How many numbers the operation takes after its tensors."""

    gradient: tuple[str, ...] | None = None
    """For each operand the gradient, as in ``elementwise_table.py``; ``z`` is the second result. Of ``scatter`` the
    first operand is what is written to, ``a`` its elements before and ``y`` those after."""

    def __repr__(self) -> str:
        return f"<operation {self.name}>"


def _scan(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda a: ufunc.accumulate(a, axis=1, dtype=a.dtype)


def _extremes(ufunc: np.ufunc) -> Callable[..., Any]:
    """The extreme element so far and where it is: of equals the last one, and NaN before anything."""

    def scan(a: Any) -> tuple[Any, Any]:
        values = ufunc.accumulate(a, axis=1)
        new = values == a
        if a.dtype.kind == "f":
            new |= np.isnan(a)
        places = np.where(new, np.arange(a.shape[1]), 0)
        return values, np.maximum.accumulate(places, axis=1)

    return scan


def _median(a: Any, rank: int) -> tuple[Any, Any]:
    """The middle element in order: of rank 0 the first NaN if there is one, of rank -1 of those that are not NaN."""
    length = a.shape[1]
    if a.dtype.kind != "f" or not np.isnan(np.max(a, axis=1)).any():  # as far as NumPy's largest of NaN is NaN
        return ranked_in_rows(a, (length - 1) // 2 + 1)
    values, order = sorted_rows(a, 0)
    numbers = length - np.isnan(values).sum(axis=1, keepdims=True)
    middle = np.maximum(numbers - 1, 0) // 2
    if not rank:
        middle = np.where(numbers < length, numbers, middle)
    return np.take_along_axis(values, middle, 1), np.take_along_axis(order, middle, 1)


def _distinct(a: Any) -> tuple[Any, Any]:
    """The distinct elements of one row in order, before zeros, and how many there are, before zeros, too."""
    # Equal integers are the same; of numbers with signs the first zero of a run stands for it.
    values = np.sort(a, axis=1, kind="stable" if a.dtype.kind == "f" else None)
    new = np.ones(values.shape, bool)
    new[:, 1:] = values[:, 1:] != values[:, :-1]
    made, found = np.zeros_like(values), np.zeros(values.shape, np.int64)
    found[0, 0] = new.sum()
    made[0, : found[0, 0]] = values[new]
    return made, found


def _checked(index: Any, length: int) -> None:
    if index.size and (index.min() < 0 or index.max() >= length):
        wrong = index.min() if index.min() < 0 else index.max()
        raise IndexError(f"index {wrong} is out of bounds for a dimension of length {length}")


def _gather(source: Any, index: Any) -> Any:
    _checked(index, source.shape[1])
    return np.take_along_axis(source, index, 1)


def _scatter(ufunc: np.ufunc | None) -> Callable[..., None]:
    """Of tensors of any dimensions, as they lie: positions are those of the last one."""

    def scatter(target: Any, index: Any, values: Any) -> None:
        _checked(index, target.shape[-1])
        if ufunc is None:
            if any(step and length > 1 for step, length in zip(index.strides[:-1], index.shape[:-1], strict=True)):
                np.put_along_axis(target, index, values, -1)
            else:  # whole positions: the same along all other dimensions
                target[..., index[(0,) * (index.ndim - 1)]] = values
            return
        order = sorted(range(target.ndim), key=lambda axis: -target.strides[axis])
        laid = target.transpose(order)
        half = target.dtype.itemsize == 2 and target.dtype.kind not in "iu"  # the half types add up in float32
        wide = laid.astype(np.float32, order="C") if half else np.ascontiguousarray(laid)
        steps = [step // wide.itemsize for step in wide.strides]
        moves = order.index(target.ndim - 1)
        places = index.transpose(order).astype(np.int64) * steps[moves]
        for axis, length in enumerate(places.shape):
            if axis != moves and length > 1:
                places += (np.arange(length) * steps[axis]).reshape(-1, *(1,) * (target.ndim - 1 - axis))
        given = values.transpose(order).astype(wide.dtype, copy=False)
        # Of one dimension NumPy is six times as fast.
        ufunc.at(wide.reshape(-1), places.reshape(-1), given.reshape(-1))
        if half or not laid.flags.c_contiguous:
            laid[...] = wide

    return scatter


def _count_parts(a: Any, bins: int, low: float, high: float) -> Any:
    """How many lie in each of ``bins`` equal parts, in the elements' own arithmetic."""
    kind = a.dtype.type
    inside = a[(a >= kind(low)) & (a <= kind(high))]
    place = ((inside - kind(low)) * kind(bins) / kind(high - low)).astype(np.int64)
    return np.bincount(np.minimum(place, bins - 1), minlength=bins)[None]


def _search(ordered: Any, values: Any, right: int) -> Any:
    side: Any = "right" if right else "left"
    found = np.empty(values.shape, np.int64)
    for row in range(len(values)):
        found[row] = np.searchsorted(ordered[row if len(ordered) > 1 else 0], values[row], side)
    return found


def _among(ordered: Any, values: Any) -> Any:
    places = np.minimum(np.searchsorted(ordered[0], values), ordered.shape[1] - 1)
    return ordered[0][places] == values


def _shifted(a: Any) -> Any:
    with np.errstate(all="ignore"):
        return a - a.max(axis=1, keepdims=True)


def _softmax(a: Any) -> Any:
    made = np.exp(_shifted(a))
    made /= made.sum(axis=1, keepdims=True)
    return made


def _log_softmax(a: Any) -> Any:
    made = _shifted(a)
    made -= np.log(np.exp(made).sum(axis=1, keepdims=True))
    return made


# fmt: off
_TABLE = (
    RowOperation("cumsum",      "scan",     _scan(np.add),          "Sum",
                 gradient=("backwards(cumsum, g)",)),
    RowOperation("cumprod",     "scan",     _scan(np.multiply),     "Product",
                 gradient=("cumprod_gradient(g, a, y)",)),
    RowOperation("logcumsumexp", "scan",    _scan(np.logaddexp),    "LogSumExp",
                 gradient=("logcumsumexp_gradient(g, a, y)",)),
    RowOperation("cummax",      "scan",     _extremes(np.maximum),  "Largest",
                 gradient=("scatter_add(zeros_like(a), 1, z, g)",)),
    RowOperation("cummin",      "scan",     _extremes(np.minimum),  "Smallest",
                 gradient=("scatter_add(zeros_like(a), 1, z, g)",)),
    RowOperation("sort",        "sort",     sorted_rows,             parameters=1,
                 gradient=("scatter(zeros_like(a), 1, z, g)",)),
    RowOperation("topk",        "first",    first_of_rows,             parameters=2,
                 gradient=("scatter(zeros_like(a), 1, z, g)",)),
    RowOperation("kthvalue",    "ranked",   ranked_in_rows,             parameters=1,
                 gradient=("scatter(zeros_like(a), 1, z, g)",)),
    RowOperation("median",      "ranked",   _median,                parameters=1,
                 gradient=("scatter(zeros_like(a), 1, z, g)",)),
    RowOperation("distinct",    "distinct", _distinct,
                 gradient=()),
    RowOperation("gather",      "gather",   _gather,
                 gradient=("scatter_add(zeros_like(a), 1, b, g)", "")),
    RowOperation("scatter",     "scatter",  _scatter(None),         "Write",
                 gradient=("scatter(g, -1, b, 0.0)", "", "gather(g, -1, b)")),
    RowOperation("scatter_sum", "scatter",  _scatter(np.add),       "Add",
                 gradient=("g", "", "gather(g, -1, b)")),
    RowOperation("scatter_prod", "scatter", _scatter(np.multiply),  "Multiply",
                 gradient=("g * scattered_products(a, b, c)", "", "gather(g * a, -1, b) * other_products(a, b, c)")),
    RowOperation("scatter_amax", "scatter", _scatter(np.maximum),   "Larger",
                 gradient=("scattered_share(g, a, b, c, y)", "", "scattered_values(g, a, b, c, y)")),
    RowOperation("scatter_amin", "scatter", _scatter(np.minimum),   "Smaller",
                 gradient=("scattered_share(g, a, b, c, y)", "", "scattered_values(g, a, b, c, y)")),
    RowOperation("count_values", "histogram",
                 lambda a, bins: np.bincount(a.reshape(-1).astype(np.int64), minlength=bins)[None], "Values",
                 parameters=1, gradient=()),
    RowOperation("count_parts", "histogram", _count_parts,          "Parts", parameters=3,
                 gradient=()),
    RowOperation("search",      "search",   _search,                parameters=1,
                 gradient=()),
    RowOperation("among",       "search",   _among,
                 gradient=()),
    RowOperation("softmax",     "soft",     _softmax,               "Softmax",
                 gradient=("softmax_gradient(g, y)",)),
    RowOperation("log_softmax", "soft",     _log_softmax,           "LogSoftmax",
                 gradient=("log_softmax_gradient(g, y)",)),
)
# fmt: on

ROWS = {line.name: line for line in _TABLE}
