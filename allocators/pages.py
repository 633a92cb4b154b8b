"""Physical pages on virtual memory, and moving them so that a failed call leaves the maps as they were."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from .errors import DriverError, OutOfMemoryError
from .events import EventKind
from .upstream import VirtualMemory

__all__ = ["Move", "Page", "Pages"]

Emit = Callable[[EventKind, int, int, int, int], None]


class Page:
    """Physical memory behind one handle, mapped in one place or, while it is on its way, nowhere."""

    __slots__ = ("address", "handle", "nbytes", "stream")

    def __init__(self, handle: int, nbytes: int) -> None:
        self.handle = handle
        self.nbytes = nbytes
        self.address = 0
        """Where it is mapped; 0 for nowhere."""
        self.stream = 0
        """The stream for which it is mapped."""


class Move:
    """A page to be mapped at ``address``: one from elsewhere, or a new one of ``nbytes``."""

    __slots__ = ("address", "nbytes", "page")

    def __init__(self, address: int, nbytes: int, page: Page | None = None) -> None:
        self.address = address
        self.nbytes = nbytes
        self.page = page


class Pages:
    """Creates, maps and releases the pages of one allocator.

    ``emit`` is told of every step that has taken effect: kind, stream, address, bytes, and the page's handle.
    """

    def __init__(self, virtual: VirtualMemory, emit: Emit) -> None:
        self.virtual = virtual
        self.granularity = virtual.granularity
        self._emit = emit
        self._stray: list[Page] = []  # mapped nowhere, and their release has failed so far

    def carry_out(self, moves: list[Move], stream: int) -> list[Page]:
        """Create, unmap and map as ``moves`` say, for ``stream``, and return the pages in the same order.

        No queued work touches a page that moves. ``moves`` are in order of address.

        Raises:
            OutOfMemoryError: the device has no memory for a new page.
            DriverError: a call failed. As in the other case, every page is where it was, and no new one is left; only
                one that the driver refuses to map back is given up, and has address 0.
        """
        pages: list[Page] = []
        unmapped: list[tuple[Page, int]] = []
        mapped: list[Move] = []
        try:
            for move in moves:
                page = move.page or Page(self.virtual.create_page(move.nbytes), move.nbytes)
                pages.append(page)  # one by one: what has been created must be known when the next one fails
            for move in moves:
                if move.page is not None:
                    self.virtual.unmap(move.page.address, move.nbytes)
                    unmapped.append((move.page, move.page.address))
            for move, page in zip(moves, pages, strict=True):
                self.virtual.map(move.address, move.nbytes, page.handle)
                mapped.append(move)
            for address, nbytes in _runs(moves):
                self.virtual.set_access(address, nbytes)
        except (DriverError, OutOfMemoryError):
            self._undo(moves, pages, unmapped, mapped)
            raise
        for page, address in unmapped:
            self._emit(EventKind.PAGE_UNMAP, page.stream, address, page.nbytes, page.handle)
        for move, page in zip(moves, pages, strict=True):
            if move.page is None:
                self._emit(EventKind.PAGE_CREATE, stream, page.handle, page.nbytes, page.nbytes)
            page.address, page.stream = move.address, stream
            self._emit(EventKind.PAGE_MAP, stream, page.address, page.nbytes, page.handle)
        return pages

    def probe(self, nbytes: int) -> None:
        """Ask whether the device has ``nbytes`` left, in one call instead of many that are to be undone.

        Raises:
            OutOfMemoryError: it has not.
            DriverError: the call failed.
        """
        self._discard(Page(self.virtual.create_page(nbytes), nbytes))

    def give_back(self, page: Page) -> None:
        """Unmap and release ``page``. No queued work touches it.

        Raises:
            DriverError: a call failed, and the page is where it was; or it is given up, and has address 0.
        """
        address = page.address
        self.virtual.unmap(address, page.nbytes)
        try:
            self.virtual.release_page(page.handle)
        except DriverError:
            self._map_back(page, address)
            raise
        page.address = 0
        self._emit(EventKind.PAGE_UNMAP, page.stream, address, page.nbytes, page.handle)
        self._emit(EventKind.PAGE_RELEASE, page.stream, page.handle, page.nbytes, page.nbytes)

    def release_strays(self) -> None:
        """Try again to release what the driver would neither map back nor release.

        Raises:
            DriverError: it refuses still.
        """
        while self._stray:
            self.virtual.release_page(self._stray[-1].handle)
            self._stray.pop()

    def _undo(self, moves: list[Move], pages: list[Page], unmapped: list[tuple[Page, int]], mapped: list[Move]) -> None:
        for move in reversed(mapped):
            with suppress(DriverError):  # as in a device that is lost: what can be put back is put back
                self.virtual.unmap(move.address, move.nbytes)
        for page, address in unmapped:
            self._map_back(page, address)
        for move, page in zip(moves, pages, strict=False):
            if move.page is None:
                self._discard(page)

    def _map_back(self, page: Page, address: int) -> None:
        try:
            self.virtual.map(address, page.nbytes, page.handle)
        except (DriverError, OutOfMemoryError):
            pass
        else:
            try:
                self.virtual.set_access(address, page.nbytes)
            except DriverError:
                self.virtual.unmap(address, page.nbytes)
            else:
                return
        page.address = 0
        self._emit(EventKind.PAGE_UNMAP, page.stream, address, page.nbytes, page.handle)
        self._discard(page)
        self._emit(EventKind.PAGE_RELEASE, page.stream, page.handle, page.nbytes, page.nbytes)

    def _discard(self, page: Page) -> None:
        self._stray.append(page)
        with suppress(DriverError):
            self.release_strays()


def _runs(moves: list[Move]) -> list[tuple[int, int]]:
    """Addresses and bytes of the ranges that ``moves`` fill without a gap."""
    runs: list[tuple[int, int]] = []
    for move in moves:
        if runs and runs[-1][0] + runs[-1][1] == move.address:
            runs[-1] = runs[-1][0], runs[-1][1] + move.nbytes
        else:
            runs.append((move.address, move.nbytes))
    return runs
