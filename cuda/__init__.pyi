# What type checkers know of ``import cuplug.cuda``: the façade of ``runtime/cuda.py``, which ``__init__.py`` puts there
# at run time. A module ``cuda.py`` would hide NVIDIA's package ``cuda`` from programs that run in this folder.
from ..runtime.cuda import *  # noqa: F403
from ..runtime.cuda import __all__ as __all__
from . import amp as amp
from . import comm as comm
from . import nccl as nccl
