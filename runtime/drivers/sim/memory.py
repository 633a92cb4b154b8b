"""The memory of one simulated device, and page-locked host memory: addresses, sizes, what is accessible."""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from dataclasses import dataclass, field

from ....allocators.errors import OutOfMemoryError
from ....allocators.sizes import format_size
from ..base import driver_error
from .gaps import Gaps
from .mapping import POISON, SLOT, PageFile, Reservation

__all__ = ["ALIGNMENT", "PAGE", "DeviceMemory", "HostMemory", "Page"]

PAGE = 2 << 20
"""Bytes of which a device's physical memory consists, as on NVIDIA's GPUs; granularity of virtual memory."""
ALIGNMENT = 512
_SMALL = 1 << 20  # allocations up to this share physical pages
_HOST_PAGE = 4096
_DEVICE_BASE, _HOST_BASE, _END = 0x2000_0000_0000, 0x1000_0000_0000, 0x7000_0000_0000


@dataclass(slots=True)
class Page:
    """Physical memory from ``create_page``: a part of the device's page file."""

    file: PageFile
    offset: int
    nbytes: int
    mappings: int = 0
    released: bool = False
    clean: set[int] = field(default_factory=set)
    """The 2 MiB pieces that nothing has touched yet. They are poisoned when something does."""


@dataclass(slots=True)
class _Mapping:
    nbytes: int
    page: Page
    accessible: bool = False


