"""``cuplug.backends``: what programs set for the libraries below torch."""

from . import cublas_switches as cuda
from . import cudnn_switches as cudnn

__all__ = ["cuda", "cudnn"]
