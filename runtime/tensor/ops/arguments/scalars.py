"""Tensors as Python's values: numbers, nested lists, truth."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.needed_tensors import no_tensor
from ...core.tensor import Tensor
from ...core.tensor_errors import ShapeError
from ...places.place import place_at


def item(input: Tensor) -> bool | int | float:
    """The only element as Python's number. Waits until it is there.

    Raises:
        ValueError: there is not exactly one element.
    """
    layout = input._layout
    if layout.numel != 1:
        raise ShapeError(f"a Tensor with {layout.numel} elements cannot be converted to Scalar")
    value: bool | int | float = place_at(layout).read(input).item()
    return float(value) if layout.dtype.kind == "f" else value


def tolist(input: Tensor) -> Any:
    """The elements as nested lists of Python's numbers; of a tensor without dimensions, one number. Waits until they
    are there.
    """
    array = place_at(input._layout).read(input)
    return (array.astype("float32") if input._layout.dtype.is_half else array).tolist()


def truth(input: Tensor) -> bool:
    """Whether the only element differs from 0. Waits until it is there.

    Raises:
        ValueError: there is not exactly one element.
    """
    try:
        layout = input._layout
    except AttributeError:
        raise no_tensor(input) from None
    if layout.numel != 1:
        count = "more than one value" if layout.numel else "no values"
        raise ShapeError(f"Boolean value of Tensor with {count} is ambiguous; ask for .any() or .all()")
    return bool(place_at(layout).read(input))


def to_int_number(input: Tensor) -> int:
    """The only element as an int, rounded towards 0. Waits until it is there.

    Raises:
        ValueError: there is not exactly one element, or it is NaN.
        OverflowError: it is infinite.
    """
    return int(item(input))


def to_float_number(input: Tensor) -> float:
    """The only element as a float. Waits until it is there.

    Raises:
        ValueError: there is not exactly one element.
    """
    return float(item(input))


def as_index(input: Tensor) -> int:
    """The only element as an index. Waits until it is there.

    Raises:
        TypeError: the elements are floating-point numbers.
        ValueError: there is not exactly one element.
    """
    if input.dtype.kind == "f":
        raise TypeError(f"only integer tensors of one element are indices; this one has {input.dtype!r}")
    return int(item(input))


def format_as(input: Tensor, specification: str) -> str:
    """What ``format`` makes of a tensor: of one without dimensions, what it makes of its number."""
    return object.__format__(input, specification) if input.ndim else format(item(input), specification)


def are_probabilities(input: Tensor) -> bool:
    """Whether all elements of a CPU tensor lie between 0 and 1; NaN does not. Of others True: looking would wait."""
    if not input.is_cpu or not input._layout.numel:
        return True
    elements = input._host
    if input._layout.dtype.is_half:  # NumPy warns of NaN among bfloat16
        elements = elements.astype(np.float32)
    return bool(elements.min() >= 0 and elements.max() <= 1)
