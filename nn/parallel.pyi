from ..runtime.nn.parallel import *  # noqa: F403
from ..runtime.nn.parallel import __all__ as __all__
