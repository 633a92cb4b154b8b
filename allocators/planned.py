"""``planned``: a program that repeats itself gets the places that were worked out for it beforehand.

What holds between any two operations (the tests check each), beside what ``expandable`` promises:

1. The plan only proposes an address. A block is laid there if that part of the range is free at that moment, by the
   same records as all other memory; otherwise ``expandable`` serves it. So no two live blocks overlap, whatever the
   program does and whatever the plan says.
2. Each range belongs to one stream, and everything in it is reused in that stream's order alone.
3. A follower's position moves only when a request has been served, so that a request that is tried again is the same.
4. What a range has mapped is not moved elsewhere while the program follows the plan; under want of memory
   (``_release_cached``) it is given back where it is free. It is mapped again where the plan needs it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from .block import Block
from .errors import DriverError, OutOfMemoryError
from .expandable import ExpandableAllocator
from .planning import UNPLANNED, Cycle, Plan
from .spans import FREE, LIVE, Opening, Range, Space, Span
from .tags import UNTAGGED, here
from .upstream import Upstream

__all__ = ["PlannedAllocator", "Served", "device_of"]

_MIB = 1 << 20
_WINDOW = 16
"""So many requests in a row tell where in its cycle a program is."""
_Windows = dict[tuple[int, ...], int]
_PATIENCE = 16
"""So many requests in a row may be none of the plan's before the place in the cycle is given up."""


@dataclass(slots=True)
class Served:
    """How much of a run a plan has served. Sizes are bytes."""

    requests: int = 0
    requested_bytes: int = 0
    """What was asked for, on any stream, planned or not."""
    planned_requests: int = 0
    planned_bytes: int = 0
    """Of that, what lay where the plan says."""


