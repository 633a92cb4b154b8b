"""Tells an allocator how much may lie waste of the memory that there is."""

from __future__ import annotations

from .constants import BEYOND_PEAK, CALM_TIMES
from .recurrence import Recurrence
from .statistics import Ledger

__all__ = ["Pressure"]

_SURE = 1024
"""A share is counted in parts of this."""


class Pressure:
    """Whether memory is tight: whether what lies waste would leave too little for what the program may yet ask for.

    Waste are the free pieces of segments that are in use otherwise. They cannot be given back, and may fit nothing.

    - While at least as much is left as is held, nothing is tight. There the end of memory is not near.
    - Where it is, all that there is may lie waste but the peak of what is allocated and 1/20 of it. But who has just
      reached a new peak will often reach the next one soon. So at first no waste is allowed. It is after 48 times as
      many large blocks as had been asked for until the peak, and at once when the program has repeated itself as a
      whole since; in between, in proportion.
    """

    def __init__(self, *, applies: bool) -> None:
        """``applies``: else memory is never tight."""
        self._applies = applies
        self.is_near = False
        """Whether less is left than is held."""
        self.allocations = 0
        """How many large blocks have been asked for."""
        self.limit: int | None = None
        """The allocator's limit at the latest note, in bytes; None for none."""
        self._allowed = 0  # may be below 0: then memory is tight in any case
        self._peak = 0
        self._risen_at = 0

    def note(self, left: int, limit: int | None, ledger: Ledger, recurrence: Recurrence) -> None:
        """Find anew how much waste is allowed.

        Args:
            left: bytes that can still be taken; below 0 where a limit was lowered below what is held.
            limit: the allocator's own, in bytes; None for none.
            ledger: what is held, and what has been allocated at most.
            recurrence: what the program has asked for. The peak is noted there, too.
        """
        self.limit = limit
        peak = ledger.most_allocated
        recurrence.note_peak(peak)
        if peak > self._peak:
            self._peak, self._risen_at = peak, self.allocations
        self.is_near = self._applies and left < ledger.reserved
        if not self.is_near:
            return
        sure = (self.allocations - self._risen_at) * _SURE // (CALM_TIMES * max(self._risen_at, 1))
        if sure >= _SURE or recurrence.repetitions():
            sure = _SURE
        self._allowed = max(left + ledger.reserved - peak, 0) // _SURE * sure - peak // BEYOND_PEAK

    def is_tight(self, ledger: Ledger, more: int = 0) -> bool:
        """Whether memory is tight, or would be, did ``more`` bytes lie waste than do now."""
        return self.is_near and ledger.wasted + more > self._allowed
