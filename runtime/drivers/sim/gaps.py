"""Free pieces of an address space."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator


class Gaps:
    """The free pieces of an address space, in order. The smallest that fits is taken, the lowest of equal ones.

    Neighbours merge when they are given back, but not across multiples of ``border`` (0: none), so that a small
    piece never spans two physical pages.
    """

    def __init__(self, *, border: int = 0) -> None:
        self._border = border
        self._end: dict[int, int] = {}  # of a gap, by its start
        self._start: dict[int, int] = {}  # and the reverse
        self._by_size: list[tuple[int, int]] = []

    def take(self, nbytes: int) -> int | None:
        """The address of ``nbytes`` bytes that are no longer free, or None where no piece is that large."""
        position = bisect_left(self._by_size, (nbytes, 0))
        if position == len(self._by_size):
            return None
        _, start = self._by_size.pop(position)
        end = self._end.pop(start)
        del self._start[end]
        if end - start > nbytes:
            self._add(start + nbytes, end)
        return start

    def give(self, address: int, nbytes: int) -> tuple[int, int]:
        """Make a piece free, and return the start and size of the gap that it is now part of."""
        start, end = address, address + nbytes
        if self._mergeable(start) and start in self._start:
            before = self._start[start]
            self._remove(before, start)
            start = before
        if self._mergeable(end) and end in self._end:
            after = self._end[end]
            self._remove(end, after)
            end = after
        self._add(start, end)
        return start, end - start

    def withdraw(self, address: int, nbytes: int) -> None:
        """Remove exactly this gap."""
        self._remove(address, address + nbytes)

    def _mergeable(self, address: int) -> bool:
        return not self._border or address % self._border != 0

    def _add(self, start: int, end: int) -> None:
        self._end[start] = end
        self._start[end] = start
        insort(self._by_size, (end - start, start))

    def _remove(self, start: int, end: int) -> None:
        del self._end[start], self._start[end]
        del self._by_size[bisect_left(self._by_size, (end - start, start))]


def free_pieces(start: int, end: int, used: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Address and size of what lies between ``start`` and ``end`` and in none of the pieces ``used`` (address and size,
    in any order; they do not overlap)."""
    for address, nbytes in sorted(used):
        if address > start:
            yield start, address - start
        start = address + nbytes
    if end > start:
        yield start, end - start


def round_up(nbytes: int, multiple: int) -> int:
    """The smallest multiple that is not below ``nbytes``."""
    return -(-nbytes // multiple) * multiple
