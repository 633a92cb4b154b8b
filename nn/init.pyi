from ..runtime.nn.init import *  # noqa: F403
from ..runtime.nn.init import __all__ as __all__
