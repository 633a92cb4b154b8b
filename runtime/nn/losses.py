"""What is minimised: distances between what a network says and what it should say."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ...allocators.errors import CuplugError
from ..autograd import Function
from ..autograd.gradient_column import where
from ..machine.callers import warn_program
from ..tensor.core.casting_seam import autocasting
from ..tensor.core.dtypes import int64
from ..tensor.core.needed_tensors import layout_of, needed
from ..tensor.core.printed_names import entitle, printed_as
from ..tensor.core.shapes import broadcast_shapes
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ShapeError
from ..tensor.ops.arguments.scalars import are_probabilities
from ..tensor.ops.arithmetic.arithmetic import clamp
from ..tensor.ops.elementwise import elementwise_functions as each
from ..tensor.ops.reductions.reductions import mean
from ..tensor.ops.reductions.reductions import sum as sum_of
from .activations import log_softmax
from .casting import cast_to_full, full_type
from .fused_losses import class_losses

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_similarity",
    "cross_entropy",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
]


_REDUCTIONS = ("mean", "sum", "none")


def reduced(losses: Tensor, reduction: str, title: str = "") -> Tensor:
    """The mean or the sum of losses, or the losses themselves; of which ``grad_fn`` prints ``title``, if one is given.

    Raises:
        ValueError: there is no such reduction: ``mean``, ``sum`` or ``none``.
    """
    check_reduction(reduction)
    made = mean(losses) if reduction == "mean" else sum_of(losses) if reduction == "sum" else losses
    if title and made._layout.tracked:
        entitle(title, made)
    return made


def check_reduction(reduction: str) -> None:
    """Refuse what is no reduction: for losses that compute much before it is asked for.

    Raises:
        ValueError: it is not ``mean``, ``sum`` or ``none``.
    """
    if reduction not in _REDUCTIONS:
        raise ArgumentError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")


def older_reduction(size_average: bool | None, reduce: bool | None) -> str:
    """What the older names mean, as torch's ``nn._reduction.legacy_get_string``: ``reduce=False`` is ``none``,
    ``size_average=False`` is ``sum``, else ``mean``."""
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


_Made = TypeVar("_Made", bound=Callable[..., Tensor])


def takes_older_names(function: _Made) -> _Made:
    """Let a loss be called with ``size_average`` and ``reduce``, by name, in place of ``reduction``."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Tensor:
        if "size_average" in kwargs or "reduce" in kwargs:
            older = kwargs.pop("size_average", None), kwargs.pop("reduce", None)
            if older != (None, None):
                kwargs["reduction"] = older_reduction(*older)
        return function(*args, **kwargs)

    return called  # type: ignore[return-value]


@takes_older_names
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """The squared differences, times ``weight``, of which the mean is then taken, if it is given.

    Raises:
        ValueError: there is no such reduction: ``mean``, ``sum`` or ``none``; or the shapes do not broadcast, or
            ``weight`` has not that of ``input``.
    """
    losses = each.square(_apart(input, target))
    if weight is not None:
        return _weighted(losses, _weight_for(input, weight), reduction)
    return reduced(losses, reduction, "MseLossBackward0")


def _apart(input: Tensor, target: Tensor) -> Tensor:
    """``input - target``, with a warning of shapes that differ: most often nobody meant that."""
    input, target = cast_to_full(input, target)
    made: Tensor = input - target
    if isinstance(input, Tensor) and isinstance(target, Tensor) and input._layout.shape != target._layout.shape:
        warn_program(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}): the two "
            "broadcast, which most often gives a wrong loss; make sure that they have the same size",
        )
    return made


def _weight_for(input: Tensor, weight: Tensor) -> Tensor:
    if layout_of(weight).shape != layout_of(input).shape:
        raise ShapeError(f"Weights and input must have the same size: {list(weight.shape)} and {list(input.shape)}")
    return weight


