"""Elements brought to mean 0 and variance 1, by channel, by sample or by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import Function, no_grad
from ..tensor.core.dtypes import float32
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ShapeError
from ..tensor.ops import elementwise_functions as each
from ..tensor.ops.reductions import mean
from .casting import cast_to_full

__all__ = ["batch_norm", "group_norm", "layer_norm", "normalize", "rms_norm"]


class _Standardised(Function):
    """Elements less their mean, by the root of their variance. Keeps the elements, and of each group two numbers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], eps: float) -> Any:
        wide = x.to(float32) if x.dtype.is_half else x
        middle = mean(wide, axes, True)
        centred = wide - middle
        variance = mean(centred * centred, axes, True)
        scale = each.rsqrt(variance + eps)
        ctx.axes = axes
        ctx.save_for_backward(x, middle, scale)
        ctx.mark_non_differentiable(middle, variance)
        return (centred * scale).to(x.dtype), middle, variance

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        x, middle, scale = ctx.saved_tensors
        if x.requires_grad:  # to be differentiated again: as functions of the elements
            wide = x.to(float32) if x.dtype.is_half else x
            again = mean(wide, ctx.axes, True)
            variance = mean((wide - again) * (wide - again), ctx.axes, True)
            scale = each.rsqrt(variance + (1 / (scale * scale) - variance).detach())
            middle = again
        gradient = grad_outputs[0].to(middle.dtype)
        normal = (x.to(middle.dtype) - middle) * scale
        made = gradient - mean(gradient, ctx.axes, True) - normal * mean(gradient * normal, ctx.axes, True)
        return (made * scale).to(x.dtype), None, None


def _scaled(made: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int] | None = None) -> Tensor:
    if weight is not None:
        made = made * (weight if shape is None else weight.view(*shape))
    if bias is not None:
        made = made + (bias if shape is None else bias.view(*shape))
    return made


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel, the second dimension, standardised over all others.

    Args:
        input: (n, channels, ...).
        running_mean: by channel, updated while training.
        running_var: by channel, updated while training.
        weight: by channel a factor, or None.
        bias: by channel a summand, or None.
        training: whether mean and variance are those of ``input``, instead of the running ones.
        momentum: how much of new means is taken.
        eps: what is added to the variance.

    Raises:
        ValueError: there is one element for each channel only while training, or no running statistics otherwise.
    """
    channels = input.shape[1]
    shape = (1, channels, *[1] * (input.ndim - 2))
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError("batch_norm: without training there must be running statistics")
        (wide,) = cast_to_full(input)
        scale = each.rsqrt(running_var + eps)
        return _scaled((wide - running_mean.view(*shape)) * scale.view(*shape), weight, bias, shape).to(input.dtype)
    count = input.numel() // channels
    if count < 2:
        raise ShapeError(f"batch_norm: more than one element for each channel is needed, not {list(input.shape)}")
    axes = (0, *range(2, input.ndim))
    made, middle, variance = _Standardised.apply(input, axes, eps)
    if running_mean is not None and running_var is not None:
        with no_grad():
            running_mean.mul_(1 - momentum).add_(middle.view(-1).to(running_mean.dtype), alpha=momentum)
            unbiased = variance.view(-1).to(running_var.dtype)
            running_var.mul_(1 - momentum).add_(unbiased, alpha=momentum * count / (count - 1))
    return _scaled(made, weight, bias, shape).to(input.dtype)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """The last dimensions standardised.

    Raises:
        ValueError: the last dimensions are not ``normalized_shape``.
    """
    shape = tuple(normalized_shape)
    if tuple(input.shape[-len(shape) :]) != shape:
        raise ShapeError(f"layer_norm: {list(shape)} are not the last dimensions of {list(input.shape)}")
    (input,) = cast_to_full(input)
    return _scaled(_Standardised.apply(input, tuple(range(-len(shape), 0)), eps)[0], weight, bias)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Groups of channels standardised, of each sample.

    Raises:
        ValueError: the channels cannot be divided into so many groups.
    """
    channels = input.shape[1]
    if channels % num_groups:
        raise ShapeError(f"group_norm: {channels} channels in {num_groups} groups")
    (input,) = cast_to_full(input)
    parts = input.reshape(input.shape[0], num_groups, -1)
    made = _Standardised.apply(parts, (2,), eps)[0].view(input.shape)
    return _scaled(made, weight, bias, (1, channels, *[1] * (input.ndim - 2)))


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """The last dimensions divided by the root of their mean square.

    Raises:
        ValueError: the last dimensions are not ``normalized_shape``.
    """
    shape = tuple(normalized_shape)
    if tuple(input.shape[-len(shape) :]) != shape:
        raise ShapeError(f"rms_norm: {list(shape)} are not the last dimensions of {list(input.shape)}")
    (input,) = cast_to_full(input)
    from ..tensor.core.dtype_limits import finfo

    small = finfo(input.dtype).eps if eps is None else eps
    made = input * each.rsqrt(mean(input * input, tuple(range(-len(shape), 0)), True) + small)
    return made if weight is None else made * weight


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divided by the norm along a dimension, or by ``eps`` where that is smaller."""
    return input / each.clamp_min(input.norm(p, dim, True), eps)
