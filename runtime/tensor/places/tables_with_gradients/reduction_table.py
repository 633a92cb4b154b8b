"""The table of reductions. Each has NumPy's implementation and the name of a functor in ``backends/cuda_reduce.py``."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.dtypes import bool_, dtype, get_default_dtype, int64, uint8
from ...core.shapes import Shape
from ...core.tensor_errors import ElementTypeError


class ReductionRule(enum.Enum):
    """In which type a reduction computes, and which type its result has."""

    TOTAL = "integers and bool add up in int64; floats stay"
    MEAN = "floats only"
    SAME = "the operand's type"
    TEST = "bool"
    INDEX = "the operand's type, which is not bool; the result is int64"
    SAME_AND_INDEX = "the operand's type, and int64"
    SAME_TWICE = "the operand's type, for both results"
    MEAN_TWICE = "floats only, for both results"
    COUNT = "any type; the result is int64"


@dataclass(frozen=True, eq=False)
class Reduction:
    """One line of the table.

    ``numpy(array, axes, parameter)`` keeps the reduced dimensions. ``empty``: whether no elements have a result.
    """

    name: str
    numpy: Callable[..., Any]
    cuda: str
    rule: ReductionRule
    empty: bool = True
    gradient: str | None = None
    """The operand's gradient, an expression of Python as in ``elementwise_table.py``: ``a`` is the operand, ``y`` the
    result and ``g`` its gradient, both with reduced dimensions kept, ``z`` the second result, ``axes`` what is reduced,
    ``count`` how many elements make one, ``p`` the parameter. Empty: there is none. None: nobody thought of it."""

    def types(self, operand: dtype, asked: dtype | None = None) -> tuple[dtype, tuple[dtype, ...]]:
        """The type to compute in, and those of the results.

        Raises:
            TypeError: the reduction does not take this type.
        """
        rule = self.rule
        if rule is ReductionRule.TOTAL:
            total = asked or (operand if operand.kind == "f" else int64)
            return total.computed, (total,)
        if rule in (ReductionRule.MEAN, ReductionRule.MEAN_TWICE):
            mean = asked or operand
            if mean.kind != "f":
                raise ElementTypeError(
                    f"{self.name}() needs floating-point elements and this tensor has {operand!r}; "
                    f"convert it first, for example with .to({get_default_dtype()!r})"
                )
            return mean.computed, (mean, mean) if rule is ReductionRule.MEAN_TWICE else (mean,)
        if rule is ReductionRule.SAME:
            return operand.computed, (operand,)
        if rule is ReductionRule.TEST:
            return operand.computed, (operand if operand is uint8 else bool_,)  # torch: uint8 stood for bool once
        if rule is ReductionRule.SAME_TWICE:
            return operand.computed, (operand, operand)
        if rule is ReductionRule.SAME_AND_INDEX:
            return operand.computed, (operand, int64)
        if rule is ReductionRule.INDEX and operand is bool_:
            raise ElementTypeError(f"{self.name}() does not take elements of {bool_!r}; convert them first")
        return operand.computed, (int64,)


def _of(ufunc: np.ufunc) -> Callable[..., Any]:
    # With dtype: NumPy adds up small integers in a wider type of its own choice otherwise, bool above all.
    return lambda a, axes, _: ufunc.reduce(a, axis=axes, dtype=a.dtype, keepdims=True)


_MANY, _NARROW, _WIDE, _LONG = 4096, 64, 1024, 1 << 13
"""From how many elements on a product goes by columns; how many columns of shorter rows, how many of longer ones, and
from which length on rows are longer ones."""


def _product(a: Any, axes: Shape, _: Any) -> Any:
    """The product. Of a row NumPy multiplies one element after the other, and each waits for the one before: where the
    row is long, its parts are multiplied with each other first, as columns, side by side."""
    whole = len(axes) == a.ndim
    along = whole or (axes == (a.ndim - 1,) and a.strides[-1] == a.itemsize)
    rows = a.ravel("K") if whole and a.size >= _MANY else a
    if not along or a.size < _MANY or rows.shape[-1] < 4 * _NARROW:
        return np.multiply.reduce(a, axis=axes, dtype=a.dtype, keepdims=True)
    length = rows.shape[-1]
    width = _NARROW if length < _LONG else _WIDE
    end = length - length % width
    columns = rows[..., :end].reshape(*rows.shape[:-1], -1, width)
    reduce: Any = np.multiply.reduce
    made = reduce(reduce(columns, axis=-2, dtype=a.dtype), axis=-1, dtype=a.dtype, keepdims=True)
    made = made * reduce(rows[..., end:], axis=-1, dtype=a.dtype, keepdims=True)
    return made.reshape((1,) * a.ndim) if whole else made


def _nansum(a: Any, axes: Shape, _: Any) -> Any:
    return np.add.reduce(np.where(np.isnan(a), a.dtype.type(0), a), axis=axes, dtype=a.dtype, keepdims=True)


def _test(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda a, axes, _: ufunc.reduce(a, axis=axes, keepdims=True)


def _nanmean(a: Any, axes: Shape, _: Any) -> Any:
    numbers = np.add.reduce(a == a, axis=axes, dtype=np.int64, keepdims=True)
    return _nansum(a, axes, None) / numbers.astype(a.dtype)


def _variance_and_mean(a: Any, axes: Shape, correction: float) -> Any:
    count = _count(a, axes)
    mean = np.add.reduce(a, axis=axes, keepdims=True) / a.dtype.type(count)
    squares = np.empty_like(a)
    np.subtract(a, mean, out=squares)
    np.square(squares, out=squares)
    return np.add.reduce(squares, axis=axes, keepdims=True) / a.dtype.type(max(count - correction, 0)), mean


def _deviation_and_mean(a: Any, axes: Shape, correction: float) -> Any:
    variance, mean = _variance_and_mean(a, axes, correction)
    return np.sqrt(variance), mean


def _count(a: Any, axes: Shape) -> int:
    count = 1
    for axis in axes:
        count *= a.shape[axis]
    return count


def _index(find: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, axes, _: find(a, axis=axes[0], keepdims=True) if axes else np.zeros(a.shape, np.int64)


def _value_and_index(reduce: Callable[..., Any], find: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, axes, _: (reduce(a, axes, None), find(a, axes, None))


def _count_nonzero(a: Any, axes: Shape, _: Any) -> Any:
    if len(axes) == a.ndim:
        return np.count_nonzero(a)  # much faster than over axes
    return np.count_nonzero(a, axis=axes, keepdims=True)


def _norm(a: Any, axes: Shape, order: float) -> Any:
    if order == 2 and len(axes) == a.ndim:
        row = a.ravel("K")
        return np.sqrt(np.dot(row, row))
    if order == 2:
        return np.sqrt(np.add.reduce(a * a, axis=axes, keepdims=True))
    if order == 1:
        return np.add.reduce(np.abs(a), axis=axes, keepdims=True)
    if order == float("inf"):
        return np.maximum.reduce(np.abs(a), axis=axes, keepdims=True, initial=0)
    return np.power(np.add.reduce(np.power(np.abs(a), order), axis=axes, keepdims=True), 1 / order)


R = ReductionRule
_max, _min, _argmax, _argmin = _of(np.maximum), _of(np.minimum), _index(np.argmax), _index(np.argmin)

# fmt: off
_TABLE = (
    Reduction("sum",    _of(np.add),            "Sum",      R.TOTAL,
              gradient="g"),
    Reduction("nansum", _nansum,                "NumberSum", R.TOTAL,
              gradient="where(a == a, g, 0)"),
    Reduction("prod",   _product,               "Product",  R.TOTAL,
              gradient="without_each(a, axes) * g"),
    Reduction("mean",   lambda a, axes, _: np.add.reduce(a, axis=axes, keepdims=True) / a.dtype.type(_count(a, axes)),
              "Mean",   R.MEAN,
              gradient="g / count"),
    Reduction("var",    lambda *given: _variance_and_mean(*given)[0], "Variance", R.MEAN,
              gradient="g * (2 * variance_share(count, p)) * (a - mean(a, axes, True))"),
    Reduction("std",    lambda *given: _deviation_and_mean(*given)[0], "Deviation", R.MEAN,
              gradient="where(y == 0, 0, g / y) * variance_share(count, p) * (a - mean(a, axes, True))"),
    Reduction("norm",   _norm,                  "Norm",     R.MEAN,
              gradient="norm_gradient(g, a, y, axes, p)"),
    Reduction("amax",   _max,                   "Maximum",  R.SAME, empty=False,
              gradient="shared(g, a == y, axes)"),
    Reduction("amin",   _min,                   "Minimum",  R.SAME, empty=False,
              gradient="shared(g, a == y, axes)"),
    Reduction("argmax", _argmax,                "ArgMaximum", R.INDEX, empty=False,
              gradient=""),
    Reduction("argmin", _argmin,                "ArgMinimum", R.INDEX, empty=False,
              gradient=""),
    Reduction("max",    _value_and_index(_max, _argmax), "MaximumAndIndex", R.SAME_AND_INDEX, empty=False,
              gradient="at_index(g, a, z, axes)"),
    Reduction("min",    _value_and_index(_min, _argmin), "MinimumAndIndex", R.SAME_AND_INDEX, empty=False,
              gradient="at_index(g, a, z, axes)"),
    # Two results at once, of what requires no gradients: `ops/combined_reductions.py` makes others of the lines above.
    Reduction("nanmean", _nanmean,              "NumberMean", R.MEAN,
              gradient=""),
    Reduction("aminmax", lambda a, axes, _: (_min(a, axes, None), _max(a, axes, None)), "Extremes", R.SAME_TWICE,
              empty=False, gradient=""),
    Reduction("var_mean", _variance_and_mean,   "VarianceAndMean", R.MEAN_TWICE,
              gradient=""),
    Reduction("std_mean", _deviation_and_mean,  "DeviationAndMean", R.MEAN_TWICE,
              gradient=""),
    Reduction("any",    _test(np.logical_or),   "Any",      R.TEST,
              gradient=""),
    Reduction("all",    _test(np.logical_and),  "All",      R.TEST,
              gradient=""),
    Reduction("count_nonzero", _count_nonzero,      "Count",    R.COUNT,
              gradient=""),
)
# fmt: on

REDUCTIONS = {reduction.name: reduction for reduction in _TABLE}
