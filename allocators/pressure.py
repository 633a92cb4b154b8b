"""Tells an allocator how much may lie waste of the memory that there is."""

from __future__ import annotations

from .constants import BEYOND_PEAK
from .recurrence import Recurrence
from .statistics import Ledger


class Pressure:
    """Whether memory is tight: whether what lies waste would leave too little for what the program may yet ask for.

    Waste are the free pieces of segments that are in use otherwise. They cannot be given back, and may fit nothing.

    - While at least as much is left as is held, nothing is tight. There the end of memory is not near.
    - Where it is, no waste is allowed until the program has repeated itself since its latest peak: the next one may be
      near. From then on, all that there is may lie waste but the peak of what is allocated and 1/20 of it.
    """

    def __init__(self, *, applies: bool) -> None:
        """``applies``: else memory is never tight."""
        self._applies = applies
        self.is_near = False
        """Whether less is left than is held."""
        self.limit: int | None = None
        """The allocator's limit at the latest note, in bytes; None for none."""
        self._allowed = 0  # may be below 0: then memory is tight in any case

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
        self.is_near = self._applies and left < ledger.reserved
        if self.is_near:
            self._allowed = left + ledger.reserved - peak - peak // BEYOND_PEAK if recurrence.goes_on() else -1

    def is_tight(self, ledger: Ledger, more: int = 0) -> bool:
        """Whether memory is tight, or would be, did ``more`` bytes lie waste than do now."""
        return self.is_near and ledger.wasted + more > self._allowed
