"""Elements brought to mean 0 and variance 1, by channel, by sample or by group."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..autograd import Function, no_grad
from ..autograd.fused import by_parts, record_fused, wants_history
from ..autograd.graph import Kept, as_type, plain
from ..tensor.core.dtypes import float32
from ..tensor.core.layout import Layout
from ..tensor.core.memory_formats import keeps_channels_last
from ..tensor.core.needed_tensors import layout_of, needed
from ..tensor.core.printed_names import printed_as
from ..tensor.core.tensor import Tensor, make_tensor
from ..tensor.core.tensor_errors import ArgumentError, ShapeError
from ..tensor.ops.elementwise import elementwise_functions as each
from ..tensor.ops.joining.joining import cat
from ..tensor.ops.reductions.along import fused, run_fused
from ..tensor.ops.reductions.reductions import mean
from ..tensor.ops.reductions.reductions import sum as sum_of
from ..tensor.ops.shapes.reshape import contiguous
from ..tensor.places.place import place_at
from ..tensor.places.tables_with_gradients.fused_table import FUSED
from .casting import cast_to_full

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
]


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
        made = made * (weight if shape is None else needed(weight).view(*shape))
    if bias is not None:
        made = made + (bias if shape is None else needed(bias).view(*shape))
    return made


_BY_CHANNEL = "running_mean", "running_var", "weight", "bias"


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

    Where there are no elements, running means stay as they are.

    Raises:
        ValueError: there is one element for each channel only while training, or no running statistics otherwise; or
            there are no channels, or not as many means, variances, factors or summands; or ``eps`` is negative, or 0
            while training.
    """
    if eps <= 0 and (training or eps < 0):
        raise ArgumentError(
            f"batch_norm eps must be {'positive during training' if training else 'non-negative'}, but got {eps}"
        )
    return _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@printed_as("NativeBatchNormBackward0")
def _batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """``batch_norm`` with any ``eps``: in PyTorch ``instance_norm`` has it so."""
    if not layout_of(input).numel and (training or input.ndim < 2):
        by_channel = (1, input.shape[1], *[1] * (input.ndim - 2)) if input.ndim > 1 else (-1,)
        return _scaled(input.clone(), weight, bias, by_channel).to(input.dtype)
    if input.ndim < 2:
        raise ShapeError(f"batch_norm: the input has a dimension of channels behind the first, not {list(input.shape)}")
    channels = input._layout.shape[1]
    for position, given in enumerate((running_mean, running_var, weight, bias)):
        if given is not None and layout_of(given).numel != channels:  # a kernel would read beyond it
            raise ShapeError(
                f"batch_norm: {_BY_CHANNEL[position]} should contain {channels} elements not {given.numel()}"
            )
    by = _by_channels(input, weight, bias, running_mean, running_var) if training else None
    if by is not None:
        return _fused_batch_norm(by, input, weight, bias, running_mean, running_var, momentum, eps)
    if not training:
        shape = (1, channels, *[1] * (input.ndim - 2))
        if running_mean is None or running_var is None:
            raise ArgumentError("batch_norm: without training there must be running statistics")
        wide, middle, variance = input, running_mean, running_var
        if input.dtype.is_half or middle.dtype.is_half:
            wide, middle, variance = (x.to(float32) if x.dtype.is_half else x for x in (wide, middle, variance))
        scale = each.rsqrt(variance + eps)
        made = _scaled((wide - middle.view(*shape)) * scale.view(*shape), weight, bias, shape).to(input.dtype)
        layout = made._layout
        return made if layout.contiguous or keeps_channels_last(layout.shape, layout.strides) else made.contiguous()
    count = input.numel() // channels
    if count < 2:
        raise ShapeError(f"Expected more than 1 value per channel when training, got input size {list(input.shape)}")
    running = None if running_mean is None or running_var is None else (running_mean, running_var)
    made, middle, variance = _Standardised.apply(input, (0, *range(2, input.ndim)), eps)
    if running is not None:
        with no_grad():
            running[0].mul_(1 - momentum).add_(middle.view(-1).to(running[0].dtype), alpha=momentum)
            unbiased = variance.view(-1).to(running[1].dtype)
            running[1].mul_(1 - momentum).add_(unbiased, alpha=momentum * count / (count - 1))
    return _scaled(made, weight, bias, (1, channels, *[1] * (input.ndim - 2))).to(input.dtype)


