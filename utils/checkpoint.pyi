from ..runtime.utils.checkpoint import *  # noqa: F403
from ..runtime.utils.checkpoint import __all__ as __all__
