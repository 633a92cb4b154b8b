"""Layers that slide over images and rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.making.creation import empty
from . import init
from .adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d
from .convolution import conv1d, conv2d, conv_transpose2d
from .interpolation import interpolate
from .module import Module
from .parameter import Parameter
from .pooled_windows import (
    avg_pool1d,
    avg_pool2d,
    fold,
    max_pool1d,
    max_pool2d,
    one_number,
    pad,
    step_of,
    unfold,
)

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "Fold",
    "MaxPool1d",
    "MaxPool2d",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class _ConvNd(Module):
    """Filters that slide, of one to three dimensions.

    Raises:
        ValueError: there is no such ``padding_mode``: ``zeros``, ``reflect``, ``replicate`` or ``circular``; channels
            cannot be divided into groups, ``padding`` is another word than ``same`` and ``valid``, or ``same`` where
            filters move by more than one element.
    """

    directions = 2
    transposed = False
    _function: Callable[..., Tensor]
    """What of ``functional`` the layer computes."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ArgumentError(f"groups must be a positive integer, not {groups}")
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if count % groups:
                raise ArgumentError(f"{name} must be divisible by groups: {count} and {groups}")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ArgumentError(f"Invalid padding string {padding!r}, should be one of 'same', 'valid'")
            if padding == "same" and any(each != 1 for each in self._each(stride)):
                raise ArgumentError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ArgumentError(f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode={padding_mode!r}")
        if self.transposed and padding_mode != "zeros":
            raise ArgumentError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self.padding_mode = padding_mode
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        size = self.kernel_size = self._each(kernel_size)
        self.stride, self.dilation, self.output_padding = self._each(stride), self._each(dilation), self._each(0)
        self.padding = padding if isinstance(padding, str) else self._each(padding)
        first = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first[0], first[1] // groups, *size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values: uniform within 1 / sqrt(elements of a filter) of 0, for ``weight`` and ``bias`` alike."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None and self.weight.numel():
            bound = 1 / math.sqrt(math.prod(self.weight.shape[1:]))
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Channels, the filters' size and the stride, and what else is not as by default."""
        told = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        none = self._each(0)
        usual = {"stride": None, "padding": none, "dilation": self._each(1), "output_padding": none, "groups": 1}
        for name, value in usual.items():
            found = getattr(self, name, value)  # layers of earlier files have numbers, and no output_padding
            if isinstance(found, Integral) and name != "groups":
                found = self._each(found)
            if found != value:
                told += f", {name}={found}"
        told += ", bias=False" if self.bias is None else ""
        return told + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "")

    def forward(self, input: Tensor) -> Tensor:
        """Correlate rows, images or volumes, (n, channels, ...) or one without n, with each filter.

        Raises:
            ValueError: the shapes do not fit.
        """
        input, padding = self._padded(input)
        return type(self)._function(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """``forward`` with other weights: layers of programs that change the weights call it."""
        input, padding = self._padded(input)
        return type(self)._function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def _padded(self, input: Tensor) -> tuple[Tensor, Any]:
        """The input with what ``padding_mode`` puts around it, and the zeros that are left for the convolution."""
        if self.padding_mode == "zeros":
            return input, self.padding
        alike = self.padding == "same"
        reach = [apart * (size - 1) for apart, size in zip(self._each(self.dilation), self.kernel_size, strict=True)]
        before = [each // 2 for each in reach] if alike else self._each(0 if self.padding == "valid" else self.padding)
        after = [each - first for each, first in zip(reach, before, strict=True)] if alike else before
        around = [number for pair in zip(reversed(before), reversed(after), strict=True) for number in pair]
        return pad(input, around, self.padding_mode), 0

    def _each(self, setting: Any) -> tuple[int, ...]:
        """A number for each direction."""
        return (int(setting),) * self.directions if isinstance(setting, Integral) else tuple(setting)


_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class Conv2d(_ConvNd):
    """``functional.conv2d`` with filters and a bias of its own. The arguments are those of the function.

    ``forward`` takes images (n, channels, height, width), or one without n.
    """

    _function = staticmethod(conv2d)


class Conv1d(_ConvNd):
    """``Conv2d`` of rows (n, channels, length), or of one without n."""

    directions = 1
    _function = staticmethod(conv1d)


class _ConvTransposeNd(_ConvNd):
    """Filters that are spread, of one to three dimensions."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self.output_padding = self._each(output_padding)

    def _output_padding(self, input: Tensor, output_size: Any) -> Any:
        """How much longer the result is to be, so that it has the size asked for."""
        if output_size is None:
            return self.output_padding
        wanted, lengths = list(output_size), list(input.shape[-self.directions :])
        if len(wanted) == input.ndim:
            wanted = wanted[-self.directions :]
        settings = (self._each(each) for each in (self.stride, self.padding, self.dilation))
        least = [
            (length - 1) * step - 2 * edge + apart * (size - 1) + 1
            for length, size, step, edge, apart in zip(lengths, self.kernel_size, *settings, strict=True)
        ]
        most = [each + step - 1 for each, step in zip(least, self._each(self.stride), strict=True)]
        if len(wanted) != len(least) or any(
            not low <= each <= high for low, each, high in zip(least, wanted, most, strict=True)
        ):
            raise ArgumentError(
                f"requested an output size of {list(output_size)}, but valid sizes range from {least} to {most} (for "
                f"an input of {lengths})"
            )
        return tuple(each - low for each, low in zip(wanted, least, strict=True))

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Spread a filter from each element of rows, images or volumes, (n, channels, ...) or without n, and add up.

        Args:
            input: the rows, images or volumes.
            output_size: the lengths of the result, which several inputs can have with a stride above 1; or None.

        Raises:
            ValueError: the shapes do not fit, or the result cannot have that size.
        """
        more = self._output_padding(input, output_size)
        return type(self)._function(
            input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        )


class ConvTranspose2d(_ConvTransposeNd):
    """``functional.conv_transpose2d`` with filters and a bias of its own. The arguments are those of the function."""

    _function = staticmethod(conv_transpose2d)


class _MaxPoolNd(Module):
    """The largest element of each window."""

    _told = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    _function: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, step_of(stride, kernel_size), padding
        self.dilation, self.return_indices, self.ceil_mode = dilation, return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The largest element of each window of rows, images or volumes, (n, channels, ...) or one without n.

        Raises:
            ValueError: they are too small.
        """
        return type(self)._function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window of images: ``functional.max_pool2d``, whose arguments it takes."""

    _function = staticmethod(max_pool2d)


class MaxPool1d(_MaxPoolNd):
    """The largest element of each window of rows: ``functional.max_pool1d``, whose arguments it takes."""

    _function = staticmethod(max_pool1d)


class _AvgPoolNd(Module):
    """The mean of each window."""

    _told = ("kernel_size", "stride", "padding")
    _function: Callable[..., Tensor]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, step_of(stride, kernel_size), padding
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """The mean of each window of images or volumes, (n, channels, ...) or one without n.

        Raises:
            ValueError: they are too small.
        """
        settings = (self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)
        return type(self)._function(input, *settings, self.divisor_override)


class AvgPool2d(_AvgPoolNd):
    """The mean of each window of images: ``functional.avg_pool2d``, whose arguments it takes."""

    _function = staticmethod(avg_pool2d)


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of rows: ``functional.avg_pool1d``, whose arguments it takes."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        size, step, edge = ((one_number(each),) for each in (kernel_size, step_of(stride, kernel_size), padding))
        super().__init__(size, step, edge, ceil_mode, count_include_pad)

    def forward(self, input: Tensor) -> Tensor:
        """The mean of each window of rows (n, channels, length).

        Raises:
            ValueError: the rows are too short.
        """
        return avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AdaptiveAvgPoolNd(Module):
    """Something reduced to ``output_size`` by means of windows that cover it."""

    _told = ("output_size",)
    _function: Callable[..., Tensor]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Rows, images or volumes, (n, channels, ...) or one without n, in the size asked for."""
        return type(self)._function(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Images reduced to ``output_size``, (height, width) or one number, by means of windows that cover them."""

    _function = staticmethod(adaptive_avg_pool2d)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Rows reduced to the length ``output_size`` by means of windows that cover them."""

    _function = staticmethod(adaptive_avg_pool1d)


class Upsample(Module):
    """Rows, images or volumes in another size: ``functional.interpolate``, whose arguments it takes."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size, self.mode, self.align_corners = size, mode, align_corners
        several = isinstance(scale_factor, (tuple, list))
        self.scale_factor = tuple(map(float, scale_factor)) if several else scale_factor and float(scale_factor)
        self.recompute_scale_factor = recompute_scale_factor

    def extra_repr(self) -> str:
        """The size, or the factor, and the mode."""
        asked = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{asked}, mode={self.mode!r}"

    def forward(self, input: Tensor) -> Tensor:
        """(n, channels, ...) in the size asked for.

        Raises:
            ValueError: there is no such mode, or not one of size and factor.
        """
        return interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )


class UpsamplingNearest2d(Upsample):
    """``Upsample`` of images by the nearest elements."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """``Upsample`` of images, bilinear, where the centres of the corners stay."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)


class Unfold(Module):
    """The windows of images as columns: ``functional.unfold``, whose arguments it takes."""

    _told = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """The windows of ``input``, (n, channels, height, width) or without n, as (n, channels * elements of a window,
        positions).

        Raises:
            ValueError: the image is too small.
        """
        return unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(Module):
    """Images of the columns that ``Unfold`` makes: ``functional.fold``, whose arguments it takes."""

    _told = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """The sums of the columns ``input``, (n, channels * elements of a window, positions) or without n, as images.

        Raises:
            ValueError: the columns are not of such windows in images of that size.
        """
        return fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)