def _can_be_fused(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, others: Sequence[Tensor] | None = None
) -> bool:
    """Whether the kernels take these: all at one place, and weights side by side."""
    small = [each for each in (weight, bias, *(others or ())) if each is not None]
    place = input._layout.place
    return input._layout.numel > 0 and all(
        each._layout.place is place and each._layout.contiguous and each.dtype.kind == "f" for each in small
    )


class _ByChannels:
    """Batch normalisation of tensors of these layouts by fused kernels: all that layouts settle is settled here."""

    def __init__(self, input: Layout, weight: Layout | None, running: Sequence[Layout]) -> None:
        """``running``: mean and variance, or none."""
        place, kind, computed = input.place, input.dtype, input.dtype.computed
        channels = input.shape[1]
        shape = (input.shape[0], channels, input.numel // (input.shape[0] * channels))
        parts = max(1, min(-(-shape[0] // 8), 1024 // channels))
        self.input, self.contiguous, self.parts = input.plain, input.contiguous, parts
        self.shown = x = Layout.of(place, kind, shape)
        self.result = Layout.of(place, kind, input.shape)
        self.computed = number = Layout.of(place, computed, (channels,))
        self.pair = Layout.of(place, computed, (2, channels))
        self.second = channels
        """Where the scales lie behind the means, in elements."""
        sums, total = Layout.of(place, computed, (channels, parts, 2)), Layout.of(place, computed, (channels, 2))
        self.empty = place_at(input).empty
        self.moments = fused("channel_moments", [sums], [x])
        old = running or [number, number]
        self.statistics = place_at(input).rows(FUSED["channel_statistics"], [number, number, *old], [sums, x, *old])
        scaling = [] if weight is None else [weight.plain]
        self.norm = fused("channel_norm", [x], [x, number, number, *scaling, *scaling])
        self.sums = fused("channel_sums", [sums], [x, x, number, number])
        self.gradient = fused("channel_gradient", [x], [x, x, number, number, total, *scaling])
        outs = [total, *([scaling[0].like()] * 2 if scaling else [number, number])]
        self.totals = fused("channel_totals", outs, [sums])

    def show(self, tensor: Tensor) -> Tensor:
        """The elements of a tensor shaped as the input, side by side and without history, by channels."""
        if not tensor._layout.contiguous:
            tensor = contiguous(plain(tensor))
        return make_tensor(tensor._storage, tensor._offset, self.shown)

    def apart(self, pair: Tensor) -> tuple[Tensor, Tensor]:
        """Means and scales by channel, which are made and kept together."""
        storage, start = pair._storage, pair._offset
        return make_tensor(storage, start, self.computed), make_tensor(storage, start + self.second, self.computed)

    def back(self, made: Tensor) -> Tensor:
        """What was computed by channels in the input's shape."""
        return make_tensor(made._storage, made._offset, self.result)


def _by_channels(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
) -> _ByChannels | None:
    """How fused kernels do it, or None where they do not."""
    own = input._layout
    key = (
        "batch norm",
        None if weight is None else weight._layout,
        None if bias is None else bias._layout,
        None if running_mean is None else running_mean._layout,
        None if running_var is None else running_var._layout,
    )
    plan: _ByChannels | bool | None = own.plans.get(key)
    if plan is None:
        running = [] if running_mean is None or running_var is None else [running_mean, running_var]
        can = _can_be_fused(input, weight, bias, running) and (weight is None) == (bias is None)
        can = can and input.numel() // input.shape[1] > 1
        if can and weight is not None and bias is not None:
            can = weight.dtype is bias.dtype and weight.shape == bias.shape
        plan = own.plans[key] = can and _ByChannels(own, key[1], [each._layout.plain for each in running])
    return plan if isinstance(plan, _ByChannels) else None


def _fused_batch_norm(
    by: _ByChannels,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> Tensor:
    x, empty, number = by.show(input), by.empty, by.computed
    (moments,) = by.moments(x, by.parts)
    pair = empty(by.pair)  # one memory for both, and one thing to keep
    mean_of, scale = by.apart(pair)
    if running_mean is None or running_var is None:
        old = empty(number).zero_(), empty(number).zero_()
    else:
        old = running_mean, running_var
    by.statistics(mean_of, scale, *old, moments, x, *old, eps, momentum)
    for one in old:
        one._storage.version += 1
    scaling = () if weight is None or bias is None else (plain(weight), plain(bias))
    made = by.back(by.norm(x, mean_of, scale, *scaling)[0])
    if not wants_history(input, weight, bias):
        return made
    kept = tuple([Kept(each) for each in (input, pair, weight) if each is not None])
    apply = _BatchNormGradient(by, kept, bias, eps)
    return record_fused("BatchNormBackward", made, (input, weight, bias), kept, apply)


class _BatchNormGradient:
    """The gradients of one batch normalisation. An object and no closure: as those of convolutions."""

    __slots__ = ("_bias", "_by", "_eps", "_kept")

    def __init__(self, by: _ByChannels, kept: tuple[Kept, ...], bias: Tensor | None, eps: float) -> None:
        """``kept``: input, means and scales; and the weight, if there is one."""
        self._by, self._kept, self._bias, self._eps = by, kept, bias, eps

    def __call__(self, node: Any, gradient: Tensor) -> Sequence[Any]:
        """Those of input, weight and bias, by that of the result."""
        by, (kept, kept_pair, *kept_weight) = self._by, self._kept
        source = kept.get(node)
        weighted = kept_weight[0].get(node) if kept_weight else None
        gradient = as_type(gradient, source.dtype)
        if wants_history(gradient, source, weighted):
            return by_parts(self._by_single_operations, (source, weighted, self._bias), gradient)
        given = by.show(gradient), by.show(source), *by.apart(kept_pair.get(node))
        total, to_weight, to_bias = by.totals(*by.sums(*given, by.parts))
        grown = by.back(by.gradient(*given, total, *(() if weighted is None else (plain(weighted),)))[0])
        return (grown, None, None) if weighted is None else (grown, to_weight, to_bias)

    def _by_single_operations(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        normal = _Standardised.apply(x, (0, *range(2, x.ndim)), self._eps)[0]
        return _scaled(normal, weight, bias, (1, x.shape[1], *[1] * (x.ndim - 2))).to(x.dtype)


def _shown(tensor: Tensor, layout: Layout) -> Tensor:
    """A tensor's elements, side by side and without history, in the shape of a contiguous layout."""
    ready = plain(tensor) if tensor._layout.contiguous else contiguous(plain(tensor))
    return ready if ready._layout is layout else make_tensor(ready._storage, ready._offset, layout)


@printed_as("NativeLayerNormBackward0")
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
    (input,) = cast_to_full(input)
    by = _rows_to_standardise(input, shape, weight, bias)
    if by is not None:
        return _fused_layer_norm(by, input, weight, bias, eps)
    return _scaled(_Standardised.apply(input, tuple(range(-len(shape), 0)), eps)[0], weight, bias)


class _Rows:
    """The standardisation of tensors of these layouts as rows: what layouts settle is settled here."""

    def __init__(self, input: Layout, length: int, weight: Layout | None, bias: Layout | None) -> None:
        place, computed = input.place, input.dtype.computed
        self.length = length
        self.count = input.numel // length
        self.result = Layout.of(place, input.dtype, input.shape)
        self.rows = Layout.of(place, input.dtype, (self.count, length))
        self.scaling = [Layout.of(place, each.dtype, (length,)) for each in (weight, bias) if each is not None]
        one = Layout.of(place, computed, (self.count, 1))
        self.norm = fused("layer_norm", [self.rows, one, one], [self.rows, *self.scaling])


def _rows_to_standardise(
    input: Tensor, shape: tuple[int, ...], weight: Tensor | None, bias: Tensor | None
) -> _Rows | None:
    """How kernels standardise tensors of these layouts over the last dimensions, ``shape``; None where they do not."""
    own = layout_of(input)
    key = (_Rows, shape, None if weight is None else layout_of(weight), None if bias is None else layout_of(bias))
    found: Any = own.plans.get(key)
    if found is None:
        if own.lengths[-len(shape) :] != shape:
            ending = ", ".join(map(str, ("*", *shape)))
            raise ShapeError(
                f"Given normalized_shape={list(shape)}, expected input with shape [{ending}], but got input of "
                f"size {list(input.shape)}"
            )
        alike = all(each is None or (each.dtype is own.dtype and tuple(each.shape) == shape) for each in (weight, bias))
        can = alike and own.dtype.kind == "f" and _can_be_fused(input, weight, bias)
        found = can and (bias is None or weight is not None) and _Rows(own, prod(shape), *key[2:])
        own.plans[key] = found
    return found or None


def _fused_layer_norm(by: _Rows, input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    given = [_shown(input, by.rows)]
    for one, layout in zip((weight, bias), by.scaling):  # noqa: B905 - there is no bias where there is no weight
        if one is not None:
            given.append(_shown(one, layout))
    made, middle, scale = by.norm(*given, eps)
    made = _shown(made, by.result)
    if not wants_history(input, weight, bias):
        return made
    kept, kept_weight = Kept(input), None if weight is None else Kept(weight)
    kept_middle, kept_scale = Kept(middle), Kept(scale)
    length, shape, computed = by.length, by.rows.shape, middle.dtype

    def compute(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        ndim = 0 if weight is None else weight.ndim
        axes = tuple(range(-ndim, 0)) if ndim else _last_axes(x, length)
        return _scaled(_Standardised.apply(x, axes, eps)[0], weight, bias)

    def apply(node: Any, gradient: Tensor) -> Sequence[Any]:
        source = kept.get(node)
        scaled = None if kept_weight is None else kept_weight.get(node)
        gradient = as_type(gradient, source.dtype)
        if wants_history(gradient, source, scaled):
            return by_parts(compute, (source, scaled, bias), gradient)
        given = [_shown(gradient, by.rows), _shown(source, by.rows), kept_middle.get(node), kept_scale.get(node)]
        grown = None
        if node.edges[0] is not None:
            weights = [] if scaled is None else [_shown(scaled, by.scaling[0])]
            (grown,) = run_fused("layer_norm_gradient", [(by.rows.dtype, shape)], [*given, *weights])
            grown = _shown(grown, by.result)
        if scaled is None:
            return grown, None, None
        parts = max(1, min(64, by.count // 32))
        (sums,) = run_fused("layer_norm_sums", [(computed, (parts, 2 * length))], given, parts)
        total = (sum_of(sums, 0) if parts > 1 else sums.view(-1)).to(scaled.dtype)
        return grown, total[:length].view(scaled.shape), total[length:].view(scaled.shape)

    keeps = [each for each in (kept, kept_weight, kept_middle, kept_scale) if each is not None]
    return record_fused("LayerNormBackward", made, (input, weight, bias), keeps, apply)


def _last_axes(x: Tensor, length: int) -> tuple[int, ...]:
    """The last dimensions that together have so many elements."""
    count, found = 1, 0
    while count != length or not found:
        found += 1
        count *= x.shape[-found]
    return tuple(range(-found, 0))


@printed_as("NativeGroupNormBackward0")
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Groups of channels standardised, of each sample.

    Raises:
        ValueError: there are fewer than two dimensions, or the channels cannot be divided into so many groups.
    """
    if needed(input).ndim < 2:
        raise ShapeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    channels = input.shape[1]
    if channels % num_groups:
        raise ShapeError(f"group_norm: {channels} channels in {num_groups} groups")
    (input,) = cast_to_full(input)
    if input.dtype.is_half and input.device.type == "cpu":  # rounded once, as by PyTorch
        factor, summand = (x if x is None else x.to(float32) for x in (weight, bias))
        return group_norm(input.to(float32), num_groups, factor, summand, eps).to(input.dtype)
    parts = input.reshape(input.shape[0], num_groups, prod(input.shape[1:]) // num_groups)
    by = _rows_to_standardise(parts, (parts.shape[2],), None, None) if parts.numel() else None
    if by is not None:
        made = _fused_layer_norm(by, parts, None, None, eps).view(input.shape)
    else:
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
    if tuple(layout_of(input).shape[-len(shape) :]) != shape:
        raise ShapeError(f"rms_norm: {list(shape)} are not the last dimensions of {list(input.shape)}")
    (input,) = cast_to_full(input)
    from ..tensor.core.dtype_limits import finfo

    small = finfo(input.dtype).eps if eps is None else eps
    x = input.to(float32) if input.dtype.is_half else input  # the squares of halves are beyond their range
    made = x * each.rsqrt(mean(x * x, tuple(range(-len(shape), 0)), True) + small)
    return (made if weight is None else made * weight).to(input.dtype)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divided by the norm along a dimension, or by ``eps`` where that is smaller."""
    return input / each.clamp_min(needed(input).norm(p, dim, True), eps)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each sample standardised by itself: ``batch_norm`` of all samples' channels side by side.

    Args:
        input: (n, channels, ...).
        running_mean: by channel, updated where ``use_input_stats``; or None.
        running_var: by channel, updated where ``use_input_stats``; or None.
        weight: by channel a factor, or None.
        bias: by channel a summand, or None.
        use_input_stats: whether mean and variance are those of ``input``, instead of the running ones.
        momentum: how much of new means is taken.
        eps: what is added to the variance.

    Raises:
        ValueError: a channel has one element only, or there are no running statistics to use.
    """
    count, channels = layout_of(input).shape[:2]
    if not use_input_stats:
        return _batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    seen_mean, seen_var, scale, shift = (
        None if each is None else needed(each).repeat(count) for each in (running_mean, running_var, weight, bias)
    )
    rows = input.reshape(1, count * channels, *input.shape[2:])
    made = _batch_norm(rows, seen_mean, seen_var, scale, shift, True, momentum, eps)
    with no_grad():
        for running, seen in ((running_mean, seen_mean), (running_var, seen_var)):
            if running is not None and seen is not None:
                running.copy_(mean(seen.view(count, channels), 0))
    return made.view(input.shape)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Elements divided by ``(k + alpha * mean of the squares of size neighbouring channels) ** beta``.

    Args:
        input: (n, channels, ...).
        size: how many channels count; those beyond the first and the last are zeros.
        alpha: the factor.
        beta: the power.
        k: the summand.
    """
    if not layout_of(input).numel:
        return input
    channels = input.shape[1]
    squares = each.square(input).reshape(input.shape[0], channels, -1)
    before, behind = size // 2, (size - 1) // 2
    sums = None
    for offset in range(-before, behind + 1):
        low, high = max(0, -offset), min(channels, channels - offset)
        if low >= high:
            continue
        part = squares[:, low + offset : high + offset]
        edges = [squares.new_zeros(squares.shape[0], wide, squares.shape[2]) for wide in (low, channels - high)]
        whole = cat([edges[0], part, edges[1]], 1)
        sums = whole if sums is None else sums + whole
    assert sums is not None
    mean = sums / size if sums.is_floating_point() else sums // size  # as torch's mean of integers
    divisor: Tensor = ((mean * alpha + k) ** beta).view(input.shape)
    return input / divisor
