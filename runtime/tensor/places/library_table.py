"""What a library of NVIDIA's may do instead of kernels of our own: convolutions and attention, as places are asked."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Attending", "Choosing", "Convolving"]


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
