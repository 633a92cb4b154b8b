"""Choices: ``Bernoulli`` of two, ``Categorical`` of several, given by probabilities or by their logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import no_grad
from ..nn.losses import binary_cross_entropy_with_logits
from ..tensor.core.dtype_limits import finfo
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ShapeError
from ..tensor.ops.arithmetic.arithmetic import clamp
from ..tensor.ops.arithmetic.arithmetic import where as _where
from ..tensor.ops.elementwise import elementwise_functions as each
from ..tensor.ops.making.creation import full_like
from ..tensor.ops.making.patterns import arange
from ..tensor.ops.random.random_choices import bernoulli, multinomial
from ..tensor.ops.reductions.normalising import logsumexp
from ..tensor.ops.reductions.reductions import argmax
from ..tensor.ops.reductions.reductions import sum as sum_of
from ..tensor.ops.shapes.views import broadcast_tensors
from .distribution import Distribution, as_parameters


class _Choice(Distribution):
    _given: Tensor
    _by_logits: bool

    def _parameters(self) -> dict[str, Tensor]:
        return {"logits" if self._by_logits else "probs": self._given}


class Bernoulli(_Choice):
    """1 with a probability, else 0."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        """Take the probabilities of 1, or their log-odds: one of the two.

        Args:
            probs: probabilities, a number or a tensor.
            logits: log-odds, ``log(p / (1 - p))``.
            validate_args: whether to check them, and values; as ``Distribution``.

        Raises:
            ValueError: both or neither are given, or a value is out of the range.
        """
        given, self._by_logits = _one_of(probs, logits)
        (self._given,) = as_parameters(given)
        super().__init__(self._given.shape, validate_args=validate_args)
        if self._by_logits:
            self._check("real numbers", "parameter logits", self._given, each.eq(self._given, self._given))
        else:
            self._check("within [0, 1]", "parameter probs", self._given, _within(self._given, 0, 1))

    @property
    def probs(self) -> Tensor:
        """The probabilities of 1."""
        return each.sigmoid(self._given) if self._by_logits else self._given

    @property
    def logits(self) -> Tensor:
        """The log-odds of 1; of probabilities 0 and 1 those of the numbers next to them."""
        if self._by_logits:
            return self._given
        inner = _inner(self._given)
        found: Tensor = each.log(inner) - each.log1p(-inner)
        return found

    @property
    def mean(self) -> Tensor:
        """The mean: the probability of 1."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The more likely value; NaN where both are alike."""
        ones: Tensor = each.ge(self.probs, 0.5).to(self.probs.dtype)
        found: Tensor = _where(each.eq(self.probs, 0.5), math.nan, ones)
        return found

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Values drawn at random, of the parameters' type.

        Args:
            sample_shape: how many of each distribution.
        """
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability of values.

        Raises:
            ValueError: a value is neither 0 nor 1, or its shape does not go with that of the parameters.
        """
        self._check_value(value)
        self._check("0 or 1", "value argument", value, each.logical_or(each.eq(value, 0), each.eq(value, 1)))
        logits, value = broadcast_tensors(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, along a dimension in front; with ``expand`` for each of the distributions."""
        values = arange(2, dtype=self._given.dtype, device=self._given.device)
        values = values.reshape(-1, *[1] * len(self._batch_shape))
        found: Tensor = values.expand(-1, *self._batch_shape) if expand else values
        return found


class Categorical(_Choice):
    """One of several classes: an integer from 0 on."""

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        """Take weights of classes, along the last dimension, or their logarithms: one of the two.

        Args:
            probs: weights, which are divided by their sum.
            logits: logarithms of weights.
            validate_args: whether to check them, and values; as ``Distribution``.

        Raises:
            ValueError: both or neither are given, a tensor has no dimensions, or a value is out of the range.
        """
        given, self._by_logits = _one_of(probs, logits)
        if not isinstance(given, Tensor) or given.ndim < 1:
            raise ShapeError(
                "Categorical: probs or logits is a tensor of one dimension at least, the last that of classes"
            )
        self._classes = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)
        if self._by_logits:
            self._given = given - logsumexp(given, -1, keepdim=True)
            self._check("real numbers", "parameter logits", self._given, each.eq(self._given, self._given))
        else:
            self._given = given / sum_of(given, -1, keepdim=True)
            self._check("weights not below 0", "parameter probs", self._given, each.ge(self._given, 0))

    @property
    def probs(self) -> Tensor:
        """The probabilities of classes."""
        return each.exp(self._given) if self._by_logits else self._given

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities; of 0 that of the least number above it that torch takes."""
        return self._given if self._by_logits else each.log(_inner(self._given))

    @property
    def mean(self) -> Tensor:
        """NaN: classes have no mean."""
        return full_like(sum_of(self._given, -1), math.nan)

    @property
    def mode(self) -> Tensor:
        """The most likely class."""
        return argmax(self._given, -1)

    @property
    def variance(self) -> Tensor:
        """NaN: classes have no variance."""
        return self.mean

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Classes drawn at random, int64.

        Args:
            sample_shape: how many of each distribution.
        """
        shape = self._extended_shape(sample_shape)
        with no_grad():
            rows: Tensor = self.probs.reshape(-1, self._classes)
            drawn: Tensor = multinomial(rows, math.prod(sample_shape), True)
            return drawn.t().reshape(shape)

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability of classes.

        Raises:
            ValueError: a value is no class, or its shape does not go with that of the parameters.
        """
        self._check_value(value)
        whole = each.logical_and(_within(value, 0, self._classes - 1), each.eq(value, each.floor(value)))
        self._check(f"whole numbers from 0 to {self._classes - 1}", "value argument", value, whole)
        value, logits = broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        logits = self.logits
        return -sum_of(clamp(logits, min=finfo(logits.dtype).min) * self.probs, -1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All classes, along a dimension in front; with ``expand`` for each of the distributions."""
        values: Tensor = arange(self._classes, device=self._given.device)
        values = values.reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


def _one_of(probs: Any, logits: Any) -> tuple[Any, bool]:
    """What was given, and whether it is logits."""
    if (probs is None) == (logits is None):
        raise ArgumentError("Either `probs` or `logits` must be specified, but not both.")
    return (logits, True) if probs is None else (probs, False)


def _within(values: Tensor, least: float, most: float) -> Tensor:
    return each.logical_and(each.ge(values, least), each.le(values, most))


def _inner(probabilities: Tensor) -> Tensor:
    """Probabilities without 0 and 1, whose logarithms are not finite."""
    least = finfo(probabilities.dtype).eps
    return clamp(probabilities, min=least, max=1 - least)
