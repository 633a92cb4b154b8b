"""Functions between layers, dropout, and what is looked up."""

from __future__ import annotations

from typing import Any

from ..autograd.fused import wants_history
from ..machine.callers import warn_program
from ..tensor.core.dtypes import float32, int64
from ..tensor.core.needed_tensors import layout_of, needed
from ..tensor.core.printed_names import printed_as
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.arithmetic.arithmetic import clamp, where
from ..tensor.ops.elementwise import elementwise_functions as each
from ..tensor.ops.elementwise.elementwise import apply, apply1, apply2, apply_into
from ..tensor.ops.making.creation import empty_like, zeros, zeros_like
from ..tensor.ops.random.random_choices import exponential_
from ..tensor.ops.random.random_numbers import uniform_
from ..tensor.ops.reductions.normalising import log_softmax as log_softmax_of
from ..tensor.ops.reductions.normalising import softmax as softmax_of
from ..tensor.ops.reductions.reductions import amax
from ..tensor.places.tables_with_gradients.network_table import NETWORK_LINES
from .casting import cast_to_full

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "feature_alpha_dropout",
    "gelu",
    "gumbel_softmax",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "logsigmoid",
    "mish",
    "one_hot",
    "relu",
    "relu6",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "tanh",
    "unwritten",
]

_ELU, _HARDTANH, _DROPPED, _GELU, _GELU_TANH, _SILU = (
    NETWORK_LINES[name] for name in ("elu", "hardtanh", "dropped", "gelu", "gelu_tanh", "silu")
)


def unwritten(input: Tensor, inplace: bool) -> Tensor:
    """What an activation is computed of: a copy where its gradient needs elements that its result is written over."""
    return input.clone() if inplace and wants_history(input) else input


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Negative elements replaced by 0."""
    return each.relu_(input) if inplace else each.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Elements kept within 0 and 6."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Elements kept within limits, which for integers are cut to integers.

    Raises:
        ValueError: ``min_val`` is above ``max_val``.
    """
    if min_val > max_val:
        raise ArgumentError("min_val cannot be greater than max_val")
    if layout_of(input).dtype.kind == "f":
        # As ``clamp``; but the gradient is 0 at the limits, too.
        limits = (input, min_val, max_val)
        return apply_into(_HARDTANH, input, *limits) if inplace else apply(_HARDTANH, *limits)
    min_val, max_val = int(min_val), int(max_val)
    return input.clamp_(min_val, max_val) if inplace else clamp(input, min_val, max_val)


