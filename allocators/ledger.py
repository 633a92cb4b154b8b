"""Counts what an allocator does, exactly and cheaply.

A counter of ``Statistics`` has four figures, and an allocation moves ten counters. Most of that follows from little:

- what was allocated in sum is what is current plus what was freed in sum;
- a block is active while it is in the program's hands or waits for a stream;
- a peak can only be reached where a rise ends, so peaks are noted at the first free after allocations.
"""

from __future__ import annotations

from .statistics import SMALL_BLOCK, Counter, Counters, Statistics

__all__ = ["Ledger"]


class Ledger:
    """The books of one allocator. Not thread-safe: used under its lock. All sizes are bytes."""

    def __init__(self) -> None:
        self.small = _Tally()
        self.large = _Tally()
        self.all = _Tally()
        """Peaks are kept here; what is current is added up from the two others when it is needed."""
        self.calls = Statistics()
        """The single figures (``num_ooms`` and its kin); its counters are not used."""
        self.reserved = 0
        """Bytes held from upstream."""
        self._risen = False

    def allocated(self, nbytes: int, requested: int, *, rises: bool = True) -> None:
        """Count a block that goes into the program's hands. ``rises``: whether a peak may rise with it."""
        tally = self.small if nbytes <= SMALL_BLOCK else self.large
        tally.blocks += 1
        tally.nbytes += nbytes
        tally.requested += requested
        self._risen |= rises

    def rises(self, nbytes: int, requested: int) -> bool:
        """Whether a peak would rise with one more block in the program's hands."""
        if self._risen:
            self._note_peaks()
        small, large, both = self.small, self.large, self.all
        tally = small if nbytes <= SMALL_BLOCK else large
        if (
            tally.blocks >= tally.peak_blocks
            or tally.nbytes + nbytes > tally.peak_nbytes
            or tally.requested + requested > tally.peak_requested
            or small.blocks + large.blocks >= both.peak_blocks
            or small.nbytes + large.nbytes + nbytes > both.peak_nbytes
            or small.requested + large.requested + requested > both.peak_requested
        ):
            return True
        if not (small.waiting_blocks or large.waiting_blocks):
            return False
        for each, *others in ((tally,), (both, small, large)):
            counted = others or (each,)
            blocks = sum(one.blocks + one.waiting_blocks for one in counted)
            size = sum(one.nbytes + one.waiting_nbytes for one in counted)
            if blocks >= max(each.peak_active_blocks, each.peak_blocks):
                return True
            if size + nbytes > max(each.peak_active_nbytes, each.peak_nbytes):
                return True
        return False

    def freed(self, nbytes: int, requested: int, times: int = 1, *, waits: bool = False) -> None:
        """Count a block that leaves the program's hands, and had done so ``times`` times, this one included.

        In between it was taken up again uncounted, below every peak. ``waits``: it stays active until ``passed``.
        """
        if self._risen:
            self._note_peaks()
        tally = self.small if nbytes <= SMALL_BLOCK else self.large
        tally.blocks -= 1
        tally.nbytes -= nbytes
        tally.requested -= requested
        tally.freed_blocks += times
        tally.freed_nbytes += nbytes * times
        tally.freed_requested += requested * times
        if waits:
            tally.waiting_blocks += 1
            tally.waiting_nbytes += nbytes

    def passed(self, nbytes: int) -> None:
        """Count a block that has waited for streams and does so no longer."""
        if self._risen:
            self._note_peaks()
        tally = self.small if nbytes <= SMALL_BLOCK else self.large
        tally.waiting_blocks -= 1
        tally.waiting_nbytes -= nbytes

    def took_segment(self, nbytes: int, *, small: bool) -> None:
        """Count a segment taken from upstream."""
        self.calls.num_device_alloc += 1
        self.reserved += nbytes
        for tally in (self.all, self.small if small else self.large):
            tally.segments.increase(1)
            tally.reserved.increase(nbytes)

    def gave_segment(self, nbytes: int, *, small: bool) -> None:
        """Count a segment given back upstream."""
        self.calls.num_device_free += 1
        self.reserved -= nbytes
        for tally in (self.all, self.small if small else self.large):
            tally.segments.decrease(1)
            tally.reserved.decrease(nbytes)

    def created_page(self) -> None:
        """Count a call upstream that made a page. Its bytes count as reserved while it is mapped (``paged``)."""
        self.calls.num_device_alloc += 1

    def released_page(self) -> None:
        """Count a call upstream that gave a page back."""
        self.calls.num_device_free += 1

    def paged(self, segments: int, nbytes: int, *, small: bool) -> None:
        """Count a change in what is mapped page by page: in segments (mapped without a gap), and in bytes."""
        self.reserved += nbytes
        for tally in (self.all, self.small if small else self.large):
            if segments > 0:
                tally.segments.increase(segments)
            elif segments:
                tally.segments.decrease(-segments)
            if nbytes > 0:
                tally.reserved.increase(nbytes)
            else:
                tally.reserved.decrease(-nbytes)

    def split(self, blocks: int, nbytes: int, *, small: bool) -> None:
        """Count a change in the free blocks that share a segment with used ones: in number, and in bytes."""
        for tally in (self.all, self.small if small else self.large):
            if blocks > 0:
                tally.split_blocks.increase(blocks)
            elif blocks:
                tally.split_blocks.decrease(-blocks)
            if nbytes > 0:
                tally.split_nbytes.increase(nbytes)
            else:
                tally.split_nbytes.decrease(-nbytes)

    def statistics(self) -> Statistics:
        """What has been counted up to now."""
        self._note_peaks()
        calls, small, large = self.calls, self.small, self.large
        of_small = small.freed_blocks, small.freed_nbytes, small.freed_requested
        of_large = large.freed_blocks, large.freed_nbytes, large.freed_requested
        of_all = of_small[0] + of_large[0], of_small[1] + of_large[1], of_small[2] + of_large[2]
        return Statistics(
            self.all.counters(of_all),
            small.counters(of_small),
            large.counters(of_large),
            calls.num_alloc_retries,
            calls.num_ooms,
            calls.num_sync_all_streams,
            calls.num_device_alloc,
            calls.num_device_free,
        )

    def reset_peaks(self) -> None:
        """Start every peak again from its current value."""
        self._note_peaks()
        for tally in (self.all, self.small, self.large):
            tally.reset_peaks()

    def reset_accumulated(self) -> None:
        """Start every sum, and the counts of calls, again from zero."""
        self._note_peaks()
        self.calls = Statistics()
        for tally in (self.all, self.small, self.large):
            tally.reset_accumulated()

    def _note_peaks(self) -> None:
        self._risen = False
        small, large, both = self.small, self.large, self.all
        both.blocks = small.blocks + large.blocks
        both.nbytes = small.nbytes + large.nbytes
        both.requested = small.requested + large.requested
        both.waiting_blocks = small.waiting_blocks + large.waiting_blocks
        both.waiting_nbytes = small.waiting_nbytes + large.waiting_nbytes
        for tally in (small, large, both):
            if tally.blocks > tally.peak_blocks:
                tally.peak_blocks = tally.blocks
            if tally.nbytes > tally.peak_nbytes:
                tally.peak_nbytes = tally.nbytes
            if tally.requested > tally.peak_requested:
                tally.peak_requested = tally.requested
            if tally.waiting_blocks:
                tally.note_active_peaks()


