"""``expandable``: on virtual memory, where physical pages follow the live blocks.

What holds between any two operations (the tests check each):

1. Every live block lies in mapped, accessible memory as a whole, and no page serves two places (``page.py``). So no two
   live blocks share physical memory.
2. Address space is cut from end to end into live blocks, free memory and holes (``spans.py``). Holes begin and end at
   page boundaries. Neighbours that are both free, or both holes, are one.
3. What counts as reserved is what stands in mapped pages, and every page that the driver knows is mapped.
4. No page is unmapped anywhere before a fence has passed that was made after the last free there (``stamps.py``), also
   when the same stream gets the page at another address: queued work may use the old one. Where it stays mapped at the
   old one, the stream need not be waited for, since its work is done in order.
5. A driver's call that fails leaves 1 to 4 as they were (``pages.py``).
6. With ``host``: a page is of the device's memory or of the host's for as long as it lives, and a space has pages of
   one kind only. So a block lies on one side as a whole, and pages of the host never serve where the device's would.
7. No more than ``host`` bytes of host pages exist. They are counted as reserved and, apart, as ``host_bytes``;
   ``memory_limit`` is for the device's alone.

Memory that sleeps is left out of all this; ``sleeping.py`` says what holds for it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Literal

from . import constants
from .address_spaces import AddressSpaces, power_of_two
from .base import Allocator, check_option, check_steps
from .block import Block, BlockInfo, Segment
from .errors import CuplugError, DriverError, OutOfMemoryError
from .host_choice import HostChoice
from .page import Page
from .pages import Move, Pages
from .placing import best_opening
from .recurrence import FACTOR, HIGHEST_MARK, Recurrence
from .returning import Returning
from .sleeping import why_asleep
from .spans import FREE, Opening, Space, Span
from .statistics import SMALL_BLOCK
from .tagged_memory import TaggedMemory
from .tags import MOST_TAGS, ON_HOST, UNTAGGED, here, tag_name
from .torch_segments import bytes_of_range, find_as_torch, lowest_opening, page_of
from .upstream import Upstream, VirtualMemory

__all__ = ["ExpandableAllocator", "virtual_memory_of"]


class ExpandableAllocator(Allocator):
    """Reserves little more than what is in use, since free pages move to where memory is missing.

    A block goes into the smallest free piece of its stream that fits, as in ``caching`` (small blocks, up to 1 MiB,
    and large ones lie apart). Where none fits, it is laid between two live blocks, or behind all, where the least has
    to be mapped; what is missing there is

    1. created, as long as no more is reserved than was ever in use at once, and a slack: 1/20 of that, but at most
       ``slack`` bytes, and 32 blocks of the average size;
    2. else taken from free pieces of any stream: those of this stream and kind first (last, where the program repeats
       itself), then the smallest, which are of the least use. Where their fences have not passed, it waits. Whether
       they have plays no part in the choice: a program gets the same pages and addresses, however far the device has
       come with its work;
    3. created, when there are no free pages left. What fails then fails for want of memory: the usual sequence
       follows (``Allocator.allocate``).

    With ``aliases``, a page that moves stays mapped where it stood, at up to so many addresses, the latest ones. Where
    pages are to move, those come first that are still mapped there, without a call of the driver; and a block that
    needs them is laid where most can come back (``placing.py``), unless more would have to be created for it there.

    A program that repeats itself comes to rest: where what it asks for has come twice in the same order, with no new
    peak the second time (``recurrence.py``), more is created before pages move, wherever that holds all that a block
    misses, and this is at most 1/20 of the peak. It may hold 1/20 of the peak beyond it; while the device has more left
    than 1/5 of the peak, a quarter of what is left, up to a quarter of the peak. As a rule the third iteration takes a
    few new pages, and the fourth calls the driver no more.

    So what is reserved exceeds the peak of what was in use by the slack, and by the parts of pages beside live blocks
    that nothing fits into: at most two pages for each gap between blocks.

    What is in use and what lies idle in whole pages are together at most 5/4 of the most that was in use at once,
    whenever pages are created. This does not hold for a block of a private pool: for it, pages are created and nothing
    is given back, since a graph may be recorded. The next other block that misses memory makes up for it, before it
    takes pages, unless the program repeats itself: it would take again what it gives back, each time. What private
    pools have free does not count: it neither moves nor goes.

    Costs are per page, whatever its size (31 us to create one, 38 us to move one on an H200), so pages are as large as
    they may be without pinning much: at most 1/224 of the most that was reserved so far. Growing to twice the size thus
    costs about 224 pages (7 ms) at most, and so does growing anew after all was given back, unless less than twice as
    much could be reserved then: where others have taken it, large pages would pin what is left. A block that has to be
    mapped takes a few pages. A free page too large for where memory is missing is given back, and smaller ones are
    created instead. Where a program repeats itself and may hold them besides, it stays: to give it back would mean to
    wait for the work that last used it. The slack bounds how often pages move: as a rule, only blocks for which the
    slack holds no room cause it.

    With ``host``, a block for which the device has no room lies in locked memory of the host, of which no more than so
    many bytes are taken: as the last step before the error, after everything that ``allocate`` does when memory is
    short. It is used like any other, at the speed of the bus. A block goes there as a whole. Host pages that are free
    serve other such blocks; they are never used while the device has room, and beyond a quarter of ``host`` they are
    given back once more is mapped anywhere. ``release_cached`` gives back all of them. In a program that repeats
    itself, blocks that relieve the most for the fewest uses go there from their beginning, in place of what comes last
    (``host_choice.py``). What is tagged so that it is to lie there (``memory_tag(..., where="host")``) goes there at
    once, and to the device where the host has no room.

    Tagged memory can be put to sleep and woken (``sleep``, ``wake``).

    ``preset="torch"`` takes memory exactly as PyTorch does with ``expandable_segments:True``, so that a replay tells
    what PyTorch would reserve (``torch_segments.py``): one range for each stream and kind, which grows at the lowest
    place by pages of 2 MiB for small blocks and 20 MiB for large ones; pages stay until memory runs out, and none
    moves.

    Addresses of live blocks never change. Memory on virtual addresses cannot be shared with other processes through
    ``cuIpcGetMemHandle``: for that, use ``caching``.
    """

    can_sleep = True
    counts_splits = True
    _tagged: TaggedMemory

    def __init__(
        self,
        upstream: Upstream,
        *,
        preset: Annotated[Literal["cuplug", "torch"], "cuplug, or torch: reserve what PyTorch would"] = "cuplug",
        memory_limit: Annotated[int | None, "reserve at most this many bytes; more counts as out of memory"] = None,
        slack: Annotated[
            int, "bytes to reserve beyond the peak of what was in use, before pages move"
        ] = constants.SLACK,
        aliases: Annotated[
            int, "at how many addresses a page stays mapped after it has moved away"
        ] = constants.ALIASES,
        roundup_power2_divisions: Annotated[int, "round sizes up to so many steps for each power of two; 0: no"] = 0,
        host: Annotated[int, "bytes of host memory for blocks for which the device has no room; 0 for none"] = 0,
    ) -> None:
        """Over ``upstream``. A larger ``slack`` spares driver calls, a smaller one memory.

        Raises:
            DriverError: ``CUDA_ERROR_NOT_SUPPORTED``: the device or the installation lacks virtual memory, or that of
                the host where ``host`` asks for it.
            ValueError: ``slack``, ``aliases`` or ``host`` is negative, or an option is out of its range; the message
                names it.
        """
        check_option("preset", preset, "cuplug or torch", fine=preset in ("cuplug", "torch"))
        check_option("slack", slack, "zero or more bytes", fine=slack >= 0)
        check_option("aliases", aliases, "zero or more addresses", fine=aliases >= 0)
        check_option("host", host, "zero or more bytes", fine=host >= 0)
        super().__init__(upstream, memory_limit=memory_limit)
        virtual = virtual_memory_of(upstream, host=host > 0)
        self.can_move = host > 0
        self._granularity = virtual.granularity
        self._slack = slack
        self._steps = check_steps(roundup_power2_divisions)
        self._follows_torch = preset == "torch"
        self._most_aliases = 0 if self._follows_torch else aliases
        self._pages = Pages(virtual, self._emit, self._most_aliases)
        self._spaces = AddressSpaces(
            upstream,
            self._ledger,
            self._pages,
            most_host=host,
            is_kept=self._is_kept,
            check_limit=self._check_limit,
        )
        self._choice = HostChoice(self._room) if host else None
        self._tagged = TaggedMemory(upstream, self._ledger, self._spaces, self._in_use, self._emit)
        self._range_bytes = constants.RANGE
        self._most_reserved = 0
        self._left = sys.maxsize  # what the device had left when it was asked; without end, once the driver was called
        self._gave_back = False
        self._allocations = 0
        self._allocated_bytes = 0
        self._sum = 0
        self._recurrence = Recurrence()

    # --- allocation and free

    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        tag = here.tag
        if tag > MOST_TAGS:
            tag -= ON_HOST
            if self.can_move:
                with suppress(OutOfMemoryError):  # the device may have room
                    return self._allocate_on_host(requested, nbytes, stream)
        choice = self._choice_for(tag, stream)
        if choice is not None and choice.wants(nbytes, self._active_bytes() - self._spaces.in_use_on_host):
            with suppress(OutOfMemoryError):
                return self._noted(choice, self._allocate_on_host(requested, nbytes, stream), host=True)
        if self._tagged.is_asleep(tag):
            raise CuplugError(why_asleep(tag))
        block = Block(self, 0, nbytes, requested, stream)
        self._allocations += 1
        self._allocated_bytes += nbytes
        self._sum = latest = (2 * self._sum + nbytes * FACTOR) % (1 << 64)
        if latest < HIGHEST_MARK:
            self._recurrence.mark(latest)
        space = self._spaces.find_or_make(stream, tag, small=nbytes <= SMALL_BLOCK)
        span = find_as_torch(space, nbytes) if self._follows_torch else space.find(nbytes)
        block.kept = span = space.take(span, nbytes) if span is not None else self._grow(space, nbytes)
        block.address = span.address
        return block if choice is None else self._noted(choice, block, host=False)

    def _allocate_beyond(self, requested: int, nbytes: int, stream: int) -> Block:
        block = self._allocate_on_host(requested, nbytes, stream)
        choice = self._choice_for(here.tag, stream)
        return block if choice is None else self._noted(choice, block, host=True, beyond=True)

    def _choice_for(self, tag: int, stream: int) -> HostChoice | None:
        """What chooses the side for such a request, if anything does."""
        return None if tag != UNTAGGED or self._is_kept(stream) else self._choice

    def _noted(self, choice: HostChoice, block: Block, *, host: bool, beyond: bool = False) -> Block:
        on_host = self._spaces.in_use_on_host - (block.nbytes if host else 0)
        choice.served(block.address, block.nbytes, self._active_bytes() - on_host, host=host, beyond=beyond)
        return block

    def _room(self) -> int:
        """How many bytes more the device has; none where it does not say."""
        try:
            free, limit = self.upstream.memory_info()[0], self.memory_limit
        except DriverError:
            return 0
        return free if limit is None else min(free, max(0, limit - (self._ledger.reserved - self._ledger.host)))

    def _allocate_on_host(self, requested: int, nbytes: int, stream: int) -> Block:
        tag = here.tag & MOST_TAGS
        if not self.can_move:
            raise OutOfMemoryError("no host memory may be taken")
        if self._tagged.is_asleep(tag):
            raise CuplugError(why_asleep(tag))
        block = Block(self, 0, nbytes, requested, stream)
        space = self._spaces.find_or_make(stream, tag | ON_HOST, small=nbytes <= SMALL_BLOCK)
        span = space.find(nbytes)
        block.kept = span = space.take(span, nbytes) if span is not None else self._grow(space, nbytes)
        block.address = span.address
        self._spaces.in_use_on_host += nbytes
        return block

    def _free(self, block: Block) -> None:
        span = block.kept
        space = span.range.space
        if space.host:
            self._spaces.in_use_on_host -= block.nbytes
        if space.asleep:
            self._tagged.freed(block)
        if self._choice is not None:
            self._choice.freed(block.address)
        space.put(span)

    def _poll(self) -> None:
        self._spaces.poll()

    # --- mapping memory where a block is to lie

    def _grow(self, space: Space, nbytes: int) -> Span:
        """Take a block where memory has to be mapped first.

        Where that fails, the block is no peak: as much as it asked for would be reserved from there on, instead of
        moving pages.
        """
        peak = self._recurrence.peak
        try:
            return self._take_grown(space, nbytes)
        except BaseException:
            self._recurrence.peak = peak
            raise

    def _take_grown(self, space: Space, nbytes: int) -> Span:
        self._poll()
        if self._follows_torch and not space.host:
            return self._grow_as_torch(space, nbytes)
        if self.can_move:
            self._spaces.trim_host()
        creatable = sys.maxsize if self._is_kept(space.stream) else 0 if space.host else self._creatable(nbytes)
        opening = best_opening(space, nbytes) or self._place_in_new_range(space, nbytes)
        if not space.host and opening.missing > creatable and self._may_exceed(opening.missing):
            creatable = opening.missing
        plan = self._plan_at_best(space, opening, creatable)
        if not space.host and plan.fresh > creatable and self._may_exceed(plan.fresh):
            plan.creatable = creatable = plan.fresh  # free pages that are too large to move may stay
        try:
            span = self._fill(space, plan)
        except OutOfMemoryError:
            if not creatable:
                raise
            span = self._fill(space, self._plan(space, plan.opening, 0))
        return space.take_at(span, plan.opening.address, nbytes)

    def _grow_as_torch(self, space: Space, nbytes: int) -> Span:
        """The same by PyTorch's rules (``try_allocate_expandable_block``): everything that is missing is created."""
        page = page_of(space, self._granularity)
        opening = lowest_opening(space, nbytes, page)
        if opening is None:
            size = bytes_of_range(self.upstream.memory_info()[1], nbytes, page)
            self._spaces.add_range(space, size, -(-nbytes // page) * page, page)
            opening = lowest_opening(space, nbytes, page)
            assert opening is not None
        plan = _Plan(opening, opening.missing)
        for _, start, end in opening.holes:
            plan.moves += [Move(at, min(page, end - at)) for at in range(start, end, page)]
        self._spaces.check_room(opening.missing, host=False)
        return space.take_at(self._carry_out(space, plan), opening.address, nbytes)

    def _creatable(self, nbytes: int) -> int:
        """How many bytes of new pages may be created before free ones are moved.

        What lies idle beyond the bound, since private pools have taken so much, is given back first.
        """
        active = self._active_bytes() + nbytes
        self._recurrence.note_peak(max(self._ledger.total("allocated_bytes").peak, active))
        most = self._recurrence.peak
        average = self._allocated_bytes // self._allocations
        slack = min(self._slack, most // constants.BEYOND_PEAK, average * constants.SLACK_BLOCKS)
        bound, reserved = most + most // constants.MOST_IDLE, self._reserved()
        if reserved > bound and not self._recurrence.repeats_as_a_whole():
            idle = self._spaces.free_pages(self._movable_spaces())
            beyond = self._active_bytes() + sum(page.nbytes for _, page in idle) - bound
            self._spaces.give_back_first(idle, beyond)
            reserved = self._reserved()
        return max(0, most + slack - reserved) // self._granularity * self._granularity

    def _reserved(self) -> int:
        """What is reserved, but for host pages that are kept for the next time."""
        return self._ledger.reserved - (self._spaces.free_on_host if self.can_move else 0)

    def _active_bytes(self) -> int:
        return self._ledger.total("active_bytes").current

    def _may_exceed(self, missing: int) -> bool:
        """Whether the program repeats itself, and all of ``missing`` bytes may be created for that.

        To create a part of them would spend memory, and pages would still move each time. The same holds for a block
        that misses much: it would use up what may be held, and pages would still move for the others.
        """
        most = self._recurrence.peak
        beyond, needed = most // constants.BEYOND_PEAK, missing + self._reserved() - most
        if missing > beyond or needed > most // constants.MOST_IDLE or not self._recurrence.repeats_as_a_whole():
            return False
        if beyond < needed <= self._left // constants.MOST_IDLE:
            self._left = self._room()
        return needed <= max(beyond, self._left // constants.MOST_IDLE)

    def _plan_at_best(self, space: Space, opening: Opening, creatable: int) -> _Plan:
        """How to map what a block misses: at ``opening``, where that is least, or where more pages can come back.

        There, if no more is created for it than the ``creatable`` bytes.
        """
        if opening.missing > creatable and self._pages.aliases:
            plan = self._plan(
                space, best_opening(space, opening.nbytes, self._returning(host=space.host)) or opening, creatable
            )
            if plan.fresh <= creatable:
                return plan
        return self._plan(space, opening, creatable)

    def _fill(self, space: Space, plan: _Plan) -> Span:
        """Map what an opening misses, as ``plan`` says. Pages that are too large to move are given back for new ones.

        Returns:
            The free span that has come about there.
        """
        excess = plan.fresh - (self._spaces.most_host - self._ledger.host if space.host else plan.creatable)
        if excess > 0 and plan.coarse:
            self._spaces.give_back_first(plan.coarse, excess)
            plan = self._plan(space, plan.opening, plan.creatable)
        self._spaces.check_room(plan.fresh, host=space.host)
        return self._carry_out(space, plan)

    def _carry_out(self, space: Space, plan: _Plan) -> Span:
        """Let the pages of ``plan`` stand in ``space``, and return the last free span that they are a part of there."""
        for span, page in plan.sources:
            stamps, page.freed = span.range.space.stamps, None
            if self._most_aliases and stamps is space.stamps:
                page.freed = stamps, span.stamp
            else:
                stamps.wait(span.stamp)
        was = [page.address for _, page in plan.sources]
        if self._left < sys.maxsize and any(move.is_anew for move in plan.moves):
            self._left = sys.maxsize
        try:
            pages = self._pages.carry_out(plan.moves, space.stream)
        finally:
            for (span, page), address in zip(plan.sources, was, strict=True):
                if page.address != address:
                    span.range.space.unmapped(span, address, page.nbytes)
        for move, page in zip(plan.moves, pages, strict=True):
            span = space.mapped(page)
            if move.page is None:
                self._ledger.num_device_alloc += 1
        return span

    def _returning(self, *, host: bool) -> Returning:
        return Returning(self._pages, self._granularity, self._movable_spaces(host=host))

    def _plan(self, space: Space, opening: Opening, creatable: int) -> _Plan:
        """How to map what ``opening`` misses: with ``creatable`` bytes of new pages, and free ones while there are."""
        self._spaces.check_possible(opening.missing, host=space.host)
        plan = _Plan(opening, creatable)
        runs = [[start, end] for _, start, end in opening.holes]
        wanted = opening.missing - creatable
        if wanted > 0 and self._pages.aliases:
            for alias, span in self._returning(host=space.host).within(opening):
                plan.comes(alias.address, span, alias.page)
                wanted -= alias.page.nbytes
                runs = [run for each in runs for run in _without(each, alias.address, alias.end)]
        if wanted > 0:
            coming = {id(page) for _, page in plan.sources}
            start = opening.address // self._granularity * self._granularity
            end = opening.address + opening.nbytes
            for span, page in self._movable(space):
                if wanted <= 0:
                    break
                if id(page) in coming or (start < page.address + page.nbytes and page.address < end):
                    continue
                run = next((run for run in runs if run[1] - run[0] >= page.nbytes), None)
                if run is None:
                    plan.coarse.append((span, page))
                    continue
                plan.comes(run[0], span, page)
                run[0] += page.nbytes
                wanted -= page.nbytes
        plan.fresh = sum(end - start for start, end in runs)
        largest = self._page_size(space.stream)
        for start, end in runs:
            plan.moves += self._spaces.new_pages(start, end, largest, host=space.host)
        plan.moves.sort(key=lambda move: move.address)
        plan.sources.sort(key=lambda source: -source[1].address)
        return plan

    def _movable(self, space: Space) -> Iterator[tuple[Span, Page]]:
        """Free pages: first those of this space, then of small spans.

        Where a program repeats itself, those of this space come last: the next blocks in it want them where they are.
        """
        own_last = self._recurrence.repeats_as_a_whole()
        spans = [span for other in self._movable_spaces(host=space.host) for span in other.free_spans()]
        spans.sort(key=lambda span: ((span.range.space is space) is own_last, span.nbytes, span.address))
        for span in spans:
            for page in span.range.space.whole_pages(span):
                yield span, page

    def _page_size(self, stream: int) -> int:
        reserved = self._ledger.reserved
        if self._gave_back and not self._is_kept(stream):  # less may be left now than there was when it was reserved
            self._most_reserved = min(self._most_reserved, (reserved + self._room()) // 2)
            self._gave_back = False
        self._most_reserved = max(self._most_reserved, reserved)
        return power_of_two(self._most_reserved // constants.PAGES_OF_ALL, self._granularity)

    def _place_in_new_range(self, space: Space, nbytes: int) -> Opening:
        least = -(-nbytes // self._granularity) * self._granularity
        size = max(self._range_bytes, least)
        self._range_bytes = min(self._range_bytes, self._spaces.add_range(space, size, least, self._granularity))
        opening = best_opening(space, nbytes)
        assert opening is not None
        return opening

    # --- giving memory back

    def _release_cached(self) -> int:
        self._gave_back = True
        released = self._spaces.give_back_free(self._movable_spaces())
        self._pages.release_strays()
        self._spaces.drop_empty_ranges(list(self._spaces.every()))
        return released

    def _release_left(self, stream: int) -> None:
        self._spaces.release_left(stream)

    def _release_beyond(self) -> None:
        self._spaces.give_back_free(self._movable_spaces(host=True))

    def _release_all(self) -> None:
        self._tagged.wake_all_unused()
        super()._release_all()
        for stamps in self._spaces.stamps.values():
            stamps.drop()

    def _forget_stream(self, stream: int) -> None:
        self._spaces.forget_stream(stream)

    def _recover(self) -> None:
        self._tagged.recover()
        if self._choice is not None:
            self._choice.start_anew()

    # --- the map

    def _movable_spaces(self, *, host: bool = False) -> Iterator[Space]:
        """Those of the device, or of the host, whose pages may be moved or given back."""
        return self._spaces.movable(host=host)

    def _segments(self) -> Iterator[Segment]:
        return map(self._segment, self._spaces.runs())

    def _segment(self, run: list[Span]) -> Segment:
        infos = tuple(
            BlockInfo(span.address, span.nbytes, 0, "inactive")
            if span.kind == FREE
            else self._state(self._in_use[span.address])
            for span in run
        )
        space, start = run[0].range.space, run[0].address
        kind: Literal["small", "large"] = "small" if space.small else "large"
        return Segment(
            start, run[-1].end - start, space.stream, kind, infos,
            expandable=True, tag=tag_name(space.tag), asleep=space.asleep, host=space.host,
        )  # fmt: skip


class _Plan:
    """How the memory that ``opening`` misses is to be had, where ``creatable`` bytes of it may be new."""

    def __init__(self, opening: Opening, creatable: int) -> None:
        self.opening, self.creatable = opening, creatable
        self.moves: list[Move] = []
        self.sources: list[tuple[Span, Page]] = []
        """The free pages that move, each with the free span in which it lies; within a span, from its end on."""
        self.fresh = 0
        """Bytes of new pages."""
        self.coarse: list[tuple[Span, Page]] = []
        """Free pages that are too large to move here."""

    def comes(self, address: int, span: Span, page: Page) -> None:
        """``page``, which lies in the free ``span``, is to stand at ``address``."""
        self.moves.append(Move(address, page.nbytes, page))
        self.sources.append((span, page))


def _without(run: list[int], start: int, end: int) -> list[list[int]]:
    """What is left of ``run``, from its first address to its end, without a part of it."""
    first, last = run
    if end <= first or last <= start:
        return [run]
    return [part for part in ([first, start], [end, last]) if part[0] < part[1]]


def virtual_memory_of(upstream: Upstream, *, host: bool = False) -> VirtualMemory:
    """The virtual memory of ``upstream``, also that of the host if ``host`` says so.

    Raises:
        DriverError: ``CUDA_ERROR_NOT_SUPPORTED``: it has none.
    """
    virtual = upstream.virtual
    if virtual is None:
        raise DriverError(
            801,
            "CUDA_ERROR_NOT_SUPPORTED",
            "the allocator expandable needs virtual memory, which this device or this installation lacks. On a GPU "
            "it needs the package cuda-bindings (pip install 'cuplug[cuda]'); the allocator caching does without",
        )
    if host and not getattr(virtual, "has_host_pages", False):
        raise DriverError(
            801,
            "CUDA_ERROR_NOT_SUPPORTED",
            "expandable:host= needs pages of the host under addresses of the device, which this device, its driver "
            "(CUDA 12.2 or later has them) or this upstream lacks; leave host= out",
        )
    return virtual
