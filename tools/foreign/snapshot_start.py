"""What a PyTorch memory snapshot says of the time before its history begins.

The history is a window: PyTorch keeps the last ``max_entries`` events, and none from before it was asked to record.
The segments are the state at the window's end. What is in the state and never came about in the window, and what the
window sees freed, released or unmapped and never saw taken, was there when it began.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import EVENT_DTYPE, EventArray
from .snapshot_end import is_end_of, older_for_sure

_ROUND = 512


def state_before(
    events: EventArray, segments: Iterable[dict[str, Any]], device: int, stack: Callable[[Any], int]
) -> tuple[EventArray, bool]:
    """The events that build up what was there on a device before the first of ``events``.

    Segments and mapped ranges come first, then blocks in the order of their addresses; where one waited for streams,
    its free follows it. All have the time of the first event.

    Segments that contradict the history are of another moment than its end, such as those of a file whose events were
    cut and whose segments were left: what was there before is then what the history shows.

    Args:
        events: the device's history, in order.
        segments: the device's segments at its end, as in the snapshot.
        device: its ordinal.
        stack: gives the number of a block's or a segment's call stack.

    Returns:
        The events, and whether the segments were used, or there were none.

    Raises:
        KeyError, TypeError, ValueError, OverflowError: the segments are not as PyTorch writes them.
    """
    history = events[["kind", "address", "nbytes", "requested", "stream"]].tolist()
    state = _followed(history)
    held = list(segments)
    fits = not held or is_end_of(events, set(state.blocks), state.segments, held)
    for segment in held:
        state.meet(segment, stack)  # also where it is of another moment: what is damaged is said
    if not fits:
        state = _followed(history)
        for segment in older_for_sure(events, held):
            state.meet(segment, stack)
    rows = state.rows()
    started = np.zeros(len(rows), EVENT_DTYPE)
    for name, column in zip(_FIELDS, zip(*rows, strict=True), strict=False):
        started[name] = column
    started["device"] = device
    started["time"] = events["time"][0] if len(events) else 0
    return started, fits


def _followed(history: Iterable[tuple[int, int, int, int, int]]) -> _State:
    state = _State()
    for event in history:
        state.follow(*event)
    return state


_FIELDS = ("kind", "address", "nbytes", "requested", "stream", "context")
_Row = tuple[int, int, int, int, int, int]


@dataclass
class _State:
    """Follows a history forwards, and notes what it takes for granted."""

    blocks: dict[int, bool] = field(default_factory=dict)
    """By address, what the history has allocated and not yet given back; whether it waits for streams."""
    segments: set[int] = field(default_factory=set)
    mapped: _Ranges = field(default_factory=lambda: _Ranges())
    older_blocks: dict[int, tuple[_Row, bool]] = field(default_factory=dict)
    """By address, blocks from before the history, and whether they waited for streams when it began."""
    older_segments: dict[int, _Row] = field(default_factory=dict)
    older_pages: list[tuple[int, int, int]] = field(default_factory=list)
    """First byte, end and stream of ranges that were mapped before the history."""
    cuts: set[int] = field(default_factory=set)
    """Where the history's own ranges begin and end: an older range is cut there, for each to be met whole."""

    def follow(self, kind: int, address: int, nbytes: int, requested: int, stream: int) -> None:
        """Take one event of the history."""
        if kind == EventKind.ALLOCATE:
            self.blocks[address] = False
        elif kind == EventKind.FREE:
            if address not in self.blocks:
                self._older(address, nbytes, requested, stream, 0, waiting=False)
            self.blocks[address] = True
        elif kind == EventKind.FENCE_PASSED:
            if address not in self.blocks:
                self._older(address, nbytes, requested, stream, 0, waiting=True)
            self.blocks.pop(address, None)
        elif kind == EventKind.SEGMENT_RESERVE:
            self.segments.add(address)
        elif kind == EventKind.SEGMENT_RELEASE:
            if address not in self.segments:
                row = (int(EventKind.SEGMENT_RESERVE), address, nbytes, nbytes, stream, 0)
                self.older_segments.setdefault(address, row)
            self.segments.discard(address)
        elif kind in (EventKind.PAGE_MAP, EventKind.PAGE_UNMAP):
            self.cuts |= {address, address + nbytes}
            if kind == EventKind.PAGE_MAP:
                self.mapped.add(address, address + nbytes)
            else:
                self.older_pages += [
                    (first, end, stream) for first, end in self.mapped.missing(address, address + nbytes)
                ]
                self.mapped.remove(address, address + nbytes)

    def meet(self, segment: dict[str, Any], stack: Callable[[Any], int]) -> None:
        """Take one segment of the state at the end."""
        address, total, stream = int(segment["address"]), int(segment["total_size"]), int(segment["stream"])
        if segment.get("is_expandable"):
            self.older_pages += [(first, end, stream) for first, end in self.mapped.missing(address, address + total)]
        elif address not in self.segments and address not in self.older_segments:
            context = stack(segment.get("frames"))
            self.older_segments[address] = (
                int(EventKind.SEGMENT_RESERVE), address, total, total, stream, context,
            )  # fmt: skip
        at = address
        for block in segment["blocks"]:
            at = int(block.get("address", at))
            nbytes, state = int(block["size"]), block["state"]
            if state != "inactive" and at not in self.blocks:
                requested = int(block.get("requested_size", nbytes))
                rounded = -(-requested // _ROUND) * _ROUND
                waiting = state != "active_allocated"
                self._older(at, rounded, requested, stream, stack(_frames_of(block)), waiting=waiting)
            at += nbytes

    def rows(self) -> list[_Row]:
        """The fields of the events, in order."""
        found = sorted(self.older_segments.values(), key=lambda row: row[1])
        cuts = sorted(self.cuts)
        for first, end, stream in sorted(self.older_pages):
            inside = cuts[bisect_right(cuts, first) : bisect_left(cuts, end)]
            edges = [first, *inside, end]
            found += [(int(EventKind.PAGE_MAP), begin, until - begin, 0, stream, 0) for begin, until in pairwise(edges)]
        for _, (row, waiting) in sorted(self.older_blocks.items()):
            found.append(row)
            if waiting:
                found.append((int(EventKind.FREE), *row[1:5], 0))
        return found

    def _older(self, address: int, nbytes: int, requested: int, stream: int, context: int, *, waiting: bool) -> None:
        row = (int(EventKind.ALLOCATE), address, nbytes, requested, stream, context)
        self.older_blocks.setdefault(address, (row, waiting))


def _frames_of(block: dict[str, Any]) -> Any:
    if block.get("frames"):
        return block["frames"]
    history = block.get("history")  # before PyTorch 2.1
    return history[0].get("frames") if isinstance(history, list) and history else None


class _Ranges:
    """Disjoint ranges of addresses."""

    def __init__(self) -> None:
        self._edges: list[int] = []  # beginnings and ends in turn

    def add(self, first: int, end: int) -> None:
        """Put a range in."""
        self._set(first, end, inside=True)

    def remove(self, first: int, end: int) -> None:
        """Take a range out."""
        self._set(first, end, inside=False)

    def missing(self, first: int, end: int) -> list[tuple[int, int]]:
        """The parts of a range that are not in."""
        edges = self._edges[bisect_right(self._edges, first) : bisect_left(self._edges, end)]
        if not bisect_right(self._edges, first) % 2:
            edges = [first, *edges]
        if len(edges) % 2:
            edges = [*edges, end]
        return [(edges[at], edges[at + 1]) for at in range(0, len(edges), 2) if edges[at] < edges[at + 1]]

    def _set(self, first: int, end: int, *, inside: bool) -> None:
        if first >= end:
            return
        left, right = bisect_left(self._edges, first), bisect_right(self._edges, end)
        edges = []
        if (left % 2 == 0) == inside:
            edges.append(first)
        if (right % 2 == 0) == inside:
            edges.append(end)
        self._edges[left:right] = edges
