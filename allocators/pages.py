"""The physical pages of an allocator on virtual memory, moved so that a failed call leaves them where they were."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import attrgetter

from .errors import DriverError, OutOfMemoryError
from .events import EventKind
from .page import Alias, Page
from .upstream import VirtualMemory, in_one_step

Emit = Callable[[EventKind, int, int, int, int], None]
_CREATE = {False: EventKind.PAGE_CREATE, True: EventKind.HOST_PAGE_CREATE}
_RELEASE = {False: EventKind.PAGE_RELEASE, True: EventKind.HOST_PAGE_RELEASE}
"""By whether the page is of the host."""


class Move:
    """A page to be mapped at ``address``: one from elsewhere, or a new one of ``nbytes``, of the host if it says so."""

    __slots__ = ("address", "host", "nbytes", "page")

    def __init__(self, address: int, nbytes: int, page: Page | None = None, *, host: bool = False) -> None:
        self.address = address
        self.nbytes = nbytes
        self.page = page
        self.host = host

    @property
    def is_anew(self) -> bool:
        """Whether the driver has to map it there."""
        return self.page is None or self.address not in self.page.aliases


class Pages:
    """Creates, maps and releases the pages of one allocator.

    ``emit`` is told of every step that has taken effect: kind, stream, address, bytes, and the page's handle. A call of
    the driver and the note of it are one step each time, so that an exception never comes between the two.
    """

    def __init__(self, virtual: VirtualMemory, emit: Emit, most_aliases: int = 0) -> None:
        self.virtual = virtual
        self.granularity = virtual.granularity
        self.known: dict[int, Page] = {}
        """Every page that the driver may know, by the identity of its object."""
        self.aliases: list[Alias] = []
        """Of all pages, in order of address. They do not overlap."""
        self._most_aliases = most_aliases
        self._emit = emit
        self._stray: list[Page] = []  # of no use any more, and their release has failed so far

    def carry_out(self, moves: list[Move], stream: int) -> list[Page]:
        """Create, unmap and map as ``moves`` say, for ``stream``, and return the pages in the same order.

        Where pages may have aliases, a page stays mapped where it stood, and is not mapped anew where it still is. Of
        aliases in the way, and of those that are too many, the work queued on them is waited for.

        No queued work touches a page that moves, but for work that ``page.freed`` tells of. ``moves`` are in order of
        address.

        Raises:
            OutOfMemoryError: the device has no memory for a new page.
            DriverError: a call failed. As in the other case, every page is where it was, and no new one is left; only
                one that the driver refuses to map back is given up, and has address 0.
        """
        pages: list[Page] = []
        origins = [(move.page, move.page.address) for move in moves if move.page is not None]
        anew = [move for move in moves if move.is_anew]
        try:
            for move in moves:
                pages.append(move.page or self._create(move.nbytes, host=move.host))  # noqa: PERF401 - what is there must be known if one fails
            for start, end in runs_of(anew):
                self.clear(start, end)
            if not self._most_aliases:
                for moving, address in origins:
                    self._unmap(moving, address)
            for move, page in zip(moves, pages, strict=True):
                if move.address not in page.aliases:
                    self._map(page, move.address)
            for start, end in runs_of(anew):
                self.virtual.set_access(start, end - start)
        except (DriverError, OutOfMemoryError):
            self._undo(moves, pages)
            raise
        for page, address in origins:
            page.told = 0
            self._emit(EventKind.PAGE_UNMAP, page.stream, address, page.nbytes, page.handle)
        for move, page in zip(moves, pages, strict=True):
            if move.page is not None:
                self._leave(page)
            self._arrive(page, move.address)
            self.tell_mapped(page, stream, is_new=move.page is None)
        for page, _ in origins:
            with suppress(DriverError):  # what the driver will not unmap now stays an alias
                while len(page.aliases) > self._most_aliases:
                    self._drop(next(iter(page.aliases.values())))
        return pages

    def within(self, start: int, end: int) -> list[Alias]:
        """The aliases that lie between two addresses as a whole, in order of address."""
        first = bisect_left(self.aliases, start, key=attrgetter("address"))
        last = bisect_left(self.aliases, end, key=attrgetter("address"))
        return [alias for alias in self.aliases[first:last] if alias.end <= end]

    def clear(self, start: int, end: int) -> None:
        """Unmap every alias that reaches between two addresses.

        Raises:
            DriverError: a call failed.
        """
        last = bisect_left(self.aliases, end, key=attrgetter("address"))
        first = bisect_right(self.aliases, start, hi=last, key=attrgetter("end"))
        for alias in self.aliases[first:last]:
            self._drop(alias)

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
        for alias in list(page.aliases.values()):
            self._drop(alias)
        self._unmap(page, page.address)
        try:
            self._release(page)
        except DriverError:
            self._map_back(page)
            raise
        page.address = 0
        self._tell_gone(page)

    def retire(self, pages: Iterable[Page]) -> None:
        """Unmap and release ``pages``, in use or not: their contents are lost. They keep their addresses.

        What the driver refuses now is tried again later (``release_strays``).
        """
        for page in pages:
            page.retired = True
            for alias in page.aliases.values():  # which are unmapped with it
                self._unlist(alias)
            self._discard(page)
            if page.told:
                self._tell_gone(page)

    # --- pages that take the places of others (moving.py)

    def make_aside(self, made: list[Page], moves: Iterable[Move], start: int) -> None:
        """Create the pages of ``moves``, put them into ``made``, and map them one behind the other from ``start`` on.

        Raises:
            OutOfMemoryError: there is no memory for one.
            DriverError: a call failed. As in the other case, those in ``made`` are to be retired.
        """
        for move in moves:
            made.append(self._create(move.nbytes, host=move.host))  # noqa: PERF401 - what is there must be known
        at = start
        for page in made:
            self._map(page, at)
            at += page.nbytes
        self.virtual.set_access(start, at - start)

    def lift(self, pages: Iterable[Page]) -> None:
        """Unmap ``pages`` where they stand. No queued work touches them. They keep their addresses and contents.

        Raises:
            DriverError: a call failed, and those from there on are mapped still.
        """
        for page in pages:
            self._unmap(page, page.address)

    def stand(self, pages: list[Page], moves: list[Move]) -> None:
        """Let pages that were lifted stand where ``moves`` say. Nothing is mapped there.

        Raises:
            DriverError: a call failed; they are to be retired.
        """
        for page, move in zip(pages, moves, strict=True):
            page.address = move.address
            self._map(page, move.address)
        for start, end in runs_of(moves):
            self.virtual.set_access(start, end - start)

    def put_back(self, pages: Iterable[Page]) -> None:
        """Let ``pages`` that were lifted stand where they stood.

        Raises:
            DriverError: a call failed.
        """
        for page in pages:
            if not page.mapped:
                self._map(page, page.address)
                self.virtual.set_access(page.address, page.nbytes)

    def tell_mapped(self, page: Page, stream: int, *, is_new: bool) -> None:
        """Tell the observers of a page that has taken its place for ``stream``, and whether it was created for that."""
        if is_new:
            self._emit(_CREATE[page.host], stream, page.handle, page.nbytes, page.nbytes)
        page.stream, page.told = stream, page.address
        self._emit(EventKind.PAGE_MAP, stream, page.address, page.nbytes, page.handle)

    def is_there(self, page: Page) -> bool:
        """Whether the driver knows ``page``: for what looks after an interrupt."""
        return bool(page.handle) and not page.released and id(page) in self.known

    # --- what the driver refused

    def release_strays(self) -> None:
        """Try again to unmap and release what the driver would not before.

        Raises:
            DriverError: it refuses still.
        """
        while self._stray:
            page = self._stray[-1]
            for address in dict.fromkeys((page.address, *page.aliases, *page.maps)):
                if page.retired and page.maps.get(address):
                    self._unmap(page, address)
            self._release(page)
            self._stray.pop()

    @property
    def stray_on_host(self) -> int:
        """Bytes of the host that the driver would not take back yet."""
        return sum(page.nbytes for page in self._stray if page.host)

    def recover(self) -> None:
        """After an operation that broke off anywhere: pages that are not mapped are given back, others accessible."""
        self._stray = []
        self.aliases = []
        for page in list(self.known.values()):
            page.maps = {address: True for address, there in page.maps.items() if there}
            if not page.mapped:
                page.address = next(iter(page.maps.keys() - page.aliases.keys()), page.address)
            page.aliases = {
                address: alias
                for address, alias in page.aliases.items()
                if address != page.address and address in page.maps
            }
            if not page.handle or page.released:
                del self.known[id(page)]
            elif page.mapped and not page.retired:
                self.virtual.set_access(page.address, page.nbytes)
                for address in page.maps.keys() - page.aliases.keys() - {page.address}:
                    self._unmap(page, address)  # it was to move there, and nothing has used it there yet
                self.aliases += page.aliases.values()
            else:
                self._discard(page)
            if page.told and (page.told != page.address or not page.mapped or page.retired):
                self._tell_gone(page)
            if page.mapped and not page.told and not page.retired:
                self.tell_mapped(page, page.stream, is_new=True)
        self.aliases.sort(key=attrgetter("address"))

    # --- one call of the driver each

    def _create(self, nbytes: int, *, host: bool = False) -> Page:
        page = Page(nbytes, host=host)
        self.known[id(page)] = page
        create = self.virtual.create_host_page if host else self.virtual.create_page
        try:
            (page.handle,) = in_one_step(create, nbytes)
        except (DriverError, OutOfMemoryError):
            del self.known[id(page)]
            raise
        return page

    def _release(self, page: Page) -> None:
        page.released = [*in_one_step(self.virtual.release_page, page.handle)] == [None]
        self.known.pop(id(page), None)

    def _map(self, page: Page, address: int) -> None:
        page.address = page.address or address
        page.maps[address] = [*in_one_step(self.virtual.map, address, page.nbytes, page.handle)] == [None]

    def _unmap(self, page: Page, address: int) -> None:
        page.maps[address] = [*in_one_step(self.virtual.unmap, address, page.nbytes)] != [None]
        del page.maps[address]

    # --- aliases

    def _leave(self, page: Page) -> None:
        """``page`` moves away: if it stays mapped where it stands, that is an alias from now on."""
        if page.address in page.maps:
            stamps, stamp = page.freed or (None, 0)
            alias = page.aliases[page.address] = Alias(page, page.address, stamps, stamp)
            insort(self.aliases, alias, key=attrgetter("address"))

    def _arrive(self, page: Page, address: int) -> None:
        page.address = address
        if address in page.aliases:
            self._unlist(page.aliases.pop(address))

    def _drop(self, alias: Alias) -> None:
        alias.wait()
        self._unmap(alias.page, alias.address)
        del alias.page.aliases[alias.address]
        self._unlist(alias)

    def _unlist(self, alias: Alias) -> None:
        del self.aliases[bisect_left(self.aliases, alias.address, key=attrgetter("address"))]

    # --- when a call fails

    def _undo(self, moves: list[Move], pages: list[Page]) -> None:
        for move, page in reversed(list(zip(moves, pages, strict=False))):
            if page.maps.get(move.address) and move.address not in page.aliases:
                with suppress(DriverError):  # as in a device that is lost: what can be put back is put back
                    self._unmap(page, move.address)
                page.maps.pop(move.address, None)
        for move, page in zip(moves, pages, strict=False):
            if move.page is not None and not page.mapped:
                self._map_back(page)
        for move, page in zip(moves, pages, strict=False):
            if move.page is None:
                page.address = 0
                self._discard(page)

    def _map_back(self, page: Page) -> None:
        address = page.address
        with suppress(DriverError, OutOfMemoryError):
            self._map(page, address)
            try:
                self.virtual.set_access(address, page.nbytes)
            except DriverError:
                self._unmap(page, address)
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
        self._emit(_RELEASE[page.host], page.stream, page.handle, page.nbytes, page.nbytes)


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
