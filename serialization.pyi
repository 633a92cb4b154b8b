# What type checkers know of ``import cuplug.serialization``: see ``runtime/facade/public_paths.py``.
from .runtime.tensor.ops.exchange.safe_globals import *  # noqa: F403
from .runtime.tensor.ops.exchange.safe_globals import __all__ as __all__
