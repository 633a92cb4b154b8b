"""What an allocator counts: current, peak and cumulative figures, for small and large blocks and for all; its books."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import starmap

from .block import Block, Segment

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

    def correct(self, current: int) -> None:
        """Make the four figures agree with ``current``, which was counted anew after an interrupted operation."""
        freed, self.current = self.freed, current
        self.peak = max(self.peak, current)
        self.allocated += max(0, freed - self.freed)  # neither sum ever falls

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
    host_bytes: Counter = field(default_factory=Counter)
    """Of what is reserved, what stands in the host's memory (``expandable:host=``)."""

    def named(self) -> Iterator[tuple[str, Counter]]:
        """Each counter with its name."""
        for name in self.__slots__:
            yield name, getattr(self, name)


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


class Ledger:
    """The books of one allocator. Not thread-safe: used under its lock. All sizes are bytes.

    What is small and what is large is counted apart. The figures of all are the sums of both, and only their peaks are
    kept.
    """

    def __init__(self) -> None:
        figures = {name: _Figure() for name in Counters.__slots__}
        # Until something waits, what is active is what is allocated, and is counted once.
        figures["active"], figures["active_bytes"] = figures["allocation"], figures["allocated_bytes"]
        self._figures = figures
        self._in_hand = figures["allocation"], figures["allocated_bytes"], figures["requested_bytes"]
        self._active = figures["active"], figures["active_bytes"]
        self._waited = False
        self._most_allocated = 0  # before peaks were reset
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0
        self.num_device_alloc = self.num_device_free = 0

    def statistics(self) -> Statistics:
        """A snapshot."""
        figures = self._figures.items()
        return Statistics(
            Counters(**{name: figure.total() for name, figure in figures}),
            Counters(**{name: figure.parts[True].copy() for name, figure in figures}),
            Counters(**{name: figure.parts[False].copy() for name, figure in figures}),
            self.num_alloc_retries,
            self.num_ooms,
            self.num_sync_all_streams,
            self.num_device_alloc,
            self.num_device_free,
        )

    def total(self, figure: str) -> Counter:
        """One of the figures (``Counters``) of all."""
        return self._figures[figure].total()

    @property
    def reserved(self) -> int:
        """Bytes held from upstream."""
        return self._figures["reserved_bytes"].current

    @property
    def host(self) -> int:
        """Of the bytes held from upstream, those in the host's memory."""
        return self._figures["host_bytes"].current

    @property
    def wasted(self) -> int:
        """Bytes that are free in segments with blocks in use."""
        return self._figures["inactive_split_bytes"].current

    @property
    def most_allocated(self) -> int:
        """The most bytes that have ever been in the program's hands, whichever peaks were reset."""
        return max(self._most_allocated, self._figures["allocated_bytes"].peak)

    def allocated(self, nbytes: int, requested: int) -> None:
        """Count a block that goes into the program's hands."""
        small = nbytes <= SMALL_BLOCK
        number, rounded, asked = self._in_hand
        number.rise(small, 1)
        rounded.rise(small, nbytes)
        asked.rise(small, requested)
        if self._waited:
            number, rounded = self._active
            number.rise(small, 1)
            rounded.rise(small, nbytes)

    def freed(self, nbytes: int, requested: int, waits: bool = False) -> None:
        """Count a block that leaves the program's hands. ``waits``: it stays active until it has ``passed``."""
        if waits:
            self._tell_active_apart()
        small = nbytes <= SMALL_BLOCK
        number, rounded, asked = self._in_hand
        number.parts[small].current -= 1
        rounded.parts[small].current -= nbytes
        asked.parts[small].current -= requested
        if self._waited and not waits:
            self.passed(nbytes)

    def passed(self, nbytes: int) -> None:
        """Count a block that is active no longer: it waits for no stream."""
        number, rounded = self._active
        number.change(nbytes <= SMALL_BLOCK, -1)
        rounded.change(nbytes <= SMALL_BLOCK, -nbytes)

    def mapped(self, segments: int, nbytes: int, *, small: bool) -> None:
        """Count a change in what is held: in segments (memory without a gap), and in bytes."""
        self._figures["segment"].change(small, segments)
        self._figures["reserved_bytes"].change(small, nbytes)

    def on_host(self, nbytes: int, *, small: bool) -> None:
        """Count a change in what of it stands in the host's memory."""
        self._figures["host_bytes"].change(small, nbytes)

    def split(self, blocks: int, nbytes: int, small: bool) -> None:
        """Count a change in the free blocks that share a segment with used ones: in number, and in bytes."""
        self._figures["inactive_split"].change(small, blocks)
        self._figures["inactive_split_bytes"].change(small, nbytes)

    def correct(self, blocks: Iterable[Block], segments: Iterable[Segment], *, splits: bool) -> None:
        """Count anew what is held and in use, after an operation that was interrupted.

        ``splits``: whether the strategy counts free blocks that share a segment with used ones.
        """
        now = Ledger()
        for block in blocks:
            now.allocated(block.nbytes, block.requested)
            if block.waiting:
                now.freed(block.nbytes, block.requested, waits=True)
        for segment in segments:
            if segment.asleep:
                continue
            small = segment.pool == "small"
            now.mapped(1, segment.nbytes, small=small)
            if segment.host:
                now.on_host(segment.nbytes, small=small)
            if splits and len(segment.blocks) > 1:
                inactive = [info.nbytes for info in segment.blocks if info.state == "inactive"]
                now.split(len(inactive), sum(inactive), small=small)
        self._tell_active_apart()
        for name, figure in self._figures.items():
            for part, counted in zip(figure.parts, now._figures[name].parts, strict=True):
                part.correct(counted.current)
            figure.peak = max(figure.peak, figure.current)

    def reset_peaks(self) -> None:
        """Start every peak again from its current value."""
        self._most_allocated = self.most_allocated
        for figure in self._figures.values():
            for part in figure.parts:
                part.peak = part.current
            figure.peak = figure.current

    def reset_accumulated(self) -> None:
        """Start every sum, and the counts of calls, again from zero."""
        for figure in self._figures.values():
            for part in figure.parts:
                part.reset_accumulated()
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0
        self.num_device_alloc = self.num_device_free = 0

    def _tell_active_apart(self) -> None:
        """From now on something waits: count what is active by itself."""
        if not self._waited:
            figures = self._figures
            self._active = deepcopy((figures["allocation"], figures["allocated_bytes"]))
            figures["active"], figures["active_bytes"] = self._active
            self._waited = True  # the last step: broken off before, this is done again


class _Figure:
    """One figure, counted apart for the large blocks and the small ones, with the peak of both together."""

    __slots__ = ("parts", "peak")

    def __init__(self) -> None:
        self.parts = Counter(), Counter()
        """By whether they are of the small blocks."""
        self.peak = 0

    @property
    def current(self) -> int:
        """Its current value, of both."""
        return self.parts[0].current + self.parts[1].current

    def total(self) -> Counter:
        """The figure of all."""
        large, small = self.parts
        return Counter(self.current, self.peak, small.allocated + large.allocated, small.freed + large.freed)

    def rise(self, small: bool, amount: int) -> None:
        """Add ``amount``, and keep the peaks."""
        part = self.parts[small]
        part.allocated += amount
        current = part.current = part.current + amount
        if current > part.peak:
            part.peak = current
        together = current + self.parts[not small].current
        if together > self.peak:
            self.peak = together

    def change(self, small: bool, amount: int) -> None:
        """Add ``amount``, or take its opposite off where it is negative."""
        if amount > 0:
            self.rise(small, amount)
        else:
            self.parts[small].current += amount
