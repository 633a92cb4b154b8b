# What type checkers know of ``import cuplug.amp``: the package ``runtime/amp``: see ``runtime/facade/public_paths.py``.
from .runtime.amp import *  # noqa: F403
from .runtime.amp import __all__ as __all__
