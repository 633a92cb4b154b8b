"""Whether tensors are equal, or nearly so."""

from __future__ import annotations

from ...core.dtypes import get_default_dtype
from ...core.needed_tensors import layout_of
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError
from ...places.tables_with_gradients.elementwise_table import BY_NAME
from ..arguments.scalars import truth
from ..copying.copying import to
from ..elementwise import elementwise_functions as each
from ..elementwise.elementwise import apply
from ..reductions.reductions import all as all_of

__all__ = ["allclose", "equal", "isclose"]


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and elements are the same. Waits until the elements are there.

    Raises:
        DeviceMismatchError: the tensors are on different devices.
    """
    return layout_of(input).shape == layout_of(other).shape and truth(all_of(each.eq(input, other)))


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether each element differs by ``atol + rtol * abs(other)`` at most; infinities only equal themselves.

    Args:
        input: a tensor.
        other: a tensor of the same element type, whose shape broadcasts with the other's.
        rtol: the tolerance relative to ``other``.
        atol: the absolute tolerance.
        equal_nan: whether NaN counts as close to NaN.

    Raises:
        TypeError: the element types differ.
        ValueError: the shapes do not broadcast, or a tolerance is negative.
    """
    for one in (input, other):
        if not isinstance(one, Tensor):
            raise TypeError(f"isclose: both are tensors, and one is a {type(one).__name__}")
    if rtol < 0 or atol < 0:
        raise ArgumentError(f"isclose: tolerances are 0 or more, not {rtol} and {atol}")
    if input.dtype is not other.dtype:
        raise ElementTypeError(f"isclose: the tensors are of {input.dtype!r} and {other.dtype!r}; convert one")
    close = each.eq(input, other)
    if input.dtype.kind != "f":  # differences of unsigned integers would wrap around
        input, other = to(input, get_default_dtype()), to(other, get_default_dtype())
    bound = apply(_ADD, apply(_MUL, each.abs(other), rtol), atol)
    near = each.le(each.abs(apply(_SUB, input, other)), bound)
    near = each.bitwise_and(each.bitwise_and(near, each.isfinite(input)), each.isfinite(other))
    close = each.bitwise_or(close, near)
    if not equal_nan:
        return close
    return each.bitwise_or(close, each.bitwise_and(each.isnan(input), each.isnan(other)))


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close: see ``isclose``, whose arguments and errors these are. Waits for the elements."""
    return truth(all_of(isclose(input, other, rtol, atol, equal_nan)))


_ADD, _SUB, _MUL = BY_NAME["add"], BY_NAME["sub"], BY_NAME["mul"]
