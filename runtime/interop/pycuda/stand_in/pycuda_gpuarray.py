"""``pycuda.gpuarray``."""

from __future__ import annotations

from typing import Any

from .array_functions import (
    all,  # noqa: A004 - PyCUDA's names, which are NumPy's
    any,  # noqa: A004
    concatenate,
    dot,
    if_positive,
    logical_and,
    logical_not,
    logical_or,
    max,  # noqa: A004
    maximum,
    min,  # noqa: A004
    minimum,
    multi_put,
    multi_take,
    multi_take_put,
    reshape,
    stack,
    subset_dot,
    subset_max,
    subset_min,
    subset_sum,
    sum,  # noqa: A004
    take,
    transpose,
    where,
)
from .gpu_array import GPUArray, empty_like, splay
from .new_arrays import arange, empty, ones, ones_like, to_gpu, to_gpu_async, zeros, zeros_like
from .vector_types import vec

__all__ = [
    "GPUArray",
    "all",
    "any",
    "arange",
    "concatenate",
    "dot",
    "empty",
    "empty_like",
    "if_positive",
    "logical_and",
    "logical_not",
    "logical_or",
    "max",
    "maximum",
    "min",
    "minimum",
    "multi_put",
    "multi_take",
    "multi_take_put",
    "ones",
    "ones_like",
    "reshape",
    "splay",
    "stack",
    "subset_dot",
    "subset_max",
    "subset_min",
    "subset_sum",
    "sum",
    "take",
    "to_gpu",
    "to_gpu_async",
    "transpose",
    "vec",
    "where",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"cuplug's stand-in for PyCUDA has no pycuda.gpuarray.{name}")