def _weighted(losses: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """Losses times their weights; the mean is that of the weights, too."""
    total = reduced(losses * weight, "sum" if reduction == "mean" else reduction)
    return total / sum_of(weight) if reduction == "mean" else total


@takes_older_names
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """The absolute differences, times ``weight``, of which the mean is then taken, if it is given.

    Raises:
        ValueError: there is no such reduction, the shapes do not broadcast, or ``weight`` has not that of ``input``.
    """
    losses = each.abs(_apart(input, target))
    if weight is not None:
        return _weighted(losses, _weight_for(input, weight), reduction)
    return reduced(losses, reduction)


@takes_older_names
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Absolute differences less ``beta / 2``; below ``beta`` the squared ones divided by ``2 * beta``.

    Raises:
        ValueError: there is no such reduction, the shapes do not broadcast, or ``beta`` is negative.
    """
    if beta < 0:
        raise ArgumentError("smooth_l1_loss does not support negative values for beta.")
    apart = each.abs(_apart(input, target))
    if beta == 0:
        return reduced(apart, reduction)
    losses = where(apart < beta, apart * apart * (0.5 / beta), apart - 0.5 * beta)
    return reduced(losses, reduction, "SmoothL1LossBackward0")


@printed_as("HuberLossBackward0")
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """``smooth_l1_loss`` times ``delta``, and times ``weight`` if it is given.

    Raises:
        ValueError: there is no such reduction, the shapes do not broadcast, ``delta`` is not positive, or ``weight``
            has not the shape of ``input``.
    """
    if delta <= 0:
        raise ArgumentError("huber_loss does not support non-positive values for delta.")
    if weight is not None:
        losses = smooth_l1_loss(input, target, "none", delta) * delta
        return reduced(losses * _weight_for(input, weight), reduction)
    return smooth_l1_loss(input, target, reduction, delta) * delta


@takes_older_names
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """The cross entropy of probabilities; logarithms are -100 at least.

    Raises:
        ValueError: there is no such reduction, the shapes differ, or an element on the CPU is no probability.
        CuplugError: it is called under ``autocast`` for CUDA, as torch's.
    """
    if layout_of(input).place.device.type == "cuda" and autocasting.fast.get("cuda") is not None:
        raise CuplugError(
            "binary_cross_entropy and BCELoss are unsafe to autocast: the logarithms of probabilities of a half type "
            "overflow; use binary_cross_entropy_with_logits or BCEWithLogitsLoss in place of a sigmoid and this"
        )
    if layout_of(input).shape != layout_of(target).shape:
        raise ShapeError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    if not are_probabilities(input):
        raise ArgumentError("all elements of input should be between 0 and 1: are they results of a sigmoid?")
    losses: Tensor = _OfProbabilities.apply(input, target)
    return reduced(losses if weight is None else losses * weight, reduction, "BinaryCrossEntropyBackward0")


class _OfProbabilities(Function):
    """Binary cross entropies. Where a probability is 0 or 1, the gradient is large, but a number, as torch's."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, target: Tensor) -> Tensor:
        ctx.save_for_backward(input, target)
        there, not_there = _logarithms(input)
        return -(target * there + (1 - target) * not_there)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (gradient,), (input, target) = grad_outputs, ctx.saved_tensors
        to_input = to_target = None
        if ctx.needs_input_grad[0]:
            to_input = gradient * (input - target) / clamp((1 - input) * input, min=1e-12)
        if ctx.needs_input_grad[1]:
            there, not_there = _logarithms(input)
            to_target = gradient * (not_there - there)
        return to_input, to_target


def _logarithms(probability: Tensor) -> tuple[Tensor, Tensor]:
    return clamp(each.log(probability), min=-100), clamp(each.log1p(-probability), min=-100)


@takes_older_names
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """The cross entropy of ``sigmoid(input)``, exact also far from 0.

    Args:
        input: logits.
        target: probabilities, of the same shape.
        weight: a factor for each element, or None.
        reduction: ``mean``, ``sum`` or ``none``.
        pos_weight: a factor for what is 1, or None.

    Raises:
        ValueError: there is no such reduction, or the shapes differ.
    """
    if layout_of(input).shape != layout_of(target).shape:
        raise ShapeError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    input, target = cast_to_full(input, target)
    spread = each.log1p(each.exp(-each.abs(input))) + each.maximum(-input, input.new_zeros(()))  # half a gradient at 0
    factor: Any = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    losses = (1 - target) * input + factor * spread
    return reduced(losses if weight is None else losses * weight, reduction, "BinaryCrossEntropyWithLogitsBackward0")


@takes_older_names
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """How far probabilities are from ``target``; ``input`` has their logarithms.

    Args:
        input: logarithms of probabilities.
        target: probabilities, or their logarithms.
        reduction: ``batchmean``, ``mean``, ``sum`` or ``none``.
        log_target: whether ``target`` has logarithms.

    Raises:
        ValueError: there is no such reduction.
    """
    if log_target:
        losses = each.exp(target) * (target - input)
    else:
        losses = where(target != 0, target * each.log(where(target != 0, target, 1.0)), 0.0) - target * input
    if reduction == "batchmean":
        mean_of_samples: Tensor = sum_of(losses) / (input.shape[0] if input.ndim else 1)
        return mean_of_samples
    return reduced(losses, reduction)


@takes_older_names
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """The negative logarithms of the probabilities of the classes that are right.

    Args:
        input: logarithms of probabilities, (n, classes, ...) or (classes,).
        target: the classes, int64, (n, ...) or without dimensions.
        weight: a factor for each class, or None; the mean is then a weighted one.
        ignore_index: a class that does not count.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: there is no such reduction, or the shapes do not fit.
        TypeError: the classes are not of int64.
    """
    made = _of_classes(input, target, weight, ignore_index, reduction, 0.0)
    entitle(_title(input), made)
    return made


@takes_older_names
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """``nll_loss`` of ``log_softmax``; or the cross entropy with probabilities, where ``target`` has the input's shape.

    Other arguments and errors are those of ``nll_loss``.

    Args:
        input: logits, (n, classes, ...) or (classes,).
        label_smoothing: which part of the probability all classes have in equal parts.

    Raises:
        ValueError: there is no such reduction, the shapes do not fit, ``label_smoothing`` is not within [0, 1], or
            ``ignore_index`` is a class, and ``target`` has probabilities.
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    kind = full_type(input)
    place = layout_of(target).place
    alike = place is input._layout.place and target.dtype is int64 and target.shape == input.shape[:1]
    if input.ndim == 2 and alike and input.numel() and kind.kind == "f" and weight is None and reduction in _REDUCTIONS:

        def compute(logits: Tensor) -> Tensor:
            logs = log_softmax(logits.to(kind), 1)
            return _of_classes(logs, target, None, ignore_index, reduction, label_smoothing)

        return class_losses(input, target, ignore_index, label_smoothing, reduction, kind, compute)
    (input,) = cast_to_full(input)
    axis = 0 if input.ndim == 1 else 1
    logs = log_softmax(input, axis)
    if target.is_floating_point():
        if ignore_index >= 0:
            raise ArgumentError("ignore_index is not supported for floating point target")
        if target.shape != input.shape:
            raise ShapeError(
                f"expected target dtype to be Long, or probabilities for an input of shape {list(input.shape)}, but "
                f"got {target.dtype!r} of shape {list(target.shape)}; .long() makes classes"
            )
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / input.shape[axis]
        if weight is not None and tuple(layout_of(weight).shape) != (input.shape[axis],):
            raise ShapeError(f"cross_entropy: weights of shape {list(weight.shape)} for {input.shape[axis]} classes")
        shares = logs * target  # and then times the weight: halves are rounded after each product, as torch's
        losses = -sum_of(shares if weight is None else shares * weight.view(*_by_class(input, axis)), axis)
        if reduction == "mean":
            weighted: Tensor = sum_of(losses) / (input.numel() // input.shape[axis])
            return weighted
        return reduced(losses, reduction)
    made = _of_classes(logs, target, weight, ignore_index, reduction, label_smoothing)
    if not label_smoothing:
        entitle(_title(input), made)
    return made


def _title(input: Tensor) -> str:
    return "NllLossBackward0" if input.ndim <= 2 else "NllLoss2DBackward0"


def _by_class(input: Tensor, axis: int) -> list[int]:
    shape = [1] * input.ndim
    shape[axis] = input.shape[axis]
    return shape


def _of_classes(
    logs: Tensor, target: Tensor, weight: Tensor | None, ignored: int, reduction: str, smoothing: float
) -> Tensor:
    axis = 0 if needed(logs).ndim == 1 else 1
    if layout_of(target).dtype is not int64:
        raise TypeError(f"classes are of int64, and these of {target.dtype!r}; convert with .long()")
    wanted = [*logs.shape[:axis], *logs.shape[axis + 1 :]]
    if list(target.shape) != wanted:
        raise ShapeError(
            f"Expected target size {wanted}, got {list(target.shape)}: classes for an input of shape {list(logs.shape)}"
        )
    if weight is not None and tuple(weight.shape) != (logs.shape[axis],):  # a kernel would read beyond it
        raise ShapeError(
            f"weight tensor should be defined either for all {logs.shape[axis]} classes or no classes but got weight "
            f"tensor of shape: {list(weight.shape)}"
        )
    counts = target != ignored
    classes: Tensor = where(counts, target, 0)
    losses = -logs.gather(axis, classes.unsqueeze(axis)).squeeze(axis)
    total = sum_of(counts)
    if weight is not None:
        factors = where(counts, weight[classes], 0)
        losses, total = losses * factors, sum_of(factors)
    if smoothing:
        every = logs if weight is None else logs * weight.view(*_by_class(logs, axis))
        losses = losses * (1 - smoothing) - sum_of(every, axis) * (smoothing / logs.shape[axis])
    losses = where(counts, losses, 0)  # and not times 0: a logarithm that does not count may be endless
    return sum_of(losses) / total if reduction == "mean" else reduced(losses, reduction)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along a dimension."""
    shape = broadcast_shapes(layout_of(x1).shape, layout_of(x2).shape)  # ``dim`` is one of its dimensions
    x1, x2 = x1.expand(shape), x2.expand(shape)
    first = x1 / each.clamp_min(x1.norm(2, dim, True), eps)  # before it is multiplied, so that nothing overflows
    if x2.dtype.is_half:  # rounded there, as by PyTorch
        return sum_of(first * (x2 / each.clamp_min(x2.norm(2, dim, True), eps)), dim)
    made = sum_of(first * x2, dim) / each.clamp_min(x2.norm(2, dim), eps)
    if made._layout.tracked:
        entitle("SumBackward1", made)
    return made
