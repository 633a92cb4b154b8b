"""``cuplug.backends``: what programs set for the libraries below torch."""

from ..facade import other_accelerators as mps
from . import cublas_switches as cuda
from . import cudnn_switches as cudnn

mkl = mkldnn = openmp = mps

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
