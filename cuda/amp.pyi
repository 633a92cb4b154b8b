from ..runtime.amp import *  # noqa: F403
from ..runtime.amp import __all__ as __all__
