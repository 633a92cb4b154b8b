"""The point of a cycle at which the least is alive, where a program that repeats itself comes by in each."""

from __future__ import annotations

from .constants import MARKS_KEPT
from .recurrence import Recurrence

__all__ = ["TurningPoint"]


class TurningPoint:
    """Looked for when it is asked for, followed from mark to mark, and lost where the program goes another way."""

    def __init__(self, recurrence: Recurrence) -> None:
        self._recurrence = recurrence
        self._alive: list[int] = []  # with each of the latest marks
        self._cycle = 0  # its length in marks, or 0 where no turning point is known
        self._next = 0  # the count of marks at which it is to come
        self._mark = 0  # the mark that is to come there
        self._times = 0  # how often it has come since it was found

    def seek(self) -> None:
        """Look for one, if none is known."""
        if self._cycle:
            return
        marks = self._recurrence.latest_cycle()
        if marks:
            alive = self._alive[-len(marks) :]
            place = alive.index(min(alive))
            self._cycle, self._mark = len(marks), marks[place]
            self._times = 0
            self._next = self._recurrence.count + place + 1

    def reached(self, mark: int, alive: int) -> int:
        """How many times in a row it has been reached, with the latest mark for the last time; 0 if that is not there.

        ``alive``: the bytes in use there.
        """
        if len(self._alive) == MARKS_KEPT:
            del self._alive[: MARKS_KEPT // 2]
        self._alive.append(alive)
        if not self._cycle or self._recurrence.count < self._next:
            return 0
        if mark != self._mark:
            self._cycle = 0
            return 0
        self._next += self._cycle
        self._times += 1
        return self._times
