"""Packs buffers whose lifetimes are known into as little memory as may be. Address arithmetic only.

A heuristic for any number of buffers places them in one order after another, each as low as it can, and changes the
order where the result is too high.
"""

from __future__ import annotations

import math
import time
from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from .core_choice import is_available

if is_available():
    from . import _native

Buffer = tuple[int, int, int]
"""From when it lives (inclusive), until when (exclusive), and its size in bytes."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Where each buffer lies. Sizes are bytes."""

    offsets: list[int]
    """In the order of the buffers. No two that live at once overlap."""
    height: int
    """The end of the highest buffer: what the packing needs."""
    bound: int
    """What no packing can do without: the most that lives at once."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search, so that this is the best until then."""


def load_peak(buffers: Sequence[Buffer]) -> int:
    """The most bytes that live at once."""
    changes = sorted(
        change
        for lower, upper, size in buffers
        if lower < upper
        for change in ((lower, size), (upper, -size))
    )  # fmt: skip
    return max(accumulate(change for _, change in changes), default=0)


def pack(
    buffers: Sequence[Buffer], *, seconds: float = 5.0, fixed: Sequence[int] | None = None, enough: int = 0
) -> Packing:
    """Pack by the heuristic, improving as long as ``seconds`` last, until the height is ``enough`` or the bound.

    Half a second is taken for the first orders in any case. Where not even one was placed in that time, the buffers are
    placed as ``place_in_time`` does, which takes about a second for a million. Ctrl-C ends the search with the best so
    far, where nothing is fixed. The result depends on the machine's speed unless the first orders suffice.

    Args:
        buffers: what to place.
        seconds: for improvements.
        fixed: an offset for each buffer that lies there in any case, -1 for the others. With it, the first orders are
            tried however long that takes.
        enough: the height in bytes at which to stop.
    """
    until = time.monotonic() + seconds
    return _Heuristic(buffers, fixed).run(until, enough)


class _Heuristic:
    """Tries orders. The best so far is in ``offsets`` and ``height``."""

    def __init__(self, buffers: Sequence[Buffer], fixed: Sequence[int] | None) -> None:
        self.buffers = buffers
        self.columns = columns_of(buffers)
        self.bound: int = _native.load_peak(*self.columns) if is_available() else load_peak(buffers)
        self.fixed = array("q", fixed if fixed is not None else [-1] * len(buffers))
        self.has_fixed = fixed is not None
        self.offsets = array("q", bytes(8 * len(buffers)))
        self.height = -1
        self.order: list[int] = []

    def run(self, until: float, enough: int) -> Packing:
        interrupted = False
        try:
            self.try_orders(until, max(enough, self.bound))
        except KeyboardInterrupt:
            if self.has_fixed:
                raise
            interrupted = True
        if self.height < 0:
            if is_available():
                self.height = _native.place_in_time(*self.columns, self.offsets)
            else:
                self.height, found = place_in_time(self.buffers)
                self.offsets = array("q", found)
        return Packing(list(self.offsets), self.height, self.bound, interrupted)

    def try_orders(self, until: float, enough: int) -> None:
        count = len(self.buffers)
        first = max(until, time.monotonic() + _LEAST_S)
        for key in ORDERS:
            if not self.has_fixed and time.monotonic() + count * _SORTING_S > first:
                return
            self.attempt(sorted(range(count), key=lambda number: key(self.buffers[number])), first)
            if self.height <= enough:
                return
        misses = 0
        while 0 <= enough < self.height and misses < _MOST_MISSES and time.monotonic() + count * _SORTING_S < until:
            misses = 0 if self.attempt(self.changed_order(misses), until) else misses + 1

    def attempt(self, order: list[int], until: float) -> bool:
        """Place in ``order``, and keep the result if it is no higher. Whether it is lower, and was found in time."""
        offsets = array("q", self.fixed)
        seconds = math.inf if self.has_fixed and self.height < 0 else until - time.monotonic()
        height = _place_buffer(*self.columns, array("q", order), offsets, seconds)
        if height is None:
            return False
        before = self.height
        if before < 0 or height <= before:
            self.offsets, self.height, self.order = offsets, height, order
        return before >= 0 and height < before

    def changed_order(self, misses: int) -> list[int]:
        """The best order, but those that lie highest come earlier: the further, the more often that did not help."""
        limit = max(self.bound, self.height - max(self.height >> 10, 1) * (1 + misses))
        high = {
            number
            for number, (at, (_, _, size)) in enumerate(zip(self.offsets, self.buffers, strict=True))
            if at + size > limit
        }
        order = self.order
        first = next(place for place, number in enumerate(order) if number in high)
        place = first * (_MOST_MISSES - misses % _MOST_MISSES) // (_MOST_MISSES + 1)
        later = [number for number in order[place:] if number not in high]
        return [*order[:place], *(number for number in order[place:] if number in high), *later]


