"""A trace reduced to what a replay does: allocations and frees, in order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...allocators.events import EventKind
from ...plugins.tracing.contents import Trace

__all__ = ["Program", "decode"]


@dataclass(frozen=True, slots=True)
class Program:
    """One device's history, reduced to what a replay does: allocations and frees, in order."""

    trace: str
    device: int
    steps: list[int]
    """``n + 1`` for the allocation number n, ``-(n + 1)`` for its free."""
    sizes: list[int]
    """The bytes requested by each allocation."""
    streams: list[int]
    """The stream of each allocation."""
    events: list[int]
    """The place in the trace of the event behind each step."""
    total_events: int
    """How many events of the trace concern this device."""
    unmatched: int
    """Frees of blocks whose allocation is not in the trace, and allocations where a live block already lay."""


def decode(trace: Trace) -> list[Program]:
    """The program of every device that has events in ``trace``, in order of their ordinals.

    A block's memory is available again when its free has *completed*: at FENCE_PASSED for a block that waited for
    streams (of PyTorch's blocks: for every one), else at FREE. A block whose free was only asked for stays held.
    What was asked for in vain (OUT_OF_MEMORY) at the trace's end is asked for again, and freed at once where it
    succeeds: an allocator on which the program would end at the same place does not complete it. A program that
    allocated again later got on without.
    """
    always_waits = trace.header.source == "pytorch"
    allocations = np.flatnonzero(trace.events["kind"] == EventKind.ALLOCATE)
    last = int(allocations[-1]) if len(allocations) else -1
    return [_decode_device(trace, device, last, always_waits) for device in trace.devices]


def _decode_device(trace: Trace, device: int, last: int, always_waits: bool) -> Program:
    own = np.flatnonzero(trace.events["device"] == device)
    mine = trace.events[own]
    wanted = (
        EventKind.ALLOCATE, EventKind.FREE, EventKind.RECORD_STREAM, EventKind.FENCE_PASSED, EventKind.OUT_OF_MEMORY,
    )  # fmt: skip
    used = np.isin(mine["kind"], wanted)
    places = own[used].tolist()
    mine = mine[used]
    kinds, addresses = mine["kind"].tolist(), mine["address"].tolist()
    requested, handles = mine["requested"].tolist(), mine["stream"].tolist()

    steps: list[int] = []
    events: list[int] = []
    sizes: list[int] = []
    streams: list[int] = []
    live: dict[int, int] = {}  # address: the block's number + 1
    waits: set[int] = set()
    unmatched = 0
    allocate, free, record = int(EventKind.ALLOCATE), int(EventKind.FREE), int(EventKind.RECORD_STREAM)
    failed = int(EventKind.OUT_OF_MEMORY)
    for place, kind, address, nbytes, stream in zip(places, kinds, addresses, requested, handles, strict=True):
        if kind == allocate:
            if not nbytes:
                continue
            if address in live:  # its free was lost; the memory is in use again, so it must have been freed
                unmatched += 1
                steps.append(-live.pop(address))
                events.append(place)
            sizes.append(nbytes)
            streams.append(stream)
            live[address] = number = len(sizes)
            steps.append(number)
            events.append(place)
            continue
        if kind == failed:
            if nbytes and place > last:
                sizes.append(nbytes)
                streams.append(stream)
                steps += [len(sizes), -len(sizes)]
                events += [place, place]
            continue
        block = live.get(address)
        if block is None:
            unmatched += kind == free
        elif kind == record:
            waits.add(block)
        elif kind != free or not (always_waits or block in waits):
            steps.append(-live.pop(address))
            events.append(place)
    return Program(
        trace.path, device, steps, sizes, streams, events, len(own) - int(np.searchsorted(own, trace.begin)), unmatched
    )
