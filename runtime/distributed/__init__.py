"""Several processes that compute together, with torch's names: ``cuplug.distributed``."""

from .collective_work import Work
from .process_group import (
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    barrier,
    broadcast,
    destroy_process_group,
    get_backend,
    get_default_backend_for_device,
    get_rank,
    get_world_size,
    init_process_group,
    is_available,
    is_gloo_available,
    is_initialized,
    is_nccl_available,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
)
from .reduce_op import ReduceOp
from .tcp_store import TCPStore

__all__ = [
    "ReduceOp",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "barrier",
    "broadcast",
    "destroy_process_group",
    "get_backend",
    "get_default_backend_for_device",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_nccl_available",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
]
