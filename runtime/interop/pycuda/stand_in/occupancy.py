"""How many blocks of a kernel a multiprocessor holds at once (CUDA's occupancy)."""

from __future__ import annotations

from typing import Any

from .device_contexts import Context, Device


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


class DeviceData:
    """What a device's multiprocessors hold (CUDA C++ Programming Guide, "Compute Capabilities"; 8.0 and later)."""

    def __init__(self, dev: Device | None = None) -> None:
        """Of a device, by default the current one."""
        dev = dev or Context.get_device()
        self.max_threads = dev.max_threads_per_block
        self.warp_size = dev.warp_size
        self.warps_per_mp = dev.max_threads_per_multiprocessor // dev.warp_size
        self.thread_blocks_per_mp = 32
        self.registers = dev.max_registers_per_block
        self.shared_memory = dev.max_shared_memory_per_block
        self.smem_granularity = 32
        self.smem_alloc_granularity = 128
        self.reg_alloc_granularity = 256

    def align_bytes(self, word_size: int = 4) -> int:
        """The distance in bytes between addresses at which accesses of words coalesce.

        Raises:
            ValueError: words have 4, 8 or 16 bytes.
        """
        if word_size not in (4, 8, 16):
            raise ValueError(f"word_size={word_size}: words have 4, 8 or 16 bytes")
        return {4: 64, 8: 128, 16: 128}[word_size]

    def align(self, bytes: int, word_size: int = 4) -> int:  # noqa: A002 - PyCUDA's name
        """``bytes`` rounded up to that distance."""
        return _up(bytes, self.align_bytes(word_size))

    def align_words(self, word_size: int) -> int:
        """That distance in words."""
        return self.align_bytes(word_size) // word_size

    def align_dtype(self, elements: int, dtype_size: int) -> int:
        """``elements`` rounded up to that distance."""
        return self.align(elements * dtype_size, 4) // dtype_size

    @staticmethod
    def make_valid_tex_channel_count(size: int) -> int:
        """The channels that a texel of ``size`` ones has: 1, 2 or 4. Raises ValueError for more."""
        if not 1 <= size <= 4:
            raise ValueError(f"a texel has 1, 2 or 4 channels, not {size}")
        return {1: 1, 2: 2, 3: 4, 4: 4}[size]


class OccupancyRecord:
    """How many blocks of a kernel are on a multiprocessor at once, and what limits that."""

    def __init__(self, devdata: DeviceData, threads: int, shared_mem: int = 0, registers: int = 0) -> None:
        """For blocks of so many threads, bytes of shared memory, and registers of each thread.

        Raises:
            ValueError: no block of that size can run.
        """
        if threads > devdata.max_threads:
            raise ValueError(f"a block of {threads} threads: the device has {devdata.max_threads}")
        warps = _up(threads, devdata.warp_size) // devdata.warp_size
        limits: dict[str, Any] = {"device": devdata.thread_blocks_per_mp, "warps": devdata.warps_per_mp // warps}
        if registers:
            per_warp = _up(registers * devdata.warp_size, devdata.reg_alloc_granularity)
            limits["regs"] = devdata.registers // (per_warp * warps)
        if shared_mem:
            limits["smem"] = devdata.shared_memory // _up(shared_mem, devdata.smem_alloc_granularity)
        self.tb_per_mp = min(limits.values())
        """Blocks on a multiprocessor."""
        if not self.tb_per_mp:
            raise ValueError(f"not one block fits: {limits}")
        self.limited_by = min(limits, key=lambda each: limits[each])
        """What limits them."""
        self.warps_per_mp = self.tb_per_mp * warps
        self.occupancy = self.warps_per_mp / devdata.warps_per_mp
        """The part of the multiprocessor's warps that are used."""
