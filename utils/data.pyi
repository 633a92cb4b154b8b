from ..runtime.utils.data import *  # noqa: F403
from ..runtime.utils.data import __all__ as __all__
from ..runtime.utils.data.datasets import *  # noqa: F403
from ..runtime.utils.data.samplers import *  # noqa: F403
