"""Windows of images made one element each; images padded, or taken apart."""

from __future__ import annotations

from typing import Any

from ..autograd import Function
from ..autograd.fused import wants_history
from ..tensor.core.dtype_limits import iinfo
from ..tensor.core.dtypes import int64, uint8
from ..tensor.core.memory_formats import channels_last
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.copying.copying import channels_come_last
from ..tensor.ops.joining.joining import stack
from ..tensor.ops.making.creation import arange, full, ones, tensor, zeros
from ..tensor.ops.reductions.along import run_fused
from ..tensor.ops.reductions.reductions import mean
from ..tensor.ops.reductions.reductions import sum as sum_of
from ..tensor.ops.shapes.reshape import contiguous
from .windows import Pair, Window, columns_of, images_of, pair

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "fold",
    "max_pool1d",
    "max_pool2d",
    "pad",
    "unfold",
]


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window.

    Args:
        input: images, (n, channels, height, width) or without n.
        kernel_size: the window.
        stride: by how much it moves; its size if None.
        padding: how much stands around the images, which is never chosen.
        dilation: how far the window's elements are apart.
        ceil_mode: whether windows may reach beyond the image.
        return_indices: whether to return also where in their images they are, counted row by row, as int64.

    Raises:
        ValueError: the image is too small.
    """
    if input.ndim == 3:
        made = max_pool2d(input.unsqueeze(0), kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        return tuple(each.squeeze(0) for each in made) if return_indices else made.squeeze(0)
    window = Window(pair(kernel_size), pair(kernel_size if stride is None else stride), pair(padding), pair(dilation))
    steps = window.steps((input.shape[2], input.shape[3]), ceil=ceil_mode)
    values: Tensor = _in_order_of(_Largest.apply(input, window, steps), input)
    if not return_indices:
        return values
    return values, _in_order_of(_places(input.detach(), window, steps), input)


def _in_order_of(made: Tensor, images: Tensor) -> Tensor:
    """With the channels last where they are in the images."""
    return contiguous(made, channels_last) if channels_come_last(images._layout) else made


def _places(images: Tensor, window: Window, steps: Pair) -> Tensor:
    """Where in their images the largest elements of windows are."""
    chosen = columns_of(images, window, steps, _least(images)).max(2).indices
    rows, columns = (
        (arange(count, device=images.device) * step - edge)
        for count, step, edge in zip(steps, window.stride, window.padding, strict=True)
    )
    chosen = chosen.view(*images.shape[:2], *steps)
    down, across = chosen // window.size[1], chosen % window.size[1]
    rows = rows.view(-1, 1) + down * window.dilation[0]
    return rows * images.shape[3] + columns + across * window.dilation[1]  # type: ignore[no-any-return]


def _least(images: Tensor) -> float:
    return float("-inf") if images.dtype.kind == "f" else iinfo(images.dtype).min


class _Largest(Function):
    """Keeps where in their windows the largest elements are, and nothing else."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, window: Window, steps: tuple[int, int]) -> Tensor:
        ctx.window, ctx.steps, ctx.shape = window, steps, tuple(images.shape)
        count, channels, height, width = images.shape
        if images.dtype.kind == "f" and images.numel() and window.size[0] * window.size[1] <= _MOST_PLACES:
            planes, numbers = count * channels, [each for pair in window for each in pair]
            made = [(images.dtype, (planes, *steps)), (uint8, (planes, *steps))]
            source = contiguous(images).view(planes, height, width)
            values, places = run_fused("window_largest", made, [source], *numbers, *steps)
            ctx.save_for_backward(places)
            return values.view(count, channels, *steps)
        found = columns_of(images, window, steps, _least(images)).max(2)
        ctx.save_for_backward(found.indices)
        return found.values.view(count, channels, *steps)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (places,) = ctx.saved_tensors
        window, steps = ctx.window, ctx.steps
        gradient = grad_outputs[0]
        count, channels, *image = ctx.shape
        planes = count * channels
        if places.dtype is uint8 and not wants_history(gradient):
            numbers = [each for pair in window for each in pair]
            source = contiguous(gradient).view(planes, *steps)
            asked = [(gradient.dtype, (planes, *image))]
            (made,) = run_fused("window_largest_gradient", asked, [source, places], *numbers, *image)
            return made.view(ctx.shape), None, None
        elements = window.size[0] * window.size[1]
        columns = zeros(count, channels, elements, steps[0] * steps[1], dtype=gradient.dtype, device=gradient.device)
        indices = places.to(int64).view(count, channels, 1, steps[0] * steps[1])
        columns = columns.scatter(2, indices, gradient.reshape(indices.shape))
        return images_of(columns, window, steps, image), None, None