_MOST_MISSES = 40
_SORTING_S = 1.5e-6
"""Seconds for each buffer that an order takes to be made: none is begun that could not be ended in time."""
_LEAST_S = 0.5
"""Seconds that the first orders have in any case."""
_COMPARING_S = 1e-7
"""Seconds for each pair of buffers that the specification's placing takes at most, without the core."""
ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda buffer: (-buffer[2], buffer[0] - buffer[1], buffer[0]),
    lambda buffer: (buffer[2] * (buffer[0] - buffer[1]), buffer[0]),
    lambda buffer: (buffer[0] - buffer[1], -buffer[2], buffer[0]),
)
"""Orders to begin with: by size, by size times life, by life."""


def place_in_order(
    buffers: Sequence[Buffer], order: Sequence[int], offsets: Sequence[int] | None = None
) -> tuple[int, list[int]]:
    """Place buffers one by one in ``order``, each at the lowest offset that is free throughout its life.

    Those that have an offset of zero or more in ``offsets`` lie there already. This is the specification of the native
    core's function of that name.

    Returns:
        The end of the highest, and the offset of each.
    """
    found = list(offsets) if offsets is not None else [-1] * len(buffers)
    placed = [number for number, at in enumerate(found) if at >= 0]
    for number in order:
        if found[number] >= 0:
            continue
        lower, upper, size = buffers[number]
        met = sorted(
            (found[other], found[other] + buffers[other][2])
            for other in placed
            if buffers[other][0] < upper and lower < buffers[other][1]
        )
        at = 0
        if lower < upper:
            for start, end in met:
                if start - at >= size:
                    break
                at = max(at, end)
            placed.append(number)
        found[number] = at
    ends = (found[number] + buffers[number][2] for number in placed if buffers[number][0] < buffers[number][1])
    return max(ends, default=0), found


def place_buffers(buffers: Sequence[Buffer], order: Sequence[int], offsets: Sequence[int]) -> tuple[int, list[int]]:
    """As ``place_in_order``, by the native core where it is there. An offset of -1 stands for none."""
    found = array("q", [*offsets, *[-1] * (len(buffers) - len(offsets))])
    height = _place_buffer(*columns_of(buffers), array("q", order), found, math.inf)
    assert height is not None
    return height, list(found)


def _place_buffer(
    lower: array[int], upper: array[int], size: array[int], order: array[int], offsets: array[int], seconds: float
) -> int | None:
    if is_available():
        return _native.place_in_order(lower, upper, size, order, seconds, offsets)
    if seconds < len(order) ** 2 * _COMPARING_S:
        return None
    highest, found = place_in_order(list(zip(lower, upper, size, strict=True)), order, offsets)
    offsets[:] = array("q", found)
    return highest


def place_in_time(buffers: Sequence[Buffer]) -> tuple[int, list[int]]:
    """Place buffers as an allocator does that knows no future, in n log n steps.

    They come in the order of their begins, of several at once the largest first. Each goes into the smallest gap that
    it fits into, of several the lowest, else on top of everything. This is the specification of the native core's
    function of that name.

    Returns:
        The end of the highest, and the offset of each.
    """
    offsets = [0] * len(buffers)
    begins = [number for number, (lower, upper, size) in enumerate(buffers) if lower < upper and size]
    ends = sorted(begins, key=lambda number: buffers[number][1])
    begins.sort(key=lambda number: (buffers[number][0], -buffers[number][2]))
    gaps: list[tuple[int, int]] = []  # offset and size, in order
    by_size: list[tuple[int, int]] = []
    top = highest = ended = 0

    def take(place: int) -> tuple[int, int]:
        at, size = gaps.pop(place)
        del by_size[bisect_left(by_size, (size, at))]
        return at, size

    for number in begins:
        lower, _, size = buffers[number]
        while buffers[ends[ended]][1] <= lower:
            at, freed = offsets[ends[ended]], buffers[ends[ended]][2]
            ended += 1
            place = bisect_left(gaps, (at, 0))
            if place < len(gaps) and gaps[place][0] == at + freed:
                freed += take(place)[1]
            if place and sum(gaps[place - 1]) == at:
                before, more = take(place - 1)
                at, freed = before, freed + more
            if at + freed == top:
                top = at
            else:
                insort(gaps, (at, freed))
                insort(by_size, (freed, at))
        fits = bisect_left(by_size, (size, 0))
        if fits == len(by_size):
            offsets[number] = top
            top += size
            highest = max(highest, top)
            continue
        at, room = take(bisect_left(gaps, by_size[fits][::-1]))
        offsets[number] = at
        if room > size:
            insort(gaps, (at + size, room - size))
            insort(by_size, (room - size, at + size))
    return highest, offsets


def columns_of(buffers: Sequence[Buffer]) -> tuple[array[int], array[int], array[int]]:
    """When each begins and ends to live, and its size, as the native core takes them."""
    lower, upper, size = zip(*buffers, strict=True) if buffers else ((), (), ())
    return array("q", lower), array("q", upper), array("q", size)
