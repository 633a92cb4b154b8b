from ..runtime.tensor.cudnn_switches import *  # noqa: F403
from ..runtime.tensor.cudnn_switches import __all__ as __all__
