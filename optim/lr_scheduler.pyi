from ..runtime.optim.lr_scheduler import *  # noqa: F403
from ..runtime.optim.lr_scheduler import __all__ as __all__
