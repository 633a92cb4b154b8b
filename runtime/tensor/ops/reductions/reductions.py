"""Reductions: fewer elements made of many, along dimensions or of all. What each computes is a line of a table."""

from __future__ import annotations

from math import inf
from typing import Any

from ...core.dtypes import bool_, uint8
from ...core.named_results import ValuesAndIndices
from ...core.needed_tensors import layout_of
from ...core.shapes import normal_axes, normal_axis
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError, NoElementsError
from ...places.tables_with_gradients.elementwise_table import BY_NAME, Elementwise
from ...places.tables_with_gradients.reduction_table import REDUCTIONS
from ..copying.copying import to
from ..elementwise.elementwise import apply, run
from ..elementwise.results import into
from ..shapes.reshape import reshape
from .reduction_call import Axes, reduced, reduced_to_all

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "norm",
    "prod",
    "std",
    "sum",
    "var",
]

_ABS, _NE, _MAXIMUM, _MINIMUM = (BY_NAME[name] for name in ("abs", "ne", "maximum", "minimum"))


def sum(
    input: Tensor,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
    axis: Axes = None,
    keepdims: bool = False,
) -> Tensor:
    """The sum of the elements.

    Integers and bool add up in int64, floats in their own type (the half types in float32).

    Args:
        input: the tensor.
        dim: a dimension, several, or None for all; ``axis`` means the same.
        keepdim: whether reduced dimensions stay, with length 1; ``keepdims`` means the same.
        dtype: the element type of the result, to which elements are converted first.
        out: where to write the result; it is given the result's shape.

    Raises:
        IndexError: there is no such dimension.
    """
    return reduced("sum", input, dim if axis is None else axis, keepdim or keepdims, dtype=dtype, out=out)


def prod(
    input: Tensor,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
    axis: Axes = None,
    keepdims: bool = False,
) -> Tensor:
    """The product of the elements.

    Integers and bool multiply in int64, floats in their own type (the half types in float32).

    Arguments and errors are those of ``sum``.
    """
    return reduced("prod", input, dim if axis is None else axis, keepdim or keepdims, dtype=dtype, out=out)


def mean(
    input: Tensor,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
    axis: Axes = None,
    keepdims: bool = False,
) -> Tensor:
    """The arithmetic mean of the elements; of none it is NaN.

    The result has the elements' type. Arguments and errors are those of ``sum``.

    Raises:
        TypeError: the elements are integers or bool; name a floating-point ``dtype``.
    """
    return reduced("mean", input, dim if axis is None else axis, keepdim or keepdims, dtype=dtype, out=out)


def var(
    input: Tensor,
    dim: Axes = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
    axis: Axes = None,
    keepdims: bool = False,
) -> Tensor:
    """The variance: the mean squared distance from the mean, of floating-point elements.

    Other arguments and errors are those of ``sum``.

    Args:
        unbiased: whether to divide by the number of elements less 1, instead of by their number.
        correction: what to subtract from the number of elements instead.

    Raises:
        TypeError: the elements are not floating-point.
    """
    if isinstance(dim, bool):  # var(unbiased), as in old programs
        dim, unbiased = None, dim
    parameter = float((1 if unbiased else 0) if correction is None else correction)
    return reduced("var", input, dim if axis is None else axis, keepdim or keepdims, parameter, out=out)


def std(
    input: Tensor,
    dim: Axes = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
    axis: Axes = None,
    keepdims: bool = False,
) -> Tensor:
    """The standard deviation: the square root of ``var``.

    Arguments and errors are those of ``var``.
    """
    if isinstance(dim, bool):  # std(unbiased), as in old programs
        dim, unbiased = None, dim
    parameter = float((1 if unbiased else 0) if correction is None else correction)
    return reduced("std", input, dim if axis is None else axis, keepdim or keepdims, parameter, out=out)


def norm(
    input: Tensor,
    p: Any = 2,
    dim: Axes = None,
    keepdim: bool = False,
    dtype: Any = None,
    *,
    out: Tensor | None = None,
    axis: Axes = None,
    keepdims: bool = False,
) -> Tensor:
    """The ``p``-norm of the elements as a vector: ``sum(abs(input)**p)**(1/p)``.

    Other arguments and errors are those of ``sum``.

    Args:
        p: a number; 0 counts the elements that differ from 0, an infinity takes the largest (or, if negative, the
            smallest) absolute value, and ``fro`` is 2.

    Raises:
        ValueError: ``p`` names a norm of matrices, or is negative and there are no elements.
        TypeError: the elements are not floating-point.
    """
    if isinstance(p, str) and p != "fro":
        raise ArgumentError(f"norm: there are norms of vectors here, by numbers and 'fro'; {p!r} is none of them")
    order = 2.0 if p in ("fro", None) else float(p)
    REDUCTIONS["norm"].types(layout_of(input).dtype)
    input = input if dtype is None else to(input, dtype)
    if out is not None and layout_of(out).dtype is not input.dtype:
        raise ElementTypeError(f"norm: the result is of {input.dtype!r}, and out= names a tensor of {out.dtype!r}")
    dim, keepdim = dim if axis is None else axis, keepdim or keepdims
    if (order < 0 or order == inf) and 0 in [input.shape[each] for each in normal_axes(dim, input.ndim)]:
        raise NoElementsError(f"norm: of no elements there is none of the order {order}")
    if order not in (0.0, -inf):
        return reduced("norm", input, dim, keepdim, order, out=out)
    if order:
        return reduced("amin", apply(_ABS, input), dim, keepdim, out=out)
    return into(out, reduced("sum", to(apply(_NE, input, 0), input.dtype), dim, keepdim))


