"""Follows a trace that is being written: the state of every device at its end, as ``top`` shows it. Computes only."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...allocators.events import EventKind
from ...plugins.tracing.contents import Trace
from .blocks import curves, find_blocks
from .sites import Site, sites

__all__ = ["DeviceNow", "StreamNow", "now"]

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
    """The state of each device. ``top`` call sites are named."""
    return [_of_device(trace, device, top) for device in trace.devices]


def _of_device(trace: Trace, device: int, top: int) -> DeviceNow:
    events = trace.events[trace.events["device"] == device]
    blocks = find_blocks(events)
    memory = curves(events, blocks)
    live = events[blocks.allocated[blocks.freed < 0]]
    span = int(events["time"][-1]) - int(events["time"][0])
    recent = events["time"][events["kind"] == EventKind.ALLOCATE] > int(events["time"][-1]) - _WINDOW_NS
    window = min(span, _WINDOW_NS) / 1e9
    streams = [
        StreamNow(int(stream), int(np.count_nonzero(mine)), int(live["requested"][mine].sum()))
        for stream in np.unique(live["stream"])
        for mine in [live["stream"] == stream]
    ]
    return DeviceNow(
        device=device,
        seconds=span / 1e9,
        requested=int(memory.requested[-1]),
        peak_requested=int(memory.requested.max()),
        allocated=int(memory.allocated[-1]),
        reserved=int(memory.reserved[-1]),
        peak_reserved=int(memory.reserved.max()),
        allocations_per_second=float(np.count_nonzero(recent) / window) if window > 0 else 0.0,
        out_of_memory=int(np.count_nonzero(events["kind"] == EventKind.OUT_OF_MEMORY)),
        streams=sorted(streams, key=lambda one: -one.nbytes),
        sites=sites(trace, live["context"], live["requested"], top) if trace.stacks else [],
    )
