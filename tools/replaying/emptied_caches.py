"""Where a history shows that all idle memory was given back at once: the program called ``empty_cache()``.

cuplug's traces say it (EMPTY_CACHE). PyTorch's histories show the segments that went, which is the same when a request
that found no memory made PyTorch give back what was idle, and try again (``release_cached_blocks``).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Container

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import EventArray

GIVEN = (EventKind.SEGMENT_RELEASE, EventKind.PAGE_UNMAP)
"""Without any of these, no cache was emptied."""
Places = npt.NDArray[np.int64]


def emptied_caches(events: EventArray, private: Container[int] = ()) -> tuple[Places, Places]:
    """Of one device's events, as PyTorch records them, those with which all that was idle had gone.

    Args:
        events: one device's, in order.
        private: the addresses of segments in private pools, which are kept.

    Returns:
        Their places, and those of them that a request which found no memory may have caused: an allocation that failed
        follows, or a new segment for which there may have been no room, since never as much was reserved.
    """
    kinds = events["kind"].tolist()
    given = np.isin(events["kind"], GIVEN)
    addresses, sizes = events["address"].tolist(), events["nbytes"].tolist()
    segments = _Segments()
    found: list[int] = []
    pressed: list[int] = []
    sign = np.isin(events["kind"], (EventKind.SEGMENT_RESERVE, EventKind.PAGE_MAP)).astype(np.int64) - given
    reserved = np.cumsum(sign * events["nbytes"])
    most = int(reserved.max())
    began = -1
    for place, kind in enumerate(kinds):
        if kind in GIVEN:
            began = place if began < 0 else began
            segments.gone(addresses[place])
            following = kinds[place + 1] if place + 1 < len(kinds) else 0
            if following in GIVEN:
                continue
            if segments.idle == 0:
                found.append(place)
                before = int(reserved[began - 1]) if began else 0
                wanted = sizes[place + 1] if following in (EventKind.SEGMENT_RESERVE, EventKind.PAGE_MAP) else 0
                if following == EventKind.OUT_OF_MEMORY or (wanted and before + wanted > most):
                    pressed.append(place)
            began = -1
        elif kind == EventKind.SEGMENT_RESERVE and addresses[place] not in private:
            segments.come(addresses[place], sizes[place])
        elif kind == EventKind.ALLOCATE:
            segments.used(addresses[place], 1)
        elif kind == EventKind.FENCE_PASSED:
            segments.used(addresses[place], -1)
    return np.array(found, np.int64), np.array(pressed, np.int64)


class _Segments:
    """How many blocks each segment has, and how many segments have none. Pages that grow are not among them: PyTorch
    gives all of these back that are idle, whenever it does."""

    def __init__(self) -> None:
        self.idle = 0
        self._starts: list[int] = []
        self._ends: dict[int, int] = {}
        self._blocks: dict[int, int] = {}

    def come(self, address: int, nbytes: int) -> None:
        self._ends[address] = address + nbytes
        if address not in self._blocks:
            insort(self._starts, address)
            self._blocks[address] = 0
            self.idle += 1

    def gone(self, address: int) -> None:
        blocks = self._blocks.pop(address, None)
        if blocks is not None:
            del self._starts[bisect_right(self._starts, address) - 1]
            self.idle -= blocks == 0

    def used(self, address: int, change: int) -> None:
        place = bisect_right(self._starts, address) - 1
        if place < 0 or address >= self._ends[self._starts[place]]:
            return
        start = self._starts[place]
        before = self._blocks[start]
        after = self._blocks[start] = before + change
        self.idle += (after == 0) - (before == 0)
