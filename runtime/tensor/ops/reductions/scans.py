"""Scans: what the elements up to each one amount to, along a dimension."""

from __future__ import annotations

from typing import Any

from ...core.casting_seam import for_rows, seam
from ...core.dtypes import dtype as ElementType  # noqa: N812 - `dtype` is an argument here
from ...core.dtypes import dtype_of, int64
from ...core.named_results import ValuesAndIndices
from ...core.needed_tensors import layout_of
from ...core.printed_names import printed_as
from ...core.shapes import normal_axis
from ...core.tensor import Tensor
from ...core.tensor_errors import ElementTypeError
from ..copying.copying import to
from ..elementwise.results import in_place, into
from .along import are_rows, as_rows, from_rows, rows_as_they_lie, run_rows

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"]


@printed_as("CumsumBackward0")
def cumsum(
    input: Tensor, dim: int | None = None, *, axis: int | None = None, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """The sum of the elements up to each one, along a dimension. Integers and bool add up in int64.

    Args:
        input: the tensor.
        dim: the dimension; ``axis`` means the same.
        dtype: the element type of the result, to which elements are converted first.
        out: where to write the result; it is given the result's shape.

    Raises:
        IndexError: there is no such dimension.
        TypeError: the result would be of bool.
    """
    return _total("cumsum", input, dim if axis is None else axis, dtype, out)


@printed_as("CumprodBackward0")
def cumprod(
    input: Tensor, dim: int | None = None, *, axis: int | None = None, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """The product of the elements up to each one, along a dimension. Integers and bool multiply in int64.

    Arguments and errors are those of ``cumsum``.
    """
    return _total("cumprod", input, dim if axis is None else axis, dtype, out)


@printed_as("LogcumsumexpBackward0")
def logcumsumexp(
    input: Tensor, dim: int | None = None, *, axis: int | None = None, out: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum of the exponentials of the elements up to each one, along a dimension.

    Arguments and errors are those of ``cumsum``.

    Raises:
        TypeError: the elements are not floating-point numbers.
    """
    if layout_of(input).dtype.kind != "f":
        raise ElementTypeError(f"logcumsumexp() needs floating-point elements and this tensor has {input.dtype!r}")
    return into(out, _scanned("logcumsumexp", input, dim if axis is None else axis, (input.dtype,))[0], exact=True)


@printed_as("CummaxBackward0")
def cummax(
    input: Tensor, dim: int | None = None, *, axis: int | None = None, out: tuple[Tensor, Tensor] | None = None
) -> ValuesAndIndices:
    """The largest element up to each one, along a dimension, and where it is: of equals the last, NaN before anything.

    ``out`` is two tensors, for values and indices. Other arguments and errors are those of ``cumsum``.
    """
    found = _scanned("cummax", input, dim if axis is None else axis, (layout_of(input).dtype, int64))
    return into(out, ValuesAndIndices(*found), exact=True)


@printed_as("CumminBackward0")
def cummin(
    input: Tensor, dim: int | None = None, *, axis: int | None = None, out: tuple[Tensor, Tensor] | None = None
) -> ValuesAndIndices:
    """The smallest element up to each one, along a dimension, and where it is: of equals the last, NaN before anything.

    Arguments and errors are those of ``cummax``.
    """
    found = _scanned("cummin", input, dim if axis is None else axis, (layout_of(input).dtype, int64))
    return into(out, ValuesAndIndices(*found), exact=True)


def _total(name: str, input: Tensor, dim: int | None, dtype: Any, out: Tensor | None) -> Tensor:
    if dtype is not None:
        kind = dtype_of(dtype)
    elif out is not None:
        kind = layout_of(out).dtype
    else:
        input = for_rows(name, input)
        kind = layout_of(input).dtype
        kind = kind if kind.kind == "f" else int64
    if kind.kind == "b":
        raise ElementTypeError(f"{name}() adds or multiplies numbers; its result cannot be of {kind!r}")
    return into(out, _scanned(name, to(input, kind), dim, (kind,))[0], exact=True)


def _scanned(name: str, input: Tensor, dim: int | None, kinds: tuple[ElementType, ...]) -> list[Tensor]:
    if dim is None:
        raise TypeError(f"{name}() needs a dimension: dim=")
    plans = input._layout.plans
    plan = plans.get((name, dim, kinds)) if type(dim) is int else None
    if plan is not None and not seam.on:
        return plan(input)  # type: ignore[no-any-return]
    axis = normal_axis(dim, input.ndim)
    if type(dim) is int and are_rows(axis, input._layout):
        plans[name, dim, kinds] = rows_as_they_lie(name, [(kind, input.shape) for kind in kinds], [input._layout])
    rows = as_rows(input, axis)
    return [from_rows(each, input.shape, axis) for each in run_rows(name, kinds, tuple(rows.shape), [rows])]


cumsum_ = in_place(cumsum)
cumprod_ = in_place(cumprod, keeps_input=True)
