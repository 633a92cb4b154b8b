"""The virtual memory of one simulated device."""

from __future__ import annotations

from .allocations import PAGE
from .machine import Handles, Machine, call
from .operations import Device
from .ranges import Page

__all__ = ["SimVirtualMemory"]


class SimVirtualMemory:
    """Address ranges and physical pages of one device, checked as CUDA does. Needs no current device."""

    def __init__(self, machine: Machine, device: Device, pages: Handles[tuple[Device, Page]]) -> None:
        self._machine = machine
        self._device = device
        self._pages = pages

    @property
    def granularity(self) -> int:
        """2 MiB."""
        return PAGE

    @call
    def reserve_range(self, nbytes: int) -> int:
        """Reserve address space: see ``VirtualMemory``."""
        self._check()
        return self._device.memory.ranges.reserve(nbytes)

    @call
    def free_range(self, address: int, nbytes: int) -> None:
        """Return a whole, empty range."""
        self._check()
        self._device.memory.ranges.free(address, nbytes)

    @call
    def create_page(self, nbytes: int) -> int:
        """Create physical memory and return its handle."""
        self._check()
        return self._pages.add((self._device, self._device.memory.ranges.create_page(nbytes)))

    @call
    def release_page(self, handle: int) -> None:
        """Drop the handle. The memory is free again once it is mapped nowhere."""
        self._check()
        device, page = self._pages.remove(handle)
        device.memory.ranges.release_page(page)

    @call
    def map(self, address: int, nbytes: int, handle: int) -> None:
        """Map a whole page. Touching it is illegal before ``set_access``."""
        self._check()
        _, page = self._pages.get(handle)
        self._device.memory.ranges.map(address, nbytes, page)

    @call
    def set_access(self, address: int, nbytes: int) -> None:
        """Let the device read and write whole mappings."""
        self._check()
        self._device.memory.ranges.set_access(address, nbytes)

    @call
    def unmap(self, address: int, nbytes: int) -> None:
        """Remove whole mappings, at once: queued work that touches them faults when it runs."""
        self._check()
        self._device.memory.ranges.unmap(address, nbytes)

    def _check(self) -> None:
        if self._device.reported:
            self._device.settle()