_MOST_PLACES = 255
"""Elements of a window of which one byte says which it is."""


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``max_pool2d`` of rows, (n, channels, length)."""
    size, step, edge, apart = (_one(each) for each in (kernel_size, stride, padding, dilation))
    across = (1, size), None if step is None else (1, step), (0, edge or 0), (1, apart or 1)
    made = max_pool2d(input.unsqueeze(-2), *across, ceil_mode, return_indices)
    return tuple(each.squeeze(-2) for each in made) if return_indices else made.squeeze(-2)


def _one(given: Any) -> int | None:
    return given if given is None or isinstance(given, int) else int(given[0])


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window.

    Args:
        input: images, (n, channels, height, width) or without n.
        kernel_size: the window.
        stride: by how much it moves; its size if None.
        padding: how many zeros stand around the images.
        ceil_mode: whether windows may reach beyond the image; there elements count as if not there.
        count_include_pad: whether zeros around count.
        divisor_override: what to divide by instead.

    Raises:
        ValueError: the image is too small.
    """
    if input.ndim == 3:
        return avg_pool2d(
            input.unsqueeze(0), kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        ).squeeze(0)
    window = Window(pair(kernel_size), pair(kernel_size if stride is None else stride), pair(padding))
    image = (input.shape[2], input.shape[3])
    steps = window.steps(image, ceil=ceil_mode)
    total = sum_of(columns_of(input, window, steps), 2)
    made = total.view(input.shape[0], input.shape[1], *steps)
    if divisor_override is not None:
        return _in_order_of(made / divisor_override, input)
    if not ceil_mode and (count_include_pad or window.padding == (0, 0)):
        return _in_order_of(made / (window.size[0] * window.size[1]), input)
    return _in_order_of(made / _counts(input, window, steps, count_include_pad), input)


