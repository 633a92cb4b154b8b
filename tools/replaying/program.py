"""A trace reduced to what a replay does: allocations, frees, emptied caches and changed limits, in order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.errors import TraceError
from ...allocators.events import EventKind
from ...allocators.request import MOST_BYTES
from ...plugins.tracing.trace_in_memory import Trace
from ..analysis.private_pools import pooled
from .emptied_caches import GIVEN, emptied_caches

NO_LIMIT = -(1 << 63)
"""The step with which the program lifted the limit. One that set it to ``n`` bytes is ``NO_LIMIT + n``."""
LIMITS = NO_LIMIT + (1 << 62)
"""Steps below this change the limit."""


Column = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One device's history, reduced to what a replay does: allocations, frees, emptied caches, changed limits."""

    trace: str
    device: int
    steps: Column
    """``n + 1`` for the allocation number n, ``-(n + 1)`` for its free, 0 where the cache is emptied; below ``LIMITS``
    the limit."""
    sizes: Column
    """The bytes requested by each allocation."""
    streams: npt.NDArray[np.uint64]
    """The stream of each allocation."""
    events: Column
    """The place in the trace of the event behind each step."""
    total_events: int
    """How many events of the trace concern this device."""
    unmatched: int
    """Frees of blocks whose allocation is not in the trace, and allocations where a live block already lay."""
    setup: int = 0
    """How many steps at the start only build up what was there before. Figures are of what follows them."""
    peak_requested: int = 0
    """The most bytes that the program holds at once. The free of a block that other streams use counts once they have
    finished with it."""
    pressed: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    """The places in ``steps`` where the recorded allocator itself may have emptied its cache, short of memory."""

    def peak_before(self, step: int) -> int:
        """The most bytes that the program holds at once before a step."""
        return _peak(self.steps[:step], self.sizes)

    def as_asked(self) -> Program:
        """The program without what only the recorded allocator did, short of memory."""
        if not len(self.pressed):
            return self
        steps, events = np.delete(self.steps, self.pressed), np.delete(self.events, self.pressed)
        return replace(self, steps=steps, events=events, pressed=self.pressed[:0])


def decode(trace: Trace) -> list[Program]:
    """The program of every device that has events in ``trace``, in order of their ordinals.

    A block's memory is available again when its free has *completed*: at FENCE_PASSED for a block that waited for
    streams (of PyTorch's blocks: for every one), else at FREE. A block whose free was only asked for stays held.
    What was asked for in vain (OUT_OF_MEMORY) at the trace's end is asked for again, and freed at once where it
    succeeds: an allocator on which the program would end at the same place does not complete it. A program that
    allocated again later got on without. Where the program emptied the cache, the replay does: cuplug's traces say so,
    and PyTorch's histories show it. Where it changed the limit, which cuplug's traces say, the replay does, too.

    Raises:
        TraceError: a block is larger than any device, or its size is negative.
    """
    allocations = np.flatnonzero(trace.events["kind"] == EventKind.ALLOCATE)
    too_large = allocations[trace.events["requested"][allocations].astype(np.uint64) > MOST_BYTES]
    if len(too_large):
        asked = int(trace.events["requested"][too_large[0]].astype(np.uint64))
        raise TraceError(
            f"{trace.path} cannot be replayed: event {too_large[0]} allocates {asked} bytes, more than any device has; "
            "it is damaged"
        )
    last = int(allocations[-1]) if len(allocations) else -1
    return [_decode_device(trace, device, last) for device in trace.devices]


