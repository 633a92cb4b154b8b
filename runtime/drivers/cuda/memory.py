"""The CUDA driver's memory: allocations, page-locked memory, copies, peers."""

from __future__ import annotations

import ctypes

from ....allocators.upstream import VirtualMemory
from ..base import driver_error
from .state import CudaState
from .virtual import CudaVirtualMemory

__all__ = ["VIRTUAL_MEMORY_SUPPORTED", "MemoryCalls"]

_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE: page-locked for every device
VIRTUAL_MEMORY_SUPPORTED = 102  # CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
_MEMSETS = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}


class MemoryCalls(CudaState):
    """See ``Driver``: the sections on memory, copies and peers."""

    def mem_alloc(self, nbytes: int) -> int:
        """Allocate device memory, aligned to 512 bytes."""
        if nbytes <= 0:
            raise driver_error(1, f"mem_alloc of {nbytes} bytes: ask for one byte or more")
        return self._make(self._memory, "cuMemAlloc", nbytes, detail=f"{nbytes} bytes were asked for")

    def mem_free(self, address: int) -> None:
        """Free what ``mem_alloc`` returned, on whichever device. CUDA waits for all work of that device first."""
        self._destroy(self._memory, "cuMemFree", address, invalid=1)

    def mem_info(self) -> tuple[int, int]:
        """Free and total bytes of the current device, as the driver sees them: other processes count."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def host_alloc(self, nbytes: int) -> int:
        """Allocate page-locked host memory, usable by every device."""
        if nbytes <= 0:
            raise driver_error(1, f"host_alloc of {nbytes} bytes: ask for one byte or more")
        detail = f"{nbytes} bytes of page-locked memory were asked for"
        return self._make(self._host, "cuMemHostAlloc", nbytes, _PORTABLE, detail=detail)

    def host_free(self, address: int) -> None:
        """Free what ``host_alloc`` returned."""
        self._destroy(self._host, "cuMemFreeHost", address, invalid=1)

    def virtual_memory(self, ordinal: int) -> VirtualMemory | None:
        """The virtual memory of a device, or None where the device lacks it or cuda-bindings is not installed."""
        if self._bindings is None or not self._attribute(ordinal, VIRTUAL_MEMORY_SUPPORTED):
            return None
        self._contexts.retain(ordinal)
        if ordinal not in self._virtual:
            self._virtual[ordinal] = CudaVirtualMemory(self._bindings, self._api, self._contexts, ordinal)
        return self._virtual[ordinal]

    # --- copies. CUDA documents only that it *may* have read, or written, pageable memory when these return ("API
    # synchronization behavior"). It had for all sizes tried (4 bytes to 16 MiB, driver 580), and a test keeps watch.

    def memcpy_htod(self, dst: int, src: int, nbytes: int, *, stream: int) -> None:
        """Copy from the host address ``src`` to the device address ``dst``."""
        if _moves("memcpy_htod", dst, src, nbytes):
            self._queue("cuMemcpyHtoDAsync", dst, src, nbytes, stream=stream)

    def memcpy_dtoh(self, dst: int, src: int, nbytes: int, *, stream: int) -> None:
        """Copy from the device address ``src`` to the host address ``dst``."""
        if _moves("memcpy_dtoh", dst, src, nbytes):
            self._queue("cuMemcpyDtoHAsync", dst, src, nbytes, stream=stream)

    def memcpy_dtod(self, dst: int, src: int, nbytes: int, *, stream: int) -> None:
        """Copy within a device, or between peers whose access is enabled."""
        if _moves("memcpy_dtod", dst, src, nbytes):
            self._queue("cuMemcpyDtoDAsync", dst, src, nbytes, stream=stream)

    def memcpy_peer(self, dst: int, dst_device: int, src: int, src_device: int, nbytes: int, *, stream: int) -> None:
        """Copy between two devices, with or without peer access."""
        if _moves("memcpy_peer", dst, src, nbytes):
            homes = self._contexts.retain(dst_device), self._contexts.retain(src_device)
            self._queue("cuMemcpyPeerAsync", dst, homes[0], src, homes[1], nbytes, stream=stream)

    def memset(self, address: int, value: int, count: int, *, width: int = 1, stream: int) -> None:
        """Write ``count`` elements of ``width`` (1, 2 or 4) bytes. Of ``value`` the low bits count."""
        if width not in _MEMSETS or count < 0 or address % width:
            raise driver_error(1, f"memset of {count} elements of {width} bytes at {address:#x}: width is 1, 2 or 4")
        if count:
            self._queue(_MEMSETS[width], address, value, count, stream=stream)

    # --- peers

    def can_access_peer(self, device: int, peer: int) -> bool:
        """Whether ``device`` could read and write ``peer``'s memory directly. False for a device and itself."""
        here, there = self._device(device), self._device(peer)
        return device != peer and bool(here.can_access_peer(there))

    def enable_peer_access(self, device: int, peer: int) -> None:
        """Let ``device`` read and write ``peer``'s memory. It is not an error if that, or PyTorch, did so before."""
        if not self.can_access_peer(device, peer):
            raise driver_error(217, f"device {device} cannot access the memory of device {peer}")
        self._switch_peer("cuCtxEnablePeerAccess", device, peer, 0, allowed=704)

    def disable_peer_access(self, device: int, peer: int) -> None:
        """Undo ``enable_peer_access``."""
        if device == peer:
            raise driver_error(705, f"device {device} needs no access to its own memory, so none can be taken away")
        self._switch_peer("cuCtxDisablePeerAccess", device, peer)

    def _switch_peer(self, name: str, device: int, peer: int, *flags: int, allowed: int = 0) -> None:
        there = self._contexts.retain(peer)
        pushed = self._contexts.enter(device)
        try:
            code = getattr(self._cuda, name)(there, *flags)
        finally:
            if pushed:
                self._contexts.leave()
        if code not in (0, allowed):
            raise self._error(name, code, f"device {device}, peer {peer}")


def _moves(name: str, dst: int, src: int, nbytes: int) -> bool:
    """Whether a copy has anything to do."""
    if nbytes < 0 or (nbytes and not (dst and src)):
        raise driver_error(1, f"{name} of {nbytes} bytes from {src:#x} to {dst:#x}: give addresses and a size")
    return nbytes > 0