def _counts(input: Tensor, window: Window, steps: tuple[int, int], padded: bool) -> Tensor:
    (top, left), (height, width) = window.padding, (input.shape[2], input.shape[3])
    if padded:  # zeros within the padding count, those beyond it do not
        plain = Window(window.size, window.stride, (0, 0))
        shape = (1, 1, height + 2 * top, width + 2 * left)
        there = columns_of(ones(shape, dtype=input.dtype, device=input.device), plain, steps)
    else:
        there = columns_of(ones((1, 1, height, width), dtype=input.dtype, device=input.device), window, steps)
    return sum_of(there, 2).view(1, 1, *steps)


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """``avg_pool2d`` of rows, (n, channels, length)."""
    size, step, edge = (_one(each) for each in (kernel_size, stride, padding))
    return avg_pool2d(
        input.unsqueeze(-2),
        (1, size),
        None if step is None else (1, step),
        (0, edge or 0),
        ceil_mode,
        count_include_pad,
    ).squeeze(-2)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The means of as many windows as asked for, which cover the image.

    Args:
        input: images, (n, channels, height, width) or without n.
        output_size: (height, width) of the result, or one number; None keeps a length.
    """
    wanted = (output_size, output_size) if output_size is None or isinstance(output_size, int) else output_size
    height, width = input.shape[-2:]
    rows, columns = (own if want is None else int(want) for own, want in zip((height, width), wanted, strict=True))
    if (rows, columns) == (1, 1):
        return _in_order_of(mean(input, (-2, -1), True), input)
    if not height % rows and not width % columns:
        return avg_pool2d(input, (height // rows, width // columns))
    made = [
        stack([mean(input[..., down, across], (-2, -1)) for across in covering(width, columns)], -1)
        for down in covering(height, rows)
    ]
    return _in_order_of(stack(made, -2), input)


def covering(length: int, count: int) -> list[slice]:
    """As many windows as asked for that cover a length, as equal as can be; neighbours may overlap by an element."""
    return [slice(n * length // count, -(-(n + 1) * length // count)) for n in range(count)]


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """``adaptive_avg_pool2d`` of rows, (n, channels, length)."""
    return adaptive_avg_pool2d(input.unsqueeze(-2), (1, _one(output_size))).squeeze(-2)


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of images as columns, (n, channels * elements of a window, positions).

    Raises:
        ValueError: the image is too small.
    """
    window = Window(pair(kernel_size), pair(stride), pair(padding), pair(dilation))
    made = columns_of(input, window, window.steps((input.shape[2], input.shape[3])))
    return made.reshape(input.shape[0], input.shape[1] * made.shape[2], made.shape[3])


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Images of (height, width) ``output_size`` with the sums of columns that ``unfold`` makes.

    Raises:
        ValueError: the image is too small.
    """
    window, image = Window(pair(kernel_size), pair(stride), pair(padding), pair(dilation)), pair(output_size)
    elements = window.size[0] * window.size[1]
    columns = input.reshape(input.shape[0], -1, elements, input.shape[-1])
    return images_of(columns, window, window.steps(image), image)


def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Elements added at both ends of the last dimensions, or taken away where a number is negative.

    Args:
        input: the tensor.
        pad: how many, in pairs, from the last dimension on.
        mode: ``constant``, ``reflect``, ``replicate`` or ``circular``.
        value: of what is added by ``constant``; 0 if None.

    Raises:
        ValueError: there is no such mode.
    """
    made = input
    for number in range(len(pad) // 2):
        before, after = pad[2 * number], pad[2 * number + 1]
        axis = made.ndim - 1 - number
        length = made.shape[axis]
        if mode == "constant":
            continue
        positions = range(-before, length + after)
        if mode == "reflect":
            last = max(length - 1, 1)
            chosen = [last - abs(last - each % (2 * last)) for each in positions]
        elif mode == "replicate":
            chosen = [min(max(each, 0), length - 1) for each in positions]
        elif mode == "circular":
            # What is taken away at the ends is no part of the circle.
            first, inside = max(-before, 0), length + min(before, 0) + min(after, 0)
            chosen = [first + (each - first) % inside for each in positions]
        else:
            raise ArgumentError(f"pad: mode is constant, reflect, replicate or circular, not {mode!r}")
        made = made.index_select(axis, tensor(chosen, dtype=int64, device=made.device))
    if mode != "constant":
        return made
    shape, start, end = list(input.shape), [0] * input.ndim, list(input.shape)
    for number in range(len(pad) // 2):
        before, after = pad[2 * number], pad[2 * number + 1]
        axis = input.ndim - 1 - number
        start[axis], end[axis] = max(-before, 0), shape[axis] - max(-after, 0)
        shape[axis] += before + after
    inside = input[tuple(slice(a, b) for a, b in zip(start, end, strict=True))]
    out = full(shape, 0.0 if value is None else value, dtype=input.dtype, device=input.device)
    place = [slice(None)] * input.ndim
    for number in range(len(pad) // 2):
        axis = input.ndim - 1 - number
        first = max(pad[2 * number], 0)
        place[axis] = slice(first, first + inside.shape[axis])
    out[tuple(place)] = inside
    return out
