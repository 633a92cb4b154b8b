from ..runtime.optim.swa_utils import *  # noqa: F403
from ..runtime.optim.swa_utils import __all__ as __all__
