"""Fills in place, with one value."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...core.tensor_errors import ShapeError
from ...places.tables_with_gradients.elementwise_table import COPY
from ..arguments.scalars import item
from .elementwise import apply, apply_into

__all__ = ["fill_", "zero_"]


def fill_(input: Tensor, value: Any) -> Tensor:
    """Write ``value``, a number or a tensor without dimensions, everywhere.

    Raises:
        ValueError: the element type does not hold ``value``, or ``value`` has dimensions.
    """
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(f"fill_: the value has {value.ndim} dimensions, and must have none")
    if isinstance(value, Tensor) and value._layout.place is not input._layout.place:
        value = item(value)
    elif isinstance(value, Tensor) and value._storage is input._storage:
        value = apply(COPY, value)
    return apply_into(COPY, input, value)


def zero_(input: Tensor) -> Tensor:
    """Write 0 everywhere."""
    return apply_into(COPY, input, 0)
