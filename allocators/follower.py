"""Where a program is in the cycle of its plan, and what lies in the cycle's range."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

from .constants import WINDOW
from .planning import UNPLANNED, Cycle
from .spans import LIVE, Space, Span

_Windows = dict[tuple[int, ...], int]


class Follower:
    """Where a stream's program is in its cycle, and what lies in the cycle's range."""

    def __init__(self, cycle: Cycle, windows: _Windows | None = None, *, trials: int = 0) -> None:
        """``windows``: of the follower before, whose place is lost. Without, the next request is the first.
        ``trials``: how often the cycle has to be followed before it is believed that it repeats."""
        from_start = windows is None
        self.cycle = cycle
        self.windows = _windows(cycle) if windows is None else windows
        self.space: Space | None = None
        """The range's, once it has been reserved."""
        self._next: int | None = 0 if from_start else None
        """The place in the plan of the request that is expected; None where that is unknown."""
        self._lacking = 0 if from_start else len(cycle.sizes) - cycle.begin
        """How many requests in a row have still to agree before the plan is served."""
        self._strange = 0
        """How many in a row have not agreed."""
        self._to_prove = trials * len(cycle.sizes)
        """How many requests have still to agree before the cycle is believed."""
        self.is_refuted = False
        """Whether the program has left the cycle before that: it was a part of something larger."""
        self._last: deque[int] = deque(maxlen=WINDOW)
        self._addresses: list[int] = []
        self._spans: dict[int, Span] = {}

    def range_bytes(self, granularity: int) -> int:
        """The size of the range."""
        return -(-self.cycle.height // granularity) * granularity

    @property
    def follows(self) -> bool:
        """Whether the program follows the plan, as far as is known."""
        return self._next is not None and not self._lacking

    def propose(self, nbytes: int) -> int:
        """The offset that the plan has for the next request; ``UNPLANNED`` for none. Changes nothing."""
        place = self._next
        if place is None or self._lacking or self.cycle.sizes[place] != nbytes:
            return UNPLANNED
        return self.cycle.offsets[place]

    def has_served(self, nbytes: int) -> None:
        """The request has been served, as proposed or elsewhere: go on behind it."""
        self._last.append(nbytes)
        place, sizes = self._next, self.cycle.sizes
        if place is not None and sizes[place] == nbytes:
            self._next = place + 1 if place + 1 < len(sizes) else self.cycle.begin
            self._lacking = max(self._lacking - 1, 0)
            self._to_prove = max(self._to_prove - 1, 0)
            self._strange = 0
            return
        self._strange += 1
        found = self.windows.get(tuple(self._last)) if len(self._last) == WINDOW else None
        if (place is not None and place < self.cycle.begin and self._strange >= WINDOW) or self._lacking:
            self._lacking = len(sizes) - self.cycle.begin  # it is another program, as far as is known
        if found is not None:
            self._next, self._strange = found, 0
        elif self._strange >= WINDOW:
            self._next = None
        else:
            return
        self.is_refuted = self._to_prove > 0

    # --- what lies in the range

    def begins(self, space: Space) -> None:
        """The range is in ``space``, with what lies there."""
        spans = [span for part in space.ranges.values() for span in part.spans() if span.kind == LIVE]
        self._spans = {span.address: span for span in spans}
        self._addresses = sorted(self._spans)
        self.space = space

    def between_blocks(self, address: int, nbytes: int) -> list[Span] | None:
        """The spans between the live blocks around these bytes; None if one lies within them."""
        assert self.space is not None
        after = bisect_left(self._addresses, address)
        if after < len(self._addresses) and self._addresses[after] < address + nbytes:
            return None
        before = self._spans[self._addresses[after - 1]] if after else None
        if before is not None and before.end > address:
            return None
        span = before.after if before is not None else next(iter(self.space.ranges.values())).first
        found = []
        while span is not None and span.kind != LIVE:
            found.append(span)
            span = span.after
        return found

    def lies(self, span: Span) -> None:
        """A block has been laid in the range."""
        self._spans[span.address] = span
        insort(self._addresses, span.address)

    def gone(self, address: int) -> None:
        """The block at ``address`` is leaving the range."""
        del self._spans[address]
        del self._addresses[bisect_left(self._addresses, address)]


def _windows(cycle: Cycle) -> _Windows:
    """Behind which requests in a row which place in the cycle comes; of several places, the first."""
    sizes = cycle.sizes[cycle.begin :]
    count = len(sizes)
    repeated = sizes * (WINDOW // count + 2)
    found: _Windows = {}
    for place in range(count):
        found.setdefault(tuple(repeated[place : place + WINDOW]), cycle.begin + (place + WINDOW) % count)
    return found
