# What type checkers know of ``import cuplug.utils``: the package ``runtime/utils``: see ``runtime/public_paths.py``.
from . import checkpoint as checkpoint
from . import data as data
