"""Distributions that programs sample from and differentiate: ``cuplug.distributions``, with torch's names."""

from .choices import Bernoulli, Categorical
from .distribution import Distribution
from .divergence import kl_divergence
from .gaussian import Normal

__all__ = ["Bernoulli", "Categorical", "Distribution", "Normal", "kl_divergence"]
