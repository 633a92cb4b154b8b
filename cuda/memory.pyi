from ..runtime.facade.cuda_memory import *  # noqa: F403
from ..runtime.facade.cuda_memory import __all__ as __all__
from ..runtime.memory.memory_stats import *  # noqa: F403
