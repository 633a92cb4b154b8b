# What type checkers know of ``import cuplug.utils``: ``runtime/utils``: see ``runtime/facade/public_paths.py``.
from . import checkpoint as checkpoint
from . import data as data
from . import dlpack as dlpack
