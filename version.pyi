# What type checkers know of ``import cuplug.version``: see ``runtime/facade/torch_version.py``.
from .runtime.facade.torch_version import __version__ as __version__
from .runtime.facade.torch_version import cuda as cuda
from .runtime.facade.torch_version import debug as debug
from .runtime.facade.torch_version import hip as hip
from .runtime.facade.torch_version import xpu as xpu
