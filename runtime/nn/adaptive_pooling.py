"""Pools that are told how many windows they have: the windows cover the image, as equal as can be."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from ..tensor.core.dtypes import int64
from ..tensor.core.memory_formats import keeps_channels_last
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ElementTypeError, ShapeError
from ..tensor.ops.copying.copying import in_order_of
from ..tensor.ops.joining.joining import stack
from ..tensor.ops.making.creation import zeros
from ..tensor.ops.reductions.reductions import mean
from ..tensor.ops.shapes.views import expand
from .pooling import avg_pool2d, chosen_of, max_pool2d, one_number
from .windows import Pair, pair

__all__ = ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d"]


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
    return _means(input, _lengths("adaptive_avg_pool2d", input, output_size))


def _means(input: Tensor, wanted: Pair) -> Tensor:
    (rows, columns), (height, width) = wanted, input.shape[-2:]
    if wanted == (1, 1):
        made = mean(input, (-2, -1))
        if not keeps_channels_last(input._layout.shape, input._layout.strides):
            return made.view(*made.shape, 1, 1)
        return made.view(-1, 1, 1, made.shape[-1]).permute(0, 3, 1, 2)  # lengths of 1 have torch's strides, too
    if not rows * columns:
        return zeros((*input.shape[:-2], rows, columns), dtype=input.dtype, device=input.device)
    if not height % rows and not width % columns and input.numel():
        return avg_pool2d(input, (height // rows, width // columns))
    rows_of_means = [
        stack([mean(input[..., down, across], (-2, -1)) for across in covering(width, columns)], -1)
        for down in covering(height, rows)
    ]
    return in_order_of(stack(rows_of_means, -2), input)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """``adaptive_avg_pool2d`` of rows, (n, channels, length)."""
    check_images("adaptive_avg_pool1d", input, 1, -1)
    images = input.unsqueeze(-2)
    return _means(images, _lengths("adaptive_avg_pool1d", images, (1, one_number(output_size)))).squeeze(-2)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as asked for, which cover the image.

    Args:
        input: images, (n, channels, height, width) or without n.
        output_size: (height, width) of the result, or one number; None keeps a length.
        return_indices: whether to return also where in their images they are, as ``max_pool2d`` does.

    Raises:
        ValueError: there is no image, or no such size.
        TypeError: the elements are no floating-point numbers.
    """
    check_images("adaptive_max_pool2d", input, 2, 1 - input.ndim)
    return _largest(input, _lengths("adaptive_max_pool2d", input, output_size), return_indices)


def _largest(input: Tensor, wanted: Pair, return_indices: bool) -> Any:
    (rows, columns), (height, width) = wanted, input.shape[-2:]
    if not rows * columns:
        shape = *input.shape[:-2], rows, columns
        none = zeros(shape, dtype=input.dtype, device=input.device)
        return (none, zeros(shape, dtype=int64, device=input.device)) if return_indices else none
    if not height % rows and not width % columns and input.numel():
        return max_pool2d(input, (height // rows, width // columns), return_indices=return_indices)
    images = input.detach()
    made = []
    for down in covering(height, rows):
        for across in covering(width, columns):
            inside = images[..., down, across].flatten(-2).max(-1).indices
            length = across.stop - across.start
            made.append((inside // length + down.start) * width + inside % length + across.start)
    places = stack(made, -1).view(*input.shape[:-2], rows, columns)
    values = in_order_of(chosen_of(input, places, 2), input)
    return (values, in_order_of(places, input)) if return_indices else values


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """``adaptive_max_pool2d`` of rows, (n, channels, length)."""
    check_images("adaptive_max_pool1d", input, 1, 1 - input.ndim)
    images = input.unsqueeze(-2)
    made = _largest(images, _lengths("adaptive_max_pool1d", images, (1, one_number(output_size))), return_indices)
    return tuple(each.squeeze(-2) for each in made) if return_indices else made.squeeze(-2)


def covering(length: int, count: int) -> list[slice]:
    """As many windows as asked for that cover a length, as equal as can be; neighbours may overlap by an element."""
    return [slice(n * length // count, -(-(n + 1) * length // count)) for n in range(count)]


def check_images(name: str, input: Tensor, dimensions: int, needed: int) -> None:
    """Refuse what is not one image or several, or has none of the dimensions from ``needed`` on.

    Raises:
        ValueError: it is so.
        TypeError: the elements are no floating-point numbers.
    """
    if input.ndim not in (dimensions + 1, dimensions + 2):
        one, several = dimensions + 1, dimensions + 2
        raise ShapeError(f"{name}(): Expected {one}D or {several}D tensor, but got: {list(input.shape)}")
    if 0 in input.shape[needed:]:
        empty = input.shape.index(0, input.ndim + needed)
        raise ShapeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            f"{list(input.shape)} with dimension {empty} being empty"
        )
    if input.dtype.kind != "f":
        raise ElementTypeError(f'"{name}" not implemented for {input.dtype}: .to(cuplug.float32) it first')


def _lengths(name: str, images: Tensor, output_size: Any) -> Pair:
    """How many windows there are down and across."""
    given = (output_size,) * 2 if output_size is None or isinstance(output_size, Integral) else tuple(output_size)
    if len(given) != 2:
        raise ShapeError(f"{name}(): output_size must be 2 lengths or one, not {given!r}")
    rows, columns = pair([own if want is None else want for own, want in zip(images.shape[-2:], given, strict=True)])
    if min(rows, columns) < 0:
        raise ArgumentError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {rows, columns}"
        )
    # More than memory can be is refused before its windows are counted.
    expand(zeros((), dtype=images.dtype, device=images.device), *images.shape[:-2], rows, columns)
    return rows, columns
