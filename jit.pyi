# What type checkers know of ``import cuplug.jit``: see ``runtime/facade/public_paths.py``.
from .runtime.facade.eager_script import *  # noqa: F403
from .runtime.facade.eager_script import __all__ as __all__
