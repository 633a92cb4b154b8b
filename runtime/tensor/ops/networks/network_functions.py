"""Functions of networks and their gradients: see ``places/network_table.py`` and ``places/fused_table.py``."""

from __future__ import annotations

from ...core.shapes import contiguous_strides
from ...core.tensor import Tensor, view_of
from ...places.network_table import NETWORK_TABLE
from ..elementwise.elementwise import apply, apply1, apply2, apply_into
from ..elementwise.elementwise_functions import exp
from ..reductions.along import run_fused
from ..reductions.reductions import sum as sum_of
from ..shapes.reshape import contiguous

__all__ = [
    "NETWORK_LINES",
    "dropped",
    "elu",
    "gelu",
    "gelu_tanh",
    "hardtanh",
    "log_softmax_gradient",
    "silu",
    "softmax_gradient",
]

NETWORK_LINES = {line.name: line for line in NETWORK_TABLE}
_ELU, _HARDTANH, _DROPPED = NETWORK_LINES["elu"], NETWORK_LINES["hardtanh"], NETWORK_LINES["dropped"]
_GELU, _GELU_TANH, _SILU = NETWORK_LINES["gelu"], NETWORK_LINES["gelu_tanh"], NETWORK_LINES["silu"]


def elu(input: Tensor, alpha: float) -> Tensor:
    """Negative elements become ``alpha * (exp(input) - 1)``."""
    return apply2(_ELU, input, alpha)


def gelu(input: Tensor) -> Tensor:
    """Each element times the probability that a normal number is smaller."""
    return apply1(_GELU, input)


def gelu_tanh(input: Tensor) -> Tensor:
    """``gelu``, approximated by a hyperbolic tangent."""
    return apply1(_GELU_TANH, input)


def silu(input: Tensor) -> Tensor:
    """Each element times its ``sigmoid``."""
    return apply1(_SILU, input)


def hardtanh(input: Tensor, low: float, high: float, inplace: bool) -> Tensor:
    """Elements kept within limits, as by ``clamp``; but the gradient is 0 at the limits, too."""
    return apply_into(_HARDTANH, input, input, low, high) if inplace else apply(_HARDTANH, input, low, high)


def dropped(input: Tensor, chances: Tensor, kept: float) -> Tensor:
    """0 where ``chances``, of float32, are not below ``kept``; the other elements divided by ``kept``."""
    return apply(_DROPPED, input, chances, kept)


def softmax_gradient(gradient: Tensor, result: Tensor, factor: float = 1.0) -> Tensor:
    """The gradient of ``softmax(factor * input)`` along the last dimension, by its result and that of it."""
    if _by_one_kernel(gradient, result):
        return _of_rows("softmax_gradient", gradient, result, factor)
    made = result * (gradient - sum_of(gradient * result, -1, True))
    return made if factor == 1 else made * factor


def log_softmax_gradient(gradient: Tensor, result: Tensor) -> Tensor:
    """The gradient of ``log_softmax`` along the last dimension, by its result and that of it."""
    if _by_one_kernel(gradient, result):
        return _of_rows("log_softmax_gradient", gradient, result)
    return gradient - exp(result) * sum_of(gradient, -1, True)


def _by_one_kernel(gradient: Tensor, result: Tensor) -> bool:
    """Whether both lie at one place with elements, and nothing is to be recorded."""
    mine, its = result._layout, gradient._layout
    return not (mine.tracked or its.tracked) and bool(mine.numel) and its.place is mine.place and bool(mine.shape)


def _of_rows(name: str, gradient: Tensor, result: Tensor, *numbers: float) -> Tensor:
    shape = tuple(result.shape)
    rows = (result.numel() // shape[-1], shape[-1])
    flat = [view_of(contiguous(each), rows, contiguous_strides(rows)) for each in (gradient, result)]
    (made,) = run_fused(name, [(result.dtype, rows)], flat, *numbers)
    return view_of(made, shape, contiguous_strides(shape))