def amax(
    input: Tensor,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    axis: Axes = None,
    keepdims: bool = False,
) -> Tensor:
    """The largest element; NaN if there is one.

    The result has the elements' type. Arguments and errors are those of ``sum``.

    Raises:
        ValueError: there are no elements to choose from; an IndexError too.
    """
    return reduced("amax", input, dim if axis is None else axis, keepdim or keepdims, out=out)


def amin(
    input: Tensor,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    axis: Axes = None,
    keepdims: bool = False,
) -> Tensor:
    """The smallest element; NaN if there is one.

    The result has the elements' type.

    Arguments and errors are those of ``amax``.
    """
    return reduced("amin", input, dim if axis is None else axis, keepdim or keepdims, out=out)


def max(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    axis: Any = None,
    keepdims: bool = False,
    out: Any = None,
) -> Any:
    """The largest element; or those along a dimension, with their positions; or the larger of each pair of elements.

    Args:
        input: the tensor.
        dim: a dimension; ``axis`` means the same. A tensor as ``dim`` is ``other``, unless ``keepdim``.
        keepdim: whether the reduced dimension stays, with length 1; ``keepdims`` means the same.
        other: a tensor whose shape broadcasts with the other's.
        out: where to write the result, with ``dim`` two tensors; they are given the result's shape.

    Returns:
        Without ``dim`` a tensor without dimensions. With ``dim`` a named tuple of ``values`` and ``indices`` (int64):
        of equals the first, and NaN before anything. With ``other`` a tensor of the common shape.

    Raises:
        IndexError: there is no such dimension.
        ValueError: there are no elements to choose from; an IndexError too.
    """
    if dim is axis is other is None and isinstance(input, Tensor):
        return into(out, reduced("amax", input, None, False))
    return _extreme("max", _MAXIMUM, input, dim, axis, keepdim or keepdims, other, out)


def min(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    axis: Any = None,
    keepdims: bool = False,
    out: Any = None,
) -> Any:
    """The smallest element; or those along a dimension, with their positions; or the smaller of each pair of elements.

    It takes, returns and raises what ``max`` does.
    """
    if dim is axis is other is None and isinstance(input, Tensor):
        return into(out, reduced("amin", input, None, False))
    return _extreme("min", _MINIMUM, input, dim, axis, keepdim or keepdims, other, out)


def _extreme(
    name: str, pairs: Elementwise, input: Tensor, dim: Any, axis: Any, keepdim: bool, other: Tensor | None, out: Any
) -> Any:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: the first argument is a tensor, not a {type(input).__name__}")
    asked = dim if axis is None else axis
    if other is None and isinstance(dim, Tensor) and not keepdim:
        asked, other = None, asked
    if other is not None:
        return run(pairs, out, input, other)
    found = reduced_to_all(name, input, normal_axis(asked, input.ndim), keepdim)
    return into(out, ValuesAndIndices(*found), exact=True)


def argmax(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    keepdims: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Where the largest element is, as int64: of equals the first, and NaN before anything.

    Other arguments and errors are those of ``amax``.

    Args:
        dim: a dimension, or None for the position in the flattened tensor; ``axis`` means the same.

    Raises:
        ValueError: there are no elements to choose from; an IndexError too.
        TypeError: the elements are of bool.
    """
    return _position("argmax", input, dim if axis is None else axis, keepdim or keepdims, out)


def argmin(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    keepdims: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Where the smallest element is, as int64: of equals the first, and NaN before anything.

    Arguments and errors are those of ``argmax``.
    """
    return _position("argmin", input, dim if axis is None else axis, keepdim or keepdims, out)


def _position(name: str, input: Tensor, asked: int | None, kept: bool, out: Tensor | None) -> Tensor:
    if asked is not None:
        return reduced(name, input, normal_axis(asked, input.ndim), kept, out=out)
    flat = reduced(name, input if len(layout_of(input).shape) == 1 else reshape(input, -1), 0, False)
    if out is None and not kept:
        return flat
    return into(out, reshape(flat, (1,) * input.ndim) if kept else flat, exact=True)


def any(
    input: Tensor,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    axis: Axes = None,
    keepdims: bool = False,
) -> Tensor:
    """Whether an element differs from 0.

    The result is of bool; of uint8 for uint8, which stood for bool once. Arguments and errors are those of ``sum``.
    """
    return reduced("any", _tested(input, out), dim if axis is None else axis, keepdim or keepdims, out=out)


def all(
    input: Tensor,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    axis: Axes = None,
    keepdims: bool = False,
) -> Tensor:
    """Whether all elements differ from 0.

    The result is of bool; of uint8 for uint8, which stood for bool once.

    Arguments and errors are those of ``any``.
    """
    return reduced("all", _tested(input, out), dim if axis is None else axis, keepdim or keepdims, out=out)


def _tested(input: Tensor, out: Tensor | None) -> Tensor:
    """What ``all`` and ``any`` work on: of uint8 bool, where ``out`` says that the result is to be of bool."""
    return to(input, bool_) if out is not None and layout_of(out).dtype is bool_ and input.dtype is uint8 else input


def count_nonzero(input: Tensor, dim: Axes = None, *, axis: Axes = None) -> Tensor:
    """How many elements differ from 0, as int64. Arguments and errors are those of ``sum``."""
    return reduced("count_nonzero", input, dim if axis is None else axis, False)
