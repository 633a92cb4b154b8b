"""Several processes that compute together, with torch's names: ``cuplug.distributed``."""

from .process_group import *  # noqa: F403
from .process_group import __all__ as _group
from .reduce_op import ReduceOp
from .tcp_store import TCPStore
from .work import Work

__all__ = ["ReduceOp", "TCPStore", "Work"]
__all__ += _group
