"""What an allocator counts: current, peak and cumulative figures, for small and large blocks and for all; its books."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import starmap

from .block import Block, Segment
from .held_memory import HeldMemory

__all__ = ["SMALL_BLOCK", "Counter", "Counters", "Ledger", "Statistics"]

Figures = Iterable[tuple[int, int, int, int]]
SMALL_BLOCK = 1 << 20
"""Blocks up to this many bytes count as small, as in PyTorch (``kSmallSize`` in ``CUDAAllocatorConfig.h``)."""


class Counter:
    """One figure: its current value, its peak, and the sums of all increases and all decreases."""

    __slots__ = ("allocated", "current", "peak", "start")

    def __init__(self, current: int = 0, peak: int = 0, allocated: int = 0, freed: int = 0) -> None:
        self.current = current
        self.peak = peak
        self.allocated = allocated
        self.start = current - allocated + freed
        """The value from which the two sums were last counted."""

    @property
    def freed(self) -> int:
        """The sum of all decreases. It follows from the others, so that it need not be counted."""
        return self.start + self.allocated - self.current

    def change(self, amount: int) -> None:
        """Add ``amount`` and keep the peak, or take its opposite off where it is negative."""
        if amount > 0:
            self.allocated += amount
            current = self.current = self.current + amount
            if current > self.peak:
                self.peak = current
        else:
            self.current += amount

    def correct(self, current: int) -> None:
        """Make the four figures agree with ``current``, which was counted anew after an interrupted operation."""
        freed, self.current = self.freed, current
        self.peak = max(self.peak, current)
        self.allocated += max(0, freed - self.freed)  # neither sum ever falls

    def reset_peak(self) -> None:
        """Start the peak again from the current value."""
        self.peak = self.current

    def reset_accumulated(self) -> None:
        """Start the two sums again from zero."""
        self.allocated = 0
        self.start = self.current

    def copy(self) -> Counter:
        """A counter with the same four figures, independent of this one."""
        return Counter(self.current, self.peak, self.allocated, self.freed)

    def as_dict(self) -> dict[str, int]:
        """The four figures by name, as ``torch.cuda.memory_stats`` names them."""
        return {"current": self.current, "peak": self.peak, "allocated": self.allocated, "freed": self.freed}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counter) and self.as_dict() == other.as_dict()

    def __repr__(self) -> str:
        figures = ", ".join(f"{name}={value}" for name, value in self.as_dict().items())
        return f"Counter({figures})"


@dataclass(slots=True)
class Counters:
    """The counters of one pool. Names and meanings follow ``torch.cuda.memory_stats``; ``*_bytes`` are bytes."""

    allocation: Counter = field(default_factory=Counter)
    """Blocks in the program's hands."""
    allocated_bytes: Counter = field(default_factory=Counter)
    """Their sizes, rounded as the allocator rounds them."""
    requested_bytes: Counter = field(default_factory=Counter)
    """Their sizes as the program asked."""
    active: Counter = field(default_factory=Counter)
    """Blocks in the program's hands, or freed and still waiting for a stream."""
    active_bytes: Counter = field(default_factory=Counter)
    segment: Counter = field(default_factory=Counter)
    """Pieces of memory held from upstream."""
    reserved_bytes: Counter = field(default_factory=Counter)
    inactive_split: Counter = field(default_factory=Counter)
    """Free blocks that share a segment with used ones: what cannot be given back."""
    inactive_split_bytes: Counter = field(default_factory=Counter)

    def named(self) -> Iterator[tuple[str, Counter]]:
        """Each counter with its name."""
        for name in self.__slots__:
            yield name, getattr(self, name)

    @classmethod
    def of_nothing_waiting(cls) -> Counters:
        """Counters to begin with: until something waits, what is active is what is allocated, and is counted once."""
        allocation, allocated_bytes = Counter(), Counter()
        return cls(allocation, allocated_bytes, active=allocation, active_bytes=allocated_bytes)

    def tell_active_apart(self) -> None:
        """From now on something waits: count what is active by itself."""
        if self.active is self.allocation:
            self.active_bytes = self.allocated_bytes.copy()
            self.active = self.allocation.copy()  # the last step: broken off before, this is done again

    def copy(self) -> Counters:
        """Counters with the same figures, independent of these."""
        return Counters(**{name: counter.copy() for name, counter in self.named()})