class _Tally:
    """The figures of one pool."""

    __slots__ = (
        "blocks", "freed_blocks", "freed_nbytes", "freed_requested", "nbytes", "peak_active_blocks",
        "peak_active_nbytes", "peak_blocks", "peak_nbytes", "peak_requested", "requested", "reserved", "segments",
        "since_blocks", "since_nbytes", "since_requested", "since_waiting_blocks", "since_waiting_nbytes",
        "split_blocks", "split_nbytes", "waiting_blocks", "waiting_nbytes",
    )  # fmt: skip

    def __init__(self) -> None:
        # In the program's hands; freed in sum; in hands when the sums were last started again; and peaks.
        self.blocks = self.freed_blocks = self.since_blocks = self.peak_blocks = 0
        self.nbytes = self.freed_nbytes = self.since_nbytes = self.peak_nbytes = 0
        self.requested = self.freed_requested = self.since_requested = self.peak_requested = 0
        # Freed, and waiting for streams. The peaks hold only those that were reached while something waited.
        self.waiting_blocks = self.since_waiting_blocks = self.peak_active_blocks = 0
        self.waiting_nbytes = self.since_waiting_nbytes = self.peak_active_nbytes = 0
        self.segments, self.reserved = Counter(), Counter()
        self.split_blocks, self.split_nbytes = Counter(), Counter()

    def note_active_peaks(self) -> None:
        self.peak_active_blocks = max(self.peak_active_blocks, self.blocks + self.waiting_blocks)
        self.peak_active_nbytes = max(self.peak_active_nbytes, self.nbytes + self.waiting_nbytes)

    def reset_peaks(self) -> None:
        self.peak_blocks, self.peak_nbytes, self.peak_requested = self.blocks, self.nbytes, self.requested
        self.peak_active_blocks = self.blocks + self.waiting_blocks
        self.peak_active_nbytes = self.nbytes + self.waiting_nbytes
        for counter in (self.segments, self.reserved, self.split_blocks, self.split_nbytes):
            counter.reset_peak()

    def reset_accumulated(self) -> None:
        self.since_blocks, self.since_nbytes, self.since_requested = self.blocks, self.nbytes, self.requested
        self.since_waiting_blocks, self.since_waiting_nbytes = self.waiting_blocks, self.waiting_nbytes
        self.freed_blocks = self.freed_nbytes = self.freed_requested = 0
        for counter in (self.segments, self.reserved, self.split_blocks, self.split_nbytes):
            counter.reset_accumulated()

    def counters(self, freed: tuple[int, int, int]) -> Counters:
        """The counters of this pool. ``freed``: blocks, bytes and requested bytes that were freed in sum."""
        blocks, nbytes, requested = freed
        # Active: in the program's hands or waiting. A block stops being active when it has passed its fences.
        active, active_nbytes = self.blocks + self.waiting_blocks, self.nbytes + self.waiting_nbytes
        in_sum = self.blocks - self.since_blocks + blocks
        nbytes_in_sum = self.nbytes - self.since_nbytes + nbytes
        requested_in_sum = self.requested - self.since_requested + requested
        passed = blocks + self.since_waiting_blocks - self.waiting_blocks
        passed_nbytes = nbytes + self.since_waiting_nbytes - self.waiting_nbytes
        return Counters(
            allocation=Counter(self.blocks, self.peak_blocks, in_sum, blocks),
            allocated_bytes=Counter(self.nbytes, self.peak_nbytes, nbytes_in_sum, nbytes),
            requested_bytes=Counter(self.requested, self.peak_requested, requested_in_sum, requested),
            active=Counter(active, max(self.peak_active_blocks, self.peak_blocks), in_sum, passed),
            active_bytes=Counter(
                active_nbytes, max(self.peak_active_nbytes, self.peak_nbytes), nbytes_in_sum, passed_nbytes
            ),
            segment=self.segments.copy(),
            reserved_bytes=self.reserved.copy(),
            inactive_split=self.split_blocks.copy(),
            inactive_split_bytes=self.split_nbytes.copy(),
        )
