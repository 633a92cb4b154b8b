"""Which allocation each free belongs to, and how much memory there is at every event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import EventArray

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Blocks:
    """Every allocation of one device's events, in order. The three arrays hold indices of events, -1 for none."""

    allocated: Indices
    freed: Indices
    reusable: Indices
    """When the memory could be used again: at the free, or later where the block waited for streams."""
    unknown_frees: int
    """Frees of blocks that were allocated before the recording began."""


def find_blocks(events: EventArray, *, completed_apart: bool = False) -> Blocks:
    """Pair the allocations of one device with their frees.

    Addresses are reused, so that the order decides: a free belongs to the latest allocation at its address. A block
    that another stream had used (RECORD_STREAM) and whose FENCE_PASSED is missing never became reusable.

    Args:
        events: one device's, in order.
        completed_apart: whether every free is completed by a FENCE_PASSED of its own (``Trace.completed_apart``), so
            that one without it still waits.
    """
    kinds, addresses = events["kind"], events["address"]
    of_blocks = np.isin(kinds, (EventKind.ALLOCATE, EventKind.FREE, EventKind.RECORD_STREAM, EventKind.FENCE_PASSED))
    index = np.flatnonzero(of_blocks)
    index = index[np.argsort(addresses[index], kind="stable")]
    kind, address = kinds[index], addresses[index]
    place = np.arange(len(index))
    is_allocation = kind == EventKind.ALLOCATE
    owner = np.maximum.accumulate(np.where(is_allocation, place, -1)) if len(index) else place
    owned = (owner >= 0) & (address[owner] == address) if len(index) else owner > 0
    freed = _first_of(EventKind.FREE, kind, owner, owned)
    passed = _first_of(EventKind.FENCE_PASSED, kind, owner, owned)
    waited = _first_of(EventKind.RECORD_STREAM, kind, owner, owned) >= 0
    reusable = np.where(passed >= 0, passed, np.where(waited | completed_apart, -1, freed))
    unknown = int(np.count_nonzero((kind == EventKind.FREE) & ~owned))
    order = np.argsort(index[is_allocation], kind="stable")
    to_event = np.append(index, -1)  # so that -1 stays -1
    return Blocks(
        index[is_allocation][order],
        to_event[freed[is_allocation]][order],
        to_event[reusable[is_allocation]][order],
        unknown,
    )


def _first_of(kind: EventKind, kinds: npt.NDArray[Any], owner: Indices, owned: npt.NDArray[np.bool_]) -> Indices:
    """For each place, the first event of a kind that belongs to the allocation at that place."""
    first: Indices = np.full(len(kinds), -1, np.int64)
    places = np.flatnonzero((kinds == kind) & owned)[::-1]
    first[owner[places]] = places
    return first


@dataclass(frozen=True)
class Curves:
    """Bytes after each event of one device."""

    requested: Indices
    """In the program's hands, as it asked."""
    allocated: Indices
    """In the program's hands, as the allocator rounded."""
    active: Indices
    """That, and what was freed and still waits for streams."""
    reserved: Indices
    """Held from the device, and from the host where its memory stands under addresses of the device."""
    on_host: Indices
    """Of that, what is the host's."""
    asleep: Indices
    """Given back to the device, with blocks that sleep in it."""


def curves(events: EventArray, blocks: Blocks) -> Curves:
    """How much memory there is after every event. What existed before the recording is not counted."""
    requested = events["requested"][blocks.allocated]
    nbytes = events["nbytes"][blocks.allocated]
    count = len(events)
    return Curves(
        _running(count, (blocks.allocated, requested), (blocks.freed, -requested)),
        _running(count, (blocks.allocated, nbytes), (blocks.freed, -nbytes)),
        _running(count, (blocks.allocated, nbytes), (blocks.reusable, -nbytes)),
        _reserved(events),
        _held(events, (EventKind.HOST_PAGE_CREATE,), (EventKind.HOST_PAGE_RELEASE,)),
        _asleep(events),
    )


def _asleep(events: EventArray) -> Indices:
    levels: Indices = np.zeros(len(events), np.int64)
    asleep: dict[int, int] = {}
    for place in np.flatnonzero(np.isin(events["kind"], (EventKind.SLEEP, EventKind.WAKE))).tolist():
        tag = int(events["requested"][place])
        sleeps = events["kind"][place] == EventKind.SLEEP
        before, asleep[tag] = asleep.get(tag, 0), int(events["nbytes"][place]) if sleeps else 0
        levels[place] = asleep[tag] - before
    return np.cumsum(levels)


def _running(count: int, *changes: tuple[Indices, Indices]) -> Indices:
    change: Indices = np.zeros(count + 1, np.int64)  # the last place takes what has no event
    for places, amounts in changes:
        np.add.at(change, places, amounts)
    return np.cumsum(change[:count])


def _reserved(events: EventArray) -> Indices:
    created = (EventKind.PAGE_CREATE, EventKind.HOST_PAGE_CREATE)
    if not np.any(np.isin(events["kind"], created)):
        # A foreign history that only tells of mappings: there, what is mapped is what is held.
        taken, given = (
            (EventKind.SEGMENT_RESERVE, EventKind.PAGE_MAP),
            (EventKind.SEGMENT_RELEASE, EventKind.PAGE_UNMAP),
        )
        return _held(events, taken, given)
    released = (EventKind.SEGMENT_RELEASE, EventKind.PAGE_RELEASE, EventKind.HOST_PAGE_RELEASE)
    return _held(events, (EventKind.SEGMENT_RESERVE, *created), released)


def _held(events: EventArray, taken: tuple[EventKind, ...], given: tuple[EventKind, ...]) -> Indices:
    sign = np.isin(events["kind"], taken).astype(np.int64) - np.isin(events["kind"], given)
    return np.cumsum(sign * events["nbytes"])
