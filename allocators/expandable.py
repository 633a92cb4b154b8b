"""``expandable``: on virtual memory, where physical pages follow the live blocks. Does not fragment.

INVARIANTS
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, cast

from .base import Allocator
from .block import Block, BlockInfo, Home, Segment
from .errors import DriverError, OutOfMemoryError
from .pages import Move, Page, Pages
from .sizes import format_size
from .spans import FREE, HOLE, LIVE, Place, Space, Span
from .stamps import Stamps
from .statistics import SMALL_BLOCK
from .upstream import Upstream, VirtualMemory

__all__ = ["ExpandableAllocator"]

_MIB = 1 << 20
_LARGE_RANGE, _SMALL_RANGE = 256 << 30, 16 << 30
_MOST_BINS = 256
_BINS_REVIEW = 1024
_PAGES_OF_ALL = 256
_PAGES_OF_BLOCK = 4
_TIGHT = 128
_LOOSE = 15
_CREDIT_SHARE = 128
_CREDIT_MOST = 256 * _MIB


class ExpandableAllocator(Allocator):
    """DOC"""

    def __init__(
        self,
        upstream: Upstream,
        *,
        memory_limit: Annotated[int | None, "reserve at most this many bytes; more counts as out of memory"] = None,
    ) -> None:
        """Over ``upstream``.

        Raises:
            DriverError: ``CUDA_ERROR_NOT_SUPPORTED``: the device or the installation lacks virtual memory.
        """
        super().__init__(upstream, memory_limit=memory_limit)
        virtual = _virtual_memory_of(upstream)
        self._granularity = virtual.granularity
        self._pages = Pages(virtual, self._tell)
        self._spaces: dict[tuple[int, bool], Space] = {}
        self._ownerless: list[Space] = []
        """Spaces of streams that have been destroyed. Nothing is allocated in them any more."""
        self._stamps: dict[int, Stamps] = {}
        self._range_bytes = {False: _LARGE_RANGE, True: _SMALL_RANGE}
        self._most_active = 0
        self._credit = 0
        self._misses = 0
        self._next_review = 0

    # --- allocation and free

    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        space = self._spaces.get((stream, nbytes <= SMALL_BLOCK)) or self._new_space(stream, nbytes)
        self._misses += 1
        self._credit += nbytes
        span = space.find(nbytes)
        block = space.take(span, nbytes) if span is not None else self._grow(space, nbytes)
        block.requested = requested
        return block

    def _free(self, block: Block) -> None:
        span = cast("Span", block)
        span.range.space.put(span)

    def _home(self, block: Block) -> Home:
        if len(self._all_bins) >= _MOST_BINS and block.requested not in self._bins.get(block.stream, ()):
            if self._misses < self._next_review:
                return self._returned
            self._next_review = self._misses + _BINS_REVIEW
            self._drop_unused_bins()
            if len(self._all_bins) >= _MOST_BINS:
                return self._returned
        return self._bin(block.stream, block.requested)

    def _new_space(self, stream: int, nbytes: int) -> Space:
        stamps = self._stamps.get(stream)
        if stamps is None:
            stamps = self._stamps[stream] = Stamps(self.upstream, stream)
        small = nbytes <= SMALL_BLOCK
        made = Space(self, self._ledger, stream, stamps, self._granularity, small=small)
        return self._spaces.setdefault((stream, small), made)

    def _poll(self) -> None:
        for space in self._every_space():
            space.stamps.poll(self._granularity)

    # --- mapping memory where a block is to lie

    def _grow(self, space: Space, nbytes: int) -> Span:
        """Take a block where memory has to be mapped first."""
        place = space.place(nbytes) or self._place_in_new_range(space, nbytes)
        creatable = self._creatable(nbytes)
        try:
            span = self._map(space, place, creatable)
        except OutOfMemoryError:
            if not creatable:
                raise
            span = self._map(space, place, 0)
        return space.take_at(span, place.address, nbytes)

    def _map(self, space: Space, place: Place, creatable: int) -> Span:
        """Map what ``place`` misses: at most ``creatable`` bytes of new pages, as long as free pages can be had."""
        moves, coarse = self._plan(space, place, creatable)
        missing = sum(move.nbytes for move in moves if move.page is None)
        if missing > creatable and coarse:
            for span, page in _until(coarse, missing - creatable):
                span.range.space.stamps.wait(span.stamp)
                self._give_back(span, page)
            moves, _ = self._plan(space, place, creatable)
        left = [(_span_of(move.page, self), move.page) for move in moves if move.page is not None]
        return self._commit(space, place, moves)
