"""Tells whether a program asks for the same sizes in the same order again, and which addresses pages left meanwhile.

Nothing here is kept for each request: about one in 32 leaves a mark, chosen by the sizes asked for up to there. So what
repeats leaves the same marks again.
"""

from __future__ import annotations

from collections.abc import Callable

from .planning import find_cycle

__all__ = ["FACTOR", "HIGHEST_MARK", "Recurrence"]

FACTOR, HIGHEST_MARK = 0x9E3779B97F4A7C15, 1 << 59
"""The allocator keeps a sum of 64 bits, which each request doubles before its bytes times the factor are added: what
was asked for more than some 50 requests ago has been shifted out. Where the sum is below the latter, it is a mark."""
_MOST_MARKS, _MOST_LEFT = 4096, 256


class Recurrence:
    """Marks of the latest requests, up to 4096, and the latest 256 pages that left their addresses.

    Where either is full, the older half is forgotten.
    """

    def __init__(self) -> None:
        self.count = 0
        """How many marks there have been."""
        self.settled = 0
        """Bytes that the allocator has granted a program beyond its rules, to let it come to rest."""
        self._started = 0  # how many there were when a cycle may first have begun
        self._marks: list[int] = []
        self._left: list[tuple[int, int, int]] = []  # how many marks there were, address, bytes
        self._looked_at = 0
        self._cycle = 0

    def mark(self, mark: int) -> None:
        """Note a mark."""
        if len(self._marks) == _MOST_MARKS:
            del self._marks[: _MOST_MARKS // 2]
        self._marks.append(mark)
        self.count += 1

    def start(self) -> None:
        """Let no cycle begin before this moment."""
        self._started = self.count

    def left(self, address: int, nbytes: int) -> None:
        """Note that a page has left an address."""
        if len(self._left) == _MOST_LEFT:
            del self._left[: _MOST_LEFT // 2]
        self._left.append((self.count, address, nbytes))

    def repeats(self) -> bool:
        """Whether the latest requests have come twice, in the same order, the second time since the latest start."""
        cycle = self._latest_cycle()
        return cycle > 0 and self.count - cycle >= self._started

    def left_behind(self, granularity: int, is_mapped: Callable[[int], bool]) -> int | None:
        """The bytes of all addresses that pages have left within the latest cycle and where none is mapped now.

        With so much more memory, no page would have had to move in it. ``is_mapped`` tells of an address.

        Returns:
            None if nothing repeats, or if more pages have left within the cycle than are known.
        """
        since = self.count - self._latest_cycle()
        if not self.repeats() or (len(self._left) >= _MOST_LEFT // 2 and self._left[0][0] >= since):
            return None
        places = {
            at
            for count, address, nbytes in self._left
            if count >= since
            for at in range(address, address + nbytes, granularity)
        }
        return sum(granularity for at in places if not is_mapped(at))

    def _latest_cycle(self) -> int:
        """How many marks the cycle has that has come twice of late; 0 for none."""
        if self._looked_at != self.count:
            found = find_cycle(self._marks)
            self._cycle = 0 if found is None else found[1]
            self._looked_at = self.count
        return self._cycle
