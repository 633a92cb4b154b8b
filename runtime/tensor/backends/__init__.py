"""The three kinds of place: ``cpu_place`` (NumPy at once), ``sim_place`` (NumPy as operations of a stream) and
``cuda_place`` (kernels). Each registers itself when it is imported.
"""

from . import cuda_place
from .on_host import cpu_place, sim_place

__all__ = ["cpu_place", "cuda_place", "sim_place"]
