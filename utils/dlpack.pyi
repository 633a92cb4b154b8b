from ..runtime.utils.dlpack_exchange import *  # noqa: F403
from ..runtime.utils.dlpack_exchange import __all__ as __all__