def _decode_device(trace: Trace, device: int, last: int) -> Program:
    own = np.flatnonzero(trace.events["device"] == device)
    emptied = pressed = own[:0]
    private = trace.header.private_segments(device) if "private_segments" in trace.header.fields else ()
    completed_apart = trace.completed_apart  # so it is PyTorch's
    if completed_apart and np.isin(trace.events["kind"][own], GIVEN).any():
        emptied, pressed = (
            own[places] for places in emptied_caches(trace.events[own], {address for address, *_ in private})
        )
    elif not completed_apart:
        emptied = own[trace.events["kind"][own] == EventKind.EMPTY_CACHE]
    limits = own[trace.events["kind"][own] == EventKind.LIMIT]
    wanted = (
        EventKind.ALLOCATE, EventKind.FREE, EventKind.RECORD_STREAM, EventKind.FENCE_PASSED, EventKind.OUT_OF_MEMORY,
    )  # fmt: skip
    places = own[np.isin(trace.events["kind"][own], wanted)]
    kinds, requested = trace.events["kind"][places], trace.events["requested"][places]
    empty = ((kinds == EventKind.ALLOCATE) | (kinds == EventKind.OUT_OF_MEMORY)) & (requested == 0)
    early = (kinds == EventKind.OUT_OF_MEMORY) & (places <= last)
    places = places[~(empty | early)]
    kinds = trace.events["kind"][places]

    ends, lost, unmatched = _ends(kinds, trace.events["address"][places], completed_apart)
    asks = np.flatnonzero((kinds == EventKind.ALLOCATE) | (kinds == EventKind.OUT_OF_MEMORY))
    numbers = np.arange(1, len(asks) + 1)
    number_at = np.zeros(len(places), np.int64)
    number_at[asks] = numbers
    again = kinds[asks] == EventKind.OUT_OF_MEMORY
    ended, cut = np.flatnonzero(ends >= 0), np.flatnonzero(lost >= 0)
    # Each step's place, and its order there: a block that lay where another is allocated goes before that.
    where = np.concatenate([ends[ended] * 2, lost[cut] * 2, asks * 2 + 1, asks[again] * 2 + 1])
    steps = np.concatenate([-number_at[ended], -number_at[cut], numbers, -numbers[again]])
    asked = places[asks]
    streams = trace.events["stream"]
    if private:
        streams = streams.copy()
        # A replay has no way to end a pool: one that ends earlier is memory like any other there.
        streams[own] = pooled(trace, device, trace.events[own], int(np.searchsorted(own, last)))
    limited = np.clip(trace.events["nbytes"][limits].astype(np.int64), 1, LIMITS - NO_LIMIT - 1)
    where = np.concatenate([(places * 2)[where >> 1] + (where & 1), emptied * 2 + 1, limits * 2 + 1])
    steps = np.concatenate(
        [
            steps,
            np.zeros(len(emptied), np.int64),
            np.where(trace.events["requested"][limits] == 0, NO_LIMIT, NO_LIMIT + limited),
        ]
    )
    order = np.argsort(where, kind="stable")
    steps, events = steps[order], where[order] >> 1
    return Program(
        trace.path,
        device,
        steps,
        trace.events["requested"][asked].astype(np.int64),
        streams[asked].astype(np.uint64),
        events,
        len(own) - int(np.searchsorted(own, trace.begin)),
        unmatched + len(cut),
        peak_requested=_peak(steps, trace.events["requested"][asked].astype(np.int64)),
        pressed=np.flatnonzero((steps == 0) & np.isin(events, pressed)),
    )


def _peak(steps: Column, sizes: Column) -> int:
    moved = steps[(steps != 0) & (steps >= LIMITS)]  # what empties the cache or sets a limit moves nothing
    return int(np.cumsum(sizes[np.abs(moved) - 1] * np.sign(moved)).max(initial=0))


def _ends(kinds: npt.NDArray[Any], addresses: npt.NDArray[Any], completed_apart: bool) -> tuple[Column, Column, int]:
    """Where the blocks of allocations come back.

    Returns:
        For each event, if it allocates: the event that completes the block's free, or -1; the next allocation at its
        address, if the block was never freed before that, or -1. Then how many frees are of no block.
    """
    order = np.argsort(addresses, kind="stable")
    order = order[kinds[order] != EventKind.OUT_OF_MEMORY]
    kind, address = kinds[order], addresses[order]
    place = np.arange(len(order))
    allocates = kind == EventKind.ALLOCATE
    # The place of the allocation that an event is about: the latest at its address.
    owner = np.maximum.accumulate(np.where(allocates, place, -1)) if len(order) else place
    owned = (owner >= 0) & (address[owner] == address) if len(order) else owner > 0
    frees = (kind == EventKind.FREE) & owned
    if completed_apart:
        completes = (kind == EventKind.FENCE_PASSED) & owned
    else:
        waits = _first(place, owner, (kind == EventKind.RECORD_STREAM) & owned)
        completes = ((kind == EventKind.FENCE_PASSED) & owned) | (
            frees & ~((waits[owner] >= 0) & (waits[owner] < place))
        )
    first = _first(place, owner, completes)
    late = np.count_nonzero(frees & (first[owner] >= 0) & (first[owner] < place))
    unmatched = int(np.count_nonzero((kind == EventKind.FREE) & ~owned) + late)

    ends, lost = np.full(len(kinds), -1, np.int64), np.full(len(kinds), -1, np.int64)
    found = np.flatnonzero(allocates & (first >= 0))
    ends[order[found]] = order[first[found]]
    every = np.flatnonzero(allocates)
    before, after = every[:-1], every[1:]
    cut = (address[before] == address[after]) & (first[before] < 0)
    lost[order[before[cut]]] = order[after[cut]]
    return ends, lost, unmatched


def _first(place: Column, owner: Column, chosen: npt.NDArray[np.bool_]) -> Column:
    """For each allocation's place, the first of the chosen events that are about it; -1 for none."""
    first: Column = np.full(len(place), -1, np.int64)
    latest_first = place[chosen][::-1]
    first[owner[latest_first]] = latest_first
    return first
