from ..runtime.tensor.cublas_switches import *  # noqa: F403
from ..runtime.tensor.cublas_switches import __all__ as __all__
