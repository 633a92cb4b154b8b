from ..runtime.utils.data import *  # noqa: F403
from ..runtime.utils.data import __all__ as __all__
