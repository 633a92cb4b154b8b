"""Several processes that compute together, with torch's names: ``cuplug.distributed``."""

from . import process_group
from .collective_work import Work
from .process_group import *  # noqa: F403
from .reduce_op import ReduceOp
from .tcp_store import TCPStore

__all__ = ["ReduceOp", "TCPStore", "Work"]
__all__ += process_group.__all__
