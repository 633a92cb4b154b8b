"""One network on several devices, of one process or of several, with torch's names: ``cuplug.nn.parallel``."""

from .data_parallel import DataParallel, data_parallel
from .distributed_data_parallel import DistributedDataParallel
from .replicas import parallel_apply, replicate
from .scattered_batches import gather, scatter, scatter_kwargs

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
    "scatter_kwargs",
]
