# What type checkers know of ``import cuplug.utils``: the package ``runtime/utils``: see ``runtime/public_paths.py``.
from .runtime.utils import *  # noqa: F403
from .runtime.utils import __all__ as __all__
from .runtime.utils import data as data