@dataclass(slots=True)
class Statistics:
    """A snapshot of what an allocator has counted."""

    all: Counters = field(default_factory=Counters)
    small: Counters = field(default_factory=Counters)
    """Blocks of up to ``SMALL_BLOCK`` bytes, and the segments made for them."""
    large: Counters = field(default_factory=Counters)
    num_alloc_retries: int = 0
    """Allocations that succeeded only after cached memory was given back."""
    num_ooms: int = 0
    """Allocations that failed for good."""
    num_sync_all_streams: int = 0
    """Times that the allocator blocked until every fence had passed."""
    num_device_alloc: int = 0
    """Calls upstream that took memory."""
    num_device_free: int = 0
    """Calls upstream that gave memory back."""

    @classmethod
    def of_figures(cls, every: Figures, small: Figures, large: Figures, *counts: int) -> Statistics:
        """Statistics from numbers alone, in the order of the fields here, of ``Counters`` and of ``Counter``."""
        pools = [Counters(*starmap(Counter, figures)) for figures in (every, small, large)]
        return cls(pools[0], pools[1], pools[2], *counts)

    def pools(self) -> Iterator[tuple[str, Counters]]:
        """The three groups of counters by the names that ``torch.cuda.memory_stats`` gives them."""
        yield "all", self.all
        yield "small_pool", self.small
        yield "large_pool", self.large

    def copy(self) -> Statistics:
        """Statistics with the same figures, independent of these."""
        return Statistics(
            self.all.copy(),
            self.small.copy(),
            self.large.copy(),
            self.num_alloc_retries,
            self.num_ooms,
            self.num_sync_all_streams,
            self.num_device_alloc,
            self.num_device_free,
        )


class Ledger:
    """The books of one allocator. Not thread-safe: used under its lock. All sizes are bytes.

    Everything is counted twice: for the allocator as a whole, and for its small or its large blocks.
    """

    def __init__(self) -> None:
        begin = Counters.of_nothing_waiting
        self.statistics = counted = Statistics(begin(), begin(), begin())
        self._counters = {True: (counted.all, counted.small), False: (counted.all, counted.large)}
        """By whether something is small: where it is counted."""

    @property
    def reserved(self) -> int:
        """Bytes held from upstream."""
        return self.statistics.all.reserved_bytes.current

    def allocated(self, nbytes: int, requested: int) -> None:
        """Count a block that goes into the program's hands."""
        for counters in self._counters[nbytes <= SMALL_BLOCK]:
            counters.allocation.change(1)
            counters.allocated_bytes.change(nbytes)
            counters.requested_bytes.change(requested)
            if counters.active is not counters.allocation:
                counters.active.change(1)
                counters.active_bytes.change(nbytes)

    def freed(self, nbytes: int, requested: int, *, waits: bool = False) -> None:
        """Count a block that leaves the program's hands. ``waits``: it stays active until it has ``passed``."""
        for counters in self._counters[nbytes <= SMALL_BLOCK]:
            if waits:
                counters.tell_active_apart()
            counters.allocation.current -= 1
            counters.allocated_bytes.current -= nbytes
            counters.requested_bytes.current -= requested
            if not waits and counters.active is not counters.allocation:
                counters.active.current -= 1
                counters.active_bytes.current -= nbytes

    def passed(self, nbytes: int) -> None:
        """Count a block that is active no longer: it waits for no stream."""
        for counters in self._counters[nbytes <= SMALL_BLOCK]:
            counters.active.current -= 1
            counters.active_bytes.current -= nbytes

    def took_segment(self, held: HeldMemory) -> None:
        """Count a segment taken from upstream, by the call ``held.number``."""
        self.statistics.num_device_alloc = held.number
        self.mapped(1, held.nbytes, small=held.small)

    def gave_segment(self, held: HeldMemory) -> None:
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
        for counters in self._counters[small]:
            counters.segment.change(segments)
            counters.reserved_bytes.change(nbytes)

    def split(self, blocks: int, nbytes: int, *, small: bool) -> None:
        """Count a change in the free blocks that share a segment with used ones: in number, and in bytes."""
        for counters in self._counters[small]:
            if blocks:
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
            if segment.asleep:
                continue
            inactive = [info.nbytes for info in segment.blocks if info.state == "inactive"]
            shared = inactive if splits and len(segment.blocks) > 1 else []
            now[segment.pool == "small"].add_segment(segment.nbytes, len(shared), sum(shared))
        for counters, parts in (
            (self.statistics.small, (now[True],)),
            (self.statistics.large, (now[False],)),
            (self.statistics.all, (now[True], now[False])),
        ):
            counters.tell_active_apart()
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
