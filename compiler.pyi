# What type checkers know of ``import cuplug.compiler``: see ``runtime/facade/public_paths.py``.
from .runtime.facade.eager_compiler import *  # noqa: F403
from .runtime.facade.eager_compiler import __all__ as __all__