@printed_as("LeakyReluBackward0")
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Negative elements times ``negative_slope``."""
    made: Tensor = where(input > 0, input, input * negative_slope)
    return input.copy_(made) if inplace else made


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Negative elements become ``alpha * (exp(input) - 1)``."""
    made = apply2(_ELU, unwritten(input, inplace), float(alpha))
    return input.copy_(made) if inplace else made


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-input))``."""
    return each.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return each.tanh(input)


@printed_as("LogSigmoidBackward0")
def logsigmoid(input: Tensor) -> Tensor:
    """The logarithm of ``sigmoid``, exact also far from 0."""
    input = needed(input).contiguous()  # whatever the order, the result has the usual one
    below = each.minimum(input, input.new_zeros(()))  # at 0 half of the gradient goes this way, none that of ``abs``
    return below - each.log1p(each.exp(-each.abs(input)))


@printed_as("SoftplusBackward0")
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``; the element itself where ``beta * input`` is above the threshold."""
    scaled = input if beta == 1 else input * beta
    smooth = each.log1p(each.exp(clamp(scaled, max=threshold)))
    made: Tensor = where(scaled > threshold, input, smooth if beta == 1 else smooth / beta)
    return made


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``."""
    made = apply1(_SILU, unwritten(input, inplace))
    return input.copy_(made) if inplace else made


@printed_as("MishBackward0")
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * tanh(softplus(input))``."""
    read = unwritten(input, inplace)
    made = read * each.tanh(softplus(read))
    return input.copy_(made) if inplace else made


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``input`` times the probability that a normal number is smaller.

    Args:
        input: the tensor.
        approximate: ``none``, or ``tanh`` for the approximation by a hyperbolic tangent.

    Raises:
        ValueError: there is no such approximation.
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return apply1(_GELU_TANH if approximate == "tanh" else _GELU, input)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``exp(input)`` divided by its sum along a dimension; by default the last, or the second of three and more.

    Raises:
        IndexError: there is no such dimension.
    """
    (input,) = cast_to_full(input)
    return softmax_of(input, _axis(input, dim), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """The logarithm of ``softmax``.

    Raises:
        IndexError: there is no such dimension.
    """
    (input,) = cast_to_full(input)
    return log_softmax_of(input, _axis(input, dim), dtype)


def _axis(input: Tensor, dim: int | None) -> int:
    if dim is not None:
        return dim
    return 0 if needed(input).ndim in (0, 1, 3) else 1


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements made 0 with probability ``p``; the others are divided by ``1 - p``.

    Raises:
        ValueError: ``p`` is no probability.
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"dropout: p is a probability, not {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return input.zero_() if inplace else input * 0.0
    chances = uniform_(empty_like(needed(input).detach(), dtype=float32))
    made = apply(_DROPPED, input, chances, 1.0 - p)
    return input.copy_(made) if inplace else made


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (n, channels, height, width) made 0 with probability ``p``; the others are divided by
    ``1 - p``. As in torch, three dimensions are (n, channels, length), which warns; so does any other number but four.

    Raises:
        ValueError: ``p`` is no probability.
        RuntimeError: there are fewer than two dimensions.
    """
    if needed(input).ndim != 4:
        meant = (
            "and assuming that channel-wise 1D dropout behavior is desired: it is (N, C, L)"
            if input.ndim == 3
            else "which is deprecated: use dropout"
        )
        warn_program(f"dropout2d: Received a {input.ndim}-D input to dropout2d, {meant}")
    return _dropped_channels(input, p, training, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (n, channels, length) or (channels, length) made 0 with probability ``p``; the others are
    divided by ``1 - p``.

    Raises:
        ValueError: ``p`` is no probability.
        RuntimeError: there are not two or three dimensions.
    """
    if needed(input).ndim not in (2, 3):
        raise ArgumentError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input")
    return _dropped_channels(input, p, training, inplace, batched=input.ndim == 3)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (n, channels, depth, height, width), or without n, made 0 with probability ``p``; the others
    are divided by ``1 - p``. As in torch, another number of dimensions than five or four warns.

    Raises:
        ValueError: ``p`` is no probability.
        RuntimeError: there are no dimensions.
    """
    if needed(input).ndim not in (4, 5):
        warn_program(f"dropout3d: Received a {input.ndim}-D input to dropout3d, which is deprecated: use dropout")
    return _dropped_channels(input, p, training, inplace, batched=input.ndim == 5)


def _dropped_channels(input: Tensor, p: float, training: bool, inplace: bool, batched: bool = True) -> Tensor:
    if not training:
        return dropout(input, p, training=False)
    kept = 2 if batched else 1
    if input.ndim < kept:
        raise ArgumentError(f"dropout of channels needs {kept} dimensions at least, and this input has {input.ndim}")
    factors = dropout(input.detach().new_ones(*input.shape[:kept], *[1] * (input.ndim - kept)), p)
    return input.mul_(factors) if inplace else input * factors


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``dropout`` for what ``selu`` gives: with probability ``p`` an element becomes the value to which ``selu`` tends
    far below 0. Then all are scaled and moved, so that a mean of 0 and a variance of 1 stay.

    Raises:
        ValueError: ``p`` is no probability.
    """
    return _dropped_to_alpha(input, p, training, inplace, tuple(layout_of(input).shape))


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels of (n, channels, ...).

    Raises:
        ValueError: ``p`` is no probability, or there are fewer than two dimensions.
    """
    if training and p > 0 and input.numel() and input.ndim < 2:
        raise ArgumentError("Feature dropout requires at least 2 dimensions in the input")
    return _dropped_to_alpha(input, p, training, inplace, (*layout_of(input).shape[:2], *[1] * (input.ndim - 2)))


_ALPHA = 1.7580993408473766
"""The scale of ``selu`` times its alpha: far below 0 ``selu`` tends to its negative."""


def _dropped_to_alpha(input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]) -> Tensor:
    if not 0 <= p <= 1:
        raise ArgumentError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0 or not input.numel():
        return input
    if p == 1:
        return input.mul_(0.0) if inplace else input * 0.0
    scale = ((_ALPHA * _ALPHA * p + 1) * (1 - p)) ** -0.5
    kept = input.detach().new_empty(shape).bernoulli_(1 - p)
    moved = (kept - (1 - p)) * (_ALPHA * scale)
    kept = kept * scale
    return input.mul_(kept).add_(moved) if inplace else input * kept + moved


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """For each integer a row with 1 at its place, of int64.

    Args:
        tensor: int64.
        num_classes: the length of rows; -1 for one more than the largest, which waits for a device.

    Raises:
        ValueError: the elements are no integers of int64.
    """
    if layout_of(tensor).dtype is not int64:
        raise ArgumentError(f"one_hot: int64 is needed, and this tensor is of {tensor.dtype!r}")
    length = int(amax(tensor)) + 1 if num_classes < 0 else num_classes
    rows = zeros((*tensor.shape, length), dtype=int64, device=tensor.device)
    return rows.scatter_(-1, tensor.unsqueeze(-1), 1)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``softmax`` of the negative."""
    return softmax(-input, dim, _stacklevel, dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A drawn class as nearly one-hot numbers through which gradients go (Jang et al., 2017; Maddison et al., 2017).

    Args:
        logits: logarithms of probabilities.
        tau: how far from one-hot: the temperature.
        hard: whether the result is one-hot, with the gradients of what is not.
        eps: as torch's; makes no difference.
        dim: the dimension of the classes.
    """
    del eps
    noise = -each.log(exponential_(empty_like(needed(logits).detach())))
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    return zeros_like(logits.detach()).scatter_(dim, index, 1.0) - soft.detach() + soft


def activation_named(owner: str, activation: Any) -> Any:
    """The function that a transformer's layer is told: ``relu`` or ``gelu`` by name, or itself.

    Raises:
        ValueError: there is no such name.
    """
    known = {"relu": relu, "gelu": gelu}
    if isinstance(activation, str) and activation not in known:
        raise ArgumentError(f"{owner}: activation is 'relu', 'gelu' or a function, not {activation!r}")
    return known[activation] if isinstance(activation, str) else activation
