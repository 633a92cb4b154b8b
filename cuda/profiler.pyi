from ..runtime.facade.profiler import *  # noqa: F403
from ..runtime.facade.profiler import __all__ as __all__
