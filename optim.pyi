# What type checkers know of ``import cuplug.optim``: the package ``runtime/optim``: see ``runtime/public_paths.py``.
from .runtime.optim import *  # noqa: F403
from .runtime.optim import __all__ as __all__
from .runtime.optim import lr_scheduler as lr_scheduler
