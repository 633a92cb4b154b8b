"""``kl_divergence``: how far one distribution is from another of its kind."""

from __future__ import annotations

import math

from ..nn.activations import softplus
from ..tensor.core.tensor import Tensor
from ..tensor.ops.arithmetic.arithmetic import where as _where
from ..tensor.ops.elementwise import elementwise_functions as each
from ..tensor.ops.reductions.reductions import sum as sum_of
from .choices import Bernoulli, Categorical
from .distribution import Distribution
from .gaussian import Normal


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The divergence of Kullback and Leibler of ``p`` from ``q``, in nats: the mean of ``log(p / q)`` under ``p``.

    Raises:
        NotImplementedError: they are not of one kind.
    """
    if isinstance(p, Normal) and isinstance(q, Normal):
        ratio, moved = each.square(p.scale / q.scale), each.square((p.loc - q.loc) / q.scale)
        found: Tensor = 0.5 * (ratio + moved - 1 - each.log(ratio))
        return found
    if isinstance(p, Bernoulli) and isinstance(q, Bernoulli):
        # The logarithm of the probability of 0 is minus softplus of the log-odds.
        ones = _share(p.probs, q.probs, softplus(-q.logits) - softplus(-p.logits))
        return ones + _share(1 - p.probs, 1 - q.probs, softplus(q.logits) - softplus(p.logits))
    if isinstance(p, Categorical) and isinstance(q, Categorical):
        return sum_of(_share(p.probs, q.probs, p.logits - q.logits), -1)
    raise NotImplementedError(f"kl_divergence: there is none of {type(p).__name__} from {type(q).__name__}")


def _share(own: Tensor, other: Tensor, difference: Tensor) -> Tensor:
    """What one outcome adds: nothing where it does not happen, infinity where only the other says it cannot."""
    found: Tensor = _where(each.eq(own, 0), 0.0, _where(each.eq(other, 0), math.inf, own * difference))
    return found
