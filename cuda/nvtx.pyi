from ..runtime.nvtx import *  # noqa: F403
from ..runtime.nvtx import __all__ as __all__