class PlannedAllocator(ExpandableAllocator):
    """Serves requests that follow a plan at the plan's addresses, and all others as ``expandable`` does.

    A plan comes from a recorded run (``cuplug-trace plan run.cuplug -o run.plan``). It knows the requests of a run from
    the first on to the end of one iteration, in order, and has packed their blocks into one range, nearly as small as
    what lives at once. The range is reserved and mapped as a whole when the plan's first block is asked for, and what
    follows costs no call of the driver.

    A request that differs from the plan's next is served elsewhere, at once, and the plan goes on with the next that
    agrees, or wherever in the iteration 16 in a row are recognised again. A program that begins otherwise than the
    recorded one is served once a whole iteration has agreed. What outlives an iteration, such as weights, is no part of
    the plan.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        plan: Annotated[str, "the file that cuplug-trace plan wrote"],
        memory_limit: Annotated[int | None, "reserve at most this many bytes; more counts as out of memory"] = None,
        slack: Annotated[int, "bytes to reserve beyond the peak of what was in use, before pages move"] = 48 * _MIB,
    ) -> None:
        """Over ``upstream``, by the plan in the file ``plan``. The other options are those of ``expandable``.

        Raises:
            CuplugError: the file cannot be read, or is no plan of this version.
            DriverError: ``CUDA_ERROR_NOT_SUPPORTED``: the device or the installation lacks virtual memory.
            ValueError: ``slack`` is negative.
        """
        super().__init__(upstream, memory_limit=memory_limit, slack=slack)
        cycles = Plan.read(plan).cycles
        device = device_of(upstream)
        self._followers = {cycle.stream: _Follower(cycle) for cycle in cycles if cycle.device == device}
        self._served = Served()
        self._gives_up_ranges = False

    def served(self) -> Served:
        """How much of what was asked for the plan has served up to now."""
        return self._operate(self._copy_served)

    def _copy_served(self) -> Served:
        counted = self._served
        return Served(
            counted.requests, counted.requested_bytes, counted.planned_requests, counted.planned_bytes
        )  # fmt: skip

    # --- allocation and free

    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        follower = self._followers.get(stream)
        offset = UNPLANNED if follower is None or here.tag != UNTAGGED else follower.propose(nbytes)
        span = None
        if follower is not None and offset != UNPLANNED:
            self._allocations += 1
            self._allocated_bytes += nbytes
            span = self._span_at(follower, offset, nbytes)
        if span is None:
            block = super()._allocate(requested, nbytes, stream)
        else:
            block = Block(self, span.address, nbytes, requested, stream)
            block.place = span
        if follower is not None:
            follower.has_served(nbytes)
        self._served.requests += 1
        self._served.requested_bytes += requested
        if span is not None:
            self._served.planned_requests += 1
            self._served.planned_bytes += requested
        return block

    def _free(self, block: Block) -> None:
        follower = self._followers.get(block.stream)
        if follower is not None and block.place.range.space is follower.space:
            follower.gone(block.address)
        super()._free(block)

    # --- the ranges of the plan

    def _span_at(self, follower: _Follower, offset: int, nbytes: int) -> Span | None:
        """Take ``nbytes`` at ``offset`` in the follower's range as a block; None if they are not to be had."""
        try:
            if follower.space is None or not follower.space.ranges:
                self._map_range(follower)
            space = follower.space
            assert space is not None
            address = next(iter(space.ranges)) + offset
            found = follower.between_blocks(address, nbytes)
            if found is None:
                return None
            first = next(span for span in found if span.end > address)
            if first.kind == FREE and first.end >= address + nbytes:
                span = space.take_at(first, address, nbytes)
            else:
                opening = Opening(address, nbytes, space.missing(found, address, address + nbytes), 0)
                span = self._fill(space, opening, self._creatable(nbytes))
                span = space.take_at(span, address, nbytes)
        except (OutOfMemoryError, DriverError):
            return None  # as without a plan: what is short or out of order shows there
        follower.lies(span)
        return span

    def _map_range(self, follower: _Follower) -> None:
        """Reserve a follower's range and map it as a whole, if there is memory for that; else piece by piece, later."""
        stream, nbytes = follower.cycle.stream, follower.range_bytes(self._granularity)
        space = follower.space
        if space is None:
            space = Space(self._ledger, stream, self._stamps_of(stream), self._granularity, small=False)
            self._spaces[stream, None, UNTAGGED] = space
            follower.begins(space)
        made = Range(nbytes, space)
        self._ranges.append(made)
        try:
            made.address = self._pages.virtual.reserve_range(nbytes)
        except (DriverError, OutOfMemoryError):
            self._ranges.remove(made)
            raise
        space.add(made)
        whole = Opening(made.address, nbytes, [(made.first, made.address, made.address + nbytes)], nbytes)
        self._fill(space, whole, self._creatable(nbytes))

    def _movable_spaces(self) -> Iterator[Space]:
        followers = [] if self._gives_up_ranges else self._followers.values()
        mine = [follower.space for follower in followers if follower.follows]
        yield from (space for space in super()._movable_spaces() if not any(space is one for one in mine))

    def _release_cached(self) -> int:
        self._gives_up_ranges = True
        try:
            return super()._release_cached()
        finally:
            self._gives_up_ranges = False

    def _forget_stream(self, stream: int) -> None:
        super()._forget_stream(stream)
        follower = self._followers.get(stream)
        if follower is not None:  # another stream may get its number: for that it starts anew
            self._followers[stream] = _Follower(follower.cycle, follower.windows)

    def _recover(self) -> None:
        super()._recover()
        self._gives_up_ranges = False
        for stream in list(self._followers):
            before = self._followers[stream]
            follower = self._followers[stream] = _Follower(before.cycle, before.windows)
            space = self._spaces.get((stream, None, UNTAGGED))
            if space is not None:
                follower.begins(space)


class _Follower:
    """Where a stream's program is in its cycle, and what lies in the cycle's range."""

    def __init__(self, cycle: Cycle, windows: _Windows | None = None) -> None:
        """``windows``: of the follower before, whose place is lost. Without, the next request is the first."""
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
        self._last: deque[int] = deque(maxlen=_WINDOW)
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
            self._strange = 0
            return
        self._strange += 1
        found = self.windows.get(tuple(self._last)) if len(self._last) == _WINDOW else None
        if (place is not None and place < self.cycle.begin and self._strange >= _PATIENCE) or self._lacking:
            self._lacking = len(sizes) - self.cycle.begin  # it is another program, as far as is known
        if found is not None:
            self._next, self._strange = found, 0
        elif self._strange >= _PATIENCE:
            self._next = None

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


def device_of(upstream: Upstream) -> int:
    """The ordinal of the device whose memory ``upstream`` gives; 0 where it does not say."""
    ordinal: int = getattr(upstream, "ordinal", 0)
    return ordinal


def _windows(cycle: Cycle) -> _Windows:
    """Behind which requests in a row which place in the cycle comes; of several places, the first."""
    sizes = cycle.sizes[cycle.begin :]
    count = len(sizes)
    repeated = sizes * (_WINDOW // count + 2)
    found: _Windows = {}
    for place in range(count):
        found.setdefault(tuple(repeated[place : place + _WINDOW]), cycle.begin + (place + _WINDOW) % count)
    return found
