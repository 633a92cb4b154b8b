"""Convolutions: by cuDNN where it is, else as products of matrices with the windows of images."""

from __future__ import annotations

from typing import Any

from ..autograd import enable_grad
from ..autograd.fused import by_parts, record_fused, wants_history
from ..autograd.graph import Kept, plain
from ..tensor import cudnn_switches
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ShapeError
from ..tensor.ops.library_calls import LibraryPlan, library_plan
from ..tensor.ops.matmul import matmul
from ..tensor.ops.reductions import sum as sum_of
from ..tensor.places.library_table import Convolving
from .casting import cast_to_fast
from .windows import Window, columns_of, images_of, pair

__all__ = ["conv1d", "conv2d", "conv_transpose2d"]


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The correlation of images with filters.

    Args:
        input: images, (n, channels, height, width) or without n.
        weight: filters, (filters, channels / groups, height, width).
        bias: one number for each filter, or None.
        stride: by how much filters move, a number or (down, right).
        padding: how many zeros stand around the images, a number or (above and below, left and right); or ``same`` or
            ``valid``.
        dilation: how far a filter's elements are apart.
        groups: into how many groups the channels are divided, each with filters of its own.

    Raises:
        ValueError: the shapes do not fit.
    """
    images, filters = input._layout.shape, weight._layout.shape
    if len(images) == 3:
        return conv2d(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    if len(images) != 4 or len(filters) != 4:
        raise ShapeError(f"conv2d: images of shape {list(images)} and filters of shape {list(filters)}")
    (_, channels, *_), (many, inside, high, wide) = images, filters
    if channels != inside * groups or many % groups:
        raise ShapeError(f"conv2d: filters of shape {list(filters)} in {groups} groups do not fit {channels} channels")
    size = (high, wide)
    if isinstance(padding, str):
        if padding == "same":
            reach = [step * (length - 1) for step, length in zip(pair(dilation), size, strict=True)]
            if any(each % 2 for each in reach) or pair(stride) != (1, 1):
                raise ArgumentError("conv2d: padding='same' needs filters of odd lengths and a stride of 1")
            padding = tuple(each // 2 for each in reach)
        else:
            padding = 0
    input, weight, bias = cast_to_fast(input, weight, bias)
    window = Window(size, pair(stride), pair(padding), pair(dilation))
    made = _convolved(input, weight, window, groups)
    return made if bias is None else made + bias.view(1, -1, 1, 1)


def _convolved(images: Tensor, filters: Tensor, window: Window, groups: int) -> Tensor:
    """Keeps images and filters; the windows are taken apart again for the gradient, so that they need not be kept."""
    (count, _, *image), (many, *_) = images._layout.shape, filters._layout.shape
    steps = window.steps((image[0], image[1]))
    shape = (count, many, *steps)
    made = _by_library("forward", window, shape, images, filters)
    recorded = wants_history(images, filters)
    if made is None:
        own, other = plain(images), plain(filters)
        made = matmul(_grouped_filters(other, groups), _grouped(own, window, steps, groups)).view(*shape)
    if not recorded:
        return made
    kept_images, kept_filters = Kept(images), Kept(filters)

    def apply(node: Any, given: Tensor) -> Any:
        images, filters = kept_images.get(node), kept_filters.get(node)
        to_images = to_filters = None
        if not wants_history(images, filters, given):
            if node.edges[0] is not None:
                to_images = _by_library("images", window, tuple(images.shape), filters, given)
            if node.edges[1] is not None:
                to_filters = _by_library("filters", window, tuple(filters.shape), images, given)
        if node.edges[0] is not None and to_images is None:
            gradient = given.reshape(images.shape[0], groups, filters.shape[0] // groups, -1)
            columns = matmul(_grouped_filters(filters, groups).transpose(-1, -2), gradient)
            columns = columns.reshape(images.shape[0], images.shape[1], -1, steps[0] * steps[1])
            to_images = images_of(columns, window, steps, (image[0], image[1]))
        if node.edges[1] is not None and to_filters is None:
            gradient = given.reshape(images.shape[0], groups, filters.shape[0] // groups, -1)
            columns = _grouped(images, window, steps, groups)
            to_filters = sum_of(matmul(gradient, columns.transpose(-1, -2)), 0, dtype=filters.dtype).view(filters.shape)
        return to_images, to_filters

    return record_fused("ConvolutionBackward", made, (images, filters), [kept_images, kept_filters], apply)


def _by_library(part: str, window: Window, shape: tuple[int, ...], first: Tensor, second: Tensor) -> Tensor | None:
    """A part of a convolution by cuDNN, see ``Convolving``; or None."""
    if not cudnn_switches.enabled:
        return None
    own, other = first._layout.plain, second._layout.plain
    if own.dtype is not other.dtype:
        return None
    key = (part, window, shape, other, cudnn_switches.choosing())
    run: LibraryPlan | bool | None = own.plans.get(key)
    if run is None:
        work = Convolving(part, window.stride, window.padding, window.dilation, key[-1])
        run = own.plans[key] = library_plan(work, [(own.dtype, shape)], [plain(first), plain(second)]) or False
    return run(plain(first), plain(second))[0] if callable(run) else None


def _grouped_filters(filters: Tensor, groups: int) -> Tensor:
    return filters.reshape(1, groups, filters.shape[0] // groups, -1)


def _grouped(images: Tensor, window: Window, steps: tuple[int, int], groups: int) -> Tensor:
    return columns_of(images, window, steps).reshape(images.shape[0], groups, -1, steps[0] * steps[1])


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """``conv2d`` of rows: inputs (n, channels, length), filters (filters, channels / groups, length).

    Raises:
        ValueError: the shapes do not fit.
    """
    across = [(0, padding) if isinstance(padding, int) else padding if isinstance(padding, str) else (0, *padding)]
    down = [(1, each) if isinstance(each, int) else (1, *each) for each in (stride, dilation)]
    return conv2d(input.unsqueeze(-2), weight.unsqueeze(-2), bias, down[0], across[0], down[1], groups).squeeze(-2)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """What ``conv2d`` does to gradients: each element spreads a filter.

    Args:
        input: images, (n, channels, height, width) or without n.
        weight: filters, (channels, results / groups, height, width).
        bias: one number for each channel of the result, or None.
        stride: by how much filters move.
        padding: how much is cut off around the result.
        output_padding: how much longer the result is below and on the right.
        groups: into how many groups the channels are divided.
        dilation: how far a filter's elements are apart.

    Raises:
        ValueError: the shapes do not fit.
    """
    if input.ndim == 3:
        return conv_transpose2d(
            input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation
        ).squeeze(0)
    if input.ndim != 4 or weight.ndim != 4 or input.shape[1] != weight.shape[0]:
        raise ShapeError(f"conv_transpose2d: {list(input.shape)} does not fit filters of {list(weight.shape)}")
    input, weight, bias = cast_to_fast(input, weight, bias)
    window = Window((weight.shape[2], weight.shape[3]), pair(stride), pair(padding), pair(dilation))
    steps = (input.shape[2], input.shape[3])
    lengths = [
        (count - 1) * step - 2 * cut + apart * (size - 1) + more + 1
        for count, step, cut, apart, size, more in zip(
            steps, window.stride, window.padding, window.dilation, window.size, pair(output_padding), strict=True
        )
    ]
    made = _spread(input, weight, window, (lengths[0], lengths[1]), groups)
    return made if bias is None else made + bias.view(1, -1, 1, 1)


def _spread(input: Tensor, weight: Tensor, window: Window, image: tuple[int, int], groups: int) -> Tensor:
    """The gradient of images by that of a convolution's result: by cuDNN, or by parts."""

    def compute(input: Tensor, weight: Tensor) -> Tensor:
        count, steps = input.shape[0], (input.shape[2], input.shape[3])
        parts = input.reshape(count, groups, -1, steps[0] * steps[1])
        columns = matmul(weight.reshape(1, groups, weight.shape[0] // groups, -1).transpose(-1, -2), parts)
        columns = columns.reshape(count, weight.shape[1] * groups, -1, steps[0] * steps[1])
        return images_of(columns, window, steps, image)

    made = _by_library("images", window, (input.shape[0], weight.shape[1] * groups, *image), weight, input)
    if made is None:
        return compute(input, weight)
    if not wants_history(input, weight):
        return made
    kept_input, kept_weight = Kept(input), Kept(weight)

    def apply(node: Any, gradient: Tensor) -> Any:
        source, filters = kept_input.get(node), kept_weight.get(node)
        found: list[Tensor | None] = [None, None]
        if not wants_history(gradient, source, filters):
            if node.edges[0] is not None:
                found[0] = _by_library("forward", window, tuple(source.shape), gradient, filters)
            if node.edges[1] is not None:
                found[1] = _by_library("filters", window, tuple(filters.shape), gradient, source)
        if all(each is not None or edge is None for each, edge in zip(found, node.edges, strict=True)):
            return found
        with enable_grad():
            return by_parts(compute, (source, filters), gradient)

    return record_fused("ConvolutionTransposedBackward", made, (input, weight), [kept_input, kept_weight], apply)
