# What type checkers know of ``import cuplug.backends``: see ``runtime/facade/public_paths.py``.
from . import cuda as cuda
from . import cudnn as cudnn
