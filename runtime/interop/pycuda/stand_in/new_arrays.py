"""New arrays in device memory: copies of NumPy's, zeros, ones and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from .array_strides import dense_strides
from .device_arithmetic import queue
from .gpu_array import GPUArray, cleared, empty_like

__all__ = ["arange", "empty", "ones", "ones_like", "to_gpu", "to_gpu_async", "zeros", "zeros_like"]


def to_gpu(ary: Any, allocator: Any = None) -> GPUArray:
    """A copy of NumPy's array. Raises MemoryError if there is not that much left."""
    made = GPUArray(ary.shape, ary.dtype, allocator, strides=dense_strides(ary))
    made.set(ary)
    return made


def to_gpu_async(ary: Any, allocator: Any = None, stream: Any = None) -> GPUArray:
    """The same, queued on a stream."""
    made = GPUArray(ary.shape, ary.dtype, allocator, strides=dense_strides(ary))
    made.set_async(ary, stream)
    return made


empty = GPUArray


def zeros(shape: Any, dtype: Any = np.float64, allocator: Any = None, order: str = "C") -> GPUArray:
    """An array of zeros. Raises MemoryError if there is not that much left."""
    return cleared(GPUArray(shape, dtype, allocator, order=order))


def ones(shape: Any, dtype: Any = np.float64, allocator: Any = None, order: str = "C") -> GPUArray:
    """An array of ones. Raises MemoryError if there is not that much left."""
    return GPUArray(shape, dtype, allocator, order=order).fill(1)


def zeros_like(other_ary: Any, dtype: Any = None, order: str = "K") -> GPUArray:
    """The same, filled with zeros. Raises as ``empty_like``."""
    return cleared(empty_like(other_ary, dtype, order))


def ones_like(other_ary: Any, dtype: Any = None, order: str = "K") -> GPUArray:
    """The same, filled with ones. Raises as ``empty_like``."""
    return empty_like(other_ary, dtype, order).fill(1)


def arange(*args: Any, dtype: Any = None, stream: Any = None, allocator: Any = None) -> GPUArray:
    """Numbers from ``start`` to ``stop`` by ``step``, as ``numpy.arange`` has them.

    Raises:
        TypeError: there are none or more than three arguments.
    """
    if not 1 <= len(args) <= 3:
        raise TypeError(f"arange takes start, stop and step, and got {len(args)} arguments")
    values = np.arange(*args, dtype=dtype)
    made = GPUArray(values.shape, values.dtype, allocator)
    queue("arange", np.copyto, (made.region,), (values,), stream)
    return made
