from ..runtime.nn.parameter import *  # noqa: F403
from ..runtime.nn.parameter import __all__ as __all__
