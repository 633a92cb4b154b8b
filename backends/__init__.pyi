# What type checkers know of ``import cuplug.backends``: see ``runtime/facade/public_paths.py``.
from ..runtime.facade import other_accelerators as _others
from . import cuda as cuda
from . import cudnn as cudnn

mkl = _others
mkldnn = _others
mps = _others
openmp = _others
