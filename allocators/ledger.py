"""Counts what an allocator does, at once and exactly."""

from __future__ import annotations

from collections.abc import Iterable

from .block import Block, Segment
from .held import Held
from .statistics import SMALL_BLOCK, Counters, Statistics

__all__ = ["Ledger"]


class Ledger:
    """The books of one allocator. Not thread-safe: used under its lock. All sizes are bytes.

    Everything is counted twice: for the allocator as a whole, and for its small or its large blocks.
    """

    def __init__(self) -> None:
        self.statistics = Statistics()

    @property
    def reserved(self) -> int:
        """Bytes held from upstream."""
        return self.statistics.all.reserved_bytes.current

    def allocated(self, nbytes: int, requested: int) -> None:
        """Count a block that goes into the program's hands."""
        for counters in self._pools(nbytes <= SMALL_BLOCK):
            counters.allocation.increase(1)
            counters.allocated_bytes.increase(nbytes)
            counters.requested_bytes.increase(requested)
            counters.active.increase(1)
            counters.active_bytes.increase(nbytes)

    def freed(self, nbytes: int, requested: int, *, waits: bool = False) -> None:
        """Count a block that leaves the program's hands. ``waits``: it stays active until it has ``passed``."""
        for counters in self._pools(nbytes <= SMALL_BLOCK):
            counters.allocation.decrease(1)
            counters.allocated_bytes.decrease(nbytes)
            counters.requested_bytes.decrease(requested)
        if not waits:
            self.passed(nbytes)

    def passed(self, nbytes: int) -> None:
        """Count a block that is active no longer: it waits for no stream."""
        for counters in self._pools(nbytes <= SMALL_BLOCK):
            counters.active.decrease(1)
            counters.active_bytes.decrease(nbytes)

    def took_segment(self, held: Held) -> None:
        """Count a segment taken from upstream, by the call ``held.number``."""
        self.statistics.num_device_alloc = held.number
        self.mapped(1, held.nbytes, small=held.small)

    def gave_segment(self, held: Held) -> None:
        """Count a segment given back upstream, by the call ``held.number``."""
        self.statistics.num_device_free = held.number
        self.mapped(-1, -held.nbytes, small=held.small)

    def created_page(self) -> None:
        """Count a call upstream that made a page. Its bytes count as reserved while it is ``mapped``."""
        self.statistics.num_device_alloc += 1

    def released_page(self) -> None:
        """Count a call upstream that gave a page back."""
        self.statistics.num_device_free += 1

    def mapped(self, segments: int, nbytes: int, *, small: bool) -> None:
        """Count a change in what is held: in segments (memory without a gap), and in bytes."""
        for counters in self._pools(small):
            counters.segment.change(segments)
            counters.reserved_bytes.change(nbytes)

    def split(self, blocks: int, nbytes: int, *, small: bool) -> None:
        """Count a change in the free blocks that share a segment with used ones: in number, and in bytes."""
        for counters in self._pools(small):
            counters.inactive_split.change(blocks)
            counters.inactive_split_bytes.change(nbytes)

    def correct(self, blocks: Iterable[Block], segments: Iterable[Segment], *, splits: bool) -> None:
        """Count anew what is held and in use, after an operation that was interrupted.

        ``splits``: whether the strategy counts free blocks that share a segment with used ones.
        """
        now = {True: _Present(), False: _Present()}
        for block in blocks:
            present = now[block.nbytes <= SMALL_BLOCK]
            present.add(1 - block.waiting, block.nbytes, block.requested)
        for segment in segments:
            inactive = [info.nbytes for info in segment.blocks if info.state == "inactive"]
            shared = inactive if splits and len(segment.blocks) > 1 else []
            now[segment.pool == "small"].add_segment(segment.nbytes, len(shared), sum(shared))
        for counters, parts in (
            (self.statistics.small, (now[True],)),
            (self.statistics.large, (now[False],)),
            (self.statistics.all, (now[True], now[False])),
        ):
            for name, counter in counters.named():
                counter.correct(sum(part.figures[name] for part in parts))

    def reset_peaks(self) -> None:
        """Start every peak again from its current value."""
        for _, counters in self.statistics.pools():
            for _, counter in counters.named():
                counter.reset_peak()

    def reset_accumulated(self) -> None:
        """Start every sum, and the counts of calls, again from zero."""
        statistics = self.statistics
        for _, counters in statistics.pools():
            for _, counter in counters.named():
                counter.reset_accumulated()
        statistics.num_alloc_retries = statistics.num_ooms = statistics.num_sync_all_streams = 0
        statistics.num_device_alloc = statistics.num_device_free = 0

    def _pools(self, small: bool) -> tuple[Counters, Counters]:
        statistics = self.statistics
        return statistics.all, statistics.small if small else statistics.large


class _Present:
    """What there is at present, by the names of the counters."""

    def __init__(self) -> None:
        self.figures = dict.fromkeys(Counters.__slots__, 0)

    def add(self, live: int, nbytes: int, requested: int) -> None:
        figures = self.figures
        figures["allocation"] += live
        figures["allocated_bytes"] += nbytes * live
        figures["requested_bytes"] += requested * live
        figures["active"] += 1
        figures["active_bytes"] += nbytes

    def add_segment(self, nbytes: int, shared: int, shared_nbytes: int) -> None:
        figures = self.figures
        figures["segment"] += 1
        figures["reserved_bytes"] += nbytes
        figures["inactive_split"] += shared
        figures["inactive_split_bytes"] += shared_nbytes
