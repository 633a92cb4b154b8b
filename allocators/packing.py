"""Packs buffers whose lifetimes are known into as little memory as may be. Address arithmetic only.

A heuristic for any number of buffers places them in one order after another, each as low as it can, and changes the
order where the result is too high.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from .core_choice import is_available

__all__ = [
    "ORDERS",
    "Buffer",
    "Packing",
    "columns_of",
    "load_peak",
    "pack",
    "place_buffers",
    "place_in_order",
]

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

    The first orders are tried however long that takes. The result depends on the machine's speed unless that suffices.

    Args:
        buffers: what to place.
        seconds: for improvements.
        fixed: an offset for each buffer that lies there in any case, -1 for the others.
        enough: the height in bytes at which to stop.
    """
    return _Heuristic(buffers, fixed).run(time.monotonic() + seconds, enough)


class _Heuristic:
    """Tries orders. The best so far is in ``offsets`` and ``height``."""

    def __init__(self, buffers: Sequence[Buffer], fixed: Sequence[int] | None) -> None:
        self.buffers = buffers
        self.bound = load_peak(buffers)
        self.fixed = array("q", fixed if fixed is not None else [-1] * len(buffers))
        self.columns = columns_of(buffers)
        self.offsets = array("q")
        self.height = -1
        self.order: list[int] = []

    def run(self, until: float, enough: int) -> Packing:
        enough = max(enough, self.bound)
        for key in ORDERS:
            self.attempt(sorted(range(len(self.buffers)), key=lambda number: key(self.buffers[number])))
            if self.height <= enough:
                break
        misses = 0
        while self.height > enough and misses < _MOST_MISSES and time.monotonic() < until:
            misses = 0 if self.attempt(self.changed_order(misses)) else misses + 1
        return Packing(list(self.offsets), self.height, self.bound)

    def attempt(self, order: list[int]) -> bool:
        """Place in ``order``, and keep the result if it is no higher. Whether it is lower."""
        offsets = array("q", self.fixed)
        height = _place_buffer(*self.columns, array("q", order), offsets)
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
    height = _place_buffer(*columns_of(buffers), array("q", order), found)
    return height, list(found)


def _place_buffer(
    lower: array[int], upper: array[int], size: array[int], order: array[int], offsets: array[int]
) -> int:
    if is_available():
        from . import _native

        height: int = _native.place_in_order(lower, upper, size, order, offsets)
        return height
    highest, found = place_in_order(list(zip(lower, upper, size, strict=True)), order, offsets)
    offsets[:] = array("q", found)
    return highest


def columns_of(buffers: Sequence[Buffer]) -> tuple[array[int], array[int], array[int]]:
    """When each begins and ends to live, and its size, as the native core takes them."""
    lower, upper, size = zip(*buffers, strict=True) if buffers else ((), (), ())
    return array("q", lower), array("q", upper), array("q", size)
