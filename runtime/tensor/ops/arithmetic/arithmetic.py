"""Arithmetic beyond the table: with more arguments than operands, or with different kinds of division."""

from __future__ import annotations

from typing import Any

from ...core.needed_tensors import no_tensor
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError
from ...places.tables_with_gradients.elementwise_table import BY_NAME, Elementwise
from ..arguments.promotion import common_dtype, result_types
from ..elementwise.elementwise import apply, apply2, apply_into, apply_into2, apply_out, run
from ..indexing.indexing import nonzero

__all__ = ["add", "clamp", "clamp_", "div", "positive", "result_type", "sub", "where"]

_ADD, _SUB, _WHERE = BY_NAME["add"], BY_NAME["sub"], BY_NAME["where"]
_ADD_SCALED, _SUB_SCALED = BY_NAME["add_scaled"], BY_NAME["sub_scaled"]
_QUOTIENTS = {None: BY_NAME["div"], "floor": BY_NAME["floor_divide"], "trunc": BY_NAME["trunc_divide"]}


def add(input: Any, other: Any, *, alpha: bool | float = 1, out: Tensor | None = None) -> Tensor:
    """``input + alpha * other``, element by element.

    Args:
        input: a tensor or a number.
        other: a tensor or a number; both broadcast together.
        alpha: a number of no higher kind (bool, integer, float) than the result.
        out: where to write the result; it is given the result's shape.

    Raises:
        TypeError: ``alpha`` is of a higher kind, or an operand is neither a tensor nor a number.
        ValueError: the shapes do not broadcast.
        DeviceMismatchError: the operands are on different devices.
    """
    if type(alpha) is int and alpha == 1:
        return apply2(_ADD, input, other) if out is None else apply_out(_ADD, out, input, other)
    return run(_ADD_SCALED, out, input, other, _factor(_ADD, input, other, alpha))


def add_(input: Tensor, other: Any, *, alpha: bool | float = 1) -> Tensor:
    """``add``, written to ``input`` itself. Raises as ``add`` does, and where the result does not fit ``input``."""
    if type(alpha) is int and alpha == 1:
        return apply_into2(_ADD, input, other)
    return apply_into(_ADD_SCALED, input, input, other, _factor(_ADD, input, other, alpha))


def sub(input: Any, other: Any, *, alpha: bool | float = 1, out: Tensor | None = None) -> Tensor:
    """``input - alpha * other``, element by element. Arguments and errors are those of ``add``.

    Raises:
        TypeError: as ``add``; also if an operand is of bool.
    """
    if type(alpha) is int and alpha == 1:
        return apply2(_SUB, input, other) if out is None else apply_out(_SUB, out, input, other)
    return run(_SUB_SCALED, out, input, other, _factor(_SUB, input, other, alpha))


def sub_(input: Tensor, other: Any, *, alpha: bool | float = 1) -> Tensor:
    """``sub``, written to ``input`` itself. Raises as ``sub`` does, and where the result does not fit ``input``."""
    if type(alpha) is int and alpha == 1:
        return apply_into2(_SUB, input, other)
    return apply_into(_SUB_SCALED, input, input, other, _factor(_SUB, input, other, alpha))


def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """The quotient ``input / other``, element by element. Other arguments and errors are those of ``add``.

    Args:
        rounding_mode: None for the true quotient, which is floating-point; ``floor`` rounds it down, ``trunc`` towards
            0, and both keep integers.

    Raises:
        ValueError: there is no such rounding mode, or the shapes do not broadcast.
        ZeroDivisionError: integers are rounded and divided by 0, on the CPU.
    """
    operation = _quotient(rounding_mode)
    return apply2(operation, input, other) if out is None else apply_out(operation, out, input, other)


def div_(input: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """``div``, written to ``input`` itself. Raises as ``div`` does, and where the result does not fit ``input``."""
    return apply_into2(_quotient(rounding_mode), input, other)


def positive(input: Tensor) -> Tensor:
    """``+input``: the tensor itself, as in torch.

    Raises:
        TypeError: the elements are of bool.
    """
    try:
        if input._layout.dtype.kind != "b":
            return input
    except AttributeError:
        raise no_tensor(input) from None
    raise ElementTypeError("The `+` operator, on a bool tensor is not supported.")


def clamp(
    input: Tensor,
    min: Any = None,
    max: Any = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Each element kept within limits: below ``min`` it becomes ``min``, above ``max`` it becomes ``max``.

    Args:
        input: the tensor.
        min: a number, a tensor that broadcasts, or None for no lower limit.
        max: a number, a tensor that broadcasts, or None for no upper limit.
        out: where to write the result; it is given the result's shape.

    Raises:
        ValueError: both limits are left out, or the shapes do not broadcast.
        TypeError: the elements are of bool.
    """
    operation, limits = _limits(min, max)
    return run(operation, out, input, *limits)


def clamp_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """``clamp``, written to ``input`` itself. Raises as ``clamp`` does."""
    operation, limits = _limits(min, max)
    return apply_into(operation, input, input, *limits)


def _limits(low: Any, high: Any) -> tuple[Elementwise, tuple[Any, ...]]:
    if low is None and high is None:
        raise ArgumentError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if high is None:
        return BY_NAME["clamp_min"], (low,)
    if low is None:
        return BY_NAME["clamp_max"], (high,)
    return BY_NAME["clamp_both"], (low, high)


def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Tensor | None = None) -> Any:
    """The elements of ``input`` where ``condition`` is True, else those of ``other``; either may be a number.

    With ``condition`` alone: the indices of its True elements, a tensor for each dimension. That waits for the device.

    Raises:
        TypeError: ``condition`` is not of bool.
        ValueError: the shapes do not broadcast.
        DeviceMismatchError: the operands are on different devices.
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if out is not None and out.dtype is not common_dtype((input, other)):
        raise ElementTypeError(
            f"where: the result is of {common_dtype((input, other))!r}, and out= names a tensor of {out.dtype!r}"
        )
    return run(_WHERE, out, condition, input, other)


def where_method(input: Tensor, condition: Tensor, other: Any) -> Tensor:
    """``where``, whose errors these are: the tensor's elements where ``condition`` is True, else those of ``other``."""
    return apply(_WHERE, condition, input, other)


def result_type(tensor: Any, other: Any) -> Any:
    """The element type in which two operands, tensors or numbers, combine."""
    return common_dtype((tensor, other))


def _factor(operation: Elementwise, input: Any, other: Any, alpha: Any) -> Any:
    """``alpha``, which must be of no higher kind than the result, as a number of the result's kind."""
    types, _ = result_types(operation, (input, other))
    kind = types[0].kind
    if kind != "f" and isinstance(alpha, float):
        raise ElementTypeError(
            f"For integral input tensors, argument alpha must not be a floating point number: {operation.name} results "
            f"in {types[0]!r}, and alpha is {alpha!r}"
        )
    if kind != "b" and isinstance(alpha, bool):
        raise ElementTypeError(f"Boolean alpha only supported for Boolean results: {operation.name} gives {types[0]!r}")
    return bool(alpha) if kind == "b" else alpha


def _quotient(rounding_mode: str | None) -> Elementwise:
    if rounding_mode not in _QUOTIENTS:
        raise ArgumentError(f"div: rounding_mode is None, 'floor' or 'trunc', not {rounding_mode!r}")
    return _QUOTIENTS[rounding_mode]
