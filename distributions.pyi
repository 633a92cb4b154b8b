# What type checkers know of ``import cuplug.distributions``: the package ``runtime/distributions``.
from .runtime.distributions import *  # noqa: F403
from .runtime.distributions import __all__ as __all__
