"""One network on several devices of one process, with torch's names: ``cuplug.nn.parallel``."""

from .data_parallel import DataParallel, data_parallel
from .replicas import parallel_apply, replicate
from .scattered_batches import gather, scatter, scatter_kwargs

__all__ = ["DataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs"]
