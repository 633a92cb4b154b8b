"""``cuplug.cuda``: the default runtime, with the names and meanings of ``torch.cuda``.

What stands here comes from its floor, ``runtime/cuda.py``.
"""

from typing import TYPE_CHECKING

from .runtime import cuda as _facade
from .runtime.cuda import *  # noqa: F403
from .runtime.cuda import __all__ as __all__

if not TYPE_CHECKING:
    __getattr__ = _facade.__getattr__
    __dir__ = _facade.__dir__
