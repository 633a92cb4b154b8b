from ..runtime.profiler import *  # noqa: F403
from ..runtime.profiler import __all__ as __all__
