"""Physical pages on virtual memory, and moving them so that a failed call leaves the maps as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from .errors import DriverError, OutOfMemoryError
from .events import EventKind
from .upstream import VirtualMemory

__all__ = ["Move", "Page", "Pages", "runs_of"]

Emit = Callable[[EventKind, int, int, int, int], None]


class Page:
    """Physical memory behind one handle, mapped in one place or, while it is on its way, nowhere."""

    __slots__ = ("address", "handle", "mapped", "nbytes", "released", "retired", "stream", "told")

    def __init__(self, nbytes: int) -> None:
        self.handle = 0
        """0 until it has been created."""
        self.released = False
        """Whether the driver has dropped the handle."""
        self.nbytes = nbytes
        self.address = 0
        """Where it is mapped, or is to be; 0 for nowhere."""
        self.mapped = False
        """Whether the driver has mapped it at ``address``."""
        self.stream = 0
        """The stream for which it is mapped."""
        self.told = 0
        """The address at which the observers know it to be mapped; 0 for nowhere."""
        self.retired = False
        """Whether it is to be unmapped and released, whatever stands behind its addresses later."""


class Move:
    """A page to be mapped at ``address``: one from elsewhere, or a new one of ``nbytes``."""

    __slots__ = ("address", "nbytes", "page")

    def __init__(self, address: int, nbytes: int, page: Page | None = None) -> None:
        self.address = address
        self.nbytes = nbytes
        self.page = page


class Pages:
    """Creates, maps and releases the pages of one allocator.

    ``emit`` is told of every step that has taken effect: kind, stream, address, bytes, and the page's handle. A call of
    the driver and the note of it are one step each time, so that an exception never comes between the two.
    """

    def __init__(self, virtual: VirtualMemory, emit: Emit) -> None:
        self.virtual = virtual
        self.granularity = virtual.granularity
        self.known: dict[int, Page] = {}
        """Every page that the driver may know, by the identity of its object."""
        self._emit = emit
        self._stray: list[Page] = []  # of no use any more, and their release has failed so far

    def carry_out(self, moves: list[Move], stream: int) -> list[Page]:
        """Create, unmap and map as ``moves`` say, for ``stream``, and return the pages in the same order.

        No queued work touches a page that moves. ``moves`` are in order of address.

        Raises:
            OutOfMemoryError: the device has no memory for a new page.
            DriverError: a call failed. As in the other case, every page is where it was, and no new one is left; only
                one that the driver refuses to map back is given up, and has address 0.
        """
        pages: list[Page] = []
        origins = [(move.page, move.page.address) for move in moves if move.page is not None]
        try:
            for move in moves:
                pages.append(move.page or self._create(move.nbytes))  # noqa: PERF401 - what is there must be known if one fails
            for moving, _ in origins:
                self._unmap(moving)
            for move, page in zip(moves, pages, strict=True):
                self._map(page, move.address)
            for start, end in runs_of(moves):
                self.virtual.set_access(start, end - start)
        except (DriverError, OutOfMemoryError):
            self._undo(moves, pages, origins)
            raise
        for page, address in origins:
            page.told = 0
            self._emit(EventKind.PAGE_UNMAP, page.stream, address, page.nbytes, page.handle)
        for move, page in zip(moves, pages, strict=True):
            if move.page is None:
                self._emit(EventKind.PAGE_CREATE, stream, page.handle, page.nbytes, page.nbytes)
            page.stream, page.told = stream, page.address
            self._emit(EventKind.PAGE_MAP, stream, page.address, page.nbytes, page.handle)
        return pages

    def probe(self, nbytes: int) -> None:
        """Ask whether the device has ``nbytes`` left, in one call instead of many that are to be undone.

        Raises:
            OutOfMemoryError: it has not.
            DriverError: the call failed.
        """
        self._discard(self._create(nbytes))

    def give_back(self, page: Page) -> None:
        """Unmap and release ``page``. No queued work touches it.

        Raises:
            DriverError: a call failed, and the page is where it was; or it is given up, and has address 0.
        """
        address = page.address
        self._unmap(page)
        try:
            self._release(page)
        except DriverError:
            self._map_back(page, address)
            raise
        page.address = 0
        self._tell_gone(page)

    def retire(self, pages: Iterable[Page]) -> None:
        """Unmap and release ``pages``, in use or not: their contents are lost. They keep their addresses.

        What the driver refuses now is tried again later (``release_strays``).
        """
        for page in pages:
            page.retired = True
            self._discard(page)
            if page.told:
                self._tell_gone(page)

    def release_strays(self) -> None:
        """Try again to unmap and release what the driver would not before.

        Raises:
            DriverError: it refuses still.
        """
        while self._stray:
            page = self._stray[-1]
            if page.mapped and page.retired:
                self._unmap(page)
            self._release(page)
            self._stray.pop()

    def recover(self) -> None:
        """After an operation that broke off anywhere: pages that are not mapped are given back, others accessible."""
        self._stray = []
        for page in list(self.known.values()):
            if not page.handle or page.released:
                del self.known[id(page)]
            elif page.mapped and not page.retired:
                self.virtual.set_access(page.address, page.nbytes)
            else:
                self._discard(page)
            if page.told and (page.told != page.address or not page.mapped or page.retired):
                self._tell_gone(page)
            if page.mapped and not page.told and not page.retired:
                page.told = page.address
                self._emit(EventKind.PAGE_CREATE, page.stream, page.handle, page.nbytes, page.nbytes)
                self._emit(EventKind.PAGE_MAP, page.stream, page.address, page.nbytes, page.handle)

    # --- one call of the driver each; it answers None, and the assignment behind it is one step with it

    def _create(self, nbytes: int) -> Page:
        page = Page(nbytes)
        self.known[id(page)] = page
        try:
            page.handle = self.virtual.create_page(nbytes)
        except (DriverError, OutOfMemoryError):
            del self.known[id(page)]
            raise
        return page

    def _release(self, page: Page) -> None:
        page.released = self.virtual.release_page(page.handle) is None  # type: ignore[func-returns-value]
        self.known.pop(id(page), None)

    def _map(self, page: Page, address: int) -> None:
        page.address = address
        page.mapped = self.virtual.map(address, page.nbytes, page.handle) is None  # type: ignore[func-returns-value]

    def _unmap(self, page: Page) -> None:
        page.mapped = self.virtual.unmap(page.address, page.nbytes) is not None  # type: ignore[func-returns-value]

    # --- when a call fails

    def _undo(self, moves: list[Move], pages: list[Page], origins: list[tuple[Page, int]]) -> None:
        before = {id(page): address for page, address in origins}
        for page in reversed(pages):
            if page.mapped and page.address != before.get(id(page)):
                with suppress(DriverError):  # as in a device that is lost: what can be put back is put back
                    self._unmap(page)
        for page, address in origins:
            if not page.mapped:
                self._map_back(page, address)
        for move, page in zip(moves, pages, strict=False):
            if move.page is None:
                page.address = 0
                self._discard(page)

    def _map_back(self, page: Page, address: int) -> None:
        with suppress(DriverError, OutOfMemoryError):
            self._map(page, address)
            try:
                self.virtual.set_access(address, page.nbytes)
            except DriverError:
                self._unmap(page)
        if not page.mapped:
            page.address = 0
            self._discard(page)
            self._tell_gone(page)

    def _discard(self, page: Page) -> None:
        self._stray.append(page)
        with suppress(DriverError):
            self.release_strays()

    def _tell_gone(self, page: Page) -> None:
        told, page.told = page.told, 0
        self._emit(EventKind.PAGE_UNMAP, page.stream, told, page.nbytes, page.handle)
        self._emit(EventKind.PAGE_RELEASE, page.stream, page.handle, page.nbytes, page.nbytes)


def runs_of(parts: Iterable[Move | Page]) -> list[tuple[int, int]]:
    """The first address and the end of each row of ``parts`` without a gap. They are in order of address."""
    runs: list[tuple[int, int]] = []
    for part in parts:
        end = part.address + part.nbytes
        if runs and runs[-1][1] == part.address:
            runs[-1] = runs[-1][0], end
        else:
            runs.append((part.address, end))
    return runs
