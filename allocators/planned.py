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

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

from .block import Block
from .constants import ALIASES, SLACK
from .errors import DriverError, OutOfMemoryError
from .expandable import ExpandableAllocator
from .follower import Follower
from .learning import Learner
from .planning import UNPLANNED, Plan
from .private_streams import names_pool
from .served import Served
from .spans import FREE, Opening, Space, Span
from .tags import UNTAGGED, here
from .upstream import Upstream

__all__ = ["PlannedAllocator", "device_of", "repetitions_of"]


class PlannedAllocator(ExpandableAllocator):
    """Serves requests that follow a plan at the plan's addresses, and all others as ``expandable`` does.

    A plan comes from a recorded run (``cuplug-trace plan run.cuplug -o run.plan``). It knows the requests of a run from
    the first on to the end of one iteration, in order, and has packed their blocks into one range, nearly as small as
    what lives at once. The range is reserved and mapped as a whole when the plan's first block is asked for, and what
    follows costs no call of the driver.

    Without a file it plans while the program runs (``learn=3``): what has come three times in a row is packed by a
    thread beside the program, and taken up at the point of the cycle where the least is alive.

    A request that differs from the plan's next is served elsewhere, at once, and the plan goes on with the next that
    agrees, or wherever in the iteration 16 in a row are recognised again. A program that begins otherwise than the
    recorded one is served once a whole iteration has agreed. What outlives an iteration, such as weights, is no part of
    the plan.
    """

    needs_one_of = ("plan", "learn")
    """It is not complete without one of these options."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        plan: Annotated[str | None, "the file that cuplug-trace plan wrote"] = None,
        learn: Annotated[
            int | None, "how often a cycle has to come before it is planned while the program runs; 0 for never"
        ] = None,
        memory_limit: Annotated[int | None, "reserve at most this many bytes; more counts as out of memory"] = None,
        slack: Annotated[int, "bytes to reserve beyond the peak of what was in use, before pages move"] = SLACK,
        aliases: Annotated[int, "at how many addresses a page stays mapped after it has moved away"] = ALIASES,
        host: Annotated[int, "bytes of host memory for blocks for which the device has no room; 0 for none"] = 0,
    ) -> None:
        """Over ``upstream``, by the plan in the file ``plan``, by what it learns, or both. The other options are those
        of ``expandable``.

        Raises:
            CuplugError: the file cannot be read, or is no plan of this version.
            DriverError: ``CUDA_ERROR_NOT_SUPPORTED``: the device or the installation lacks virtual memory, or that of
                the host where ``host`` asks for it.
            ValueError: ``slack``, ``aliases`` or ``host`` is negative, ``learn`` is neither 0 nor at least 3, or
                neither of ``plan`` and ``learn`` is given.
        """
        self._repetitions = repetitions_of(plan, learn)
        super().__init__(upstream, memory_limit=memory_limit, slack=slack, aliases=aliases, host=host)
        cycles = Plan.read(plan).cycles if plan is not None else []
        device = device_of(upstream)
        self._followers = {cycle.stream: Follower(cycle) for cycle in cycles if cycle.device == device}
        self._learners: dict[int, Learner] = {}
        self._served = Served()
        self._gives_up_ranges = False

    def served(self) -> Served:
        """How much of what was asked for the plan has served up to now."""
        return self._operate(lambda: replace(self._served))

    def finish_planning(self) -> None:
        """Wait until every search for a cycle has ended that is under way; what it found is taken up when it fits."""
        for learner in self._operate(lambda: list(self._learners.values())):
            learner.finish()

    # --- allocation and free

    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        if (before := self._followers.get(stream)) is not None and before.is_refuted:
            self._leave(stream)
            if stream in self._learners:
                self._learners[stream].forget_cycle()
        learner = self._learner_of(stream)
        if learner is not None and (learned := learner.due()) is not None:
            self._leave(stream)
            self._followers[stream] = learned
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
            block = Block(self, span.address, nbytes, requested, stream, span)
        self._has_served(block)
        if span is not None:
            self._served.planned_requests += 1
            self._served.planned_bytes += requested
        return block

    def _allocate_beyond(self, requested: int, nbytes: int, stream: int) -> Block:
        block = super()._allocate_beyond(requested, nbytes, stream)
        self._has_served(block)
        return block

    def _has_served(self, block: Block) -> None:
        """Go on from a request that got ``block``, planned or not."""
        follower, learner = self._followers.get(block.stream), self._learner_of(block.stream)
        if follower is not None:
            follower.has_served(block.nbytes)
        if learner is not None:
            learner.asked(block.nbytes, block.address)
        self._served.requests += 1
        self._served.requested_bytes += block.requested

    def _free(self, block: Block) -> None:
        follower = self._followers.get(block.stream)
        if follower is not None and block.kept.range.space is follower.space:
            follower.gone(block.address)
        learner = self._learners.get(block.stream)
        if learner is not None:
            learner.freed(block.address)
        super()._free(block)

    # --- what it learns

    def _learner_of(self, stream: int) -> Learner | None:
        if not self._repetitions or names_pool(stream) or here.tag != UNTAGGED:
            return None
        learner = self._learners.get(stream)
        if learner is None:
            at_once = getattr(self.upstream, "plans_at_once", False)
            follower = self._followers.get(stream)
            followed = follower.cycle.repeated if follower is not None else ()
            learner = self._learners[stream] = Learner(stream, self._repetitions, followed, at_once=at_once)
        return learner

    def _leave(self, stream: int) -> None:
        """Follow no cycle any more. What lies in its range stays there until it is freed."""
        self._followers.pop(stream, None)
        self._retire(stream)

    def _retire(self, stream: int) -> None:
        space = self._spaces.of.pop((stream, None, UNTAGGED), None)
        if space is not None and space.ranges:
            self._spaces.ownerless.append(space)

    # --- the ranges of the plan

    def _span_at(self, follower: Follower, offset: int, nbytes: int) -> Span | None:
        """Take ``nbytes`` at ``offset`` in the follower's range as a block; None if they are not to be had."""
        peak = self._recurrence.peak
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
                span = self._fill(space, self._plan(space, opening, self._creatable(nbytes)))
                span = space.take_at(span, address, nbytes)
        except (OutOfMemoryError, DriverError):
            self._recurrence.peak = peak
            return None  # as without a plan: what is short or out of order shows there
        follower.lies(span)
        return span

    def _map_range(self, follower: Follower) -> None:
        """Reserve a follower's range and map it as a whole, if there is memory for that; else piece by piece, later."""
        stream, nbytes = follower.cycle.stream, follower.range_bytes(self._granularity)
        space = follower.space
        if space is None:
            space = self._spaces.made(stream, self._spaces.stamps_of(stream), small=False)
            self._spaces.of[stream, None, UNTAGGED] = space
            follower.begins(space)
        made = self._spaces.reserve(space, nbytes)
        whole = Opening(made.address, nbytes, [(made.first, made.address, made.address + nbytes)], nbytes)
        self._fill(space, self._plan(space, whole, self._creatable(nbytes)))
        # What the stream's blocks lay in until now is of use no more: the plan has room for nearly all of them.
        left = [other for other in self._movable_spaces() if other.stream == stream and other is not space]
        self._spaces.give_back_free(left)

    def _movable_spaces(self, *, host: bool = False) -> Iterator[Space]:
        followers = [] if self._gives_up_ranges else self._followers.values()
        mine = [follower.space for follower in followers if follower.follows]
        yield from (space for space in super()._movable_spaces(host=host) if not any(space is one for one in mine))

    def _release_cached(self) -> int:
        self._gives_up_ranges = True
        try:
            return super()._release_cached()
        finally:
            self._gives_up_ranges = False

    def _forget_stream(self, stream: int) -> None:
        super()._forget_stream(stream)
        self._learners.pop(stream, None)  # another stream may get its number: for that all starts anew
        follower = self._followers.get(stream)
        if follower is not None:
            self._followers[stream] = Follower(follower.cycle, follower.windows)

    def _recover(self) -> None:
        super()._recover()
        self._gives_up_ranges = False
        self._learners = {}
        for stream, kind, tag in list(self._spaces.of):
            follower = self._followers.get(stream)
            if kind is None and (follower is None or follower.space is not self._spaces.of[stream, kind, tag]):
                self._retire(stream)  # it was being given up, or being made
        for stream in list(self._followers):
            before = self._followers[stream]
            follower = self._followers[stream] = Follower(before.cycle, before.windows)
            space = self._spaces.of.get((stream, None, UNTAGGED))
            if space is not None:
                follower.begins(space)


def repetitions_of(plan: str | None, learn: int | None) -> int:
    """How often a cycle has to come before it is planned; 0 where nothing is learnt.

    Raises:
        ValueError: ``learn`` is neither 0 nor at least 3, or neither is given.
    """
    if plan is None and learn is None:
        raise ValueError(
            "planned has nothing to go by; give it plan=FILE, or learn=3 to plan what has come three times"
        )
    if learn is not None and (learn < 0 or 0 < learn < 3):
        raise ValueError(f"learn is {learn}; it must be 0, for never, or at least 3 times")
    return learn or 0


def device_of(upstream: Upstream) -> int:
    """The ordinal of the device whose memory ``upstream`` gives; 0 where it does not say."""
    ordinal: int = getattr(upstream, "ordinal", 0)
    return ordinal
