"""The virtual memory of one simulated device."""

from __future__ import annotations

from functools import partial

from .allocations import PAGE
from .locked_calls import Calls, Entering, GivingBack, Nbytes, call, changing_call, giving_back_call
from .ranges import Page
from .simulated_device import Device


class SimVirtualMemory:
    """Address ranges and physical pages of one device, checked as CUDA does. Needs no current device."""

    def __init__(self, calls: Calls, device: Device) -> None:
        self._calls = calls
        self._device = device
        self._ranges = device.memory.ranges

    @property
    def granularity(self) -> int:
        """2 MiB."""
        return PAGE

    @property
    def has_host_pages(self) -> bool:
        """Always."""
        return True

    @changing_call
    def reserve_range(self, nbytes: int) -> Entering[int, int]:
        """Reserve address space: see ``VirtualMemory``."""
        self._check()
        address = self._ranges.prepare(nbytes)
        return Entering(self._ranges.sizes, address, Nbytes(nbytes), address)

    @giving_back_call
    def free_range(self, address: int, nbytes: int) -> GivingBack:
        """Return a whole, empty range."""
        self._check()
        return GivingBack(partial(self._ranges.free, address, self._ranges.check_free(address, nbytes)))

    @changing_call
    def create_page(self, nbytes: int) -> Entering[int, int]:
        """Create physical memory and return its handle."""
        self._check()
        return self._entering(self._ranges.prepare_page(nbytes))

    @changing_call
    def create_host_page(self, nbytes: int) -> Entering[int, int]:
        """Create physical memory of the host and return its handle."""
        self._check()
        return self._entering(self._ranges.prepare_page(nbytes, host=True))

    @giving_back_call
    def release_page(self, handle: int) -> GivingBack:
        """Drop the handle. The memory is free again once it is mapped nowhere."""
        self._check()
        return GivingBack(partial(self._ranges.release_page, handle, self._ranges.pages.get(handle)))

    @changing_call
    def map(self, address: int, nbytes: int, handle: int) -> Entering[int, None]:
        """Map a whole page. Touching it is illegal before ``set_access``."""
        self._check()
        mapping = self._ranges.prepare_mapping(address, nbytes, handle)
        return Entering(self._ranges.mappings, address, mapping, None)

    @call
    def set_access(self, address: int, nbytes: int) -> None:
        """Let the device read and write whole mappings."""
        self._check()
        self._calls.memory_changes += 1
        self._ranges.set_access(address, nbytes)

    @giving_back_call
    def unmap(self, address: int, nbytes: int) -> GivingBack:
        """Remove whole mappings, at once: queued work that touches them faults when it runs."""
        self._check()
        return GivingBack(partial(self._ranges.unmap, self._ranges.mapped(address, nbytes)))

    def _entering(self, page: Page) -> Entering[int, int]:
        pages = self._ranges.pages
        handle = pages.unused()
        return Entering(pages.objects, handle, page, handle)

    def _check(self) -> None:
        if self._device.reported:
            self._device.settle()
