from ...runtime.nn.parameter_tools import *  # noqa: F403
from ...runtime.nn.parameter_tools import __all__ as __all__
