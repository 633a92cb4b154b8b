"""Pools that are told how many windows they have: the windows cover the image, as equal as can be."""

from __future__ import annotations

from itertools import product
from math import prod
from numbers import Integral
from operator import floordiv, mod
from typing import Any

from ..tensor.core.dtypes import int64
from ..tensor.core.memory_formats import keeps_channels_last
from ..tensor.core.needed_tensors import needed
from ..tensor.core.printed_names import entitle, printed_as
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ElementTypeError, ShapeError
from ..tensor.ops.copying.copying import in_order_of
from ..tensor.ops.joining.joining import stack
from ..tensor.ops.making.creation import zeros
from ..tensor.ops.reductions.reductions import mean
from ..tensor.ops.shapes.views import expand
from .pooled_windows import avg_pool2d, chosen_of, max_pool2d, one_number
from .volumes import avg_pool3d, max_pool3d

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
]

Lengths = tuple[int, ...]
"""(height, width), or (depth, height, width)."""


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The means of as many windows as asked for, which cover the image.

    Args:
        input: images, (n, channels, height, width) or without n.
        output_size: (height, width) of the result, or one number; None keeps a length.

    Raises:
        ValueError: there is no image, or no such size.
        TypeError: the elements are no floating-point numbers.
    """
    check_images("adaptive_avg_pool2d", input, 2, -2)
    lengths = _lengths("adaptive_avg_pool2d", input, output_size, 2)
    made = _means(input, lengths)
    entitle("MeanBackward1" if tuple(lengths) == (1, 1) else "AdaptiveAvgPool2DBackward0", made, (input,))
    return made


@printed_as("AdaptiveAvgPool3DBackward0")
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """``adaptive_avg_pool2d`` of volumes, (n, channels, depth, height, width) or without n."""
    check_images("adaptive_avg_pool3d", input, 3, -3)
    wanted = _lengths("adaptive_avg_pool3d", input, output_size, 3)
    # PyTorch keeps the order in which images lie, and that of volumes only where each becomes one element.
    return _means(input if prod(wanted) == 1 else input.contiguous(), wanted)


def _means(input: Tensor, wanted: Lengths) -> Tensor:
    count = len(wanted)
    inner, lengths = tuple(range(-count, 0)), tuple(input.shape[-count:])
    if wanted == (1,) * count:
        made = mean(input, inner)
        if not keeps_channels_last(input._layout.shape, input._layout.strides):
            return made.view(*made.shape, *wanted)
        # Lengths of 1 have torch's strides, too.
        return made.view(-1, *wanted, made.shape[-1]).permute(0, count + 1, *range(1, count + 1))
    if not prod(wanted):
        return zeros((*input.shape[:-count], *wanted), dtype=input.dtype, device=input.device)
    if not any(map(mod, lengths, wanted)) and input.numel():
        return (avg_pool2d, avg_pool3d)[count - 2](input, tuple(map(floordiv, lengths, wanted)))
    windows = [(..., *window) for window in product(*map(covering, lengths, wanted))]
    means = [mean(input[window], inner) for window in windows]
    return in_order_of(stack(means, -1).view(*input.shape[:-count], *wanted), input)


@printed_as("SqueezeBackward1")
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """``adaptive_avg_pool2d`` of rows, (n, channels, length)."""
    check_images("adaptive_avg_pool1d", input, 1, -1)
    images = input.unsqueeze(-2)
    return _means(images, _lengths("adaptive_avg_pool1d", images, (1, one_number(output_size)), 2)).squeeze(-2)


@printed_as("AdaptiveMaxPool2DBackward0")
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as asked for, which cover the image.

    Other arguments and errors are those of ``adaptive_avg_pool2d``. With ``return_indices`` also where in their images
    they are, as ``max_pool2d`` does.
    """
    check_images("adaptive_max_pool2d", input, 2, 1 - needed(input).ndim)
    return _largest(input, _lengths("adaptive_max_pool2d", input, output_size, 2), return_indices)


