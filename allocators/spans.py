"""The layout of address space of which only parts are mapped: live blocks, free memory, and holes without memory.

Address arithmetic only. One ``Space`` holds the address ranges of one stream, for small or for large blocks. Each
range is cut from end to end into spans of three kinds. A hole begins and ends at page boundaries, and neighbours of
the kinds ``FREE`` and ``HOLE`` are never of one kind: they are joined at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise

from .block import Block
from .page import Page
from .stamps import Stamps
from .statistics import Ledger
from .tags import UNTAGGED

LIVE, FREE, HOLE = 0, 1, 2
_ADDRESS_BITS = 64


class Range:
    """Address space reserved from the driver."""

    __slots__ = ("address", "first", "nbytes", "present", "space")

    def __init__(self, nbytes: int, space: Space) -> None:
        self.address = 0
        """0 until the driver has answered."""
        self.nbytes = nbytes
        self.space = space
        self.present = True
        """False once the driver has taken it back."""
        self.first: Span

    def holds(self, address: int) -> bool:
        """Whether ``address`` lies in it."""
        return self.address <= address < self.address + self.nbytes

    def spans(self) -> Iterator[Span]:
        """Its spans in order of address."""
        span: Span | None = self.first
        while span is not None:
            yield span
            span = span.after


class Span:
    """A part of a range: a block in the program's hands (``LIVE``), free memory (``FREE``), or a ``HOLE``."""

    __slots__ = ("address", "after", "before", "key", "kind", "nbytes", "range", "shared", "stamp")

    def __init__(self, address: int, nbytes: int, within: Range, kind: int = HOLE) -> None:
        self.address = address
        self.nbytes = nbytes
        self.range = within
        self.before: Span | None = None
        self.after: Span | None = None
        self.kind = kind
        self.key = 0
        """Of free memory: its place among all, first by size, then by address."""
        self.stamp = 0
        """Of free memory: when a part of it was last freed (``Stamps.now``); 0 if never."""
        self.shared = False
        """Of free memory: whether it lies beside a live block, and is counted as ``inactive_split``."""

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.nbytes


