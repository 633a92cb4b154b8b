"""Whether the segments of a PyTorch memory snapshot are the state in which its history ended.

PyTorch takes both at once. Who cuts a history out of a snapshot and leaves the segments makes a file in which they are
the state of another moment, and of no use for the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import EventArray

_Addresses = npt.NDArray[np.uint64]


def is_end_of(
    events: EventArray, live: AbstractSet[int], reserved: AbstractSet[int], segments: Iterable[dict[str, Any]]
) -> bool:
    """Whether nothing in the segments contradicts the history.

    What the history leaves behind must be in them. What is in them besides was there all the time: then the history
    reserved nothing there, and blocks came and went elsewhere.

    Args:
        events: one device's history, in order.
        live: addresses of blocks that it allocated, and whose frees it does not complete.
        reserved: addresses of segments that it reserved and did not release.
        segments: the device's segments, as in the snapshot.

    Raises:
        KeyError, TypeError, ValueError, OverflowError: they are not as PyTorch writes them.
    """
    missing_blocks, missing_segments = set(live), set(reserved)
    older_segments: list[tuple[int, int]] = []
    older_blocks: list[tuple[int, int]] = []
    for segment in segments:
        at, total = int(segment["address"]), int(segment["total_size"])
        if at in missing_segments:
            missing_segments.remove(at)
        elif not segment.get("is_expandable"):
            older_segments.append((at, total))
        for block in segment["blocks"]:
            at = int(block.get("address", at))
            nbytes = int(block["size"])
            if block["state"] != "inactive":
                if at in live:
                    missing_blocks.discard(at)
                else:
                    older_blocks.append((at, int(block.get("requested_size", nbytes))))
            at += nbytes
    if missing_blocks or missing_segments:
        return False
    kinds = events["kind"]
    of_blocks = events[np.isin(kinds, (EventKind.ALLOCATE, EventKind.FREE, EventKind.FENCE_PASSED))]
    taken = events[np.isin(kinds, (EventKind.SEGMENT_RESERVE, EventKind.PAGE_MAP))]
    whole = events[kinds == EventKind.SEGMENT_RESERVE]
    return (
        not _meet(_edges(whole["address"], whole["nbytes"]), older_segments)
        and not _meet(_edges(taken["address"], taken["nbytes"]), older_blocks)
        and not _meet(_edges(of_blocks["address"], of_blocks["requested"]), older_blocks)
    )


def older_for_sure(events: EventArray, segments: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of segments of another moment, those in which a history shows blocks, and which it did not reserve.

    They were there before it. What blocks they hold is not told: the blocks are those of the other moment.
    """
    kinds = events["kind"]
    taken = events[np.isin(kinds, (EventKind.SEGMENT_RESERVE, EventKind.PAGE_MAP))]
    reserved = _edges(taken["address"], taken["nbytes"])
    used = np.sort(events["address"][np.isin(kinds, (EventKind.ALLOCATE, EventKind.FREE, EventKind.FENCE_PASSED))])
    found = []
    for segment in segments:
        at, total = int(segment["address"]), int(segment["total_size"])
        shown = np.searchsorted(used, np.uint64(at)) < np.searchsorted(used, np.uint64(at + total))
        if shown and not segment.get("is_expandable") and not _meet(reserved, [(at, total)]):
            found.append({**segment, "blocks": []})
    return found


def _edges(first: _Addresses, nbytes: npt.NDArray[np.int64]) -> _Addresses:
    """Where the union of ranges begins and ends, in turn."""
    first, nbytes = first[nbytes > 0], nbytes[nbytes > 0]
    order = np.argsort(first, kind="stable")
    begin = first[order]
    end = np.maximum.accumulate(begin + nbytes[order].astype(np.uint64)) if len(begin) else begin
    starts = np.append(True, begin[1:] > end[:-1]) if len(begin) else np.zeros(0, np.bool_)
    last = np.append(np.flatnonzero(starts)[1:] - 1, len(begin) - 1) if len(begin) else np.zeros(0, np.int64)
    edges: _Addresses = np.stack([begin[starts], end[last]], axis=1).ravel()
    return edges


def _meet(edges: _Addresses, ranges: list[tuple[int, int]]) -> bool:
    """Whether any of the ranges (first byte, bytes) has a byte in common with the union."""
    if not ranges or not len(edges):
        return False
    first = np.array([address for address, _ in ranges], np.uint64)
    end = first + np.array([max(nbytes, 1) for _, nbytes in ranges], np.uint64)
    inside = np.searchsorted(edges, first, side="right")
    return bool(((inside % 2 == 1) | (inside != np.searchsorted(edges, end, side="left"))).any())