@printed_as("AdaptiveMaxPool3DBackward0")
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """``adaptive_max_pool2d`` of volumes, (n, channels, depth, height, width) or without n."""
    check_images("adaptive_max_pool3d", input, 3, 1 - needed(input).ndim)
    wanted = _lengths("adaptive_max_pool3d", input, output_size, 3)
    return _largest(input.contiguous(), wanted, return_indices)


def _largest(input: Tensor, wanted: Lengths, return_indices: bool) -> Any:
    count = len(wanted)
    lengths = tuple(input.shape[-count:])
    shape = *input.shape[:-count], *wanted
    if not prod(wanted):
        none = zeros(shape, dtype=input.dtype, device=input.device)
        return (none, zeros(shape, dtype=int64, device=input.device)) if return_indices else none
    if not any(map(mod, lengths, wanted)) and input.numel():
        pool: Any = (max_pool2d, max_pool3d)[count - 2]
        return pool(input, tuple(map(floordiv, lengths, wanted)), return_indices=return_indices)
    images = input.detach()
    made = []
    for window in product(*map(covering, lengths, wanted)):
        shown = (..., *window)
        inside: Any = images[shown].flatten(-count).max(-1).indices
        place: Any = 0
        row = 1  # elements between neighbours of a dimension, from the last one on
        for part, length in zip(reversed(window), reversed(lengths), strict=True):
            inner = part.stop - part.start
            place = place + (inside % inner + part.start) * row
            inside, row = inside // inner, row * length
        made.append(place)
    places = stack(made, -1).view(*shape)
    values = in_order_of(chosen_of(input, places, count), input)
    return (values, in_order_of(places, input)) if return_indices else values


@printed_as("SqueezeBackward1")
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """``adaptive_max_pool2d`` of rows, (n, channels, length)."""
    check_images("adaptive_max_pool1d", input, 1, 1 - needed(input).ndim)
    images = input.unsqueeze(-2)
    wanted = _lengths("adaptive_max_pool1d", images, (1, one_number(output_size)), 2)
    made = _largest(images, wanted, return_indices)
    return tuple(each.squeeze(-2) for each in made) if return_indices else made.squeeze(-2)


def covering(length: int, count: int) -> list[slice]:
    """As many windows as asked for that cover a length, as equal as can be; neighbours may overlap by an element."""
    return [slice(n * length // count, -(-(n + 1) * length // count)) for n in range(count)]


def check_images(name: str, input: Tensor, dimensions: int, last: int) -> None:
    """Refuse what is not one image or several, or has none of the dimensions from ``last`` on.

    Raises:
        ValueError: it is so.
        TypeError: the elements are no floating-point numbers.
    """
    if needed(input).ndim not in (dimensions + 1, dimensions + 2):
        one, several = dimensions + 1, dimensions + 2
        raise ShapeError(f"{name}(): Expected {one}D or {several}D tensor, but got: {list(input.shape)}")
    if 0 in input.shape[last:]:
        empty = input.shape.index(0, input.ndim + last)
        raise ShapeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            f"{list(input.shape)} with dimension {empty} being empty"
        )
    if input.dtype.kind != "f":
        raise ElementTypeError(f'"{name}" not implemented for {input.dtype}: .to(cuplug.float32) it first')


def _lengths(name: str, images: Tensor, output_size: Any, count: int) -> Lengths:
    """How many windows there are in each of ``count`` dimensions."""
    alike = output_size is None or isinstance(output_size, Integral)
    given = (output_size,) * count if alike else tuple(output_size)
    if len(given) != count:
        raise ShapeError(f"{name}(): output_size must be {count} lengths or one, not {given!r}")
    wanted = tuple(own if want is None else int(want) for own, want in zip(images.shape[-count:], given, strict=True))
    if min(wanted) < 0:
        raise ArgumentError(f"{name}: elements of output_size must be greater than or equal to 0 but received {wanted}")
    # More than memory can be is refused before its windows are counted.
    expand(zeros((), dtype=images.dtype, device=images.device), *images.shape[:-count], *wanted)
    return wanted
