"""Convolutions: by cuDNN where it is, else as products of matrices with the windows of images."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

from ..autograd import enable_grad
from ..autograd.fused import by_parts, record_fused, wants_history
from ..autograd.grad_mode import recording
from ..autograd.graph import Kept, plain
from ..tensor import cudnn_switches
from ..tensor.core.dtypes import dtype
from ..tensor.core.needed_tensors import layout_of, needed
from ..tensor.core.printed_names import printed_as
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.copying.copying import copied_to
from ..tensor.ops.networks.library_calls import LibraryPlan, library_plan
from ..tensor.ops.products.matmul import matmul
from ..tensor.ops.reductions.reductions import sum as sum_of
from ..tensor.ops.shapes.reshape import contiguous
from ..tensor.places.place import place_at
from ..tensor.places.tables_with_gradients.library_table import Convolving
from .casting import bare_in_fast, cast_to_fast, rounds_once
from .convolution_checks import check_convolution, spread_lengths, with_bias
from .pooled_windows import pad
from .windows import Pair, Window, columns_of, pair, spread_windows, together

__all__ = ["conv1d", "conv2d", "conv_transpose2d"]


@rounds_once
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
    images, filters = layout_of(input).shape, layout_of(weight).shape
    if len(images) == 3:
        return conv2d(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    if padding == "same" and len(filters) == 4:
        input, padding = padded_alike(input, filters[2:], pair(stride), pair(dilation))
        images = input._layout.shape
    padding = (0, 0) if isinstance(padding, str) else pair(padding)
    geometry = _geometry(images, filters, pair(stride), padding, pair(dilation), groups)
    input, bias = cast_to_fast(input, bias)
    return with_bias(_convolved(input, weight, geometry), weight, bias)


def padded_alike(
    input: Tensor, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[Tensor, list[int]]:
    """What padding ``same`` means for filters of ``size``: the input, one longer at the end where the zeros at both
    ends cannot be as many; and how many zeros stand at each end.

    Raises:
        ValueError: filters move by more than one element.
    """
    if any(each != 1 for each in stride):
        raise ArgumentError("padding='same' is not supported for strided convolutions")
    reach = [step * (length - 1) for step, length in zip(dilation, size, strict=True)]
    if any(each % 2 for each in reach):
        input = pad(input, [n for each in reversed(reach) for n in (0, each % 2)])
    return input, [each // 2 for each in reach]


class _Geometry(NamedTuple):
    """How filters slide over images."""

    window: Window
    groups: int
    image: Pair
    steps: Pair
    """How many positions a filter has, down and across."""
    shape: tuple[int, int, int, int]
    """Of the result."""


@functools.lru_cache(maxsize=4096)
def _geometry(
    images: tuple[int, ...], filters: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> _Geometry:
    """What the shapes of images and filters settle."""
    check_convolution(images, filters, stride, padding, dilation, groups)
    (count, _, height, width), (many, _, high, wide) = images, filters
    window = Window((high, wide), stride, padding, dilation)
    steps = window.steps((height, width))
    return _Geometry(window, groups, (height, width), steps, (count, many, *steps))


def _convolved(images: Tensor, filters: Tensor, geometry: _Geometry) -> Tensor:
    """Keeps images and filters; the windows are taken apart again for the gradient, so that they need not be kept.
    Filters are taken in the type that ``autocast`` says."""
    window, groups, _, steps, shape = geometry
    taken = bare_in_fast(filters)
    made = _by_library("forward", window, shape, images, taken)
    if made is None:
        made = _product(taken, _grouped(plain(images), window, steps, groups), shape, groups)
    if not wants_history(images, filters):
        return made
    kind = filters._layout.dtype
    if taken._layout.dtype is kind:
        kept: tuple[Kept, ...] = (Kept(images), Kept(filters))
    else:
        kept = (Kept(images), Kept(filters), Kept(taken))
    return record_fused("ConvolutionBackward", made, (images, filters), kept, _gradients_by(kind, geometry))


class _ConvolutionGradient:
    """The gradients of convolutions of one geometry, of what their nodes keep: images and filters, which are of the
    type ``kind``; and the filters as converted, if they were. One serves all such convolutions: a network has many of
    them at a time, and what each made of its own would be one more thing for the interpreter's collector to look at."""

    __slots__ = ("_geometry", "_kind")

    def __init__(self, kind: dtype, geometry: _Geometry) -> None:
        self._kind, self._geometry = kind, geometry

    def __call__(self, node: Any, given: Tensor) -> Any:
        """Those of images and filters, by that of the result."""
        window, groups, image, steps, _ = self._geometry
        first, second, *converted = node.kept
        images = first.get(node)
        filters = (converted[0] if converted else second).get(node)
        if converted and recording.enabled:
            filters = second.get(node).to(filters.dtype)
        to_images = to_filters = None
        if not wants_history(images, filters, given):
            if node.edges[0] is not None:
                to_images = _by_library("images", window, images._layout.shape, filters, given)
            if node.edges[1] is not None:
                to_filters = _by_library("filters", window, filters._layout.shape, images, given)
        if node.edges[0] is not None and to_images is None:
            to_images = spread_windows(_grouped_filters(filters, groups), given, window, image)
        if node.edges[1] is not None and to_filters is None:
            columns = _grouped(images, window, steps, groups)
            if together(images.shape[0], steps):
                given = given.transpose(0, 1)
            gradient = given.reshape(columns.shape[0], groups, filters.shape[0] // groups, columns.shape[3])
            to_filters = sum_of(matmul(gradient, columns.transpose(-1, -2)), 0, dtype=filters.dtype).view(filters.shape)
        if converted and to_filters is not None:
            to_filters = copied_to(to_filters, place_at(to_filters._layout), self._kind)
        return to_images, to_filters


_gradients_by = functools.lru_cache(maxsize=4096)(_ConvolutionGradient)


def _by_library(part: str, window: Window, shape: tuple[int, ...], first: Tensor, second: Tensor) -> Tensor | None:
    """A part of a convolution by cuDNN, see ``Convolving``; or None."""
    if not cudnn_switches.enabled:
        return None
    first, second = plain(first), plain(second)
    own, other = first._layout, second._layout
    if own.dtype is not other.dtype:
        return None
    key = (part, window, shape, other, cudnn_switches.choosing())
    run: LibraryPlan | bool | None = own.plans.get(key)
    if run is None:
        work = Convolving(part, window.stride, window.padding, window.dilation, key[-1])
        run = own.plans[key] = library_plan(work, [(own.dtype, shape)], [first, second]) or False
    return run(first, second)[0] if callable(run) else None


def _grouped_filters(filters: Tensor, groups: int) -> Tensor:
    return filters.reshape(1, groups, filters.shape[0] // groups, math.prod(filters.shape[1:]))


def _grouped(images: Tensor, window: Window, steps: tuple[int, int], groups: int) -> Tensor:
    """The windows of images as columns, (n, groups, elements of windows of a group, positions); or, of all images
    ``together``, (1, groups, elements, n * positions)."""
    count, rows = images.shape[0], images.shape[1] // groups * math.prod(window.size)
    joined = together(count, steps)
    columns = columns_of(images, window, steps, joined=joined)
    if joined:
        return columns.permute(1, 2, 0, 3).reshape(1, groups, rows, count * steps[0] * steps[1])
    return columns.reshape(count, groups, rows, steps[0] * steps[1])


def _product(filters: Tensor, columns: Tensor, shape: tuple[int, int, int, int], groups: int) -> Tensor:
    """The products of filters with the columns of windows, in the ``shape`` of images."""
    made = matmul(_grouped_filters(filters, groups), columns)
    count, many, *steps = shape
    if columns.shape[0] == count:
        return made.view(*shape)
    return contiguous(made.view(many, count, *steps).transpose(0, 1))


@printed_as("ConvolutionBackward0")
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
    across = [(0, padding) if isinstance(padding, Integral) else padding if isinstance(padding, str) else (0, *padding)]
    down = [(1, each) if isinstance(each, Integral) else (1, *each) for each in (stride, dilation)]
    rows, filters = needed(input).unsqueeze(-2), needed(weight).unsqueeze(-2)
    return conv2d(rows, filters, bias, down[0], across[0], down[1], groups).squeeze(-2)


@rounds_once
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
    """What ``conv2d``, whose other arguments and errors these are, does to gradients: each element spreads a filter.

    Args:
        weight: filters, (channels, results / groups, height, width).
        bias: one number for each channel of the result, or None.
        padding: how much is cut off around the result.
        output_padding: how much longer the result is below and on the right.
    """
    if input.ndim == 3:
        return conv_transpose2d(
            input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation
        ).squeeze(0)
    images, filters = tuple(layout_of(input).shape), tuple(layout_of(weight).shape)
    more = pair(output_padding)
    window, image = _spreading(images, filters, pair(stride), pair(padding), more, pair(dilation), groups)
    input, weight, bias = cast_to_fast(input, weight, bias)
    return with_bias(_spread(input, weight, window, image, groups), weight, bias, transposed=True)


@functools.lru_cache(maxsize=4096)
def _spreading(
    images: tuple[int, ...],
    filters: tuple[int, ...],
    stride: Pair,
    padding: Pair,
    more: Pair,
    dilation: Pair,
    groups: int,
) -> tuple[Window, Pair]:
    """How filters of this shape are spread, and the lengths of the result."""
    high, wide = spread_lengths(images, filters, stride, padding, more, dilation, groups)
    return Window((filters[2], filters[3]), stride, padding, dilation), (high, wide)


def _spread(input: Tensor, weight: Tensor, window: Window, image: tuple[int, int], groups: int) -> Tensor:
    """The gradient of images by that of a convolution's result: by cuDNN, or by parts."""

    def compute(input: Tensor, weight: Tensor) -> Tensor:
        return spread_windows(_grouped_filters(weight, groups), input, window, image)

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
