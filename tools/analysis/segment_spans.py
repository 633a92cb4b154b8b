"""Every segment and mapped page of a history, from when until when it was there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import EventArray

TAKEN = (EventKind.SEGMENT_RESERVE, EventKind.PAGE_MAP)
GIVEN = (EventKind.SEGMENT_RELEASE, EventKind.PAGE_UNMAP)
_OF_HOST = (EventKind.HOST_PAGE_CREATE, EventKind.HOST_PAGE_RELEASE)
_FURTHEST, _LARGEST = 1 << 62, 1 << 53
"""Beyond these lies nothing but damage."""
_MOST_CUT = 1 << 40
_SPAN = [("address", "<i8"), ("nbytes", "<i8"), ("from", "<i8"), ("until", "<i8"), ("stream", "<u8"), ("paged", "?"),
         ("host", "?")]  # fmt: skip


def segment_spans(events: EventArray) -> npt.NDArray[Any]:
    """Every segment and mapped page of one device: address, bytes, the events from and until which it was there, its
    stream, whether it is a page, and whether it is a page of the host."""
    found: list[tuple[int, int, int, int, int, bool, bool]] = []
    live: dict[int, tuple[int, int, int, bool, bool]] = {}
    on_host: set[int] = set()  # handles of pages, which creations have in place of addresses
    places = np.flatnonzero(np.isin(events["kind"], TAKEN + GIVEN + _OF_HOST))
    for place, event in zip(places.tolist(), events[places], strict=True):
        if event["kind"] in _OF_HOST:
            change = on_host.add if event["kind"] == EventKind.HOST_PAGE_CREATE else on_host.discard
            change(int(event["address"]))
            continue
        address, nbytes = min(int(event["address"]), _FURTHEST), min(max(int(event["nbytes"]), 0), _LARGEST)
        if event["kind"] in TAKEN:
            paged = bool(event["kind"] == EventKind.PAGE_MAP)
            host = paged and int(event["requested"]) in on_host
            page = _page_of(nbytes) if paged and not event["requested"] else max(nbytes, 1)
            for at in range(address, address + max(nbytes, 1), page):
                live[at] = min(page, nbytes), place, int(event["stream"]), paged, host
        else:
            end = address + max(nbytes, 1)
            while address < end and address in live:  # one call may unmap several pages
                size, since, stream, paged, host = live.pop(address)
                found.append((address, size, since, place, stream, paged, host))
                address += max(size, 1)
    found += [
        (address, size, since, len(events), stream, paged, host)
        for address, (size, since, stream, paged, host) in live.items()
    ]
    return np.array(found, _SPAN)


def _page_of(nbytes: int) -> int:
    """The bytes of one page, where a history tells only of ranges (PyTorch's): its pages of large blocks have 20 MiB,
    those of small ones 2 MiB (``kLargeBuffer``, ``kSmallBuffer``). Beyond what any device has nothing is cut."""
    page = next((one for one in (20 << 20, 2 << 20) if not nbytes % one), 0)
    return page if page and nbytes <= _MOST_CUT else max(nbytes, 1)
