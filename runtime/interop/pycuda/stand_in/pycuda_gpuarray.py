"""``pycuda.gpuarray``."""

from . import array_functions, new_arrays
from .array_functions import *  # noqa: F403 - PyCUDA's names, which are NumPy's
from .gpu_array import GPUArray, empty_like, splay
from .new_arrays import *  # noqa: F403
from .vector_types import vec

__all__ = ["GPUArray", "empty_like", "splay", "vec"]
__all__ += array_functions.__all__
__all__ += new_arrays.__all__
