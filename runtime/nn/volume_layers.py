"""Layers of volumes, and those of images and rows that are made of others."""

from __future__ import annotations

from typing import Any

from ..tensor.core.tensor import Tensor
from .adaptive_pooling import (
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from .convolution_layers import AdaptiveAvgPool2d, AvgPool2d, ConvTranspose2d, Filters, MaxPool2d
from .volumes import avg_pool3d, conv3d, conv_transpose1d, conv_transpose3d, max_pool3d

__all__ = [
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool3d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose3d",
    "MaxPool3d",
]


class Conv3d(Filters):
    """``functional.conv3d`` with filters and a bias of its own. The arguments are those of the function."""

    directions = 3

    def forward(self, input: Tensor) -> Tensor:
        """Correlate volumes (n, channels, depth, height, width), or one without n, with each filter.

        Raises:
            ValueError: the shapes do not fit.
        """
        input, padding = self._padded(input)
        return conv3d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class ConvTranspose1d(ConvTranspose2d):
    """``functional.conv_transpose1d`` with filters and a bias of its own. The arguments are those of the function."""

    directions = 1

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Spread a filter from each element of rows (n, channels, length), and add up.

        Args:
            input: the rows.
            output_size: the length of the result, as a sequence of one number; or None.

        Raises:
            ValueError: the shapes do not fit, or the result cannot have that size.
        """
        more = self._output_padding(input, output_size)
        return conv_transpose1d(
            input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        )


class ConvTranspose3d(ConvTranspose2d):
    """``functional.conv_transpose3d`` with filters and a bias of its own. The arguments are those of the function."""

    directions = 3

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Spread a filter from each element of volumes (n, channels, depth, height, width), or of one without n, and
        add up.

        Args:
            input: the volumes.
            output_size: (depth, height, width) of the result; or None.

        Raises:
            ValueError: the shapes do not fit, or the result cannot have that size.
        """
        more = self._output_padding(input, output_size)
        return conv_transpose3d(
            input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        )


class MaxPool3d(MaxPool2d):
    """The largest element of each window of volumes: ``functional.max_pool3d``, whose arguments it takes."""

    def forward(self, input: Tensor) -> Any:
        """The largest element of each window of volumes (n, channels, depth, height, width), or of one without n.

        Raises:
            ValueError: the volume is too small.
        """
        return max_pool3d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class AvgPool3d(AvgPool2d):
    """The mean of each window of volumes: ``functional.avg_pool3d``, whose arguments it takes."""

    def forward(self, input: Tensor) -> Tensor:
        """The mean of each window of volumes (n, channels, depth, height, width), or of one without n.

        Raises:
            ValueError: the volume is too small.
        """
        return avg_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AdaptiveMaxPool2d(AdaptiveAvgPool2d):
    """Images reduced to ``output_size``, (height, width) or one number, by the largest elements of windows."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """Images (n, channels, height, width), or one without n, in the size asked for."""
        return adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveAvgPool3d(AdaptiveAvgPool2d):
    """Volumes reduced to ``output_size``, (depth, height, width) or one number, by means of windows."""

    def forward(self, input: Tensor) -> Tensor:
        """Volumes (n, channels, depth, height, width), or one without n, in the size asked for."""
        return adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool3d(AdaptiveMaxPool2d):
    """Volumes reduced to ``output_size``, (depth, height, width) or one number, by the largest elements of windows."""

    def forward(self, input: Tensor) -> Any:
        """Volumes (n, channels, depth, height, width), or one without n, in the size asked for."""
        return adaptive_max_pool3d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(AdaptiveMaxPool2d):
    """Rows reduced to the length ``output_size`` by the largest elements of windows."""

    def forward(self, input: Tensor) -> Any:
        """Rows (n, channels, length) in the length asked for."""
        return adaptive_max_pool1d(input, self.output_size, self.return_indices)
