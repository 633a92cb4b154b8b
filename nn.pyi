# What type checkers know of ``import cuplug.nn``: the package ``runtime/nn``: see ``runtime/public_paths.py``.
from .runtime.nn import *  # noqa: F403
from .runtime.nn import __all__ as __all__
from .runtime.nn import functional as functional
from .runtime.nn import init as init
from .runtime.nn import parameter as parameter
from .runtime.nn import utils as utils