class Opening:
    """Where a block could lie that no free span can hold: among free spans and holes between two live blocks."""

    __slots__ = ("address", "holes", "missing", "nbytes", "room")

    def __init__(self, address: int, nbytes: int, holes: list[tuple[Span, int, int]], room: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.holes = holes
        """What has to be mapped: holes, each with the first and the last address (exclusive) needed of it."""
        self.room = room
        """Bytes between the two live blocks."""
        self.missing = sum(end - start for _, start, end in holes)


class Space:
    """The address ranges of one stream, for small or for large blocks."""

    def __init__(
        self,
        ledger: Ledger,
        stream: int,
        stamps: Stamps,
        granularity: int,
        *,
        small: bool,
        tag: int = UNTAGGED,
        host: bool = False,
    ) -> None:
        self.stream = stream
        self.stamps = stamps
        """Tells when work that was queued on the stream before a free has passed."""
        self.small = small
        self.tag = tag
        """Of all blocks in it (``tags.py``)."""
        self.host = host
        """Whether all its pages are memory of the host."""
        self.asleep = False
        """Whether no memory stands behind its pages (``sleeping.py``)."""
        self.ranges: dict[int, Range] = {}
        self.pages: dict[int, Page] = {}
        """The page mapped at each address that is a multiple of the granularity; large ones stand at each of theirs."""
        self._ledger = ledger
        self._granularity = granularity
        self._holes: dict[int, Span] = {}
        self._keys: list[int] = []
        self._free: list[Span] = []
        self._shared = [0, 0]  # a change, not yet counted: free spans beside live blocks, and their bytes

    # --- address ranges

    def add(self, added: Range) -> None:
        """Take in a reserved range: one hole."""
        added.first = Span(added.address, added.nbytes, added)
        self.ranges[added.address] = added
        self._holes[added.address] = added.first

    def empty_ranges(self) -> list[Range]:
        """Ranges in which nothing is mapped."""
        return [found for found in self.ranges.values() if found.first.kind == HOLE and found.first.after is None]

    def remove(self, leaving: Range) -> None:
        """Let go of an empty range."""
        del self._holes[leaving.address]
        del self.ranges[leaving.address]

    # --- blocks

    def find(self, nbytes: int) -> Span | None:
        """The smallest free span of at least ``nbytes``, of equals that of the lowest address; None if none fits."""
        index = bisect_left(self._keys, nbytes << _ADDRESS_BITS)
        return self._free[index] if index < len(self._free) else None

    def take(self, span: Span, nbytes: int) -> Span:
        """Take the first ``nbytes`` of a free span as a block."""
        self._unlist(span)
        rest = self._cut(span, nbytes) if span.nbytes > nbytes else None
        span.kind = LIVE
        if rest is not None:
            self._list(rest)
        self._count_shared()
        return span

    def take_at(self, span: Span, address: int, nbytes: int) -> Span:
        """Take ``nbytes`` from the middle of a free span as a block."""
        if address > span.address:
            self._unlist(span)
            rest = self._cut(span, address - span.address)
            rest.kind = LIVE  # until it is listed
            self._list(span)
            self._list(rest)
            span = rest
        return self.take(span, nbytes)

    def put(self, span: Span) -> None:
        """Make a block free again."""
        span.stamp = self.stamps.freed(span.nbytes)
        self._join_free(span)
        self._count_shared()

    # --- pages

    def gaps(self) -> Iterator[list[Span]]:
        """The spans between two live blocks, or ends of a range, wherever a hole is among them."""
        looked_at: set[int] = set()
        for hole in self._holes.values():
            if hole.address not in looked_at:
                gap = _gap(hole)
                looked_at.update(span.address for span in gap if span.kind == HOLE)
                yield gap

    def holes(self) -> list[Span]:
        """The holes in order of address."""
        return [hole for _, hole in sorted(self._holes.items())]

    def missing(self, gap: list[Span], start: int, end: int) -> list[tuple[Span, int, int]]:
        """What has to be mapped for a block at ``start``, of the spans in ``gap``: as ``Opening.holes``."""
        page = self._granularity
        start, end = start // page * page, -(-end // page) * page
        return [
            (span, max(span.address, start), min(span.end, end))
            for span in gap
            if span.kind == HOLE and span.address < end and span.end > start
        ]

    def free_spans(self, least: int = 0) -> list[Span]:
        """The free spans of at least a page's size, or of ``least`` bytes, smallest first, then by address."""
        return self._free[bisect_left(self._keys, (least or self._granularity) << _ADDRESS_BITS) :]

    def whole_pages(self, span: Span) -> Iterator[Page]:
        """The pages that lie in a free span as a whole, last first. They may be unmapped meanwhile."""
        start, at = span.address, span.end // self._granularity * self._granularity
        while at - self._granularity >= start:
            page = self.pages[at - self._granularity]
            if page.address >= start and page.address + page.nbytes <= at:
                yield page
            at = page.address

    def distinct_pages(self) -> list[Page]:
        """Its pages in order of address, each once."""
        return [page for at, page in sorted(self.pages.items()) if at == page.address]

    def replace_pages(self, pages: Iterable[Page]) -> None:
        """Note that ``pages`` stand where they do, in place of others where there have been some."""
        for page in pages:
            for at in range(page.address, page.address + page.nbytes, self._granularity):
                self.pages[at] = page

    def fall_asleep(self) -> None:
        """No memory stands behind the pages from now on, and nothing here is counted until ``wake``."""
        self._count(-1, self.ranges.values())
        self.asleep = True

    def wake(self) -> None:
        """Memory stands behind the pages again."""
        self.asleep = False
        self._count(1, self.ranges.values())

    def take_over(self, other: Space) -> None:
        """Take all ranges of ``other``, a space of the same stream and of blocks as large, with all that is in them."""
        ranges = list(other.ranges.values())
        other._count(-1, ranges)
        for found in ranges:
            found.space = self
            for span in found.spans():
                if span.kind == HOLE:
                    self._holes[span.address] = other._holes.pop(span.address)
                elif span.kind == FREE:
                    other._unlist(span)
                    self._list(span)
        self._shared = [0, 0]
        other._shared = [0, 0]
        self.ranges.update(other.ranges)
        other.ranges = {}
        self.pages.update(other.pages)
        other.pages = {}
        self._count(1, ranges)

    def mapped(self, page: Page) -> Span:
        """``page`` has been mapped, in a hole: free memory now. Returns the free span that it is a part of."""
        hole = next(hole for hole in self._holes.values() if hole.address <= page.address < hole.end)
        self._holes.pop(hole.address)
        if hole.address < page.address:
            self._holes[hole.address] = hole
            hole = self._cut(hole, page.address - hole.address)
        if hole.nbytes > page.nbytes:
            rest = self._cut(hole, page.nbytes)
            self._holes[rest.address] = rest
        beside = (hole.before is not None and hole.before.kind != HOLE) + (
            hole.after is not None and hole.after.kind != HOLE
        )
        self._count_held(1 - beside, page.nbytes)
        self.replace_pages([page])
        hole.stamp = page.freed[1] if page.freed is not None else 0
        span = self._join_free(hole)
        self._count_shared()
        return span

    def unmapped(self, span: Span, address: int, nbytes: int) -> None:
        """The page at ``address``, in the free ``span``, has been unmapped: a hole now. ``span`` keeps its head."""
        self._unlist(span)
        hole = self._cut(span, address - span.address) if span.address < address else span
        rest = self._cut(hole, nbytes) if hole.nbytes > nbytes else None
        hole.kind = HOLE
        for part in (rest, span if span is not hole else None):
            if part is not None:
                self._list(part)
        before, after = hole.before, hole.after
        beside = (before is not None and before.kind != HOLE) + (after is not None and after.kind != HOLE)
        if not self.asleep:
            self._count_held(beside - 1, -nbytes)
        for at in range(address, address + nbytes, self._granularity):
            del self.pages[at]
        if after is not None and after.kind == HOLE:
            del self._holes[after.address]
            self._join(hole, after)
        if before is not None and before.kind == HOLE:
            self._join(before, hole)
            hole = before
        self._holes[hole.address] = hole
        self._count_shared()

    def recover(self, ranges: Iterable[Range], pages: Iterable[Page], blocks: Iterable[Block]) -> None:
        """Make everything anew: the space's ``ranges``, the ``pages`` mapped in them, and the ``blocks`` there.

        What is free may have been used until now: it gets the present stamp.
        """
        self.ranges = {found.address: found for found in ranges}
        self.pages, self._holes, self._keys, self._free, self._shared = {}, {}, [], [], [0, 0]
        mapped = sorted(pages, key=lambda page: page.address)
        self.replace_pages(mapped)
        in_use = sorted(blocks, key=int)
        for found in self.ranges.values():
            inside = [(page.address, page.nbytes) for page in mapped if found.holds(page.address)]
            self._lay_out(found, inside, [block for block in in_use if found.holds(block.address)])
        self._shared = [0, 0]  # what is counted is corrected as a whole

    # --- small help

    def _lay_out(self, found: Range, mapped: list[tuple[int, int]], blocks: list[Block]) -> None:
        edges = {found.address, found.address + found.nbytes}
        for address, nbytes in (*mapped, *((block.address, block.nbytes) for block in blocks)):
            edges |= {address, address + nbytes}
        starts = {block.address: block for block in blocks}
        cuts, last = sorted(edges), found.address
        spans: list[Span] = []
        for start, end in pairwise(cuts):
            if start < last:
                continue  # inside a block that several pages hold
            block = starts.get(start)
            last = end if block is None else start + block.nbytes
            page = start // self._granularity * self._granularity
            kind = LIVE if block is not None else FREE if page in self.pages else HOLE
            if spans and kind != LIVE and spans[-1].kind == kind:
                spans[-1].nbytes += last - start
                continue
            spans.append(Span(start, last - start, found, kind))
            if block is not None:
                block.kept = spans[-1]
        found.first = spans[0]
        for before, after in pairwise(spans):
            before.after, after.before = after, before
        for span in spans:
            if span.kind == FREE:
                span.stamp = self.stamps.now
                self._list(span)
            elif span.kind == HOLE:
                self._holes[span.address] = span

    def _cut(self, span: Span, nbytes: int) -> Span:
        """Cut ``span`` behind ``nbytes``, and return the rest: of the same kind, not listed anywhere."""
        rest = Span(span.address + nbytes, span.nbytes - nbytes, span.range, span.kind)
        span.nbytes = nbytes
        rest.stamp = span.stamp
        after = span.after
        rest.before, rest.after, span.after = span, after, rest
        if after is not None:
            after.before = rest
        return rest

    def _join(self, span: Span, after: Span) -> None:
        span.nbytes += after.nbytes
        span.stamp = max(span.stamp, after.stamp)
        beyond = span.after = after.after
        if beyond is not None:
            beyond.before = span
        after.before = after.after = None

    def _join_free(self, span: Span) -> Span:
        after, before = span.after, span.before
        if after is not None and after.kind == FREE:
            self._unlist(after)
            self._join(span, after)
        if before is not None and before.kind == FREE:
            self._unlist(before)
            self._join(before, span)
            span = before
        self._list(span)
        return span

    def _list(self, span: Span) -> None:
        span.kind = FREE
        key = span.key = span.nbytes << _ADDRESS_BITS | span.address
        index = bisect_left(self._keys, key)
        self._keys.insert(index, key)
        self._free.insert(index, span)
        before, after = span.before, span.after
        span.shared = (before is not None and before.kind == LIVE) or (after is not None and after.kind == LIVE)
        if span.shared:
            self._shared[0] += 1
            self._shared[1] += span.nbytes

    def _unlist(self, span: Span) -> None:
        index = bisect_left(self._keys, span.key)
        del self._keys[index]
        del self._free[index]
        if span.shared:
            self._shared[0] -= 1
            self._shared[1] -= span.nbytes

    def _count_shared(self) -> None:
        blocks, nbytes = self._shared
        if blocks or nbytes:
            if not self.asleep:
                self._ledger.split(blocks, nbytes, small=self.small)
            self._shared = [0, 0]

    def _count(self, sign: int, ranges: Iterable[Range]) -> None:
        """Count all that stands in pages of ``ranges``, or take it off what is counted."""
        spans = [span for found in ranges for span in found.spans()]
        segments = sum(span.kind != HOLE and (span.before is None or span.before.kind == HOLE) for span in spans)
        nbytes = sum(span.nbytes for span in spans if span.kind != HOLE)
        shared = [span.nbytes for span in spans if span.kind == FREE and span.shared]
        self._count_held(sign * segments, sign * nbytes)
        if shared:
            self._ledger.split(sign * len(shared), sign * sum(shared), small=self.small)

    def _count_held(self, segments: int, nbytes: int) -> None:
        self._ledger.mapped(segments, nbytes, small=self.small)
        if self.host:
            self._ledger.on_host(nbytes, small=self.small)


def _gap(hole: Span) -> list[Span]:
    """The spans between the nearest live blocks, or ends of the range, around ``hole``."""
    span = hole
    while span.before is not None and span.before.kind != LIVE:
        span = span.before
    gap = [span]
    while span.after is not None and span.after.kind != LIVE:
        span = span.after
        gap.append(span)
    return gap
