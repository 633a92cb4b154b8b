"""The simulated driver's memory: allocations, page-locked memory, copies, peers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

import numpy as np

from ....allocators.upstream import VirtualMemory
from ..base import driver_error
from .machine import call
from .operations import Device, Operation, Range
from .state import SimState
from .virtual import SimVirtualMemory

__all__ = ["MemoryCalls", "memory_at"]

# What an operation costs on the simulated clock: microseconds to start, and bytes per microsecond. Rough figures of a
# current data-centre GPU; they make elapsed times plausible and the same in every run, and claim no more.
_START_US = 2.0
_DEVICE_RATE, _PEER_RATE, _PINNED_RATE, _PAGEABLE_RATE = 2e6, 2e5, 5e4, 1e4

_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_view.restype = ctypes.py_object
_WRITABLE = 0x200  # PyBUF_WRITE


def memory_at(address: int, nbytes: int) -> memoryview:
    """The bytes at an address of this process, writable and without a copy."""
    view: memoryview = _view(address, nbytes, _WRITABLE)
    return view


class MemoryCalls(SimState):
    """See ``Driver``: the sections on memory, copies and peers."""

    @call
    def mem_alloc(self, nbytes: int) -> int:
        """Allocate device memory, aligned to 512 bytes and poisoned."""
        return self._here().memory.allocations.allocate(nbytes)

    @call
    def mem_free(self, address: int) -> None:
        """Free what ``mem_alloc`` returned, on whichever device, after all of that device's work."""
        self._here()
        device = self._owner(address)
        if device is None or address not in device.memory.allocations.sizes:
            raise driver_error(1, f"mem_free of {address:#x}: it is not an address from mem_alloc, or was freed before")
        self._drain(device)
        device.memory.allocations.release(address)

    @call
    def mem_info(self) -> tuple[int, int]:
        """Free and total bytes of the current device. What is not used up in whole 2 MiB pages counts as used."""
        physical = self._here().memory.physical
        return physical.free, physical.total

    @call
    def host_alloc(self, nbytes: int) -> int:
        """Allocate page-locked host memory. It is limited by this machine, not by the simulator."""
        return self._here().host.allocate(nbytes)

    @call
    def host_free(self, address: int) -> None:
        """Free what ``host_alloc`` returned, after all work of all devices."""
        here = self._here()
        if address not in here.host.sizes:
            raise driver_error(1, f"host_free of {address:#x}: it is not from host_alloc, or was freed before")
        for device in self._devices.values():
            self._schedule.drain(device)
        self._drain(here)
        here.host.release(address)

    def virtual_memory(self, ordinal: int) -> VirtualMemory | None:
        """The virtual memory of a device, or None where the option ``virtual_memory`` says so."""
        device = self._retain(ordinal)
        return SimVirtualMemory(self._machine, device, self._pages) if self._has_virtual_memory else None

    # --- copies

    @call
    def memcpy_htod(self, dst: int, src: int, nbytes: int, *, stream: int) -> None:
        """Copy from host to device. Pageable memory is read before this returns."""
        self._here()
        _check_copy("memcpy_htod", dst, src, nbytes)
        if self._is_pinned("memcpy_htod", src, nbytes):
            body = partial(ctypes.memmove, dst, src, nbytes)
            self._copy("memcpy_htod", stream, body, nbytes, _PINNED_RATE, ((src, nbytes),), ((dst, nbytes),))
            return
        source = ctypes.string_at(src, nbytes) if self._defers else src
        body = partial(ctypes.memmove, dst, source, nbytes)
        self._copy("memcpy_htod", stream, body, nbytes, _PAGEABLE_RATE, (), ((dst, nbytes),))

    @call
    def memcpy_dtoh(self, dst: int, src: int, nbytes: int, *, stream: int) -> None:
        """Copy from device to host. To pageable memory this waits for the copy, and raises what the work did."""
        self._here()
        _check_copy("memcpy_dtoh", dst, src, nbytes)
        body = partial(ctypes.memmove, dst, src, nbytes)
        if self._is_pinned("memcpy_dtoh", dst, nbytes):
            self._copy("memcpy_dtoh", stream, body, nbytes, _PINNED_RATE, ((src, nbytes),), ((dst, nbytes),))
            return
        operation = self._copy("memcpy_dtoh", stream, body, nbytes, _PAGEABLE_RATE, ((src, nbytes),))
        if operation is not None:
            self._wait(operation)

    @call
    def memcpy_dtod(self, dst: int, src: int, nbytes: int, *, stream: int) -> None:
        """Copy within the stream's device, or between it and peers whose access is enabled."""
        self._here()
        _check_copy("memcpy_dtod", dst, src, nbytes)
        body = partial(ctypes.memmove, dst, src, nbytes)
        self._copy("memcpy_dtod", stream, body, nbytes, _DEVICE_RATE, ((src, nbytes),), ((dst, nbytes),))

    @call
    def memcpy_peer(self, dst: int, dst_device: int, src: int, src_device: int, nbytes: int, *, stream: int) -> None:
        """Copy between two devices, with or without peer access."""
        self._here()
        _check_copy("memcpy_peer", dst, src, nbytes)
        homes = self._retained(src_device), self._retained(dst_device)
        body = partial(ctypes.memmove, dst, src, nbytes)
        self._copy("memcpy_peer", stream, body, nbytes, _PEER_RATE, ((src, nbytes),), ((dst, nbytes),), homes)

    @call
    def memset(self, address: int, value: int, count: int, *, width: int = 1, stream: int) -> None:
        """Write ``count`` elements of ``width`` (1, 2 or 4) bytes. Of ``value`` the low bits count."""
        self._here()
        if width not in (1, 2, 4) or count < 0 or address % width:
            raise driver_error(1, f"memset of {count} elements of {width} bytes at {address:#x}: width is 1, 2 or 4")
        nbytes = count * width
        if width == 1:
            body: Callable[[], object] = partial(ctypes.memset, address, value & 0xFF, nbytes)
        else:
            body = partial(_fill, address, value & ((1 << 8 * width) - 1), nbytes, width)
        self._copy("memset", stream, body, nbytes, _DEVICE_RATE, (), ((address, nbytes),))

    def _copy(
        self,
        name: str,
        stream: int,
        body: Callable[[], object],
        nbytes: int,
        rate: float,
        reads: tuple[Range, ...],
        writes: tuple[Range, ...] = (),
        homes: tuple[Device, Device] | None = None,
    ) -> Operation | None:
        queue = self._stream(stream)
        if not nbytes:
            return None
        cost = _START_US + nbytes / rate
        return self._submit(Operation(name, queue, body, reads=reads, writes=writes, homes=homes, cost_us=cost))

    def _is_pinned(self, name: str, address: int, nbytes: int) -> bool:
        """Whether a host address is page-locked. Raises where it is none that may be read."""
        host = self._host
        if host is not None and host.start <= address < host.end:
            fault = host.fault(address, nbytes)
            if fault is not None and nbytes:
                raise driver_error(1, f"{name} of {nbytes} bytes at the host address {address:#x}: {fault}")
            return True
        if self._owner(address) is not None:
            raise driver_error(1, f"{name}: {address:#x} is a device address, where a host address belongs")
        return False

    # --- peers

    @call
    def can_access_peer(self, device: int, peer: int) -> bool:
        """Whether the option ``peer_access`` allows it. False for a device and itself."""
        self._index(device)
        self._index(peer)
        return self._has_peer_access and device != peer

    @call
    def enable_peer_access(self, device: int, peer: int) -> None:
        """Let ``device`` access what ``mem_alloc`` returned on ``peer``. Enabling twice is not an error."""
        self._index(device)
        self._index(peer)
        if not self._has_peer_access or device == peer:
            raise driver_error(217, f"device {device} cannot access the memory of device {peer}")
        self._retained(device).peers.add(self._retained(peer))

    @call
    def disable_peer_access(self, device: int, peer: int) -> None:
        """Undo ``enable_peer_access``."""
        here, there = self._retained(device), self._retained(peer)
        if there not in here.peers:
            raise driver_error(705, f"device {device} was not given access to the memory of device {peer}")
        here.peers.discard(there)

    def _owner(self, address: int) -> Device | None:
        """The device whose address space holds the address."""
        for device in self._devices.values():
            if device.memory.start <= address < device.memory.end:
                return device
        return None


def _check_copy(name: str, dst: int, src: int, nbytes: int) -> None:
    if nbytes < 0 or (nbytes and not (dst and src)):
        raise driver_error(1, f"{name} of {nbytes} bytes from {src:#x} to {dst:#x}: give addresses and a size")


def _fill(address: int, value: int, nbytes: int, width: int) -> None:
    np.frombuffer(memory_at(address, nbytes), dtype=f"u{width}").fill(value)
