from ..runtime.tensor.ops.devices.communication import *  # noqa: F403
from ..runtime.tensor.ops.devices.communication import __all__ as __all__
