from .runtime.tensor.ops.products.linalg import *  # noqa: F403
from .runtime.tensor.ops.products.linalg import __all__ as __all__
