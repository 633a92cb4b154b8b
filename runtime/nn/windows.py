"""Windows that slide over images: taken apart (``columns_of``) and put together again (``images_of``), each the other's
gradient. Convolutions and pooling are made of them."""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

from ..autograd import Function
from ..autograd.graph import plain
from ..tensor.core.needed_tensors import needed
from ..tensor.core.shapes import as_lengths
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ShapeError
from ..tensor.ops.joining.joining import cat
from ..tensor.ops.making.creation import full, zeros
from ..tensor.ops.products.matmul import matmul
from ..tensor.ops.reductions.along import run_fused
from ..tensor.ops.reductions.reductions import sum as sum_of
from ..tensor.ops.shapes.reshape import contiguous
from ..tensor.ops.shapes.views import as_strided
from ..tensor.places.place import place_at

Pair = tuple[int, int]
"""(height, width)."""


class Window(NamedTuple):
    """A window of an image, and how it slides. All are (height, width)."""

    size: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)

    def steps(self, image: Pair, *, ceil: bool = False) -> Pair:
        """How many positions the window has in an image.

        Raises:
            ValueError: the image is smaller than the window, or the window does not move.
        """
        if 0 in self.stride:
            raise ShapeError("stride should not be zero")
        found = []
        for length, size, stride, padding, dilation in zip(image, *self, strict=True):
            room = length + 2 * padding - dilation * (size - 1) - 1
            count = (-(-room // stride) if ceil else room // stride) + 1
            if ceil and (count - 1) * stride >= length + padding:
                count -= 1  # a window must begin within the image or its padding on the left
            found.append(count)
        if min(found) < 1:
            raise ShapeError(
                f"a window of {self.size} in an image of {image} with padding {self.padding}: too large, "
                f"and an output of {tuple(found)} too small"
            )
        return found[0], found[1]

    def check_pooling(self) -> None:
        """Refuse numbers that mean nothing of windows of which one element is made.

        Raises:
            ValueError: padding is negative or more than half a window, or the elements of a window are not apart.
        """
        for size, padding, dilation in zip(self.size, self.padding, self.dilation, strict=True):
            if dilation < 1:
                raise ArgumentError(f"dilation should be greater than zero, but got {dilation}")
            if padding < 0:
                raise ArgumentError(f"pad must be non-negative, but got pad: {padding}")
            if 2 * padding > dilation * (size - 1) + 1:
                raise ArgumentError(
                    "pad should be at most half of effective kernel size, but got "
                    f"pad={padding}, kernel_size={size} and dilation={dilation}"
                )


def pair(given: Any) -> Pair:
    """A number for both directions, or one for each.

    Raises:
        ValueError: there are more numbers, or none.
        TypeError: they are no integers.
    """
    if type(given) is int:
        return given, given
    if type(given) is tuple and len(given) == 2 and type(given[0]) is type(given[1]) is int:
        return given  # the most usual cases, in fewer steps
    both = as_lengths((given,))
    if len(both) not in (1, 2):
        raise ArgumentError(f"one number for both directions is expected, or two, not {given!r}")
    return (both[0], both[0]) if len(both) == 1 else (both[0], both[1])


def check_images(images: Tensor, dimensions: int, asked_by: str = "") -> None:
    """Refuse what is not an image of so many dimensions, with channels, or a batch; only a batch may be empty.

    Raises:
        ValueError: there are other dimensions, or no elements.
    """
    one, several = dimensions + 1, dimensions + 2
    batched = needed(images).ndim == several
    if not (batched or images.ndim == one) or 0 in images.shape[1 if batched else 0 :]:
        raise ShapeError(
            f"{asked_by}Expected {one}D or {several}D (batch mode) tensor with optional 0 dim batch size for input, "
            f"but got:{list(images.shape)}"
        )


def together(count: int, steps: Pair) -> bool:
    """Whether ``count`` images, in which a window has so many positions, are one product of matrices with the filters.
    A product of its own for each image reads all filters for few columns."""
    return count > 1 and steps[0] * steps[1] <= _FEW_POSITIONS


_FEW_POSITIONS = 256


def columns_of(images: Tensor, window: Window, steps: Pair, fill: float = 0.0, *, joined: bool = False) -> Tensor:
    """Of images (n, c, h, w) the windows' elements, (n, c, elements of a window, positions). ``joined``: in memory the
    positions of all images stand one after the other."""
    made: Tensor = _Columns.apply(images, window, steps, fill, joined, steps[1])
    return made


def images_of(columns: Tensor, window: Window, steps: Pair, image: Pair) -> Tensor:
    """The sums of what windows have at each element of images (n, c, h, w): see ``columns_of``."""
    made: Tensor = _Images.apply(columns, window, steps, image, steps[1])
    return made


def spread_windows(weights: Tensor, parts: Tensor, window: Window, image: Pair) -> Tensor:
    """``images_of`` the products of weights (1, groups, elements of windows of a group, channels of a group) with
    ``parts`` (n, channels, down, across), one for each position of the window.

    On the CPU zeros are put behind each row of the parts, so that a row of the products is as long as one of the image
    and rows need not be added up one by one; unless the weights hold what times zero is no zero.
    """
    count, groups, steps = parts.shape[0], weights.shape[1], (parts.shape[2], parts.shape[3])
    row = -(-_room(window, steps, image)[1] // window.stride[1])
    more = (row - steps[1]) * weights.shape[2]
    if parts.device.type != "cpu" or more > _MOST_MORE or not isfinite(sum_of(plain(weights)).item()):
        row = steps[1]
    if row != steps[1]:
        behind = zeros((*parts.shape[:3], row - steps[1]), dtype=parts.dtype, device=parts.device)
        parts = cat([parts, behind], 3)
    elements, channels = window.size[0] * window.size[1], parts.shape[1] // groups
    shape = groups * weights.shape[3] // elements, elements
    if together(count, steps):
        parts = parts.transpose(0, 1).reshape(1, groups, channels, count * steps[0] * row)
        columns = matmul(weights.transpose(-1, -2), parts).view(*shape, count, steps[0] * row).permute(2, 0, 1, 3)
    else:
        parts = parts.reshape(count, groups, channels, steps[0] * row)
        columns = matmul(weights.transpose(-1, -2), parts).view(count, *shape, steps[0] * row)
    made: Tensor = _Images.apply(columns, window, steps, image, row)
    return made


_MOST_MORE = 256
"""Products that each row of the result takes more: about as many take as long as to begin another row."""


class _Columns(Function):
    """Of the positions in each row of ``row`` the last ones, which the window does not have, are 0."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, window: Window, steps: Pair, fill: float, joined: bool, row: int) -> Tensor:
        ctx.window, ctx.steps, ctx.image, ctx.row = window, steps, (images.shape[2], images.shape[3]), row
        return _taken_apart(images, window, steps, fill, joined, row)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        gradient, steps = grad_outputs[0], ctx.steps
        if ctx.row != steps[1]:
            gradient = gradient.reshape(*gradient.shape[:3], steps[0], ctx.row)[..., : steps[1]].flatten(3)
        return images_of(gradient, ctx.window, steps, ctx.image), None, None, None, None, None


class _Images(Function):
    _title = "Col2ImBackward0"

    @staticmethod
    def forward(ctx: Any, columns: Tensor, window: Window, steps: Pair, image: Pair, row: int) -> Tensor:
        ctx.window, ctx.steps, ctx.row = window, steps, row
        return _put_together(columns, window, steps, image, row)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        images, steps = grad_outputs[0], ctx.steps
        joined = together(images.shape[0], steps)
        return _Columns.apply(images, ctx.window, steps, 0.0, joined, ctx.row), None, None, None, None


def _room(window: Window, steps: Pair, image: Pair) -> Pair:
    """Lengths of the padded image: as far as the last window reaches."""
    reach = [
        max((count - 1) * stride + dilation * (size - 1) + 1, length + padding)
        for count, stride, dilation, size, length, padding in zip(
            steps, window.stride, window.dilation, window.size, image, window.padding, strict=True
        )
    ]
    return reach[0], reach[1]


def _taken_apart(images: Tensor, window: Window, steps: Pair, fill: float, joined: bool, row: int) -> Tensor:
    count, channels, height, width = images.shape
    if not count:
        none = (0, channels, window.size[0] * window.size[1], steps[0] * row)
        return zeros(none, dtype=images.dtype, device=images.device)
    (top, left), (down, right) = window.padding, window.stride
    high, wide = _room(window, steps, (height, width))
    source = contiguous(images)
    if (top, left, high, wide) != (0, 0, height, width):
        source = full((count, channels, high, wide), fill, dtype=images.dtype, device=images.device)
        source[:, :, top : top + height, left : left + width] = images
    shape = (count, channels, *window.size, *steps)
    strides = (channels * high * wide, high * wide, window.dilation[0] * wide, window.dilation[1], down * wide, right)
    order = (1, 2, 3, 0, 4, 5) if joined else (0, 1, 2, 3, 4, 5)
    shown = as_strided(source, shape, strides).permute(order)
    if row == steps[1]:
        made = contiguous(shown)
    else:
        made = zeros((*shown.shape[:5], row), dtype=images.dtype, device=images.device)
        made[..., : steps[1]] = shown
    elements, positions = window.size[0] * window.size[1], steps[0] * row
    if joined:
        return made.view(channels, elements, count, positions).permute(2, 0, 1, 3)
    return made.view(count, channels, elements, positions)


def _put_together(columns: Tensor, window: Window, steps: Pair, image: Pair, row: int) -> Tensor:
    count, channels = columns.shape[:2]
    high, wide = _room(window, steps, image)
    (down, right), (top, left) = window.stride, window.padding
    if place_at(columns._layout).numpy_indices:
        kind = columns.dtype, (count, channels, *image)
        numbers = (*window.size, down, right, top, left, *window.dilation, *steps, high, wide, *image, row)
        made: Tensor = run_fused("windows_together", [kind], [plain(columns)], *numbers)[0]
        return made
    out = zeros((count, channels, high, wide), dtype=columns.dtype, device=columns.device)
    parts = columns.reshape(*columns.shape[:3], *steps)
    for number, (y, x) in enumerate(_offsets(window)):
        place = out[:, :, y : y + down * (steps[0] - 1) + 1 : down, x : x + right * (steps[1] - 1) + 1 : right]
        place += parts[:, :, number]
    return contiguous(out[:, :, top : top + image[0], left : left + image[1]])


def _offsets(window: Window) -> list[Pair]:
    """Where each element of a window lies from the window's first one."""
    (high, wide), (down, right) = window.size, window.dilation
    return [(y * down, x * right) for y in range(high) for x in range(wide)]
