"""What a library of NVIDIA's may do instead of kernels of our own: convolutions, attention and recurrent layers, as
places are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from ...core.tensor import Tensor


class Choosing(NamedTuple):
    """By which rule one of several algorithms is chosen: the switches of ``backends.cudnn``."""

    benchmark: bool = False
    """Whether by the clock, on first use, instead of by the library's estimate."""
    deterministic: bool = False
    """Whether only of those that give the same bits in every run."""
    allow_tf32: bool = True
    """Whether float32 may be rounded to TF32."""


class Convolving(NamedTuple):
    """A convolution of images (n, channels, height, width) with filters (filters, channels / groups, height, width)."""

    part: str
    """What is made of what: ``forward``, the result of images and filters; ``images``, their gradient, of filters and
    the result's gradient; ``filters``, their gradient, of images and the result's gradient."""
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    choosing: Choosing


class Attending(NamedTuple):
    """Attention of queries, keys and values (n, heads, length, elements)."""

    part: str
    """``forward`` makes the result and the logarithms of the sums of exponentials (n, heads, queries, 1), of queries,
    keys and values; ``backward`` makes their three gradients, of them, the result, its gradient and the logarithms."""
    scale: float
    causal: bool
    choosing: Choosing


class Recurring(NamedTuple):
    """Recurrent layers on top of each other, without dropout between them."""

    mode: str
    """``RNN_TANH``, ``RNN_RELU``, ``LSTM`` or ``GRU``."""
    taken: int
    """Elements of a step of the input."""
    hidden: int
    """Elements of a state; of LSTM those of ``c``."""
    shown: int
    """Elements of what a step gives: as many as ``hidden``, fewer of an LSTM with a projection."""
    layers: int
    directions: int
    bias: bool
    choosing: Choosing


class RecurrentKernel(Protocol):
    """What a library does of ``Recurring`` in one element type.

    All tensors are contiguous, of this type and at addresses that are multiples of 16. ``sizes`` says how many rows
    each step has, none more than the one before it; the steps' rows lie one after the other. States are those of
    ``h``, of LSTM also those of ``c``, each (layers * directions, rows of the first step, elements). The weights are
    for each layer and direction ``weight_ih``, ``weight_hh``, where there are any ``bias_ih`` and ``bias_hh``, and with
    a projection ``weight_hr``; they may lie anywhere and as they like.
    """

    def forward(
        self, sizes: Sequence[int], data: Tensor, before: Sequence[Tensor], weights: Sequence[Tensor], *, keep: bool
    ) -> tuple[Tensor, list[Tensor], Tensor | None]:
        """What the last layer gives, the states after the last step, and with ``keep`` what ``backward`` needs."""

    def backward(
        self,
        sizes: Sequence[int],
        operands: tuple[Tensor, Sequence[Tensor], Sequence[Tensor]],
        made: Tensor,
        given: Sequence[Tensor | None],
        reserve: Tensor,
        *,
        to_weights: bool,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The gradients of the data, the states and (``to_weights``, else none) the weights.

        Args:
            sizes: as for ``forward``.
            operands: data, states and weights, as for ``forward``.
            made: what it made.
            given: the gradients of what it made and of the states after the last step; of states None for zeros.
            reserve: what it kept. It is written to, so that it serves once only.
            to_weights: whether the weights' gradients are wanted.
        """
