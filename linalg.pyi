from .runtime.tensor.ops.linalg import *  # noqa: F403
from .runtime.tensor.ops.linalg import __all__ as __all__
