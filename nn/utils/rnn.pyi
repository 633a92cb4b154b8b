from ...runtime.nn.sequences import *  # noqa: F403
from ...runtime.nn.sequences import __all__ as __all__
