from ..runtime.tensor.ops.devices.nccl_collectives import *  # noqa: F403
from ..runtime.tensor.ops.devices.nccl_collectives import __all__ as __all__
