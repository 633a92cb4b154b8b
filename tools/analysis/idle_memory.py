"""What is reserved and used by no block after one event: how much, for whom it lies there, and what keeps it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.private_streams import names_pool
from ...allocators.sizes import short_size
from ...allocators.statistics import SMALL_BLOCK
from ...plugins.tracing.trace_in_memory import EventArray, Trace
from .blocks import Blocks
from .sites import NO_STACK, SiteNames

_FURTHEST, _LARGEST = 1 << 62, 1 << 53
"""Beyond these lies nothing but damage."""
_SMALL_SEGMENT = 2 << 20


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


@dataclass(frozen=True)
class Pin:
    """The segment in which most lies idle beside blocks that keep it, pages that go back apart. Sizes are bytes."""

    idle: int
    segment: int
    blocks: int
    nbytes: int
    """Of these blocks."""
    where: str
    """The call site of most of them; empty where there are no call stacks."""
    would_serve: bool = False
    """Whether the request would fit into the segment, were they not there."""

    def sentence(self) -> str:
        """What keeps it, and who asked for that."""
        many = "a block" if self.blocks == 1 else f"{self.blocks} blocks"
        where = f", asked for{' above all' * (self.blocks > 1)} at {self.where}" if self.where else ""
        told = (
            f"One segment of {short_size(self.segment)}, {short_size(self.idle)} of it unused, is pinned by {many} of "
            f"{short_size(self.nbytes)}{where}."
        )
        return f"{told} Without that, the request would fit." if self.would_serve else told


@dataclass(frozen=True)
class Unused:
    """Why what is reserved and used by no block does not serve a request. Sizes are bytes; each is counted once."""

    nbytes: int = 0
    private: int = 0
    """In private pools, such as those of CUDA graphs."""
    elsewhere: int = 0
    """In the segments of other streams."""
    streams: int = 0
    """Of how many."""
    other_kind: int = 0
    """In the segments of small blocks, for a large request; in those of large blocks, for a small one."""
    is_small: bool = False
    """Whether the request is a small one."""
    whole: list[int] = field(default_factory=list)
    """In segments that are free as a whole: their sizes, largest first."""
    pieces: list[int] = field(default_factory=list)
    """The rest: free pieces beside blocks, largest first."""
    pin: Pin | None = None

    def points(self) -> list[str]:
        """What lies where, in a clause for each."""
        kind = "large" if self.is_small else "small"
        of_streams = f"the segments of {self.streams} other stream{'s' * (self.streams > 1)}"
        return [
            *_rows(self.whole, "is a segment that is free as a whole", "are {} segments that are free as a whole"),
            *_rows(self.pieces, "lie in one piece beside blocks", "lie in {} pieces beside blocks"),
            *([f"{short_size(self.elsewhere)} lie in {of_streams}"] if self.elsewhere else []),
            *([f"{short_size(self.private)} lie in private pools"] if self.private else []),
            *([f"{short_size(self.other_kind)} lie in the segments of {kind} blocks"] if self.other_kind else []),
        ]

    def sentence(self) -> str:
        """The same as a sentence, and what keeps most of it."""
        points = self.points()
        where = f"Of {short_size(self.nbytes)} unused, {'; '.join(points)}." if points else ""
        return f"{where} {self.pin.sentence()}".strip() if self.pin is not None else where


@dataclass(frozen=True)
class _Segment:
    nbytes: int
    stream: int
    gaps: list[int]
    """Bytes free in a row: before the first block, between blocks, behind the last."""
    low: int
    high: int
    """The blocks in it, among those of ``Held``."""
    pages: int
    """Bytes of pages without any block, where pages adjoin: each of them goes back by itself."""

    @property
    def pinned(self) -> int:
        """What stays as long as the blocks do."""
        return self.free - self.pages

    @property
    def free(self) -> int:
        return sum(self.gaps)


@dataclass(frozen=True)
class Held:
    """The segments that are there after one event, pages that adjoin as one, and the blocks in them."""

    segments: list[_Segment]
    used: EventArray
    """The allocations of the blocks, by address."""
    whole: int
    """Bytes of segments, and of single pages, without any block; private pools aside, which keep what they have."""


def held_after(events: EventArray, blocks: Blocks, spans: npt.NDArray[Any], place: int) -> Held | None:
    """What is held after the event at ``place``. None where the history tells of no segments."""
    if not len(spans):
        return None
    held = spans[(spans["from"] <= place) & (spans["until"] > place)]
    held = held[np.argsort(held["address"], kind="stable")]
    there = (blocks.allocated <= place) & ((blocks.reusable > place) | (blocks.reusable < 0))
    used = events[blocks.allocated[there]]
    used = used[np.argsort(used["address"], kind="stable")]
    first = np.minimum(used["address"], _FURTHEST).astype(np.int64)
    end = first + np.clip(used["nbytes"], 0, _LARGEST)
    low = np.searchsorted(end, held["address"], side="right")
    high = np.searchsorted(first, held["address"] + held["nbytes"], side="left")
    empty = [at for at, stream in enumerate(held["stream"].tolist()) if low[at] >= high[at] and not names_pool(stream)]
    whole = int(held["nbytes"][empty].sum())
    pages = held[empty][held["paged"][empty]]
    given = np.concatenate([[0], np.cumsum(pages["nbytes"])])
    found: list[_Segment] = []
    for address, nbytes, stream in _joined(held):
        begin, stop = np.searchsorted(end, address, side="right"), np.searchsorted(first, address + nbytes, side="left")
        edges = [address, *_edges(first[begin:stop], end[begin:stop], address, address + nbytes), address + nbytes]
        gaps = [edges[at + 1] - edges[at] for at in range(0, len(edges), 2)]
        within = given[np.searchsorted(pages["address"], [address, address + nbytes])]
        found.append(_Segment(nbytes, stream, gaps, int(begin), max(int(begin), int(stop)), int(within[1] - within[0])))
    return Held(found, used, whole)


def idle_of(held: Held) -> Idle:
    """How much lies idle, and for which streams."""
    streams: Counter[int] = Counter()
    for segment in held.segments:
        streams[segment.stream] += segment.free
    ranked = {stream: free for stream, free in streams.most_common() if free}
    largest = max((gap for segment in held.segments for gap in segment.gaps), default=0)
    return Idle(sum(streams.values()), held.whole, largest, ranked)


def unused_of(trace: Trace, held: Held, stream: int, nbytes: int) -> Unused:
    """Why what lies idle does not serve a request of ``nbytes`` on ``stream`` (with its private pool's number)."""
    small = 0 < nbytes <= SMALL_BLOCK
    mine: list[_Segment] = []
    private = elsewhere = other_kind = 0
    streams: set[int] = set()
    for segment in held.segments:
        if not segment.free:
            continue
        if segment.stream == stream and (segment.nbytes == _SMALL_SEGMENT) != small:
            other_kind += segment.free
        elif segment.stream == stream:
            mine.append(segment)
        elif names_pool(segment.stream):
            private += segment.free
        else:
            elsewhere += segment.free
            streams.add(segment.stream)
    whole = sorted((one.nbytes for one in mine if one.low == one.high), reverse=True)
    pieces = sorted((gap for one in mine if one.low < one.high for gap in one.gaps if gap), reverse=True)
    total = private + elsewhere + other_kind + sum(whole) + sum(pieces)
    return Unused(
        total, private, elsewhere, len(streams), other_kind, small, whole, pieces, _pin(trace, held, mine, nbytes)
    )


def _pin(trace: Trace, held: Held, segments: Sequence[_Segment], nbytes: int) -> Pin | None:
    """Of the segment in which most lies idle beside blocks; of one that would serve the request, if there is one."""
    pinned = [one for one in segments if one.low < one.high and one.pinned]
    if not pinned:
        return None
    worst = max(pinned, key=lambda one: (one.nbytes >= nbytes > 0, one.pinned))
    inside = held.used[worst.low : worst.high]
    names = SiteNames(trace)
    sites: Counter[str] = Counter()
    for context, size in zip(inside["context"].tolist(), inside["nbytes"].tolist(), strict=True):
        sites[names.of(context)] += size
    where = sites.most_common(1)[0][0]
    return Pin(
        worst.pinned, worst.nbytes, len(inside), int(inside["nbytes"].sum()), "" if where == NO_STACK else where,
        worst.nbytes >= nbytes > 0,
    )  # fmt: skip


def _rows(sizes: Sequence[int], one: str, many: str) -> list[str]:
    """So many bytes in so many places, as a clause; none where there are none."""
    if len(sizes) < 2:
        return [f"{short_size(sizes[0])} {one}"] if sizes else []
    return [f"{short_size(sum(sizes))} {many.format(len(sizes))}, the largest of {short_size(sizes[0])}"]


def _joined(held: npt.NDArray[Any]) -> Iterator[tuple[int, int, int]]:
    """Address, bytes and stream of each segment, where pages that adjoin are one."""
    at: tuple[int, int, int] | None = None
    was_paged = False
    for address, nbytes, stream, paged in held[["address", "nbytes", "stream", "paged"]].tolist():
        if at is not None and paged and was_paged and at[0] + at[1] == address and at[2] == stream:
            at = at[0], at[1] + nbytes, stream
            continue
        if at is not None:
            yield at
        at, was_paged = (address, nbytes, stream), paged
    if at is not None:
        yield at


def _edges(first: npt.NDArray[np.int64], end: npt.NDArray[np.int64], low: int, high: int) -> list[int]:
    """Where blocks begin and end in turn, within a segment."""
    found: list[int] = []
    for begin, stop in zip(first.tolist(), end.tolist(), strict=True):
        begin, stop = max(begin, low), min(stop, high)
        if found and begin < found[-1]:
            begin = found[-1]
        found += [begin, max(stop, begin)]
    return found
