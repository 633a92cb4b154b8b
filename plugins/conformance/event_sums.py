"""What an allocator's events add up to."""

from __future__ import annotations

from ...allocators.base import Allocator
from ...allocators.block import Segment
from ...allocators.events import EventKind
from .rules import Rule, require


class EventSums:
    """An observer that adds up the events of an allocator from now on, and compares the sum with what it holds."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._live: dict[int, int] = {}
        self._waiting: set[int] = set()
        self._recorded: set[int] = set()
        self._held: dict[int, int] = {}
        self._mapped = 0
        self._time = 0
        self._problem = ""
        self._begun = False
        self.count = 0
        self.out_of_memory = 0
        allocator.attach(self)
        self._begin(allocator.segments())

    def _begin(self, segments: list[Segment]) -> None:
        """Start from what is held now."""
        infos = [info for segment in segments for info in segment.blocks]
        self._live.update({info.address: info.nbytes for info in infos if info.state == "active_allocated"})
        self._waiting.update(info.address for info in infos if info.state == "active_pending_free")
        self._held.update({segment.address: segment.nbytes for segment in segments if not segment.expandable})
        self._mapped += sum(segment.nbytes for segment in segments if segment.expandable)
        self._begun = True

    def __call__(
        self,
        kind: EventKind,
        time_ns: int,
        _thread: int,
        stream: int,
        address: int,
        nbytes: int,
        _requested: int,
        _context: int,
        /,
    ) -> None:
        self.count += 1
        if not self._begun:
            return
        problem = self._take(kind, address, nbytes)
        if time_ns < self._time:
            problem = "goes back in time"
        self._time = time_ns
        if problem:
            self._problem = (
                self._problem or f"{kind.name} at {address:#x} of {nbytes} bytes, stream {stream:#x}: {problem}"
            )

    def detach(self) -> None:
        """Stop observing."""
        self._allocator.detach(self)

    def verify(self) -> None:
        """Compare what the events add up to with what the allocator says."""
        segments = self._allocator.segments()
        live = {block.address: block.nbytes for block in self._allocator.live_blocks()}
        require(not self._problem, Rule.EVENTS, self._problem)
        require(self._live == live, Rule.EVENTS, f"they give the live blocks {self._live}, the allocator says {live}")
        held = {segment.address: segment.nbytes for segment in segments if not segment.expandable}
        mapped = sum(segment.nbytes for segment in segments if segment.expandable)
        require(self._mapped == mapped, Rule.EVENTS, f"they map {self._mapped} bytes of pages, segments() has {mapped}")
        require(self._held == held, Rule.EVENTS, f"they give the segments {self._held}, the allocator says {held}")

    def _take(self, kind: EventKind, address: int, nbytes: int) -> str:
        """Add one event up; what is wrong with it."""
        if kind is EventKind.ALLOCATE:
            if address in self._live:
                return "the block is live already"
            if address in self._waiting:
                return "the block still waits for streams"
            self._live[address] = nbytes
        elif kind is EventKind.FREE:
            if self._live.pop(address, None) != nbytes:
                return "no such block is live"
            if address in self._recorded:
                self._recorded.discard(address)
                self._waiting.add(address)
        elif kind is EventKind.SEGMENT_RESERVE:
            self._held[address] = nbytes
        elif kind is EventKind.SEGMENT_RELEASE:
            if self._held.pop(address, None) != nbytes:
                return "no such segment is held"
        elif kind is EventKind.PAGE_MAP:
            self._mapped += nbytes
        elif kind is EventKind.PAGE_UNMAP:
            self._mapped -= nbytes
        elif kind is EventKind.RECORD_STREAM:
            if address not in self._live:
                return "the block is not live"
            self._recorded.add(address)
        elif kind is EventKind.FENCE_PASSED:
            if address in self._live:
                return "the block is live"
            self._waiting.discard(address)
        elif kind is EventKind.OUT_OF_MEMORY:
            self.out_of_memory += 1
        return ""
