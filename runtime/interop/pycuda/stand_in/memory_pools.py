"""The pools of ``pycuda.tools``. What keeps freed memory for later is cuplug's allocator, of which they are views."""

from __future__ import annotations

from typing import Any

import numpy as np

from .device_contexts import current_ordinal, runtime
from .driver_errors import translated
from .linear_memory import DeviceAllocation
from .page_locked import PagelockedHostAllocation, pagelocked_empty

__all__ = [
    "DeviceMemoryPool",
    "PageLockedAllocator",
    "PageLockedMemoryPool",
    "PooledDeviceAllocation",
    "PooledHostAllocation",
]

_STEPS = 8
"""Bins between one power of two and the next."""


class PooledDeviceAllocation(DeviceAllocation):
    """Device memory of a pool."""

    def __init__(self, pool: DeviceMemoryPool, nbytes: int) -> None:
        super().__init__(nbytes)
        pool.active_blocks += 1
        pool.active_bytes += nbytes
        self._pool = pool

    def free(self) -> None:
        """Give the memory back now. Raises LogicError if that was done before."""
        super().free()
        self._pool.active_blocks -= 1
        self._pool.active_bytes -= self._nbytes


class DeviceMemoryPool:
    """Device memory. All pools, and ``mem_alloc``, share cuplug's allocator."""

    def __init__(self) -> None:
        self.active_blocks = 0
        """How many blocks of this pool are in use."""
        self.active_bytes = 0
        """Their bytes, as asked for."""

    @translated
    def allocate(self, size: int) -> PooledDeviceAllocation:
        """``size`` bytes. Raises MemoryError if there is not that much left."""
        return PooledDeviceAllocation(self, int(size))

    __call__ = allocate

    @property
    def managed_bytes(self) -> int:
        """The bytes that cuplug holds on the current device, in use or not, for all pools."""
        return runtime().allocator(current_ordinal()).statistics().all.reserved_bytes.current

    @property
    def held_blocks(self) -> int:
        """How many free blocks cuplug holds on the current device, for all pools."""
        segments = runtime().allocator(current_ordinal()).segments()
        return sum(block.state == "inactive" for segment in segments for block in segment.blocks)

    def free_held(self) -> None:
        """Give back to the device what no block is using."""
        runtime().allocator(current_ordinal()).release_cached()

    stop_holding = free_held

    @staticmethod
    def bin_number(size: int) -> int:
        """Which bin a size belongs to: arithmetic alone here, for cuplug's allocator rounds by its own rules."""
        size = max(int(size), 1)
        exponent = max(size.bit_length() - 4, 0)
        return exponent * _STEPS + (size >> exponent)

    @staticmethod
    def alloc_size(bin_nr: int) -> int:
        """The largest size of a bin."""
        exponent = max((bin_nr // _STEPS) - 1, 0)
        return ((bin_nr - exponent * _STEPS + 1) << exponent) - 1


class PageLockedAllocator:
    """Flags out of ``host_alloc_flags`` for a ``PageLockedMemoryPool``."""

    def __init__(self, flags: int = 0) -> None:
        self.flags = flags


PooledHostAllocation = PagelockedHostAllocation


class PageLockedMemoryPool:
    """Page-locked host memory. Freed memory is kept by cuplug, for all pools."""

    def __init__(self, allocator: PageLockedAllocator | None = None) -> None:
        self._flags = (allocator or PageLockedAllocator()).flags

    def allocate(self, shape: Any, dtype: Any = np.float64, order: str = "C") -> Any:
        """A NumPy array, uninitialised. Raises MemoryError if no more can be locked."""
        return pagelocked_empty(shape, dtype, order, self._flags)

    def free_held(self) -> None:
        """Nothing: what is held serves other pools."""

    stop_holding = free_held