class DeviceMemory:
    """Allocates as ``cuMemAlloc`` and the virtual-memory calls do, with physical memory counted in 2 MiB pages.

    Allocations of up to 1 MiB share pages, larger ones have pages of their own. An address that was freed is given
    out again as soon as it fits. The lower half of the address space holds allocations, the upper half ranges.
    """

    def __init__(self, capacity: int) -> None:
        self.total = capacity // PAGE * PAGE
        self.free = self.total
        # Four times the capacity in either half, so that what runs out is memory and not address space.
        span = SLOT
        while span < 8 * self.total:
            span *= 2
        self._space = Reservation(_DEVICE_BASE, _END, span)
        self.start = self._space.address
        self.end = self.start + span
        self._ranges_from = -(-(self.start + span // 2) // PAGE) * PAGE
        first = -(-self.start // PAGE) * PAGE
        self._large = Gaps()
        self._large.give(first, self._ranges_from - first)
        self._small = Gaps(border=PAGE)
        self._used_up_to: dict[int, int] = {}  # by shared page: its memory below this address was given out before
        self._starts: list[int] = []
        self.allocations: dict[int, int] = {}
        """Requested bytes by address."""
        self._range_gaps = Gaps()
        self._range_gaps.give(self._ranges_from, (self.end - self._ranges_from) // PAGE * PAGE)
        self.ranges: dict[int, int] = {}
        """Bytes of every reserved range by address."""
        self._mapped: list[int] = []
        self.mappings: dict[int, _Mapping] = {}
        """What is mapped, by address."""
        self._file: PageFile | None = None
        self._file_gaps = Gaps()
        self._file_gaps.give(0, span)

    # --- allocations

    def allocate(self, nbytes: int) -> int:
        """As ``cuMemAlloc``."""
        if nbytes <= 0:
            raise driver_error(1, f"mem_alloc of {nbytes} bytes; ask for at least 1")
        address = self._allocate_small(nbytes) if nbytes <= _SMALL else self._allocate_large(nbytes)
        insort(self._starts, address)
        self.allocations[address] = nbytes
        return address

    def release(self, address: int) -> None:
        """As ``cuMemFree``, without its waiting."""
        nbytes = self.allocations.pop(address)
        del self._starts[bisect_right(self._starts, address) - 1]
        if nbytes > _SMALL:
            self._give_pages(address, _round_up(nbytes, PAGE))
            return
        start, size = self._small.give(address, _round_up(nbytes, ALIGNMENT))
        if size == PAGE:
            self._small.withdraw(start, size)
            del self._used_up_to[start]
            self._give_pages(start, size)

    def _allocate_large(self, nbytes: int) -> int:
        size = _round_up(nbytes, PAGE)
        address = self._large.take(size) if size <= self.free else None
        if address is None:
            raise self._out_of_memory(nbytes)
        try:
            self._space.fill_with_poison(address, size)
        except OSError as error:
            self._space.clear(address, size)
            self._large.give(address, size)
            raise OutOfMemoryError(f"this machine cannot back {format_size(nbytes)} of simulated memory") from error
        self.free -= size
        return address

    def _allocate_small(self, nbytes: int) -> int:
        size = _round_up(nbytes, ALIGNMENT)
        address = self._small.take(size)
        if address is None:
            address = page = self._allocate_large(PAGE)
            self._used_up_to[page] = page
            if size < PAGE:
                self._small.give(page + size, PAGE - size)
        page = address // PAGE * PAGE
        used_up_to = self._used_up_to[page]
        if address < used_up_to:
            ctypes.memset(address, POISON, min(size, used_up_to - address))
        self._used_up_to[page] = max(used_up_to, address + size)
        return address

    def _give_pages(self, address: int, nbytes: int) -> None:
        self._space.take_poison_back(address, nbytes)
        self._large.give(address, nbytes)
        self.free += nbytes

    def _out_of_memory(self, nbytes: int) -> OutOfMemoryError:
        return OutOfMemoryError(
            f"asked the simulated device for {format_size(nbytes)}: {format_size(self.free)} of "
            f"{format_size(self.total)} are free; free some, or give it more with the driver's option memory="
        )

    # --- virtual memory

    def reserve_range(self, nbytes: int) -> int:
        """As ``cuMemAddressReserve``."""
        self._check_granularity("reserve_range", 0, nbytes)
        address = self._range_gaps.take(nbytes)
        if address is None:
            raise OutOfMemoryError(f"no {format_size(nbytes)} of address space are left on the simulated device")
        self.ranges[address] = nbytes
        return address

    def free_range(self, address: int, nbytes: int) -> None:
        """As ``cuMemAddressFree``."""
        if self.ranges.get(address) != nbytes:
            raise driver_error(1, f"free_range of {nbytes} bytes at {address:#x}: that is not a whole reserved range")
        if self._mappings_in(address, nbytes):
            raise driver_error(1, f"free_range of {nbytes} bytes at {address:#x}: unmap what is mapped there first")
        del self.ranges[address]
        self._range_gaps.give(address, nbytes)

    def create_page(self, nbytes: int) -> Page:
        """As ``cuMemCreate``."""
        self._check_granularity("create_page", 0, nbytes)
        if nbytes > self.free:
            raise self._out_of_memory(nbytes)
        self._file = self._file or PageFile("cuplug-pages", self.end - self.start)
        offset = self._file_gaps.take(nbytes)
        if offset is None:
            raise self._out_of_memory(nbytes)
        self.free -= nbytes
        return Page(self._file, offset, nbytes, clean=set(range(nbytes // PAGE)))

    def release_page(self, page: Page) -> None:
        """As ``cuMemRelease``: the memory is free once it is mapped nowhere."""
        page.released = True
        self._retire(page)

    def map(self, address: int, nbytes: int, page: Page) -> None:
        """As ``cuMemMap``, of a whole page."""
        self._check_granularity("map", address, nbytes)
        if page.nbytes != nbytes:
            raise driver_error(1, f"map of {nbytes} bytes: the page has {page.nbytes}, and pages are mapped whole")
        if not any(start <= address and address + nbytes <= start + size for start, size in self.ranges.items()):
            raise driver_error(1, f"map of {nbytes} bytes at {address:#x}: not within a reserved range")
        if self._mappings_in(address, nbytes):
            raise driver_error(1, f"map of {nbytes} bytes at {address:#x}: something is mapped there already")
        self._space.map_file(address, nbytes, page.file, page.offset)
        page.mappings += 1
        insort(self._mapped, address)
        self.mappings[address] = _Mapping(nbytes, page)

    def set_access(self, address: int, nbytes: int) -> None:
        """As ``cuMemSetAccess``, reading and writing for this device."""
        mappings = self._whole_mappings("set_access", address, nbytes)
        if sum(self.mappings[start].nbytes for start in mappings) != nbytes:
            raise driver_error(1, f"set_access of {nbytes} bytes at {address:#x}: the range is not mapped throughout")
        for start in mappings:
            self._space.make_accessible(start, self.mappings[start].nbytes)
            self.mappings[start].accessible = True

    def unmap(self, address: int, nbytes: int) -> None:
        """As ``cuMemUnmap``: at once, whatever is queued."""
        mappings = self._whole_mappings("unmap", address, nbytes)
        if not mappings:
            raise driver_error(1, f"unmap of {nbytes} bytes at {address:#x}: nothing is mapped there")
        for start in mappings:
            mapping = self.mappings.pop(start)
            del self._mapped[bisect_right(self._mapped, start) - 1]
            self._space.clear(start, mapping.nbytes)
            mapping.page.mappings -= 1
            self._retire(mapping.page)

    def _retire(self, page: Page) -> None:
        if page.released and not page.mappings:
            if len(page.clean) * PAGE < page.nbytes:
                page.file.punch_hole(page.offset, page.nbytes)
            self._file_gaps.give(page.offset, page.nbytes)
            self.free += page.nbytes

    def _mappings_in(self, address: int, nbytes: int) -> list[int]:
        first = max(bisect_right(self._mapped, address) - 1, 0)
        found = []
        for start in self._mapped[first:]:
            if start >= address + nbytes:
                break
            if start + self.mappings[start].nbytes > address:
                found.append(start)
        return found

    def _whole_mappings(self, call: str, address: int, nbytes: int) -> list[int]:
        self._check_granularity(call, address, nbytes)
        found = self._mappings_in(address, nbytes)
        if found and (found[0] < address or found[-1] + self.mappings[found[-1]].nbytes > address + nbytes):
            raise driver_error(1, f"{call} of {nbytes} bytes at {address:#x}: the range cuts a mapped page in two")
        return found

    @staticmethod
    def _check_granularity(call: str, address: int, nbytes: int) -> None:
        if nbytes <= 0 or nbytes % PAGE or address % PAGE:
            where = f" at {address:#x}" if address else ""
            raise driver_error(1, f"{call} of {nbytes} bytes{where}: both must be multiples of {PAGE}")

    # --- access

    def touch(self, address: int, nbytes: int) -> str | None:
        """Prepare the range for access by this device: None, or why it would be illegal."""
        if address < self._ranges_from:
            return self._allocation_fault(address, nbytes)
        return self._mapping_fault(address, nbytes)

    def is_allocated(self, address: int) -> bool:
        """Whether the address lies in a live allocation, and not in a mapped range."""
        return address < self._ranges_from and self._allocation_fault(address, 1) is None

    def _allocation_fault(self, address: int, nbytes: int) -> str | None:
        position = bisect_right(self._starts, address) - 1
        if position >= 0:
            start = self._starts[position]
            size = self.allocations[start]
            if address + nbytes <= start + size:
                return None
            if address < start + size:
                return f"the allocation at {start:#x} has {size} bytes and ends at {start + size:#x}"
        return "no live allocation holds it"

    def _mapping_fault(self, address: int, nbytes: int) -> str | None:
        expected, end = address, address + nbytes
        for start in self._mappings_in(address, nbytes):
            mapping = self.mappings[start]
            if start > expected:
                break
            if not mapping.accessible:
                return f"set_access was not called for what is mapped at {start:#x}"
            expected = start + mapping.nbytes
            if mapping.page.clean:
                self._poison(start, mapping, max(address, start), min(end, expected))
        return None if expected >= end else f"nothing is mapped at {expected:#x}"

    @staticmethod
    def _poison(start: int, mapping: _Mapping, first: int, end: int) -> None:
        for piece in range((first - start) // PAGE, -(-(end - start) // PAGE)):
            if piece in mapping.page.clean:
                mapping.page.clean.discard(piece)
                ctypes.memset(start + piece * PAGE, POISON, PAGE)

    def close(self) -> None:
        """Give everything back to the system. Idempotent."""
        self._space.close()
        if self._file is not None:
            self._file.close()


class HostMemory:
    """Page-locked host memory: one address space for all devices of a driver, not limited by the simulator."""

    def __init__(self) -> None:
        self._space = Reservation(_HOST_BASE, _DEVICE_BASE, SLOT)
        self._gaps = Gaps()
        self._gaps.give(self._space.address, self._space.nbytes)
        self._starts: list[int] = []
        self.allocations: dict[int, int] = {}
        """Bytes by address."""

    def allocate(self, nbytes: int) -> int:
        """As ``cuMemHostAlloc``."""
        if nbytes <= 0:
            raise driver_error(1, f"host_alloc of {nbytes} bytes; ask for at least 1")
        address = self._gaps.take(_round_up(nbytes, _HOST_PAGE))
        if address is None:
            raise OutOfMemoryError(f"no {format_size(nbytes)} of address space are left for page-locked host memory")
        try:
            self._space.fill_with_poison(address, _round_up(nbytes, _HOST_PAGE))
        except OSError as error:
            self._gaps.give(address, _round_up(nbytes, _HOST_PAGE))
            raise OutOfMemoryError(f"this machine cannot give {format_size(nbytes)} of host memory") from error
        insort(self._starts, address)
        self.allocations[address] = nbytes
        return address

    def release(self, address: int) -> None:
        """As ``cuMemFreeHost``, without its waiting."""
        nbytes = _round_up(self.allocations.pop(address), _HOST_PAGE)
        del self._starts[bisect_right(self._starts, address) - 1]
        self._space.take_poison_back(address, nbytes)
        self._gaps.give(address, nbytes)

    def is_pinned(self, address: int, nbytes: int) -> bool:
        """Whether the whole range is page-locked memory from here."""
        position = bisect_right(self._starts, address) - 1
        return position >= 0 and address + nbytes <= self._starts[position] + self.allocations[self._starts[position]]

    def close(self) -> None:
        """Give everything back to the system. Idempotent."""
        self._space.close()


def _round_up(nbytes: int, multiple: int) -> int:
    return -(-nbytes // multiple) * multiple
