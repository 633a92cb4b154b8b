from ..runtime.facade.nvtx import *  # noqa: F403
from ..runtime.facade.nvtx import __all__ as __all__
