"""A replay that begins with PyTorch's segments as they were, where a history begins late.

How the free space between the blocks came about is not known, but for PyTorch's own allocator it need not be: its
segments follow from what is asked for, so that the state can be built. Each segment is asked for as a whole and freed;
then its blocks, and fillers for the gaps, are asked for in the order of their addresses, when nothing else is free; in
the end the fillers are freed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...allocators.events import EventKind
from ...allocators.statistics import SMALL_BLOCK
from ...plugins.selection import parse_selection
from ...plugins.tracing.trace_in_memory import Trace
from ..analysis.private_pools import pooled
from .program import Program

_ROUND = 512
_SMALL_SEGMENT, _LARGE_SEGMENT, _SEGMENT_STEP = 2 << 20, 10 << 20, 2 << 20


def is_pytorchs_own(allocator: str) -> bool:
    """Whether a selection stands for PyTorch's native allocator."""
    selection = parse_selection(allocator)
    return selection.name == "caching" and selection.options.get("preset") == "torch"


def as_recorded(programs: Sequence[Program], trace: Trace) -> list[Program]:
    """The programs, each beginning with its device's segments as they were. Empty if that changes none of them."""
    kinds = trace.events["kind"]
    if trace.header.source != "pytorch" or np.any((kinds == EventKind.PAGE_MAP) | (kinds == EventKind.PAGE_UNMAP)):
        return []
    found = [_from_recorded_segments(program, trace) for program in programs]
    return [new or old for new, old in zip(found, programs, strict=True)] if any(found) else []


def held_at_start(trace: Trace) -> int:
    """The most bytes of segments that one device held when the history began."""
    older = trace.events[: trace.begin]
    older = older[older["kind"] == EventKind.SEGMENT_RESERVE]
    return max(
        (int(older["nbytes"][older["device"] == device].sum()) for device in np.unique(older["device"])), default=0
    )


def _from_recorded_segments(program: Program, trace: Trace) -> Program | None:
    """The program with the steps before its history replaced by some that also build the segments around the blocks.

    None if nothing is older than the history, or if the segments are not as PyTorch's native allocator lays them out.
    """
    older = trace.events[: trace.begin]
    older = older[older["device"] == program.device]
    older = older.copy()
    older["stream"] = pooled(trace, program.device, older)
    segments = np.sort(older[older["kind"] == EventKind.SEGMENT_RESERVE], order="address")
    if not len(segments):
        return None
    count = int(np.searchsorted(program.events, trace.begin))  # steps that allocate the older blocks, by address
    numbers = program.steps[:count]
    if np.any(numbers <= 0):
        return None
    blocks = trace.events[program.events[:count]]
    places = np.searchsorted(segments["address"], blocks["address"], side="right") - 1
    build = _Build(len(program.sizes))
    done = 0
    for place, segment in enumerate(segments):
        mine = places == place
        inside = list(
            zip(
                numbers[mine].tolist(),
                blocks["address"][mine].tolist(),
                blocks["requested"][mine].tolist(),
                strict=True,
            )
        )
        done += len(inside)
        if not build.segment(int(segment["address"]), int(segment["nbytes"]), int(segment["stream"]), inside):
            return None
    if done < count:
        return None  # a block outside of all segments
    start = build.steps + [-number for number in build.fillers]
    return replace(
        program,
        steps=np.concatenate([np.array(start, np.int64), program.steps[count:]]),
        sizes=np.concatenate([program.sizes, np.array(build.sizes, np.int64)]),
        streams=np.concatenate([program.streams, np.array(build.streams, np.uint64)]),
        events=np.concatenate([np.zeros(len(start), np.int64), program.events[count:]]),
        setup=len(start),
        pressed=program.pressed - count + len(start),
    )


@dataclass(frozen=True)
class _Piece:
    first: int
    end: int
    number: int
    """The block's, or 0 for free space."""


class _Build:
    """Collects the steps."""

    def __init__(self, numbers: int) -> None:
        self.steps: list[int] = []
        self.fillers: list[int] = []
        self.sizes: list[int] = []
        self.streams: list[int] = []
        self._numbers = numbers

    def segment(self, address: int, nbytes: int, stream: int, blocks: list[tuple[int, int, int]]) -> bool:
        """Take one segment, with its blocks (number, address, requested bytes) by address. False if it cannot be."""
        small = nbytes == _SMALL_SEGMENT
        if not small and (nbytes < _LARGE_SEGMENT or nbytes % _SEGMENT_STEP):
            return False
        if any((-(-requested // _ROUND) * _ROUND <= SMALL_BLOCK) != small for _, _, requested in blocks):
            return False
        pieces = list(_pieces(address, nbytes, blocks, joined=0 if small else SMALL_BLOCK))
        if not pieces or pieces[-1].end > address + nbytes:
            return False
        if not small:
            self.steps += [whole := self._filler(nbytes, stream), -whole]
        for piece in pieces:
            if piece.number:
                self.steps.append(piece.number)
                continue
            at = piece.first
            while at < piece.end:
                size = min(piece.end - at, SMALL_BLOCK) if small else piece.end - at
                self.fillers.append(self._filler(size, stream))
                self.steps.append(self.fillers[-1])
                at += size
        return True

    def _filler(self, nbytes: int, stream: int) -> int:
        self.sizes.append(nbytes)
        self.streams.append(stream)
        return self._numbers + len(self.sizes)


def _pieces(address: int, nbytes: int, blocks: list[tuple[int, int, int]], *, joined: int) -> Iterator[_Piece]:
    """Blocks and gaps in turn. A gap of up to ``joined`` bytes behind a block was never split off, and belongs to it.

    Nothing comes if blocks overlap, or if a gap of that kind follows no block.
    """
    found: list[_Piece] = []
    at = address
    for number, first, requested in [*blocks, (0, address + nbytes, 0)]:
        gap = first - at
        if gap < 0:
            return
        if gap and (gap <= joined or gap % _ROUND):
            if not found or gap % _ROUND:
                return
        elif gap:
            found.append(_Piece(at, first, 0))
        at = first + -(-requested // _ROUND) * _ROUND
        if number:
            found.append(_Piece(first, at, number))
    yield from found
