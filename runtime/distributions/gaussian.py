"""``Normal``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..tensor.core.tensor import Tensor
from ..tensor.ops.elementwise import elementwise_functions as each
from ..tensor.ops.making.creation import empty
from .distribution import Distribution, as_parameters


class Normal(Distribution):
    """The normal distribution."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        """Take mean and standard deviation.

        Args:
            loc: the means, a number or a tensor.
            scale: the standard deviations; both broadcast.
            validate_args: whether to check them, and values; as ``Distribution``.

        Raises:
            ValueError: a mean is NaN, or a deviation is not greater than 0.
        """
        self.loc, self.scale = as_parameters(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)
        self._check("real numbers", "parameter loc", self.loc, each.eq(self.loc, self.loc))
        self._check("greater than 0", "parameter scale", self.scale, each.gt(self.scale, 0))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return each.square(self.scale)

    def _parameters(self) -> dict[str, Tensor]:
        return {"loc": self.loc, "scale": self.scale}

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Values drawn at random that can be differentiated by the parameters: noise, scaled and moved."""
        noise: Any = empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        made: Tensor = self.loc + noise.normal_() * self.scale
        return made

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density at values.

        Raises:
            ValueError: a value is NaN, or its shape does not go with that of the parameters.
        """
        self._check_value(value)
        self._check("real numbers", "value argument", value, each.eq(value, value))
        from_mean: Tensor = (value - self.loc) ** 2 / (2 * self.variance)
        return -from_mean - each.log(self.scale) - _HALF_LOG_OF_TWO_PI

    def cdf(self, value: Any) -> Tensor:
        """The probability of a value that is not greater.

        Raises:
            ValueError: as ``log_prob``.
        """
        self._check_value(value)
        return 0.5 * (1 + each.erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        return 0.5 + _HALF_LOG_OF_TWO_PI + each.log(self.scale)


_HALF_LOG_OF_TWO_PI = math.log(2 * math.pi) / 2
