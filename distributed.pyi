# What type checkers know of ``import cuplug.distributed``: the package ``runtime/distributed``.
from .runtime.distributed import *  # noqa: F403
from .runtime.distributed import __all__ as __all__
from .runtime.distributed.process_group import *  # noqa: F403
