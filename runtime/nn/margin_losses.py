"""Losses of distances and margins, and of distributions with a parameter of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..tensor.core.dtypes import float32
from ..tensor.core.needed_tensors import layout_of, needed
from ..tensor.core.printed_names import printed_as
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.arithmetic.arithmetic import clamp
from ..tensor.ops.arithmetic.arithmetic import where as _where
from ..tensor.ops.elementwise import elementwise_functions as each
from ..tensor.ops.reductions.reductions import sum as sum_of
from .losses import check_reduction, cosine_similarity, reduced, takes_older_names

__all__ = [
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "pairwise_distance",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The norms of ``x1 - x2 + eps`` along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@takes_older_names
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, reduction: str = "mean"
) -> Tensor:
    """By how much ``input1`` is not above ``input2`` by a margin, where ``target`` is 1, or below it, where -1.

    Raises:
        ValueError: there is no such reduction.
    """
    return reduced(clamp(-target * (input1 - input2) + margin, min=0.0), reduction)


@takes_older_names
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """The distance itself where ``target`` is 1, and what it lacks to a margin where -1.

    Raises:
        ValueError: there is no such reduction.
    """
    losses: Tensor = _where(target != -1, input, 0.0) + _where(target != 1, clamp(margin - input, min=0.0), 0.0)
    return reduced(losses, reduction)


@takes_older_names
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, reduction: str = "mean"
) -> Tensor:
    """1 less the cosine of the angle where ``target`` is 1, and the cosine above a margin where -1.

    Raises:
        ValueError: there is no such reduction.
    """
    input1, input2 = (x if layout_of(x).dtype.kind == "f" else x.to(float32) for x in (input1, input2))
    cosine = cosine_similarity(input1, input2, -1)
    losses: Tensor = _where(target == 1, 1 - cosine, 0.0) + _where(target == -1, clamp(cosine - margin, min=0.0), 0.0)
    return reduced(losses, reduction)


@takes_older_names
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """``log(1 + exp(-target * input))``.

    Raises:
        ValueError: there is no such reduction.
    """
    return reduced(each.log1p(each.exp(-target * input)), reduction)


@printed_as("MultiMarginLossBackward0")
@takes_older_names
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """For each sample by how much other classes come nearer to the right one than a margin.

    Args:
        input: (n, classes), or (classes), or without dimensions: of one class.
        target: the classes, int64, (n), or without dimensions.
        p: 1 or 2: the power of what is lacking.
        margin: by how much the right class is to be above the others.
        weight: a factor for each class, or None.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: there is no such reduction or power, or ``weight`` is not one number for each class.
    """
    check_reduction(reduction)
    if p not in (1, 2):
        raise ArgumentError(f"multi_margin_loss: p is 1 or 2, not {p}")
    if weight is not None and needed(weight).ndim != 1:
        raise ArgumentError("weight must be one-dimensional")
    rows, classes = (input.reshape(1, -1), target.view(1)) if needed(input).ndim <= 1 else (input, target)
    if weight is not None and weight.numel() != rows.shape[1]:
        raise ArgumentError(f"inconsistent weight size, expected {rows.shape[1]} but got {list(weight.shape)}")
    index = needed(classes).unsqueeze(1)
    lacking = clamp(margin - rows.gather(1, index) + rows, min=0.0)
    lacking = lacking if p == 1 else lacking * lacking
    if weight is not None:
        lacking = lacking * weight[classes].unsqueeze(1)
    losses = sum_of(lacking.scatter(1, index, 0.0), 1) / rows.shape[1]
    return reduced(losses.squeeze(0) if target.ndim == 0 else losses, reduction)


@takes_older_names
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """By how much the anchor is not nearer to the positive sample than to the negative one by a margin.

    Args:
        anchor: (n, elements), or (elements).
        positive: of that shape.
        negative: of that shape.
        margin: the margin.
        p: which norm is the distance.
        eps: what is added to differences.
        swap: whether the distance from the positive to the negative sample counts where it is the smaller one.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: there is no such reduction, or the margin is not positive.
    """
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=lambda one, other: pairwise_distance(one, other, p, eps),
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``triplet_margin_loss`` with a distance of one's own; ``pairwise_distance`` if None.

    Raises:
        ValueError: there is no such reduction, or the margin is not positive.
    """
    if margin <= 0:
        raise ArgumentError(f"triplet_margin_loss: the margin is to be positive, not {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = each.minimum(far, distance(positive, negative))
    return reduced(clamp(near - far + margin, min=0.0), reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """The negative logarithm of the density of a normal distribution.

    Args:
        input: the means.
        target: what was seen.
        var: the variances, of that shape or one that broadcasts; those below ``eps`` count as ``eps``.
        full: whether to add ``log(2 * pi) / 2``.
        eps: the smallest variance.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: there is no such reduction.
    """
    spread = var if isinstance(var, Tensor) else input.new_ones(1) * var
    if spread.ndim == needed(input).ndim - 1 and tuple(spread.shape) == tuple(input.shape[:-1]):
        spread = spread.unsqueeze(-1)
    spread = spread + (clamp(spread.detach(), min=eps) - spread.detach())  # as torch: the limit has no gradient
    losses = 0.5 * (each.log(spread) + each.square(input - target) / spread)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


@takes_older_names
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """The negative logarithm of the probability of a Poisson distribution, without what depends on ``target`` alone.

    Args:
        input: the rates, or their logarithms.
        target: what was counted.
        log_input: whether ``input`` has logarithms.
        full: whether to add Stirling's approximation of ``log(target!)``.
        eps: what is added before a logarithm.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: there is no such reduction.
    """
    losses = each.exp(input) - target * input if log_input else input - target * each.log(input + eps)
    if full:
        above = _where(target > 1, target, 1.0)
        stirling = above * each.log(above) - above + 0.5 * each.log(2 * math.pi * above)
        losses = losses + _where(target > 1, stirling, 0.0)
    return reduced(losses, reduction)
