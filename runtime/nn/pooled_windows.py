"""Windows of images made one element each; images padded, or taken apart."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from ..autograd import Function
from ..autograd.fused import wants_history
from ..tensor.core.dtype_limits import iinfo
from ..tensor.core.dtypes import int64, uint8
from ..tensor.core.needed_tensors import needed
from ..tensor.core.printed_names import entitle, printed_as
from ..tensor.core.shapes import as_lengths
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ElementTypeError, ShapeError
from ..tensor.ops.arithmetic.arithmetic import where
from ..tensor.ops.copying.copying import in_order_of
from ..tensor.ops.making.creation import full, ones, zeros
from ..tensor.ops.making.from_values import tensor
from ..tensor.ops.making.patterns import arange
from ..tensor.ops.reductions.along import run_fused
from ..tensor.ops.reductions.reductions import sum as sum_of
from ..tensor.ops.shapes.reshape import contiguous
from .windows import Pair, Window, check_images, columns_of, images_of, pair

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "fold",
    "max_pool1d",
    "max_pool2d",
    "pad",
    "unfold",
]


@printed_as("MaxPool2DWithIndicesBackward0")
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
        return_indices: whether to return also where in their images they are, counted row by row, as int64; -1 where a
            window has no element of the image. The gradient then goes by them.

    Raises:
        ValueError: the image is too small.
        TypeError: the elements are bool.
    """
    check_images(input, 2)
    return _largest(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _largest(
    input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, return_indices: bool
) -> Any:
    if input.ndim == 3:
        made = _largest(input.unsqueeze(0), kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        return tuple(each.squeeze(0) for each in made) if return_indices else made.squeeze(0)
    window = Window(pair(kernel_size), pair(step_of(stride, kernel_size)), pair(padding), pair(dilation))
    window.check_pooling()
    steps = window.steps((input.shape[2], input.shape[3]), ceil=ceil_mode)
    if not return_indices:
        return in_order_of(_Largest.apply(input, window, steps), input)
    places = _places(input.detach(), window, steps)
    return in_order_of(chosen_of(input, places, 2, _may_lie_beside(window)), input), in_order_of(places, input)


def chosen_of(images: Tensor, places: Tensor, dimensions: int, beside: bool = False) -> Tensor:
    """The elements at these places of images or volumes of so many dimensions; with ``beside`` the least number where
    a place is -1."""
    flat, asked = images.flatten(-dimensions), places.flatten(-dimensions)
    if beside:
        return flat.gather(-1, asked.clamp(min=0)).masked_fill(asked < 0, least(images)).view(places.shape)
    return flat.gather(-1, asked).view(places.shape)


def _places(images: Tensor, window: Window, steps: Pair) -> Tensor:
    """Where in their images the largest elements of windows are."""
    chosen = columns_of(images, window, steps, least(images)).max(2).indices.view(*images.shape[:2], *steps)
    found = []
    for axis, inside in enumerate((chosen // window.size[1], chosen % window.size[1])):
        start = arange(steps[axis], device=images.device) * window.stride[axis] - window.padding[axis]
        place = start.view((-1, 1) if axis == 0 else (-1,)) + inside * window.dilation[axis]
        # Where nothing is larger than what stands around, the first element of the image in the window counts.
        found.append(where(place < 0, place % window.dilation[axis], place) if window.padding[axis] else place)
    rows, columns = found
    height, width = images.shape[2:]
    places = rows * width + columns
    if not _may_lie_beside(window):
        return places  # type: ignore[no-any-return]
    return places.masked_fill((rows >= height) | (columns >= width), -1)  # type: ignore[no-any-return]


def _may_lie_beside(window: Window) -> bool:
    """Whether a position of the window may have no element of the image."""
    return max(window.padding) > 0 and max(window.dilation) > 1


def least(images: Tensor) -> float:
    """Than which no element is less.

    Raises:
        TypeError: the elements are bool.
    """
    if images.dtype.kind == "b":
        raise ElementTypeError(
            "the largest element of a window is not implemented for bool; .to(cuplug.uint8) it first"
        )
    return float("-inf") if images.dtype.kind == "f" else iinfo(images.dtype).min


class _Largest(Function):
    """Keeps where in their windows the largest elements are, and nothing else."""

    _title = "MaxPool2DWithIndicesBackward0"

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
        found = columns_of(images, window, steps, least(images)).max(2)
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


@printed_as("SqueezeBackward1")
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
    check_images(input, 1, "max_pool1d: ")
    size, step, edge, apart = (
        one_number(each) for each in (kernel_size, step_of(stride, kernel_size), padding, dilation)
    )
    across = (1, size), None if step is None else (1, step), (0, edge or 0), (1, 1 if apart is None else apart)
    made = _largest(input.unsqueeze(-2), *across, ceil_mode, return_indices)
    rows = [each.squeeze(-2).contiguous() for each in (made if return_indices else (made,))]
    return tuple(rows) if return_indices else rows[0]


def step_of(stride: Any, size: Any) -> Any:
    """By how much a window moves: by its size where nothing is said, which is None or an empty sequence."""
    return size if stride is None or (isinstance(stride, (tuple, list)) and not stride) else stride


def one_number(given: Any) -> int | None:
    """A number, or the only one of a sequence.

    Raises:
        ValueError: the sequence has another length.
        TypeError: it is neither.
    """
    if given is None or isinstance(given, Integral):
        return None if given is None else int(given)
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"a pool of rows: an argument must be tuple of ints, not {type(given).__name__}")
    if len(given) != 1:
        raise ArgumentError(f"a pool of rows: an argument should contain one int (got {len(given)})")
    return int(given[0])


@printed_as("AvgPool2DBackward0")
def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window; of int64 without what is behind the point. Other arguments are those of ``max_pool2d``.

    Args:
        padding: how many zeros stand around the images.
        ceil_mode: whether windows may reach beyond the image; there elements count as if not there.
        count_include_pad: whether zeros around count.
        divisor_override: what to divide by instead.

    Raises:
        ValueError: the image is too small, or the divisor is 0.
        TypeError: the elements are bool or integers other than int64.
    """
    check_images(input, 2)
    return _means(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _means(
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    if input.ndim == 3:
        return _means(
            input.unsqueeze(0), kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        ).squeeze(0)
    if input.dtype.kind != "f" and input.dtype is not int64:
        raise ElementTypeError(f"means of windows are not implemented for {input.dtype}; convert it to float32 first")
    window = Window(pair(kernel_size), pair(step_of(stride, kernel_size)), pair(padding))
    window.check_pooling()
    image = (input.shape[2], input.shape[3])
    steps = window.steps(image, ceil=ceil_mode)
    total = sum_of(columns_of(input, window, steps), 2).view(input.shape[0], input.shape[1], *steps)
    divisor: Any = divisor_override
    if divisor == 0:
        raise ArgumentError("divisor must be not zero")
    if divisor is None and not ceil_mode and (count_include_pad or window.padding == (0, 0)):
        divisor = window.size[0] * window.size[1]
    elif divisor is None:
        divisor = counts_of(input, window, steps, count_include_pad)
    return in_order_of(total / divisor if input.dtype.kind == "f" else total.div(divisor, rounding_mode="trunc"), input)


def counts_of(input: Tensor, window: Window, steps: tuple[int, int], padded: bool) -> Tensor:
    """How many elements of the images each position of the window has, (1, 1, down, across)."""
    (top, left), (height, width) = window.padding, (input.shape[2], input.shape[3])
    if padded:  # zeros within the padding count, those beyond it do not
        plain = Window(window.size, window.stride, (0, 0))
        shape = (1, 1, height + 2 * top, width + 2 * left)
        there = columns_of(ones(shape, dtype=input.dtype, device=input.device), plain, steps)
    else:
        there = columns_of(ones((1, 1, height, width), dtype=input.dtype, device=input.device), window, steps)
    return sum_of(there, 2).view(1, 1, *steps)


@printed_as("SqueezeBackward1")
def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """``avg_pool2d`` of rows, (n, channels, length)."""
    check_images(input, 1, "avg_pool1d: ")
    size, step, edge = (one_number(each) for each in (kernel_size, step_of(stride, kernel_size), padding))
    across = (1, size), None if step is None else (1, step), (0, edge or 0)
    return _means(input.unsqueeze(-2), *across, ceil_mode, count_include_pad, None).squeeze(-2)


@printed_as("Im2ColBackward0")
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of images (n, channels, height, width), or of one without n, as columns, (n, channels * elements of
    a window, positions).

    Raises:
        ValueError: the image is too small.
    """
    if needed(input).ndim == 3:
        return unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    if input.ndim != 4 or 0 in input.shape[1:]:
        raise ShapeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got:{list(input.shape)}"
        )
    window = Window(pair(kernel_size), pair(stride), pair(padding), pair(dilation))
    made = columns_of(input, window, window.steps((input.shape[2], input.shape[3])))
    found = made.reshape(input.shape[0], input.shape[1] * made.shape[2], made.shape[3])
    return found.clone() if found._storage is input._storage else found  # windows of one element each, say


@printed_as("Col2ImBackward0")
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Images of (height, width) ``output_size`` with the sums of columns that ``unfold`` makes.

    Args:
        input: the columns, (n, channels * elements of a window, positions), or those of one image without n.
        output_size: (height, width), or one number.
        kernel_size: of the windows, as all that follows.
        dilation: how far a window's elements are apart.
        padding: how many zeros stand around the images.
        stride: by how much windows move.

    Raises:
        ValueError: the columns are not of such windows in images of that size, or the image is too small.
    """
    if needed(input).ndim == 2:
        return fold(input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0)
    if input.ndim != 3 or 0 in input.shape[1:]:
        raise ShapeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    window, image = Window(pair(kernel_size), pair(stride), pair(padding), pair(dilation)), pair(output_size)
    count, rows, positions = input.shape
    elements = window.size[0] * window.size[1]
    if rows % elements:
        raise ShapeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={rows} and kernel_size={window.size}."
        )
    steps = window.steps(image)
    if positions != steps[0] * steps[1]:
        raise ShapeError(
            f"Given output_size={image}, kernel_size={window.size}, dilation={window.dilation}, "
            f"padding={window.padding}, stride={window.stride}, expected size of input's dimension 2 to match the "
            f"calculated number of sliding blocks {steps[0]} * {steps[1]} = {steps[0] * steps[1]}, but got "
            f"input.size(2)={positions}."
        )
    return images_of(input.reshape(count, rows // elements, elements, positions), window, steps, image)


def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Elements added at both ends of the last dimensions, or taken away where a number is negative.

    Args:
        input: the tensor.
        pad: how many, in pairs, from the last dimension on.
        mode: ``constant``, ``reflect``, ``replicate`` or ``circular``.
        value: of what is added by ``constant``; 0 if None.

    Raises:
        ValueError: there is no such mode, or not a pair for each of at most all dimensions; ``reflect`` is asked for
            as many elements as there are, or ``circular`` for more: a device would read beyond them.
        TypeError: ``pad`` has other than integers.
    """
    pad = as_lengths((pad,))
    if len(pad) % 2:
        raise ArgumentError(f"Padding length must be divisible by 2, and it is {len(pad)}")
    if len(pad) > 2 * needed(input).ndim:
        raise ArgumentError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {input.ndim}"
        )
    made = input
    for number in range(len(pad) // 2):
        before, after = pad[2 * number], pad[2 * number + 1]
        axis = made.ndim - 1 - number
        length = made.shape[axis]
        if mode == "constant":
            continue
        positions = range(-before, length + after)
        if mode == "reflect" and max(before, after) >= length:
            raise ShapeError(
                "Padding size should be less than the corresponding input dimension, but got: padding "
                f"{(before, after)} at dimension {axis} of input {list(input.shape)}"
            )
        if mode == "circular" and max(before, after) > length:
            raise ShapeError("Padding value causes wrapping around more than once.")
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
    if mode in ("reflect", "replicate"):
        entitle(f"{'Reflection' if mode == 'reflect' else 'Replication'}Pad{len(pad) // 2}DBackward0", made, (input,))
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
    entitle("ConstantPadNdBackward0", out)
    return out
