from ..runtime.tensor.ops.communication import *  # noqa: F403
from ..runtime.tensor.ops.communication import __all__ as __all__
