"""Exponentials that are normalised along a dimension."""

from __future__ import annotations

from typing import Any

from ...core.casting_seam import for_rows, seam
from ...core.dtypes import dtype_of
from ...core.needed_tensors import layout_of
from ...core.printed_names import printed_as
from ...core.shapes import normal_axes, normal_axis
from ...core.tensor import Tensor
from ...core.tensor_errors import ElementTypeError
from ...places.tables_with_gradients.elementwise_table import BY_NAME
from ..arguments.promotion import floating
from ..copying.copying import clone, to
from ..elementwise import elementwise_functions as each
from ..elementwise.elementwise import apply
from ..elementwise.results import into
from ..shapes.reshape import reshape
from ..shapes.views import squeeze
from .along import are_rows, as_rows, from_rows, rows_as_they_lie, run_rows
from .reduction_call import Axes
from .reductions import amax
from .reductions import sum as sum_of

__all__ = ["log_softmax", "logsumexp", "softmax"]


@printed_as("SoftmaxBackward0")
def softmax(input: Tensor, dim: int, dtype: Any = None, *, out: Tensor | None = None) -> Tensor:
    """``exp(input)`` divided by its sum along a dimension.

    Args:
        input: a floating-point tensor.
        dim: the dimension.
        dtype: the element type of the result, to which elements are converted first.
        out: where to write the result; it is given the result's shape.

    Raises:
        IndexError: there is no such dimension.
        TypeError: the elements are not floating-point numbers.
    """
    return into(out, _normalised("softmax", input, dim, dtype), exact=True)


@printed_as("LogSoftmaxBackward0")
def log_softmax(input: Tensor, dim: int, dtype: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of ``softmax``, exact also where that is nearly 0.

    Arguments and errors are those of ``softmax``.
    """
    return into(out, _normalised("log_softmax", input, dim, dtype), exact=True)


def _normalised(name: str, input: Tensor, dim: int, dtype: Any) -> Tensor:
    if dtype is None and type(dim) is int and not seam.on:
        plan = layout_of(input).plans.get((name, dim))
        if plan is not None:
            return plan(input)[0]  # type: ignore[no-any-return]
    input = for_rows(name, input) if dtype is None else input
    kind = input.dtype if dtype is None else dtype_of(dtype)
    axis = normal_axis(dim, input.ndim)
    if kind.kind != "f" and not input.numel() and dtype is None:
        return clone(input)
    if kind.kind != "f":
        raise ElementTypeError(f"{name}() needs floating-point elements and this tensor has {kind!r}; name a dtype")
    if kind is input.dtype and type(dim) is int and are_rows(axis, input._layout):
        input._layout.plans[name, dim] = rows_as_they_lie(name, [(kind, input.shape)], [input._layout])
    rows = as_rows(to(input, kind), axis)
    return from_rows(run_rows(name, (kind,), tuple(rows.shape), [rows])[0], input.shape, axis)


@printed_as("LogsumexpBackward0")
def logsumexp(
    input: Tensor, dim: Axes = None, keepdim: bool = False, *, axis: Axes = None, out: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum of the elements' exponentials, along dimensions, without overflow.

    Args:
        input: a tensor; integers and bool become the default dtype.
        dim: a dimension, or several; ``axis`` means the same.
        keepdim: whether reduced dimensions stay, with length 1.
        out: where to write the result; it is given the result's shape.

    Raises:
        TypeError: no dimension is named.
        IndexError: there is no such dimension.
    """
    dim = dim if axis is None else axis
    if dim is None:
        raise TypeError("logsumexp() missing 1 required positional argument: 'dim'")
    input = for_rows("logsumexp", input)
    x = to(input, floating(layout_of(input).dtype))
    axes = normal_axes(dim, x.ndim)
    if 0 in x.shape:
        made = each.log(sum_of(each.exp(x), axes, True))
    else:
        most = amax(x, axes, True)
        most = apply(BY_NAME["where"], each.isinf(most), 0.0, most)
        made = each.log(sum_of(each.exp(apply(BY_NAME["sub"], x, most)), axes, True))
        made = apply(BY_NAME["add"], made, most)
    if not keepdim:
        made = squeeze(made, axes) if axes else reshape(made, ())
    return into(out, made)
