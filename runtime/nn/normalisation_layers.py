"""Layers that standardise."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from ..tensor.core.dtypes import int64
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ShapeError
from ..tensor.ops.making.creation import ones, zeros
from ..tensor.ops.making.from_values import tensor
from . import init
from .module import Module
from .normalisation import batch_norm, group_norm, instance_norm, layer_norm, local_response_norm, rms_norm
from .parameter import Parameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]


class _BatchNorm(Module):
    """Channels standardised over all samples: by those at hand while training, then by what was seen."""

    dimensions: tuple[int, ...] = ()
    _version = 2
    """States of version 1 have no ``num_batches_tracked``."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        made = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ones(num_features, **made)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_features, **made)) if affine and bias else None)
        self.register_buffer("running_mean", zeros(num_features, **made) if track_running_stats else None)
        self.register_buffer("running_var", ones(num_features, **made) if track_running_stats else None)
        count = tensor(0, dtype=int64, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)

    def reset_running_stats(self) -> None:
        """Forget what was seen: a mean of 0, and a variance of 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Begin anew: a weight of 1, a bias of 0, and nothing seen."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Mapping[str, Any], *found: Any, **named: Any
    ) -> None:
        name = f"{prefix}num_batches_tracked"
        if self.track_running_stats and local_metadata.get("version", 1) < 2 and name not in state_dict:
            state_dict[name] = tensor(0, dtype=int64, device="cpu")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *found, **named)

    def forward(self, input: Tensor) -> Tensor:
        """The channels standardised.

        Raises:
            ValueError: the input has not the dimensions of this layer.
        """
        if len(input._layout.shape) not in self.dimensions:
            raise _of_other_dimensions(self.dimensions, input)
        momentum = self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if momentum is None:
                momentum = 1 / int(self.num_batches_tracked)
        tracked = self.track_running_stats
        fresh = self.training or not tracked
        return batch_norm(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            fresh,
            momentum or 0.0,
            self.eps,
        )

    def extra_repr(self) -> str:
        """The number of channels and the settings."""
        settings = f"eps={self.eps}, momentum={self.momentum}, affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_features}, {settings}, track_running_stats={self.track_running_stats}"


def _of_other_dimensions(wanted: tuple[int, ...], input: Tensor) -> ShapeError:
    return ShapeError(f"expected {' or '.join(f'{each}D' for each in wanted)} input (got {input.ndim}D input)")


class BatchNorm1d(_BatchNorm):
    """``functional.batch_norm`` of (n, channels) or (n, channels, length)."""

    dimensions = (2, 3)


class BatchNorm2d(_BatchNorm):
    """``functional.batch_norm`` of (n, channels, height, width)."""

    dimensions = (4,)


class BatchNorm3d(_BatchNorm):
    """``functional.batch_norm`` of (n, channels, depth, height, width)."""

    dimensions = (5,)


class _InstanceNorm(_BatchNorm):
    """Channels of each sample standardised by themselves."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """The channels of each sample standardised; one sample may come without its dimension.

        Raises:
            ValueError: the input has not the dimensions of this layer.
        """
        (full,) = self.dimensions
        if input.ndim not in (full - 1, full):
            raise _of_other_dimensions((full - 1, full), input)
        rows = input.unsqueeze(0) if input.ndim == full - 1 else input
        own = self.training or not self.track_running_stats
        seen = (self.running_mean, self.running_var) if self.track_running_stats else (None, None)
        made = instance_norm(rows, seen[0], seen[1], self.weight, self.bias, own, self.momentum or 0.0, self.eps)
        return made.squeeze(0) if input.ndim == full - 1 else made


class InstanceNorm1d(_InstanceNorm):
    """``functional.instance_norm`` of (n, channels, length), or without n."""

    dimensions = (3,)


class InstanceNorm2d(_InstanceNorm):
    """``functional.instance_norm`` of (n, channels, height, width), or without n."""

    dimensions = (4,)


class InstanceNorm3d(_InstanceNorm):
    """``functional.instance_norm`` of (n, channels, depth, height, width), or without n."""

    dimensions = (5,)


class LocalResponseNorm(Module):
    """``functional.local_response_norm``, whose arguments it takes."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """``input``, (n, channels, ...), with each element divided by what its neighbours have."""
        return local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LayerNorm(Module):
    """The last dimensions of each sample brought to a mean of 0 and a variance of 1, then scaled and shifted.

    Args:
        normalized_shape: the lengths of these dimensions; a number for the last one alone.
        eps: what is added to the variance.
        elementwise_affine: whether there is a ``weight`` to multiply by, of that shape.
        bias: whether there is also a ``bias`` to add, of that shape.
        device: where the parameters are.
        dtype: their element type.
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, Integral) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        made = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ones(shape, **made)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(zeros(shape, **made)) if elementwise_affine and bias else None)

    def forward(self, input: Tensor) -> Tensor:
        """``input``, (..., *normalized_shape), standardised.

        Raises:
            ValueError: the last dimensions are not ``normalized_shape``.
        """
        return layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The shape that is standardised, and the settings."""
        settings = f"eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, {settings}"


class GroupNorm(Module):
    """Each sample's channels in groups, each group brought to a mean of 0 and a variance of 1; then scaled and
    shifted by channel.

    Args:
        num_groups: how many groups there are; they divide ``num_channels``.
        num_channels: the length of the second dimension.
        eps: what is added to the variance.
        affine: whether there are ``weight`` and ``bias``, a number for each channel.
        device: where the parameters are.
        dtype: their element type.
        bias: whether there is a ``bias``, where there is a ``weight``.

    Raises:
        ValueError: the channels cannot be divided into so many groups.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ArgumentError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        made = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ones(num_channels, **made)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_channels, **made)) if affine and bias else None)

    def forward(self, input: Tensor) -> Tensor:
        """``input``, (n, num_channels, ...), standardised by groups.

        Raises:
            ValueError: the channels cannot be divided into so many groups.
        """
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The numbers of groups and channels, and the settings."""
        affine, bias = self.weight is not None, self.bias is not None
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={affine}, bias={bias}"


class RMSNorm(Module):
    """The last dimensions of each sample divided by the root of their mean square, then scaled.

    Other arguments are those of ``LayerNorm``.

    Args:
        eps: what is added to the mean square; the least step of the element type at 1 if None.
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, Integral) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        made = Parameter(ones(shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", made)

    def forward(self, input: Tensor) -> Tensor:
        """``input``, (..., *normalized_shape), divided and scaled.

        Raises:
            ValueError: the last dimensions are not ``normalized_shape``.
        """
        return rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The shape that is divided, and the settings."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"
