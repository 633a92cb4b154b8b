"""Activations that fewer programs call: those with gates, thresholds and slopes of their own."""

from __future__ import annotations

from ..tensor.core.needed_tensors import layout_of, needed
from ..tensor.core.printed_names import printed_as
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.arithmetic.arithmetic import clamp, where
from ..tensor.ops.elementwise import elementwise_functions as each
from .activations import elu, unwritten

__all__ = [
    "celu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "prelu",
    "selu",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
]


def _written(input: Tensor, made: Tensor, inplace: bool) -> Tensor:
    return input.copy_(made) if inplace else made


@printed_as("GluBackward0")
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along a dimension times the sigmoid of the second.

    Raises:
        ValueError: the dimension has an odd length.
        IndexError: there is no such dimension.
    """
    if layout_of(input).shape[dim] % 2:
        raise ArgumentError(f"glu: dimension {dim} is to be halved, and has {input.shape[dim]} elements")
    first, second = input.chunk(2, dim)
    made: Tensor = first * each.sigmoid(second)
    return made


@printed_as("CeluBackward0")
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Negative elements become ``alpha * (exp(input / alpha) - 1)``.

    Raises:
        ZeroDivisionError: ``alpha`` is 0.
    """
    if alpha == 1:
        return elu(input, inplace=inplace)
    read = unwritten(input, inplace)
    made: Tensor = where(read > 0, read, each.expm1(clamp(read, max=0.0) * (1 / alpha)) * alpha)
    return _written(input, made, inplace)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
"""Klambauer et al., "Self-Normalizing Neural Networks", 2017, and torch's ``nn.functional.selu``."""


@printed_as("EluBackward0")
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """``elu`` with the constants that keep a mean of 0 and a variance of 1 from layer to layer."""
    return _written(input, elu(unwritten(input, inplace), _SELU_ALPHA) * _SELU_SCALE, inplace)


@printed_as("PreluKernelBackward0")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Negative elements times ``weight``: one number, or one for each channel, the second dimension.

    Raises:
        ValueError: there is neither one number nor one for each channel.
    """
    if needed(weight).ndim > 1:
        raise ArgumentError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.numel() not in (1, channels):
        raise ArgumentError(f"prelu: {weight.numel()} slopes for {channels} channels")
    slope = weight.view(1, -1, *[1] * (input.ndim - 2)) if input.ndim > 1 else weight.view(input.ndim * [1])
    made: Tensor = where(input > 0, input, input * slope)
    return made


@printed_as("HardsigmoidBackward0")
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``input / 6 + 1 / 2``, kept within 0 and 1."""
    return _written(input, clamp(input + 3.0, 0.0, 6.0) / 6.0, inplace)


@printed_as("HardswishBackward0")
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * hardsigmoid(input)``."""
    read = unwritten(input, inplace)
    return _written(input, read * clamp(read + 3.0, 0.0, 6.0) / 6.0, inplace)


def softsign(input: Tensor) -> Tensor:
    """``input / (1 + abs(input))``."""
    made: Tensor = input / (each.abs(input) + 1.0)
    return made


def tanhshrink(input: Tensor) -> Tensor:
    """``input - tanh(input)``."""
    return input - each.tanh(input)


@printed_as("HardshrinkBackward0")
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Elements within ``lambd`` of 0 become 0."""
    made: Tensor = where(each.abs(input) <= lambd, 0.0, input)  # NaN stays
    return made


@printed_as("SoftshrinkBackward0")
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Elements come nearer to 0 by ``lambd``; those within it become 0.

    Raises:
        ValueError: ``lambd`` is negative.
    """
    if lambd < 0:
        raise ArgumentError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return input - clamp(input, -lambd, lambd)


@printed_as("ThresholdBackward0")
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Elements that are not above ``threshold`` become ``value``."""
    made: Tensor = where(input <= threshold, value, input).to(input.dtype)  # NaN stays
    return _written(input, made, inplace)
