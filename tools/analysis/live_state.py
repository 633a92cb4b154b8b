"""The state of every device at a trace's end, kept current while the trace grows. Computes only."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import EventArray, Trace
from .blocks import curves, find_blocks
from .sites import Site, sites

_WINDOW_NS = 1_000_000_000


@dataclass(frozen=True)
class StreamNow:
    """One stream's live blocks. Sizes are requested bytes."""

    stream: int
    blocks: int
    nbytes: int


@dataclass(frozen=True)
class DeviceNow:
    """One device after the last event that was written. Sizes are bytes."""

    device: int
    seconds: float
    """From the first event to the last."""
    requested: int
    peak_requested: int
    allocated: int
    reserved: int
    peak_reserved: int
    on_host: int
    """Of what is reserved, what stands in the host's memory."""
    peak_on_host: int
    allocations: int
    """Since the beginning."""
    allocations_per_second: float
    """Over the last second before the last event, or over the whole run where that is shorter."""
    out_of_memory: int
    streams: list[StreamNow] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)

    @property
    def unused(self) -> float:
        """The share of the reserved memory that no live block uses."""
        return max(0.0, 1 - self.allocated / self.reserved) if self.reserved > 0 else 0.0


def now(trace: Trace, *, top: int) -> list[DeviceNow]:
    """The state of each device at the end of a whole trace. ``top`` call sites are named."""
    state = LiveState()
    state.add(trace.events)
    return state.devices(trace, top=top)


class LiveState:
    """What is live on each device. Takes events in the order of the trace, some at a time: none is looked at twice."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self._of: dict[int, _Device] = {}

    def add(self, events: EventArray) -> None:
        """Take the next events, of all devices."""
        for device in np.unique(events["device"][events["kind"] != EventKind.MARKER]).tolist():
            self._of.setdefault(device, _Device()).add(events[events["device"] == device])

    def devices(self, trace: Trace, *, top: int) -> list[DeviceNow]:
        """The state of each device. ``trace`` has the call stacks, of which ``top`` lines are named."""
        return [self._of[device].told(device, trace, top) for device in sorted(self._of)]


class _Device:
    def __init__(self) -> None:
        self.live: EventArray | None = None
        """The allocations of live blocks."""
        self.first = self.last = 0
        self.reserved = self.peak_requested = self.peak_reserved = self.on_host = self.peak_on_host = 0
        self.allocations = self.out_of_memory = 0
        self.recent: deque[tuple[int, int]] = deque()
        """The times of the last second's allocations, and how many each has."""

    def add(self, events: EventArray) -> None:
        kinds, times = events["kind"], events["time"]
        if self.live is None:
            self.first = int(times[0])
        older = events[:0] if self.live is None else self.live
        both = np.concatenate([older, events])
        blocks = find_blocks(both)
        memory = curves(both, blocks)
        since = len(older)  # before that, only what was live is being put together again
        self.peak_requested = max(self.peak_requested, int(memory.requested[since:].max(initial=0)))
        reserved = memory.reserved[since:] + self.reserved
        self.peak_reserved = max(self.peak_reserved, int(reserved.max(initial=0)))
        self.reserved = int(reserved[-1])
        on_host = memory.on_host[since:] + self.on_host
        self.peak_on_host = max(self.peak_on_host, int(on_host.max(initial=0)))
        self.on_host = int(on_host[-1])
        self.live = both[blocks.allocated[blocks.freed < 0]]
        self.last = int(times[-1])
        asked = times[kinds == EventKind.ALLOCATE]
        self.allocations += len(asked)
        self.out_of_memory += int(np.count_nonzero(kinds == EventKind.OUT_OF_MEMORY))
        moments, counts = np.unique(asked[asked > self.last - _WINDOW_NS], return_counts=True)
        self.recent.extend(zip(moments.tolist(), counts.tolist(), strict=True))
        while self.recent and self.recent[0][0] <= self.last - _WINDOW_NS:
            self.recent.popleft()

    def told(self, device: int, trace: Trace, top: int) -> DeviceNow:
        live = self.live if self.live is not None else trace.events[:0]
        window = min(self.last - self.first, _WINDOW_NS) / 1e9
        recent = sum(count for _, count in self.recent)
        streams = [
            StreamNow(int(stream), int(np.count_nonzero(mine)), int(live["requested"][mine].sum()))
            for stream in np.unique(live["stream"])
            for mine in [live["stream"] == stream]
        ]
        return DeviceNow(
            device=device,
            seconds=(self.last - self.first) / 1e9,
            requested=int(live["requested"].sum()),
            peak_requested=self.peak_requested,
            allocated=int(live["nbytes"].sum()),
            reserved=self.reserved,
            peak_reserved=self.peak_reserved,
            on_host=self.on_host,
            peak_on_host=self.peak_on_host,
            allocations=self.allocations,
            allocations_per_second=recent / window if window > 0 else 0.0,
            out_of_memory=self.out_of_memory,
            streams=sorted(streams, key=lambda one: -one.nbytes),
            sites=sites(trace, live["context"], live["requested"], top) if trace.stacks else [],
        )
