"""Convolutions and windows of volumes, made of those of images; and shapes that images and channels exchange."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from numbers import Integral
from typing import Any

from ..tensor.core.memory_formats import contiguous_format
from ..tensor.core.needed_tensors import layout_of, needed
from ..tensor.core.printed_names import printed_as
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ShapeError
from ..tensor.ops.copying.copying import in_order_of
from .casting import cast_to_fast, rounds_once
from .convolution import conv2d, conv_transpose2d, padded_alike
from .convolution_checks import check_convolution, spread_lengths, with_bias
from .pooled_windows import avg_pool2d, chosen_of, counts_of, max_pool2d, pad, step_of
from .windows import Window, check_images, images_of

__all__ = [
    "avg_pool3d",
    "channel_shuffle",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose3d",
    "max_pool3d",
    "pixel_shuffle",
    "pixel_unshuffle",
]

Triple = tuple[int, int, int]
"""(depth, height, width)."""


def _triple(given: Any) -> Triple:
    several = tuple(int(each) for each in ((given,) if isinstance(given, Integral) else given))
    if len(several) not in (1, 3):
        raise ArgumentError(f"one number for all three directions is expected, or three, not {given!r}")
    return several * 3 if len(several) == 1 else (several[0], several[1], several[2])


@rounds_once
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The correlation of volumes with filters: the sum of those of their slices.

    Arguments are those of ``conv2d``, with numbers for three directions: ``input`` has volumes (n, channels, depth,
    height, width) or one without n, ``weight`` filters (filters, channels / groups, depth, height, width).

    Raises:
        ValueError: the shapes do not fit.
    """
    if input.ndim == 4:
        return conv3d(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    steps, apart = _triple(stride), _triple(dilation)
    if padding == "same" and weight.ndim == 5:
        input, around = padded_alike(input, weight.shape[2:], steps, apart)
        edges = _triple(around)
    else:
        edges = _triple(0 if isinstance(padding, str) else padding)
    check_convolution(tuple(layout_of(input).shape), tuple(layout_of(weight).shape), steps, edges, apart, groups)
    (bias,) = cast_to_fast(bias)
    volumes = pad(input, (0, 0, 0, 0, edges[0], edges[0])) if edges[0] else input
    count, channels, depth, height, width = volumes.shape
    slices = weight.shape[2]
    positions = (depth - apart[0] * (slices - 1) - 1) // steps[0] + 1
    total = None
    for number in range(slices):
        first = number * apart[0]
        taken = volumes[:, :, first : first + steps[0] * (positions - 1) + 1 : steps[0]]
        images = taken.transpose(1, 2).reshape(count * positions, channels, height, width)
        made = conv2d(images, weight[:, :, number], None, steps[1:], edges[1:], apart[1:], groups)
        total = made if total is None else total + made
    assert total is not None
    return with_bias(total.view(count, positions, *total.shape[1:]).transpose(1, 2).contiguous(), weight, bias)


@printed_as("ConvolutionBackward0")
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """``conv_transpose2d`` of rows: inputs (n, channels, length), filters (channels, filters / groups, length).

    Raises:
        ValueError: the shapes do not fit.
    """
    numbers = [
        int(each if isinstance(each, Integral) else each[0]) for each in (stride, padding, output_padding, dilation)
    ]
    step, edge, more, apart = numbers
    rows, filters = needed(input).unsqueeze(-2), needed(weight).unsqueeze(-2)
    return conv_transpose2d(rows, filters, bias, (1, step), (0, edge), (0, more), groups, (1, apart)).squeeze(-2)


@rounds_once
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """What ``conv3d`` does to gradients: each element spreads a filter. Slices are spread as images, by all slices of
    the filters at once, and then added up along the depth.

    Arguments are those of ``conv_transpose2d``, with numbers for three directions: ``input`` has volumes (n, channels,
    depth, height, width) or one without n, ``weight`` filters (channels, results / groups, depth, height, width).

    Raises:
        ValueError: the shapes do not fit.
    """
    if input.ndim == 4:
        return conv_transpose3d(
            input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation
        ).squeeze(0)
    steps, edges, more, apart = (_triple(each) for each in (stride, padding, output_padding, dilation))
    own, parts = tuple(layout_of(input).shape), tuple(layout_of(weight).shape)
    length, *image = spread_lengths(own, parts, steps, edges, more, apart, groups)
    (bias,) = cast_to_fast(bias)
    count, channels, depth = input.shape[:3]
    inside, size, *window = weight.shape[1:]
    images = input.transpose(1, 2).reshape(count * depth, channels, *input.shape[3:])
    filters = weight.reshape(weight.shape[0], inside * size, *window)
    made = conv_transpose2d(images, filters, None, steps[1:], edges[1:], more[1:], groups, apart[1:])
    many, elements = inside * groups, image[0] * image[1]
    columns = made.view(count, depth, many, size, elements).permute(0, 2, 3, 1, 4)
    columns = columns.reshape(count, many, size, depth * elements)
    along = Window((size, 1), (steps[0], 1), (edges[0], 0), (apart[0], 1))
    found = images_of(columns, along, (depth, elements), (length, elements)).view(count, many, length, *image)
    return with_bias(found, weight, bias, transposed=True)


@printed_as("MaxPool3DWithIndicesBackward0")
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of volumes: see ``max_pool2d``.

    Raises:
        ValueError: the volume is too small.
    """
    check_images(input, 3)
    size, edge, apart = _triple(kernel_size), _triple(padding), _triple(dilation)
    step = _triple(step_of(stride, size))
    if input.ndim == 4:
        # As a batch of one whose stride is that of a batch, so that channels that lie last are seen to do so.
        batch = input.permute(1, 2, 3, 0).unsqueeze(0).permute(0, 4, 1, 2, 3)
        made = max_pool3d(batch, size, step, edge, apart, ceil_mode, return_indices)
        return tuple(each.squeeze(0) for each in made) if return_indices else made.squeeze(0)
    # The largest of each slice, and then the largest of slices.
    images = input.detach() if return_indices else input
    flat = max_pool2d(images.flatten(1, 2), size[1:], step[1:], edge[1:], apart[1:], ceil_mode, return_indices)
    flat, inside = flat if return_indices else (flat, None)
    positions = flat.shape[2] * flat.shape[3]
    rows = flat.reshape(*input.shape[:3], positions)
    across = (size[0], 1), (step[0], 1), (edge[0], 0), (apart[0], 1)
    made = max_pool2d(rows, *across, ceil_mode, return_indices)
    made, chosen = made if return_indices else (made, None)
    shape = *made.shape[:3], *flat.shape[2:]
    if inside is None or chosen is None:
        return in_order_of(made.view(shape), input)
    # Which slice it was, and where in the slice: both in one number, or -1.
    beside = max(edge) > 0 and max(apart) > 1
    inside = inside.reshape(*input.shape[:2], input.shape[2] * positions)
    of_slices = inside.gather(2, chosen.clamp(min=0).flatten(2)).view(shape)
    places = chosen.view(shape) // positions * (input.shape[3] * input.shape[4]) + of_slices
    if beside:
        places = places.masked_fill((chosen.view(shape) < 0) | (of_slices < 0), -1)
    return in_order_of(chosen_of(input, places, 3, beside), input), in_order_of(places, input)


@printed_as("AvgPool3DBackward0")
def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of volumes: see ``avg_pool2d``.

    Raises:
        ValueError: the volume is too small.
    """
    check_images(input, 3)
    size, edge = _triple(kernel_size), _triple(padding)
    step = _triple(step_of(stride, size))
    if input.ndim == 4:
        whole = avg_pool3d(input.unsqueeze(0), size, step, edge, ceil_mode, count_include_pad, divisor_override)
        return whole.squeeze(0)
    if input.dtype.kind != "f" and divisor_override != 1:  # quotients of quotients would be cut off twice
        total = avg_pool3d(input, size, step, edge, ceil_mode, divisor_override=1)
        divisor: Any = divisor_override
        if divisor is None:
            divisor = _counts(input, size, step, edge, tuple(total.shape[2:]), count_include_pad)
        return total.div(divisor, rounding_mode="trunc")
    divisors = (None, None) if divisor_override is None else (divisor_override, 1)
    images = input.flatten(1, 2)
    flat = avg_pool2d(images, size[1:], step[1:], edge[1:], ceil_mode, count_include_pad, divisors[0])
    rows = flat.reshape(*input.shape[:3], flat.shape[2] * flat.shape[3])
    made = avg_pool2d(rows, (size[0], 1), (step[0], 1), (edge[0], 0), ceil_mode, count_include_pad, divisors[1])
    return made.view(*made.shape[:3], *flat.shape[2:])


def _counts(input: Tensor, size: Triple, step: Triple, edge: Triple, steps: Sequence[int], padded: bool) -> Tensor:
    """How many elements of the volumes each position of the window has, (1, 1, deep, down, across)."""
    inside = counts_of(input[:, :, 0], Window(size[1:], step[1:], edge[1:]), (steps[1], steps[2]), padded)
    along = Window((size[0], 1), (step[0], 1), (edge[0], 0))
    return inside.unsqueeze(2) * counts_of(input[..., 0, :1], along, (steps[0], 1), padded).unsqueeze(-1)


@printed_as("PixelShuffleBackward0")
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Images (..., channels * f * f, height, width) as (..., channels, height * f, width * f).

    Raises:
        ValueError: the channels cannot be divided by the square of the factor.
    """
    f, (channels, height, width) = upscale_factor, layout_of(input).shape[-3:]
    if channels % (f * f):
        raise ShapeError(f"pixel_shuffle: {channels} channels cannot be divided by {f * f}")
    apart = input.reshape(_count(input), channels // (f * f), f, f, height, width).permute(0, 1, 4, 2, 5, 3)
    return _copied(apart).view(*input.shape[:-3], channels // (f * f), height * f, width * f)


@printed_as("PixelUnshuffleBackward0")
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Images (..., channels, height * f, width * f) as (..., channels * f * f, height, width).

    Raises:
        ValueError: height or width cannot be divided by the factor.
    """
    f, (channels, height, width) = downscale_factor, layout_of(input).shape[-3:]
    if height % f or width % f:
        raise ShapeError(f"pixel_unshuffle: images of {height} by {width} cannot be divided by {f}")
    apart = input.reshape(_count(input), channels, height // f, f, width // f, f).permute(0, 1, 3, 5, 2, 4)
    return _copied(apart).view(*input.shape[:-3], channels * f * f, height // f, width // f)


def _copied(apart: Tensor) -> Tensor:
    """The elements in memory of their own, also where a view could have them in this order."""
    return apart.clone(memory_format=contiguous_format)


def _count(images: Tensor) -> int:
    return prod(images.shape[:-3])


@printed_as("ChannelShuffleBackward0")
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels of (n, channels, ...) dealt out: the first of each group, the second of each, and so on.

    Raises:
        ValueError: the channels cannot be divided into as many groups.
    """
    channels = layout_of(input).shape[1]
    if channels % groups:
        raise ShapeError(f"channel_shuffle: {channels} channels cannot be divided into {groups} groups")
    apart = input.reshape(input.shape[0], groups, channels // groups, *input.shape[2:])
    return _copied(apart.transpose(1, 2)).view(input.shape)
