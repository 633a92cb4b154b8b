"""Device memory as the virtual-memory calls give it out: address ranges, pages, mappings."""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from dataclasses import dataclass, field

from ....allocators.errors import OutOfMemoryError
from ....allocators.sizes import format_size
from ..base import driver_error
from .allocations import PAGE, PhysicalMemory
from .gaps import Gaps, free_pieces
from .handle_table import HandleTable
from .mapping import POISON, PageFile, Reservation

_PIECE = 1 << 16
"""Bytes that are poisoned at a time: most programs of tests touch little of their pages."""
_FILE = 1 << 42  # bytes of the file that pages are parts of; it has holes wherever nothing was written


@dataclass(slots=True, eq=False)
class Page:
    """Physical memory from ``create_page``: a part of the device's page file."""

    offset: int
    nbytes: int
    physical: PhysicalMemory
    """What it is a part of: the device's memory, or the host's."""
    touched: set[int] = field(default_factory=set)
    """The pieces that something has touched. The others are poisoned when something does."""
    mappings: int = 0
    released: bool = False


@dataclass(slots=True, eq=False)
class Mapping:
    """A page at an address."""

    nbytes: int
    page: Page
    accessible: bool = False


class Ranges:
    """The reserved ranges in a piece of address space, and the pages of one device: of its memory, and of the host's.

    ``sizes``, ``pages`` and ``mappings`` are the truth of what exists; all else follows from them, and ``mend`` makes
    it anew.
    """

    def __init__(
        self,
        space: Reservation,
        start: int,
        end: int,
        physical: PhysicalMemory,
        host: PhysicalMemory,
        pages: HandleTable[Page],
    ) -> None:
        self.sizes: dict[int, int] = {}
        """Bytes of every reserved range by address."""
        self.pages = pages
        """The pages whose handles have not been released."""
        self.mappings: dict[int, Mapping] = {}
        """What is mapped, by address."""
        self._space = space
        self._start, self._end = start, end
        self._physical = physical
        self._host = host
        self._gaps = Gaps()
        self._gaps.give(start, end - start)
        self._starts: list[int] = []
        self._mapped: list[int] = []
        self._file: PageFile | None = None
        self._file_gaps = Gaps()
        self._file_gaps.give(0, _FILE)

    def prepare(self, nbytes: int) -> int:
        """As ``cuMemAddressReserve``: where the next range lies. It is reserved by entering it in ``sizes``."""
        _check_granularity("reserve_range", 0, nbytes)
        address = self._gaps.take(nbytes)
        if address is None:
            raise OutOfMemoryError(f"no {format_size(nbytes)} of address space are left on the simulated device")
        insort(self._starts, address)
        return address

    def check_free(self, address: int, nbytes: int) -> int:
        """The entry in ``sizes`` of a range that ``cuMemAddressFree`` would take back. Raises where it would not."""
        size = self.sizes.get(address)
        if size is None or size != nbytes:
            raise driver_error(1, f"free_range of {nbytes} bytes at {address:#x}: that is not a whole reserved range")
        if self._mappings_in(address, nbytes):
            raise driver_error(1, f"free_range of {nbytes} bytes at {address:#x}: unmap what is mapped there first")
        return size

    def free(self, address: int, size: int) -> None:
        """Free a range by its entry in ``sizes``, if that is still there."""
        if self.sizes.get(address) is not size:
            return
        del self.sizes[address]
        del self._starts[bisect_right(self._starts, address) - 1]
        self._gaps.give(address, size)

    def prepare_page(self, nbytes: int, *, host: bool = False) -> Page:
        """As ``cuMemCreate``. The page exists once it is entered in ``pages``. ``host``: it is memory of the host."""
        _check_granularity("create_host_page" if host else "create_page", 0, nbytes)
        physical = self._host if host else self._physical
        physical.take(nbytes, nbytes)
        offset = self._file_gaps.take(nbytes)
        if offset is None:
            physical.give(nbytes)
            raise physical.exhausted(nbytes)
        return Page(offset, nbytes, physical)

    def release_page(self, handle: int, page: Page) -> None:
        """As ``cuMemRelease``, of an entry of ``pages`` that is still there: its memory is free once mapped nowhere."""
        if self.pages.remove(handle, page):
            page.released = True
            self._retire(page)

    def prepare_mapping(self, address: int, nbytes: int, handle: int) -> Mapping:
        """As ``cuMemMap``, of a whole page. It is mapped once it is entered in ``mappings``."""
        page = self.pages.get(handle)
        _check_granularity("map", address, nbytes)
        asked = f"map of {nbytes} bytes at {address:#x}"
        if page.nbytes != nbytes:
            raise driver_error(1, f"{asked}: the page has {page.nbytes}, and pages are mapped whole")
        position = bisect_right(self._starts, address) - 1
        start = self._starts[position] if position >= 0 else 0
        if position < 0 or address + nbytes > start + self.sizes[start]:
            raise driver_error(1, f"{asked}: not within a reserved range")
        if self._mappings_in(address, nbytes):
            raise driver_error(1, f"{asked}: something is mapped there already")
        self._file = self._file or PageFile("cuplug-pages", _FILE)
        try:
            self._space.map_file(address, nbytes, self._file, page.offset)
        except OSError as error:
            raise OutOfMemoryError(
                f"{asked}: this system allows a process no more mappings; use larger pages, or see vm.max_map_count"
            ) from error
        page.mappings += 1
        insort(self._mapped, address)
        return Mapping(nbytes, page)

    def set_access(self, address: int, nbytes: int) -> None:
        """As ``cuMemSetAccess``, reading and writing for this device."""
        for start in self._whole_mappings("set_access", address, nbytes):
            mapping = self.mappings[start]
            self._space.make_accessible(start, mapping.nbytes)
            mapping.accessible = True

    def mapped(self, address: int, nbytes: int) -> list[tuple[int, Mapping]]:
        """The mappings that make up exactly this range. Raises as ``cuMemUnmap`` would."""
        return [(start, self.mappings[start]) for start in self._whole_mappings("unmap", address, nbytes)]

    def unmap(self, found: list[tuple[int, Mapping]]) -> None:
        """As ``cuMemUnmap``: at once, whatever is queued. For those of the mappings that are still there."""
        for start, mapping in found:
            if self.mappings.get(start) is mapping:
                del self.mappings[start]
                del self._mapped[bisect_right(self._mapped, start) - 1]
                self._space.clear(start, mapping.nbytes)
                mapping.page.mappings -= 1
                self._retire(mapping.page)

    def mend(self) -> tuple[int, int]:
        """Make anew what follows from the tables, after an interrupted call. Returns the bytes in use of the device's
        memory, and of the host's."""
        gaps, file_gaps = Gaps(), Gaps()
        for start, size in free_pieces(self._start, self._end, self.sizes.items()):
            gaps.give(start, size)
        mapped = [(address, mapping.nbytes) for address, mapping in self.mappings.items()]
        for start, size in free_pieces(self._start, self._end, mapped):
            self._space.clear(start, size)
        live = {id(page): page for page in self.pages}
        live.update({id(mapping.page): mapping.page for mapping in self.mappings.values()})
        with_handle = {id(page) for page in self.pages}
        for page in live.values():
            page.mappings, page.released = 0, id(page) not in with_handle
        for mapping in self.mappings.values():
            mapping.page.mappings += 1
        for offset, size in free_pieces(0, _FILE, [(page.offset, page.nbytes) for page in live.values()]):
            if self._file is not None:
                self._file.punch_hole(offset, size)
            file_gaps.give(offset, size)
        self._starts, self._mapped = sorted(self.sizes), sorted(self.mappings)
        self._gaps, self._file_gaps = gaps, file_gaps
        on_host = sum(page.nbytes for page in live.values() if page.physical is self._host)
        return sum(page.nbytes for page in live.values()) - on_host, on_host

    def touch(self, address: int, nbytes: int) -> str | None:
        """Why the range is not mapped and accessible, or None: then what nobody touched before is poisoned."""
        expected, end = address, address + nbytes
        at = bisect_right(self._mapped, address) - 1
        if at >= 0:
            start = self._mapped[at]
            mapping = self.mappings[start]
            if mapping.accessible and end <= start + mapping.nbytes:  # it lies in one page, as nearly all do
                piece = (address - start) // _PIECE
                if piece not in mapping.page.touched or end > start + (piece + 1) * _PIECE:
                    _poison(start, mapping, address, end)
                return None
        found = self._mappings_in(address, nbytes)
        for start in found:
            mapping = self.mappings[start]
            if start > expected:
                break
            if not mapping.accessible:
                return f"set_access was not called for what is mapped at {start:#x}"
            expected = start + mapping.nbytes
        if expected < end:
            return f"nothing is mapped at {expected:#x}"
        for start in found:
            mapping = self.mappings[start]
            _poison(start, mapping, max(address, start), min(end, start + mapping.nbytes))
        return None

    def close(self) -> None:
        """Give the page file back. Idempotent."""
        if self._file is not None:
            self._file.close()

    def _retire(self, page: Page) -> None:
        if page.released and not page.mappings:
            if self._file is not None:
                self._file.punch_hole(page.offset, page.nbytes)
            self._file_gaps.give(page.offset, page.nbytes)
            page.physical.give(page.nbytes)

    def _mappings_in(self, address: int, nbytes: int) -> list[int]:
        """Where the mappings begin that overlap the range, in order."""
        position = max(bisect_right(self._mapped, address) - 1, 0)
        found = []
        while position < len(self._mapped) and (start := self._mapped[position]) < address + nbytes:
            if start + self.mappings[start].nbytes > address:
                found.append(start)
            position += 1
        return found

    def _whole_mappings(self, call: str, address: int, nbytes: int) -> list[int]:
        """Where the mappings begin that make up exactly this range."""
        _check_granularity(call, address, nbytes)
        found = self._mappings_in(address, nbytes)
        if found and (found[0] < address or found[-1] + self.mappings[found[-1]].nbytes > address + nbytes):
            raise driver_error(1, f"{call} of {nbytes} bytes at {address:#x}: the range cuts a mapped page in two")
        if sum(self.mappings[start].nbytes for start in found) != nbytes:
            raise driver_error(1, f"{call} of {nbytes} bytes at {address:#x}: the range is not mapped throughout")
        return found


def _check_granularity(call: str, address: int, nbytes: int) -> None:
    if nbytes <= 0 or nbytes % PAGE or address % PAGE:
        where = f" at {address:#x}" if address else ""
        raise driver_error(1, f"{call} of {nbytes} bytes{where}: give multiples of {PAGE} bytes")


def _poison(start: int, mapping: Mapping, first: int, end: int) -> None:
    touched = mapping.page.touched
    if len(touched) == mapping.nbytes // _PIECE:
        return
    pieces = range((first - start) // _PIECE, -(-(end - start) // _PIECE))
    if touched.isdisjoint(pieces):
        ctypes.memset(start + pieces.start * _PIECE, POISON, len(pieces) * _PIECE)
    else:
        for piece in pieces:
            if piece not in touched:
                ctypes.memset(start + piece * _PIECE, POISON, _PIECE)
    touched.update(pieces)
