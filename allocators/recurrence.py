"""Tells whether a program asks for the same sizes in the same order again.

Nothing here is kept for each request: about one in 32 leaves a mark, chosen by the sizes asked for up to there. So what
repeats leaves the same marks again. Frees play no part: memory that other streams have used is free when the device has
done their work, sooner or later each time.
"""

from __future__ import annotations

from .constants import LEAST_CYCLE, MARK_BITS, MOST_RECORDED
from .planning import find_cycle_and_larger

FACTOR, HIGHEST_MARK = 0x9E3779B97F4A7C15, 1 << 64 - MARK_BITS
"""The allocator keeps a sum of 64 bits, which each request doubles before its bytes times the factor are added: what
was asked for more than some 50 requests ago has been shifted out. Where the sum is below the latter, it is a mark."""

_MOST_MARKS = MOST_RECORDED >> MARK_BITS
"""As many as so many requests leave on average."""

_WITHOUT_MARKS = 2 * LEAST_CYCLE << MARK_BITS
"""So many requests, 512, leave 16 marks on average. Where they leave none, the same few requests come again and again:
by chance that is seen once in some ten million times."""


class Recurrence:
    """Marks of the latest requests, up to 8192. Where there are so many, the older half is forgotten."""

    def __init__(self) -> None:
        self.count = 0
        """How many marks there have been."""
        self.requests = 0
        """How many requests there have been. Whoever asks ``goes_on`` counts them."""
        self.peak = 0
        """The most bytes in use at once, as far as they were noted. Whoever finds that what was to come on top failed
        puts it back; cycles still begin after that moment."""
        self._started = 0  # how many there were when a cycle may first have begun
        self._started_requests = 0
        self._marks: list[int] = []
        self._looked_at = 0
        self._cycle = self._larger = 0

    def mark(self, mark: int) -> None:
        """Note a mark."""
        if len(self._marks) == _MOST_MARKS:
            del self._marks[: _MOST_MARKS // 2]
        self._marks.append(mark)
        self.count += 1

    def note_peak(self, nbytes: int) -> None:
        """Start anew where ``nbytes`` in use at once are more than before: let no cycle begin before this moment."""
        if nbytes > self.peak:
            self.peak, self._started, self._started_requests = nbytes, self.count, self.requests

    def repeats(self) -> bool:
        """Whether the latest requests have come twice, in the same order, the second time since the latest start."""
        self._look()
        return self._cycle > 0 and self.count - self._cycle >= self._started

    def repeats_as_a_whole(self) -> bool:
        """The same, and what repeats is no part of something larger that has come but once."""
        return self.repeats() and not self._larger

    def has_repeated(self) -> bool:
        """Whether the program has gone on for a whole cycle, of 8 marks at least, since the latest start.

        Shorter ones do not count: before the first iteration is at its end, layers that are alike repeat.
        """
        return self.repeats_as_a_whole() and self.count - self._started >= self._cycle >= LEAST_CYCLE

    def goes_on(self) -> bool:
        """Whether it has repeated, or lasts, or has left no mark for as long: short cycles that last are iterations."""
        if self.count == self._started:
            return self.requests - self._started_requests >= _WITHOUT_MARKS
        return self.has_repeated() or self.lasts()

    def lasts(self) -> bool:
        """Whether the program has gone on like this for two cycles since the latest start; for longer, if short.

        That is 16 marks, some 500 large blocks, at least.
        """
        return self.repeats_as_a_whole() and self.count - self._started >= 2 * max(self._cycle, LEAST_CYCLE)

    def _look(self) -> None:
        """Find the cycle that has come twice of late, and what it is a part of: how many marks each has, 0 for none."""
        if self._looked_at != self.count:
            self._cycle, self._larger = find_cycle_and_larger(self._marks)
            self._looked_at = self.count
