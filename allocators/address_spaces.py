"""The address space of an allocator on virtual memory: the spaces of its streams and tags, with the pages in them.

What holds here, and what is counted, is said in ``expandable.py``: this is its truth after an interrupt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

from .block import Block
from .constants import MOST_IDLE, MUCH
from .errors import DriverError, OutOfMemoryError
from .page import Page
from .pages import Move, Pages
from .spans import HOLE, Range, Space, Span
from .stamps import Stamps
from .statistics import Ledger
from .tags import MOST_TAGS, ON_HOST, UNTAGGED
from .upstream import Upstream, in_one_step

FreePage = tuple[Span, Page]
"""A page that is free as a whole, with the free span in which it lies."""
T = TypeVar("T", Block, Page)


class AddressSpaces:
    """Every space, range and page of one allocator."""

    def __init__(
        self,
        upstream: Upstream,
        ledger: Ledger,
        pages: Pages,
        *,
        most_host: int,
        is_kept: Callable[[int], bool],
        check_limit: Callable[[int], None],
    ) -> None:
        """
        Args:
            upstream: what the pages come from.
            ledger: counts them.
            pages: makes and maps them.
            most_host: how many bytes of host pages there may be.
            is_kept: whether the free memory of a stream stays where it is, since it names a private pool.
            check_limit: raises OutOfMemoryError if so many bytes of the device more are forbidden.
        """
        self.pages = pages
        self.granularity = pages.granularity
        self.of: dict[tuple[int, bool | None, int], Space] = {}
        """By stream, whether for small blocks (None for what a strategy keeps apart), and tag, with ``ON_HOST`` for
        those of the host."""
        self.ownerless: list[Space] = []
        """Spaces of streams that have been destroyed, or given up. Nothing is allocated in them any more."""
        self.stamps: dict[int, Stamps] = {}
        self.ranges: list[Range] = []
        """Every range that the driver may know."""
        self.most_host = most_host
        self.in_use_on_host = 0
        """Bytes of the blocks in spaces of the host."""
        self._upstream = upstream
        self._ledger = ledger
        self._is_kept = is_kept
        self._check_limit = check_limit

    # --- which there are

    def every(self) -> Iterator[Space]:
        """All of them."""
        yield from self.of.values()
        yield from self.ownerless

    def movable(self, *, host: bool = False) -> Iterator[Space]:
        """Those of the device, or of the host, whose pages may be moved or given back: not the private pools, and not
        what sleeps."""
        for space in self.every():
            if space.host is host and not self.stays(space) and not space.asleep:
                yield space

    def tagged(self, tag: int) -> list[Space]:
        """Those of one tag, on both sides."""
        return [space for space in self.every() if space.tag == tag]

    def stays(self, space: Space) -> bool:
        """Whether the free memory of a space stays where it is: it belongs to a private pool that has not ended."""
        return self._is_kept(space.stream) and not space.stamps.forgotten

    def find_or_make(self, stream: int, tag: int = UNTAGGED, *, small: bool) -> Space:
        """That of a stream and tag, with ``ON_HOST`` for the one of the host."""
        found = self.of.get((stream, small, tag))
        if found is None:
            found = self.made(stream, self.stamps_of(stream), tag, small=small)
            self.of[stream, small, tag] = found
        return found

    def beside(self, space: Space, *, host: bool) -> Space:
        """The one of the other side for what lies in ``space``."""
        tag = space.tag | ON_HOST if host else space.tag
        if not space.stamps.forgotten:
            return self.find_or_make(space.stream, tag, small=space.small)
        made = self.made(space.stream, space.stamps, tag, small=space.small)
        self.ownerless.append(made)
        return made

    def made(self, stream: int, stamps: Stamps, tag: int = UNTAGGED, *, small: bool) -> Space:
        """A new one, which is in none of the lists yet."""
        host, number = tag > MOST_TAGS, tag & MOST_TAGS
        return Space(self._ledger, stream, stamps, self.granularity, small=small, tag=number, host=host)

    def stamps_of(self, stream: int) -> Stamps:
        """Those of a stream that exists."""
        stamps = self.stamps.get(stream)
        if stamps is None:
            stamps = self.stamps[stream] = Stamps(self._upstream, stream)
        return stamps

    def poll(self) -> None:
        """Look which work has passed."""
        for stamps in self.stamps.values():
            if not stamps.of_pool:
                stamps.poll(self.granularity)
        for space in self.ownerless:
            space.stamps.poll(self.granularity)

    def forget_stream(self, stream: int) -> None:
        """A stream is to be destroyed: what it has left is nobody's, once its work has passed."""
        stamps = self.stamps.get(stream)
        if stamps is None:
            return
        order = True, False, None  # of the spaces of a tag: that for small blocks first
        keys = sorted((key for key in self.of if key[0] == stream), key=lambda key: (key[2], order.index(key[1])))
        left = [self.of[key] for key in keys if self.of[key].ranges]
        if left or any(space.stamps is stamps for space in self.ownerless):
            stamps.forget()
            self.ownerless += left
        else:
            stamps.drop()
        for key in keys:
            del self.of[key]
        del self.stamps[stream]

    # --- taking memory

    def add_range(self, space: Space, size: int, least: int, unit: int) -> int:
        """Reserve ``size`` bytes of addresses for a space. Returns how many: where the driver refuses, half as much is
        asked for, in whole ``unit``, and so on down to ``least``.

        Raises:
            DriverError, OutOfMemoryError: the driver has no such range. Nothing has changed.
        """
        self.drop_empty_ranges(self.ownerless)
        while True:
            try:
                self.reserve(space, size)
            except (DriverError, OutOfMemoryError):
                if size == least:
                    raise
                size = max(size // 2 // unit * unit, least)
            else:
                return size

    def reserve(self, space: Space, nbytes: int) -> Range:
        """Reserve ``nbytes`` of addresses for a space.

        Raises:
            DriverError, OutOfMemoryError: as above.
        """
        made = Range(nbytes, space)
        self.ranges.append(made)
        try:
            (made.address,) = in_one_step(self.pages.virtual.reserve_range, nbytes)
        except (DriverError, OutOfMemoryError):
            self.ranges.remove(made)
            raise
        space.add(made)
        return made

    def new_pages(self, start: int, end: int, largest: int, *, host: bool) -> list[Move]:
        """New pages from ``start`` to ``end``, of at most ``largest`` bytes each."""
        made: list[Move] = []
        while start < end:
            size = min(largest, power_of_two(end - start, self.granularity))
            made.append(Move(start, size, host=host))
            start += size
        return made

    def check_possible(self, nbytes: int, *, host: bool) -> None:
        """Raise OutOfMemoryError if so much is missing that there is no such memory, whoever has it at present.

        It is asked before a plan is made, which takes as long as it has pages.
        """
        if nbytes >= MUCH and nbytes > (self.most_host if host else self._upstream.memory_info()[1]):
            raise OutOfMemoryError(f"there are no {nbytes} bytes")

    def check_room(self, nbytes: int, *, host: bool) -> None:
        """Raise OutOfMemoryError if there is no room for ``nbytes`` of new pages, as far as that shows at once."""
        if host:
            if self._ledger.host + self.pages.stray_on_host + nbytes > self.most_host:
                raise OutOfMemoryError(f"{self.most_host} bytes of host memory leave no room for {nbytes} more")
            return
        self._check_limit(nbytes)
        if nbytes >= MUCH and nbytes > self._upstream.memory_info()[0]:
            self.pages.probe(nbytes)

    @property
    def free_on_host(self) -> int:
        """Bytes of host pages in which no block lies: kept for the next time."""
        return max(0, self._ledger.host - self.in_use_on_host)

    # --- giving memory back

    def give_back_free(self, spaces: Iterable[Space]) -> int:
        """Give back the free pages of ``spaces``, once no queued work touches them, and return their bytes."""
        leaving = self.free_pages(spaces)
        for span, _ in leaving:
            span.range.space.stamps.wait(span.stamp)
        for span, page in leaving:
            self.give_back(span, page)
        return sum(page.nbytes for _, page in leaving)

    @staticmethod
    def free_pages(spaces: Iterable[Space]) -> list[FreePage]:
        """The pages of ``spaces`` that are free as a whole, the smallest free spans first."""
        return [(span, page) for space in spaces for span in space.free_spans() for page in space.whole_pages(span)]

    def give_back_first(self, leaving: Iterable[FreePage], nbytes: int) -> None:
        """Give back the first pages of ``leaving`` that together hold ``nbytes``, or all."""
        for span, page in leaving:
            if nbytes <= 0:
                break
            nbytes -= page.nbytes
            self.give_back(span, page)

    def give_back(self, span: Span, page: Page) -> None:
        """Give back a page in the free ``span``, once no queued work touches it."""
        address, space = page.address, span.range.space
        space.stamps.wait(span.stamp)
        try:
            self.pages.give_back(page)
        finally:
            if not page.address:
                space.unmapped(span, address, page.nbytes)
                self._ledger.num_device_free += 1

    def release_left(self, stream: int) -> None:
        """Give back what a stream has left that is destroyed, but what sleeps: it has no pages."""
        left = [space for space in self.ownerless if space.stream == stream and not space.asleep]
        self.give_back_free(left)
        self.drop_empty_ranges(left)

    def trim_host(self) -> None:
        """Give host pages back, beyond what is kept for the next time, that no queued work touches."""
        excess = self.free_on_host - self.most_host // MOST_IDLE
        if excess <= 0:
            return
        free = self.free_pages(self.movable(host=True))
        passed = [(span, page) for span, page in free if span.stamp <= span.range.space.stamps.passed]
        self.give_back_first(passed, excess)

    def drop_empty_ranges(self, spaces: list[Space]) -> None:
        """Give back the ranges of ``spaces`` in which nothing is mapped."""
        for space in spaces:
            for empty in space.empty_ranges():
                self.pages.clear(empty.address, empty.address + empty.nbytes)
                self._free_range(empty)
        gone = [space for space in self.ownerless if not space.ranges]
        self.ownerless = [space for space in self.ownerless if space.ranges]
        for space in gone:
            if space.stamps.forgotten and all(other.stamps is not space.stamps for other in self.ownerless):
                space.stamps.drop()

    def drop_aside(self, aside: Range) -> None:
        """Give back a range that is empty again; if that is refused, it is an empty range like others."""
        with suppress(DriverError):
            self._free_range(aside)

    def _free_range(self, empty: Range) -> None:
        free_range = self.pages.virtual.free_range
        empty.present = [*in_one_step(free_range, empty.address, empty.nbytes)] != [None]
        self.ranges.remove(empty)
        empty.space.remove(empty)

    # --- after an interrupt

    def recover(self, in_use: Iterable[Block], asleep: Mapping[int, Iterable[Page]]) -> None:
        """Make everything anew from the ranges, the pages and the blocks in use.

        Args:
            in_use: all blocks.
            asleep: for each tag that is asleep, the pages that are to be mapped when it wakes.
        """
        blocks = list(in_use)
        self.pages.retire(
            page
            for page in list(self.pages.known.values())
            if page.mapped and any(found.holds(page.address) for found in self.ranges if found.space.tag in asleep)
        )
        self.pages.recover()
        self.ranges = [found for found in self.ranges if found.address and found.present]
        pages = [page for page in self.pages.known.values() if page.mapped]
        spaces = {id(space): space for space in (*self.of.values(), *(found.space for found in self.ranges))}
        self.of = {key: space for key, space in self.of.items() if not space.stamps.forgotten}
        owned = {id(space) for space in self.of.values()}
        self.ownerless = [space for space in spaces.values() if id(space) not in owned]
        self.stamps = {stream: stamps for stream, stamps in self.stamps.items() if not stamps.forgotten}
        for space in spaces.values():
            ranges = [found for found in self.ranges if found.space is space]
            space.asleep = space.tag in asleep
            standing = asleep[space.tag] if space.asleep else pages
            space.recover(ranges, within(ranges, standing), within(ranges, blocks))
        self.in_use_on_host = sum(block.nbytes for block in blocks if block.kept.range.space.host)

    # --- the map

    def runs(self) -> Iterator[list[Span]]:
        """The spans of each stretch without a hole, in order of address."""
        run: list[Span] = []
        for space in self.every():
            for part in space.ranges.values():
                for span in part.spans():
                    if run and (span.kind == HOLE or span.before is not run[-1]):
                        yield run
                        run = []
                    if span.kind != HOLE:
                        run.append(span)
        if run:
            yield run


def within(ranges: list[Range], found: Iterable[T]) -> list[T]:
    """Those of ``found`` that stand in one of ``ranges``."""
    return [one for one in found if any(part.holds(one.address) for part in ranges)]


def power_of_two(nbytes: int, granularity: int) -> int:
    """The greatest power of two times ``granularity`` within ``nbytes``; at least ``granularity``."""
    return granularity << max(0, (nbytes // granularity).bit_length() - 1)
