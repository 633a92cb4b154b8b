# What type checkers know of ``import cuplug.interop``: the package ``runtime/interop``, which ``__init__.py`` puts
# there at run time.
from .runtime.interop import LIBRARIES as LIBRARIES
from .runtime.interop import cupy as cupy
from .runtime.interop import dask as dask
from .runtime.interop import install as install
from .runtime.interop import numba as numba
from .runtime.interop import pycuda as pycuda
from .runtime.interop import rmm as rmm
from .runtime.interop import torch as torch
