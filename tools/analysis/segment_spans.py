"""Every segment and mapped page of a history, from when until when it was there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import EventArray

__all__ = ["segment_spans"]

TAKEN = (EventKind.SEGMENT_RESERVE, EventKind.PAGE_MAP)
GIVEN = (EventKind.SEGMENT_RELEASE, EventKind.PAGE_UNMAP)
_FURTHEST, _LARGEST = 1 << 62, 1 << 53
"""Beyond these lies nothing but damage."""
_SPAN = [("address", "<i8"), ("nbytes", "<i8"), ("from", "<i8"), ("until", "<i8"), ("stream", "<u8"), ("paged", "?")]


def segment_spans(events: EventArray) -> npt.NDArray[Any]:
    """Every segment and mapped page of one device: address, bytes, the events from and until which it was there, its
    stream, and whether it is a page."""
    found: list[tuple[int, int, int, int, int, bool]] = []
    live: dict[int, tuple[int, int, int, bool]] = {}
    places = np.flatnonzero(np.isin(events["kind"], TAKEN + GIVEN))
    for place, event in zip(places.tolist(), events[places], strict=True):
        address, nbytes = min(int(event["address"]), _FURTHEST), min(max(int(event["nbytes"]), 0), _LARGEST)
        if event["kind"] in TAKEN:
            live[address] = nbytes, place, int(event["stream"]), bool(event["kind"] == EventKind.PAGE_MAP)
        else:
            end = address + max(nbytes, 1)
            while address < end and address in live:  # one call may unmap several pages
                size, since, stream, paged = live.pop(address)
                found.append((address, size, since, place, stream, paged))
                address += max(size, 1)
    found += [
        (address, size, since, len(events), stream, paged) for address, (size, since, stream, paged) in live.items()
    ]
    return np.array(found, _SPAN)
