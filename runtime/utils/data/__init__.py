"""Data sets, the order in which their samples come, and what loads them: ``cuplug.utils.data``, with torch's names."""

from . import datasets, samplers
from .collation import default_collate, default_convert
from .data_loader import DataLoader
from .datasets import *  # noqa: F403
from .loader_process import WorkerInfo, get_worker_info
from .samplers import *  # noqa: F403

__all__ = ["DataLoader", "WorkerInfo", "default_collate", "default_convert", "get_worker_info"]
__all__ += datasets.__all__
__all__ += samplers.__all__
