# What type checkers know of ``import cuplug.autograd``: the package ``runtime/autograd``.
from .runtime.autograd import *  # noqa: F403
from .runtime.autograd import __all__ as __all__
from .runtime.autograd import graph as graph
