"""Windows that slide over images: taken apart (``columns_of``) and put together again (``images_of``), each the other's
gradient. Convolutions and pooling are made of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..autograd import Function
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ShapeError
from ..tensor.ops.making.creation import full, zeros
from ..tensor.ops.shapes.reshape import contiguous
from ..tensor.ops.shapes.views import as_strided

__all__ = ["Pair", "Window", "columns_of", "images_of", "pair"]

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
            ValueError: the image is smaller than the window.
        """
        found = []
        for length, size, stride, padding, dilation in zip(image, *self, strict=True):
            room = length + 2 * padding - dilation * (size - 1) - 1
            count = (-(-room // stride) if ceil else room // stride) + 1
            if ceil and (count - 1) * stride >= length + padding:
                count -= 1  # a window must begin within the image or its padding on the left
            found.append(count)
        if min(found) < 1:
            raise ShapeError(f"a window of {self.size} in an image of {image} with padding {self.padding}: too large")
        return found[0], found[1]


def pair(given: Any) -> Pair:
    """A number for both directions, or one for each."""
    if type(given) is int:
        return given, given
    if type(given) is tuple and len(given) == 2 and type(given[0]) is type(given[1]) is int:
        return given  # the most usual cases, in fewer steps
    both = tuple(int(each) for each in given)
    return (both[0], both[0]) if len(both) == 1 else (both[0], both[1])


def columns_of(images: Tensor, window: Window, steps: Pair, fill: float = 0.0) -> Tensor:
    """Of images (n, c, h, w) the windows' elements, (n, c, elements of a window, positions)."""
    made: Tensor = _Columns.apply(images, window, steps, fill)
    return made


def images_of(columns: Tensor, window: Window, steps: Pair, image: Pair) -> Tensor:
    """The sums of what windows have at each element of images (n, c, h, w): see ``columns_of``."""
    made: Tensor = _Images.apply(columns, window, steps, image)
    return made


class _Columns(Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, window: Window, steps: Pair, fill: float) -> Tensor:
        ctx.window, ctx.steps, ctx.image = window, steps, (images.shape[2], images.shape[3])
        return _taken_apart(images, window, steps, fill)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return images_of(grad_outputs[0], ctx.window, ctx.steps, ctx.image), None, None, None


class _Images(Function):
    @staticmethod
    def forward(ctx: Any, columns: Tensor, window: Window, steps: Pair, image: Pair) -> Tensor:
        ctx.window, ctx.steps = window, steps
        return _put_together(columns, window, steps, image)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return columns_of(grad_outputs[0], ctx.window, ctx.steps), None, None, None


def _room(window: Window, steps: Pair, image: Pair) -> Pair:
    """Lengths of the padded image: as far as the last window reaches."""
    reach = [
        max((count - 1) * stride + dilation * (size - 1) + 1, length + padding)
        for count, stride, dilation, size, length, padding in zip(
            steps, window.stride, window.dilation, window.size, image, window.padding, strict=True
        )
    ]
    return reach[0], reach[1]


def _taken_apart(images: Tensor, window: Window, steps: Pair, fill: float) -> Tensor:
    count, channels, height, width = images.shape
    (top, left), (down, right) = window.padding, window.stride
    high, wide = _room(window, steps, (height, width))
    source = contiguous(images)
    if (top, left, high, wide) != (0, 0, height, width):
        source = full((count, channels, high, wide), fill, dtype=images.dtype, device=images.device)
        source[:, :, top : top + height, left : left + width] = images
    shape = (count, channels, *window.size, *steps)
    strides = (channels * high * wide, high * wide, window.dilation[0] * wide, window.dilation[1], down * wide, right)
    return contiguous(as_strided(source, shape, strides)).view(count, channels, -1, steps[0] * steps[1])


def _put_together(columns: Tensor, window: Window, steps: Pair, image: Pair) -> Tensor:
    count, channels = columns.shape[:2]
    high, wide = _room(window, steps, image)
    out = zeros((count, channels, high, wide), dtype=columns.dtype, device=columns.device)
    parts = columns.reshape(count, channels, *window.size, *steps)
    (down, right), (top, left) = window.stride, window.padding
    for row in range(window.size[0]):
        for column in range(window.size[1]):
            y, x = row * window.dilation[0], column * window.dilation[1]
            place = out[:, :, y : y + down * (steps[0] - 1) + 1 : down, x : x + right * (steps[1] - 1) + 1 : right]
            place += parts[:, :, row, column]
    return contiguous(out[:, :, top : top + image[0], left : left + image[1]])
