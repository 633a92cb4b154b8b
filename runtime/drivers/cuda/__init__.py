"""The driver of real hardware, on PyCUDA. Importing this package imports neither PyCUDA nor anything of CUDA."""

from .availability import is_available
from .driver import CudaDriver

__all__ = ["CudaDriver", "is_available"]
