"""Every segment and mapped page of a history, from when until when it was there, and what lies idle in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...allocators.private_streams import names_pool
from ...plugins.tracing.trace_in_memory import EventArray
from .blocks import Blocks

__all__ = ["Idle", "idle_after", "segment_spans"]

TAKEN = (EventKind.SEGMENT_RESERVE, EventKind.PAGE_MAP)
GIVEN = (EventKind.SEGMENT_RELEASE, EventKind.PAGE_UNMAP)
_FURTHEST, _LARGEST = 1 << 62, 1 << 53
"""Beyond these lies nothing but damage."""
_SPAN = [("address", "<i8"), ("nbytes", "<i8"), ("from", "<i8"), ("until", "<i8"), ("stream", "<u8")]


def segment_spans(events: EventArray) -> npt.NDArray[Any]:
    """Every segment and mapped page of one device: address, bytes, the events from and until which it was there, and
    its stream."""
    found: list[tuple[int, int, int, int, int]] = []
    live: dict[int, tuple[int, int, int]] = {}
    places = np.flatnonzero(np.isin(events["kind"], TAKEN + GIVEN))
    for place, event in zip(places.tolist(), events[places], strict=True):
        address, nbytes = min(int(event["address"]), _FURTHEST), min(max(int(event["nbytes"]), 0), _LARGEST)
        if event["kind"] in TAKEN:
            live[address] = nbytes, place, int(event["stream"])
        else:
            end = address + max(nbytes, 1)
            while address < end and address in live:  # one call may unmap several pages
                size, since, stream = live.pop(address)
                found.append((address, size, since, place, stream))
                address += max(size, 1)
    found += [(address, size, since, len(events), stream) for address, (size, since, stream) in live.items()]
    return np.array(found, _SPAN)


@dataclass(frozen=True)
class Idle:
    """What is reserved and used by no block, in bytes, after one event."""

    nbytes: int = 0
    whole: int = 0
    """Of that, in segments and pages without any block: what ``empty_cache`` gives back."""
    largest: int = 0
    """The longest stretch within one segment, or adjoining pages."""
    by_stream: dict[int, int] | None = None
    """By the stream of the segments, with the number of its private pool, most first."""

    def elsewhere(self, stream: int) -> tuple[int, int]:
        """What lies idle in segments of other streams than that, and of how many; private pools aside."""
        others = [nbytes for one, nbytes in (self.by_stream or {}).items() if one != stream and not names_pool(one)]
        return sum(others), len(others)

    def in_private_pools(self) -> int:
        """What lies idle in private pools."""
        return sum(nbytes for stream, nbytes in (self.by_stream or {}).items() if names_pool(stream))


def idle_after(events: EventArray, blocks: Blocks, spans: npt.NDArray[Any], place: int) -> Idle | None:
    """What lies idle after the event at ``place``. None where the history tells of no segments."""
    held = spans[(spans["from"] <= place) & (spans["until"] > place)]
    if not len(spans):
        return None
    held = held[np.argsort(held["address"], kind="stable")]
    there = (blocks.allocated <= place) & ((blocks.reusable > place) | (blocks.reusable < 0))
    used = events[blocks.allocated[there]]
    used = used[np.argsort(used["address"], kind="stable")]
    first = np.minimum(used["address"], _FURTHEST).astype(np.int64)
    end = first + np.clip(used["nbytes"], 0, _LARGEST)
    streams: dict[int, int] = {}
    idle = whole = largest = run = 0
    before = -1
    for address, nbytes, stream in held[["address", "nbytes", "stream"]].tolist():
        low, high = np.searchsorted(end, address, side="right"), np.searchsorted(first, address + nbytes, side="left")
        edges = [address, *_edges(first[low:high], end[low:high], address, address + nbytes), address + nbytes]
        gaps = [edges[at + 1] - edges[at] for at in range(0, len(edges), 2)]
        free = sum(gaps)
        run = (run if before == address else 0) + gaps[0]
        largest = max(largest, run, *gaps)
        run, before = (run if low >= high else gaps[-1]), address + nbytes
        idle += free
        whole += nbytes if low >= high and not names_pool(stream) else 0  # a private pool keeps what it has
        streams[stream] = streams.get(stream, 0) + free
    ranked = dict(sorted(((one, free) for one, free in streams.items() if free), key=lambda item: -item[1]))
    return Idle(idle, whole, largest, ranked)


def _edges(first: npt.NDArray[np.int64], end: npt.NDArray[np.int64], low: int, high: int) -> list[int]:
    """Where blocks begin and end in turn, within a segment."""
    found: list[int] = []
    for begin, stop in zip(first.tolist(), end.tolist(), strict=True):
        begin, stop = max(begin, low), min(stop, high)
        if found and begin < found[-1]:
            begin = found[-1]
        found += [begin, max(stop, begin)]
    return found
