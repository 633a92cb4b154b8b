"""Reductions made of others: two results at once, and those that leave NaN out."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import dtype_of
from ...core.named_results import Extremes
from ...core.needed_tensors import layout_of
from ...core.tensor import Tensor
from ...core.tensor_errors import ElementTypeError
from ...places.tables_with_gradients.elementwise_table import BY_NAME
from ..copying.copying import to
from ..elementwise import elementwise_functions as each
from ..elementwise.elementwise import apply
from ..elementwise.results import into
from .reduction_call import Axes, reduced, reduced_to_all
from .reductions import mean, std, var
from .reductions import sum as sum_of

__all__ = ["aminmax", "nanmean", "nansum", "std_mean", "var_mean"]

_DIV = BY_NAME["div"]


def aminmax(
    input: Tensor,
    *,
    dim: int | None = None,
    keepdim: bool = False,
    axis: int | None = None,
    out: tuple[Tensor, Tensor] | None = None,
) -> Extremes:
    """The smallest and the largest element; NaN if there is one.

    Args:
        input: the tensor.
        dim: a dimension, or None for all; ``axis`` means the same.
        keepdim: whether the reduced dimension stays, with length 1.
        out: where to write both, two tensors, which are given the result's shape.

    Raises:
        IndexError: there is no such dimension.
        ValueError: there are no elements to choose from.
    """
    dim = dim if axis is None else axis
    if layout_of(input).tracked:
        return into(out, Extremes(*(reduced(name, input, dim, keepdim) for name in ("amin", "amax"))), exact=True)
    return into(out, Extremes(*reduced_to_all("aminmax", input, dim, keepdim)), exact=True)


def var_mean(
    input: Tensor,
    dim: Axes = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    axis: Axes = None,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The variance and the mean: see ``var``, whose arguments and errors these are."""
    return _with_mean(var, input, dim if axis is None else axis, keepdim, unbiased, correction)


def std_mean(
    input: Tensor,
    dim: Axes = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    axis: Axes = None,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean: see ``std``, whose arguments and errors these are."""
    return _with_mean(std, input, dim if axis is None else axis, keepdim, unbiased, correction)


def _with_mean(
    spread: Any, input: Tensor, dim: Axes, keepdim: bool, unbiased: bool, correction: float | None
) -> tuple[Tensor, Tensor]:
    if isinstance(dim, bool):  # var_mean(unbiased), as in old programs
        dim, unbiased = None, dim
    if layout_of(input).tracked:
        return spread(input, dim, unbiased, keepdim, correction=correction), mean(input, dim, keepdim)
    parameter = float((1 if unbiased else 0) if correction is None else correction)
    dim, name = tuple(dim) if isinstance(dim, list) else dim, f"{spread.__name__}_mean"
    return tuple(reduced_to_all(name, input, dim, keepdim, parameter))  # type: ignore[return-value]


def nansum(
    input: Tensor,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    axis: Axes = None,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The sum of the elements that are not NaN: see ``sum``, whose arguments and errors these are.

    Raises:
        TypeError: floating-point numbers would add up to integers.
    """
    dim = dim if axis is None else axis
    if layout_of(input).dtype.kind != "f":
        return sum_of(input, dim, keepdim, dtype=dtype, out=out)
    asked = layout_of(out).dtype if dtype is None and out is not None else dtype
    if asked is not None and dtype_of(asked).kind != "f":
        raise ElementTypeError(f"nansum() of {input.dtype!r} gives floating-point numbers, not {dtype_of(asked)!r}")
    return reduced("nansum", input, dim, keepdim, dtype=dtype, out=out)


def nanmean(
    input: Tensor,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    axis: Axes = None,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The mean of the elements that are not NaN: see ``mean``, whose arguments and errors these are."""
    dim = dim if axis is None else axis
    if layout_of(input).dtype.kind != "f":
        return mean(input, dim, keepdim, dtype=dtype, out=out)
    if not input._layout.tracked:
        return into(out, reduced("nanmean", input, dim, keepdim, dtype=dtype))
    total = nansum(input, dim, keepdim, dtype=dtype)
    counted = sum_of(each.eq(input, input), dim, keepdim)
    return into(out, to(apply(_DIV, total, counted), total.dtype))
