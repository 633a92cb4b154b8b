"""All memory that simulated devices can reach: each device's own, and page-locked host memory."""

from __future__ import annotations

from bisect import bisect_right, insort

from ....allocators.errors import OutOfMemoryError
from ....allocators.sizes import format_size
from ..base import driver_error
from .allocations import PAGE, Allocations, PhysicalMemory
from .gaps import Gaps, free_pieces, round_up
from .handle_table import HandleTable
from .mapping import Reservation
from .ranges import Page, Ranges

_DEVICE_BASE, _DEVICE_END, _USUAL_SPAN, _LEAST_SPAN = 0x2000_0000_0000, 0x7000_0000_0000, 1 << 39, 1 << 32
# Not below 16 TiB: the tables that checked kernels read lie there (runtime/kernels/simulator/headers/engine/shadow.h).
_HOST_BASE, _HOST_END, _HOST_SPAN = 0x1000_0000_0000, 0x2000_0000_0000, 1 << 38
_HOST_PAGE = 4096
_FIRST_PAGE, _PAGE_HANDLES = 0x2000_0000, 1 << 36  # handles of pages: the first, and how far apart those of devices are


class DeviceMemory:
    """The memory of one device. The lower half of its address space holds allocations, the upper half ranges."""

    __slots__ = ("_space", "allocations", "end", "middle", "physical", "ranges", "start")

    def __init__(self, capacity: int, ordinal: int, host: HostMemory) -> None:
        self.physical = PhysicalMemory(capacity)
        # What runs out should be memory, and not addresses in one piece: allocators reserve a range of the device's
        # size, or of 64 GiB, for every stream and tag. Where a process has many devices, less must do.
        span, least = _USUAL_SPAN, _LEAST_SPAN
        while span < 32 * capacity:
            span *= 2
        while least < 4 * capacity:
            least *= 2
        self._space = _reserve(_DEVICE_BASE, _DEVICE_END, span, least)
        self.start, self.end = self._space.address, self._space.address + self._space.nbytes
        first, last = round_up(self.start, PAGE), self.end // PAGE * PAGE
        self.middle = first + (last - first) // PAGE // 2 * PAGE
        self.allocations = Allocations(self._space, first, self.middle, self.physical)
        pages: HandleTable[Page] = HandleTable("page of virtual memory", _FIRST_PAGE + ordinal * _PAGE_HANDLES)
        self.ranges = Ranges(self._space, self.middle, last, self.physical, host.physical, pages)

    def touch(self, address: int, nbytes: int) -> str | None:
        """Prepare a range of this memory for access: None, or why that is illegal."""
        if address < self.middle:
            return self.allocations.fault(address, nbytes)
        return self.ranges.touch(address, nbytes)

    def touch_from_peer(self, address: int, nbytes: int) -> str | None:
        """The same for a peer: access to ranges is not part of peer access (``cuMemSetAccess`` names devices)."""
        if address < self.middle:
            return self.allocations.fault(address, nbytes)
        return "peer access covers what mem_alloc returned, and not virtual memory"

    def mend(self) -> int:
        """Put right what an interrupted call left. Returns the bytes of the host's memory that are in its pages."""
        physical, (used, on_host) = self.physical, self.ranges.mend()
        physical.free = physical.total - self.allocations.mend() - used
        return on_host

    def live(self) -> list[tuple[int, int]]:
        """Address and size of all that ``touch`` allows, prepared for access."""
        found = list(self.allocations.sizes.items())
        for start, mapping in self.ranges.mappings.items():
            if mapping.accessible:
                self.ranges.touch(start, mapping.nbytes)
                found.append((start, mapping.nbytes))
        return found

    def close(self) -> None:
        """Give everything back to the system. Idempotent."""
        self._space.close()
        self.ranges.close()


class HostMemory:
    """Page-locked host memory: one address space for all devices of a driver, not limited by the simulator; and what
    there is for pages of the host that stand under addresses of devices."""

    def __init__(self, capacity: int) -> None:
        self.physical = PhysicalMemory(capacity, "host_memory")
        self.sizes: dict[int, int] = {}
        """Bytes of every allocation by address: the truth, from which all else follows."""
        self._space = _reserve(_HOST_BASE, _HOST_END, _HOST_SPAN, _HOST_SPAN)
        self.start, self.end = self._space.address, self._space.address + _HOST_SPAN
        self._gaps = Gaps()
        self._gaps.give(self.start, _HOST_SPAN)
        self._starts: list[int] = []

    def prepare(self, nbytes: int) -> int:
        """Where the next allocation of ``nbytes`` lies, ready for use. It is made by entering it in ``sizes``."""
        if nbytes <= 0:
            raise driver_error(1, f"host_alloc of {nbytes} bytes; ask for at least 1")
        size = round_up(nbytes, _HOST_PAGE)
        address = self._gaps.take(size)
        if address is None:
            raise OutOfMemoryError(f"no {format_size(nbytes)} of address space are left for page-locked host memory")
        try:
            self._space.fill_with_poison(address, size)
        except OSError as error:
            self._gaps.give(address, size)
            raise OutOfMemoryError(f"this machine cannot give {format_size(nbytes)} of host memory") from error
        insort(self._starts, address)
        return address

    def release(self, address: int, nbytes: int) -> None:
        """As ``cuMemFreeHost``, without its waiting, for an entry of ``sizes``, if it is still there."""
        if self.sizes.get(address) is not nbytes:
            return
        size = round_up(nbytes, _HOST_PAGE)
        del self.sizes[address]
        del self._starts[bisect_right(self._starts, address) - 1]
        self._space.take_poison_back(address, size)
        self._gaps.give(address, size)

    def mend(self, in_pages: int) -> None:
        """Make anew what follows from ``sizes``, after an interrupted call. ``in_pages`` bytes are in pages."""
        self.physical.free = self.physical.total - in_pages
        gaps = Gaps()
        used = [(address, round_up(nbytes, _HOST_PAGE)) for address, nbytes in self.sizes.items()]
        for start, size in free_pieces(self.start, self.end, used):
            self._space.clear(start, size)
            gaps.give(start, size)
        self._starts = sorted(self.sizes)
        self._gaps = gaps

    def fault(self, address: int, nbytes: int) -> str | None:
        """Why the range is not within one live allocation, or None."""
        position = bisect_right(self._starts, address) - 1
        if position >= 0:
            start = self._starts[position]
            if address + nbytes <= start + self.sizes[start]:
                return None
        return "no live page-locked allocation holds it"

    def close(self) -> None:
        """Give everything back to the system. Idempotent."""
        self._space.close()


def _reserve(base: int, end: int, span: int, least: int) -> Reservation:
    while True:
        try:
            return Reservation(base, end, span)
        except OSError as error:
            if span > least:
                span //= 2
                continue
            raise OutOfMemoryError(
                f"this process has no {format_size(span)} of address space left to reserve, which simulated memory "
                "needs even while it is unused; close drivers that are done, and see ulimit -v"
            ) from error
