"""Layers of volumes, and those of images and rows that are made of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor.core.tensor import Tensor
from .adaptive_pooling import (
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from .convolution_layers import _AdaptiveAvgPoolNd, _AvgPoolNd, _ConvNd, _ConvTransposeNd, _MaxPoolNd
from .module import Module
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


class Conv3d(_ConvNd):
    """``Conv2d`` of volumes (n, channels, depth, height, width), or of one without n."""

    directions = 3
    _function = staticmethod(conv3d)


class ConvTranspose1d(_ConvTransposeNd):
    """``ConvTranspose2d`` of rows (n, channels, length), or of one without n."""

    directions = 1
    _function = staticmethod(conv_transpose1d)


class ConvTranspose3d(_ConvTransposeNd):
    """``ConvTranspose2d`` of volumes (n, channels, depth, height, width), or of one without n."""

    directions = 3
    _function = staticmethod(conv_transpose3d)


class MaxPool3d(_MaxPoolNd):
    """``MaxPool2d`` of volumes (n, channels, depth, height, width), or of one without n: ``functional.max_pool3d``."""

    _function = staticmethod(max_pool3d)


class AvgPool3d(_AvgPoolNd):
    """``AvgPool2d`` of volumes (n, channels, depth, height, width), or of one without n: ``functional.avg_pool3d``."""

    _function = staticmethod(avg_pool3d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Volumes reduced to ``output_size``, (depth, height, width) or one number, by means of windows."""

    _function = staticmethod(adaptive_avg_pool3d)


class _AdaptiveMaxPoolNd(Module):
    """Something reduced to ``output_size`` by the largest elements of windows that cover it."""

    _told = ("output_size",)
    _function: Callable[..., Any]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        """Rows, images or volumes, (n, channels, ...) or one without n, in the size asked for; with ``return_indices``
        also where in ``input`` the largest elements are."""
        return type(self)._function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Images reduced to ``output_size``, (height, width) or one number, by the largest elements of windows."""

    _function = staticmethod(adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Volumes reduced to ``output_size``, (depth, height, width) or one number, by the largest elements of windows."""

    _function = staticmethod(adaptive_max_pool3d)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Rows reduced to the length ``output_size`` by the largest elements of windows."""

    _function = staticmethod(adaptive_max_pool1d)
