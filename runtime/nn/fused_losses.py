"""Cross entropy and shares of attention by one kernel forward and one back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.fused import by_parts, record_fused, wants_history
from ..autograd.graph import Kept, plain
from ..tensor.core.dtypes import dtype
from ..tensor.core.shapes import contiguous_strides
from ..tensor.core.tensor import Tensor, view_of
from ..tensor.ops.elementwise.elementwise_functions import reciprocal
from ..tensor.ops.networks.softmax_gradients import softmax_gradient
from ..tensor.ops.reductions.along import run_fused
from ..tensor.ops.reductions.reductions import sum as sum_of
from ..tensor.ops.shapes.reshape import contiguous


def class_losses(
    logits: Tensor,
    target: Tensor,
    ignored: int,
    smoothing: float,
    reduction: str,
    result: dtype,
    compute: Callable[..., Tensor],
) -> Tensor:
    """The cross entropy of rows of logits with classes, none of them weighed.

    Args:
        logits: (rows, classes), with elements, floating-point.
        target: the classes of the rows, int64, at the same place.
        ignored: a class that does not count.
        smoothing: which part of the probability all classes have in equal parts.
        reduction: ``mean``, ``sum`` or ``none``.
        result: the type of the result.
        compute: the same by single operations, of logits: for gradients of gradients.
    """
    rows, classes = logits.shape
    computed = logits.dtype.computed
    x, chosen = contiguous(plain(logits)), contiguous(target)
    both, sums = run_fused(
        "cross_entropy", [(computed, (2, rows)), (computed, (rows, 1))], [x, chosen], ignored, smoothing
    )
    factor: Tensor | None = None
    if reduction == "none":
        made = both.select(0, 0)
    elif reduction == "sum":
        made = sum_of(both.select(0, 0))
    else:
        totals = sum_of(both, 1)
        factor = reciprocal(totals.select(0, 1))
        made = totals.select(0, 0) / totals.select(0, 1)
    made = made.to(result) if made.dtype is not result else contiguous(made).view(made.shape)
    if not wants_history(logits):
        return made
    kept, kept_target, kept_sums = Kept(logits), Kept(target), Kept(sums)
    kept_factor = None if factor is None else Kept(factor)

    def apply(node: Any, gradient: Tensor) -> Sequence[Any]:
        source = kept.get(node)
        if wants_history(gradient, source):
            return by_parts(compute, (source,), gradient)
        g = gradient.to(computed)
        g = contiguous(g if kept_factor is None else g * kept_factor.get(node))
        given = [contiguous(source), contiguous(kept_target.get(node)), kept_sums.get(node), g.view(-1)]
        numbers = (ignored, smoothing, int(reduction == "none"))
        return run_fused("cross_entropy_gradient", [(source.dtype, (rows, classes))], given, *numbers)

    keeps = [each for each in (kept, kept_target, kept_sums, kept_factor) if each is not None]
    return record_fused("NllLossBackward", made, (logits,), keeps, apply)


def attention_shares(scores: Tensor, factor: float, *, causal: bool) -> Tensor:
    """``softmax(scores * factor)`` along the last dimension, in the scores' type; computed in float32 for half types.

    Args:
        scores: (..., queries, keys), with elements.
        factor: the scale.
        causal: whether a query sees no keys behind it.
    """
    shape = tuple(scores.shape)
    rows = scores.numel() // shape[-1], shape[-1]
    x = contiguous(plain(scores))
    x = view_of(x, rows, contiguous_strides(rows))
    (found,) = run_fused("attention", [(scores.dtype, rows)], [x], factor, int(causal), shape[-2])
    made = view_of(found, shape, contiguous_strides(shape))
    if not wants_history(scores):
        return made
    kept = Kept(made, own=True)

    def apply(node: Any, gradient: Tensor) -> Sequence[Any]:
        y = kept.get(node)
        return (softmax_gradient(gradient, y, factor),)

    return record_fused("AttentionSharesBackward", made, (scores,), [kept], apply)
