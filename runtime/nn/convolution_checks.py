"""What convolutions refuse: shapes that do not fit, and settings that mean nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..tensor.core.printed_names import entitle
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ElementTypeError, ShapeError

Lengths = Sequence[int]


def check_convolution(
    input: Lengths, weight: Lengths, stride: Lengths, padding: Lengths, dilation: Lengths, groups: int
) -> None:
    """Refuse what is no convolution of inputs and filters of these shapes.

    Raises:
        ValueError: the shapes do not fit, a setting means nothing, or filters are larger than what they slide over.
    """
    _check_settings("conv", input, weight, stride, padding, dilation, groups)
    if groups * weight[1] != input[1] or weight[0] % groups:
        raise ShapeError(
            f"Given groups={groups}, weight of size {list(weight)}, expected input{list(input)} to have "
            f"{groups * weight[1]} channels, but got {input[1]} channels instead"
        )
    room = [length + 2 * edge for length, edge in zip(input[2:], padding, strict=True)]
    reach = [apart * (size - 1) + 1 for size, apart in zip(weight[2:], dilation, strict=True)]
    if any(one < other for one, other in zip(room, reach, strict=True)):
        raise ShapeError(
            f"Calculated padded input size per channel: {_by(room)}. Kernel size: {_by(reach)}. "
            "Kernel size can't be greater than actual input size"
        )


def spread_lengths(
    input: Lengths,
    weight: Lengths,
    stride: Lengths,
    padding: Lengths,
    output_padding: Lengths,
    dilation: Lengths,
    groups: int,
) -> list[int]:
    """How long the results of a transposed convolution of inputs and filters of these shapes are.

    Raises:
        ValueError: the shapes do not fit, a setting means nothing, or a result would have no length.
    """
    _check_settings("conv_transpose", input, weight, stride, padding, dilation, groups)
    if weight[0] != input[1] or input[1] % groups:
        raise ShapeError(
            f"Given transposed=1, weight of size {list(weight)}, expected input{list(input)} to have "
            f"{weight[0]} channels, but got {input[1]} channels instead"
        )
    if not prod(input[2:]):
        raise ShapeError(f"Only zero batch or zero channel inputs are supported, but got input shape: {list(input)}")
    if any(each < 0 for each in output_padding):
        raise ArgumentError("negative output_padding is not supported")
    if any(more >= max(two) for more, *two in zip(output_padding, stride, dilation, strict=True)):
        raise ArgumentError(
            "output padding must be smaller than either stride or dilation, but got output_padding "
            f"{_by(output_padding)}, stride {_by(stride)} and dilation {_by(dilation)}"
        )
    found = [
        (length - 1) * step - 2 * edge + apart * (size - 1) + more + 1
        for length, step, edge, apart, size, more in zip(
            input[2:], stride, padding, dilation, weight[2:], output_padding, strict=True
        )
    ]
    if min(found) < 1:
        raise ShapeError(
            f"Given input size per channel: {_by(input[2:])}. Calculated output size per channel: {_by(found)}. "
            "Output size is too small"
        )
    return found


def with_bias(made: Tensor, weight: Tensor, bias: Tensor | None, *, transposed: bool = False) -> Tensor:
    """What filters ``weight`` made, (n, results, ...), and one number for each result.

    Raises:
        ValueError: there are not as many numbers.
        TypeError: they are of another type.
    """
    if bias is None:
        return _convolution(made)
    count = made._layout.shape[1]
    if bias._layout.shape != (count,):
        raise ShapeError(
            f"Given {'transposed=1, ' if transposed else ''}weight of size {list(weight.shape)}, expected bias to be "
            f"1-dimensional with {count} elements, but got bias of size {list(bias.shape)} instead"
        )
    if bias._layout.dtype is not made._layout.dtype:
        raise ElementTypeError(f"Input type ({made.dtype}) and bias type ({bias.dtype}) should be the same")
    return _convolution(made + bias.view(1, -1, *[1] * (made.ndim - 2)))


def _convolution(made: Tensor) -> Tensor:
    if made._layout.tracked:
        entitle("ConvolutionBackward0", made)
    return made


def _check_settings(
    name: str,
    input: Lengths,
    weight: Lengths,
    stride: Lengths,
    padding: Lengths,
    dilation: Lengths,
    groups: int,
) -> None:
    directions = len(stride)
    one, several = directions + 1, directions + 2
    if len(input) != several:
        raise ShapeError(
            f"Expected {one}D (unbatched) or {several}D (batched) input to {name}{directions}d, but got input of size: "
            f"{list(input)}"
        )
    if len(weight) != several:
        raise ShapeError(f"{name}{directions}d: filters of shape {list(weight)} for inputs of shape {list(input)}")
    if min(padding) < 0:
        raise ArgumentError("negative padding is not supported")
    if min(stride) < 1:
        raise ArgumentError("non-positive stride is not supported")
    if min(dilation) < 1:
        raise ArgumentError(f"dilation should be greater than zero, but got {_by(dilation)}")
    if groups < 1:
        raise ArgumentError("non-positive groups is not supported")


def _by(lengths: Lengths) -> str:
    return f"({' x '.join(map(str, lengths))})"
