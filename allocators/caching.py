"""``caching``: keeps what was freed, for each stream, and hands it out again. The default."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Literal

from . import constants
from .base import Allocator, check_option, check_steps
from .block import ALIGNMENT, Block, BlockInfo, Segment
from .errors import OutOfMemoryError
from .free_pieces import Piece, Pool, Rules, is_idle
from .held_memory import HeldMemory
from .pressure import Pressure
from .recurrence import FACTOR, HIGHEST_MARK, Recurrence
from .statistics import SMALL_BLOCK
from .upstream import Upstream

__all__ = ["CachingAllocator", "limit_of"]

_MIB = 1 << 20


class CachingAllocator(Allocator):
    """Stream-ordered caching, with the semantics of PyTorch's ``CUDACachingAllocator``.

    A block freed on its stream serves the next allocation there that it fits; small blocks (up to 1 MiB) and large
    ones have segments of their own. The smallest free piece that fits is cut to size; free neighbours become one.

    ``preset="torch"`` takes segments and searches exactly as PyTorch's native allocator does, so that a replay tells
    what PyTorch would reserve: segments of 2 MiB for small blocks, 20 MiB for blocks below 10 MiB, else the block's
    own size, kept until memory runs out.

    ``preset="cuplug"`` reserves less:

    - A segment that is free as a whole is broken only when nothing else fits; and one of more than 512 MiB not for a
      block of less than an eighth, which would pin it, while more than half of the peak is in use: then room is made
      for a segment that suits the block.
    - Before it reserves more than it ever has, it gives segments back that are free as a whole, smallest first. So
      it grows only when everything that it could give back is gone.
    - It grows in proportion, since few large segments leave fewer gaps than many small ones: by 1/48 of the most that
      it has ever reserved, rounded down to a power of two between 8 and 64 MiB. A block of more than two thirds of that
      gets a segment of its own size, rounded up to 2 MiB. Below its own peak, large segments have at least 64 MiB.
    - **The bound.** Whenever it takes a segment, what is in use and what lies idle in whole segments, the new one
      included, is at most 5/4 of the most that was ever asked for at once, this request included; or nothing is idle
      any more. So no program, however it changes, makes it keep what it does not need. (Private pools keep theirs:
      a recorded graph comes back to it. Free pieces beside blocks in use are pinned, and cannot be given back.)
    - Giving a segment back waits for the work queued on it, and stalls the device. An allocation takes one segment at
      most, and each goes back once: over time two calls of the driver for a large allocation, at most, and none where
      sizes repeat.
    - A program that repeats itself comes to rest: where the large blocks that it asks for have come twice in the same
      order since the last new peak (``recurrence.py``), some 500 of them at least, and are no part of something larger,
      up to 1/20 of the peak is reserved beyond it before a segment is given back. Else two segments could take each
      other's place in each iteration, for ever. After some 250, blocks of up to 64 MiB break large segments like
      others: several segments would take the place of each, for ever. A larger block still has a segment of its own,
      and pins none. What has been granted counts for ever, but is given up where memory is tight.
    - Memory is tight where what lies waste would leave too little for what the program may yet ask for
      (``pressure.py``). Then blocks of many sizes must not pin each other's segments. So a block of 8 MiB or more gets
      a segment of its own, rounded up to 2 MiB, if that wastes at most 1/12 of the block, and an existing piece serves
      it only if at most as much is left over; other large blocks share segments of 64 MiB, or idle ones of
      twice their size; sooner than break another idle one, they get their own, too. What a new segment needs is taken
      from idle segments of any stream, as few as will do; a program that repeats itself takes what is left first. Only
      where all of them would not suffice, the smallest piece that fits is cut; and only where nothing fits, the
      allocator grows, with whatever is left.
    """

    counts_splits = True

    def __init__(
        self,
        upstream: Upstream,
        *,
        preset: Annotated[Literal["cuplug", "torch"], "cuplug, or torch: reserve what PyTorch would"] = "cuplug",
        memory_limit: Annotated[int | None, "reserve at most this many bytes; more counts as out of memory"] = None,
        memory_fraction: Annotated[float | None, "the same, as a fraction of the device's memory"] = None,
        garbage_collection_threshold: Annotated[
            float,
            "above this fraction of the limit (without one: of the device; preset=torch: not then, as PyTorch), give "
            "idle segments back, oldest first; 0: never",
        ] = 0.0,
        max_split_size: Annotated[int | None, "bytes from which on pieces are not cut for smaller blocks"] = None,
        roundup_power2_divisions: Annotated[int, "round sizes up to so many steps for each power of two; 0: no"] = 0,
    ) -> None:
        """Over ``upstream``, with the options of PyTorch's ``PYTORCH_CUDA_ALLOC_CONF``, in the same sense.

        Raises:
            ValueError: an option is out of its range; the message names it.
        """
        super().__init__(upstream, memory_limit=limit_of(upstream, memory_limit, memory_fraction))
        threshold = garbage_collection_threshold
        check_option("garbage_collection_threshold", threshold, "at least 0 and below 1", fine=0 <= threshold < 1)
        fine = max_split_size is None or max_split_size > 20 * _MIB
        check_option("max_split_size", max_split_size, "above 20 MiB", fine=fine)
        self._steps = check_steps(roundup_power2_divisions)
        torch = preset == "torch"
        self.garbage_collection_threshold = threshold
        least = SMALL_BLOCK + 1 if torch else ALIGNMENT
        self._large_rules = Rules(least, max_split_size=max_split_size, spare_idle=not torch)
        self._pools: dict[tuple[int, bool], Pool] = {}
        self._ownerless: list[Pool] = []
        """Pools of streams that have been destroyed."""
        self._most_reserved = 0
        """Besides what was granted."""
        self._granted = 0
        """Bytes reserved beyond that, to let a program that repeats itself come to rest."""
        self._sum = 0
        self._recurrence = Recurrence()
        self._pressure = Pressure(applies=not torch and max_split_size is None)

    @property
    def max_split_size(self) -> int | None:
        """Bytes from which on pieces are not cut for smaller blocks; None for no such limit."""
        return self._large_rules.max_split_size

    @property
    def _follows_torch(self) -> bool:
        return not self._large_rules.spare_idle

    # --- allocation and free

    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        small = nbytes <= SMALL_BLOCK
        pool = self._pools.get((stream, small)) or self._add_pool(stream, small=small)
        if not small:
            self._sum = latest = (2 * self._sum + nbytes * FACTOR) % (1 << 64)
            self._recurrence.requests += 1
            if latest < HIGHEST_MARK:
                self._recurrence.mark(latest)
            if self.memory_limit != self._pressure.limit and not self._is_kept(stream):
                self._note_pressure()
        if not small and self._pressure.is_tight(self._ledger) and not self._is_kept(stream):
            segment, address, taken = self._take_where_tight(pool, nbytes)
        else:
            segment, address, taken = self._take(pool, nbytes)
        return Block(self, address, taken, requested, stream, segment)

    def _take(self, pool: Pool, nbytes: int) -> tuple[HeldMemory, int, int]:
        piece = pool.find(nbytes)
        if piece is None and self._ownerless and self._adopt(pool):
            piece = pool.find(nbytes)
        if piece is not None and self._pressure.is_near and self._tightens(piece, pool, nbytes):
            return self._take_where_tight(pool, nbytes)
        if piece is not None and not pool.small and self._spares(piece, nbytes):
            with suppress(OutOfMemoryError):
                return self._grow(pool, nbytes)
            piece = pool.find(nbytes)  # it may be gone: room was to be made
        return pool.take(piece, nbytes) if piece is not None else self._grow(pool, nbytes)

    def _free(self, block: Block) -> None:
        segment = block.kept
        segment.kept.put(block.address, block.nbytes, segment)

    def _add_pool(self, stream: int, *, small: bool) -> Pool:
        rules = Rules(ALIGNMENT, spare_idle=not self._follows_torch) if small else self._large_rules
        pool = self._pools[stream, small] = Pool(self._ledger, stream, rules, small=small)
        return pool

    # --- taking memory from upstream

    def _spares(self, piece: Piece, nbytes: int) -> bool:
        """Whether to rather take a new segment than to break ``piece``, if it is one as a whole, for a large block."""
        if self._follows_torch or not is_idle(piece):
            return False
        large = constants.SPARE_TIMES * max(nbytes, constants.MOST_SEGMENT)
        in_use = self._ledger.total("allocated_bytes").current
        if piece[0] <= large or 2 * in_use <= self._ledger.most_allocated:
            return False
        return nbytes > constants.MOST_SEGMENT or not self._recurrence.has_repeated()

    def _grow(self, pool: Pool, nbytes: int) -> tuple[HeldMemory, int, int]:
        if self.garbage_collection_threshold and not self._is_kept(pool.stream):
            self._collect_garbage()
        movable = not self._follows_torch and not self._is_kept(pool.stream)
        if movable:
            self._note_pressure()
        may_be_tight = movable and not pool.small and self._pressure.is_near
        if may_be_tight and self._pressure.is_tight(self._ledger):
            return self._take_where_tight(pool, nbytes)
        if movable:  # else it might have to wait, while work is being captured
            self._stay_within_bounds(pool, nbytes)
        sizes = self._torch_sizes(pool, nbytes) if self._follows_torch else self._own_sizes(pool, nbytes)
        for size in sizes:
            address = self._try_reserve(size, pool)
            if address is None and self.max_split_size is not None and self._release_oversize(pool, nbytes):
                address = self._try_reserve(size, pool)
            if address is not None:
                return self._take_new(address, pool, nbytes)
        if may_be_tight:
            return self._take_where_tight(pool, nbytes)
        large = self._pools.get((pool.stream, False))
        if pool.small and large is not None and not self._follows_torch and next(self._idle(), None) is None:
            piece = large.find(nbytes)  # nothing is left to give back: better mixed than out of memory
            if piece is not None:
                return large.take(piece, nbytes)
        raise OutOfMemoryError(f"upstream has no {nbytes} bytes left")

    def _take_new(self, address: int, pool: Pool, nbytes: int) -> tuple[HeldMemory, int, int]:
        if self._ledger.reserved > self._most_reserved + self._granted:
            self._most_reserved = self._ledger.reserved - self._granted
        return pool.take(pool.add(self._held[address]), nbytes)

    def _try_reserve(self, nbytes: int, pool: Pool) -> int | None:
        try:
            return self._reserve(nbytes, small=pool.small, stream=pool.stream)
        except OutOfMemoryError:
            return None

    def _torch_sizes(self, pool: Pool, nbytes: int) -> list[int]:
        """PyTorch's ``get_allocation_size``."""
        if pool.small:
            return [2 * _MIB]
        return [20 * _MIB if nbytes < 10 * _MIB else _up(nbytes, 2 * _MIB)]

    def _own_sizes(self, pool: Pool, nbytes: int) -> list[int]:
        """The segment to take, and the one to fall back on."""
        if pool.small:
            return [constants.ROUND]
        least = _up(nbytes)
        room = (self._most_reserved - self._ledger.reserved) // constants.ROUND * constants.ROUND
        return [max(min(constants.MOST_SEGMENT, room), self._usual_size(nbytes), least), least]

    def _usual_size(self, nbytes: int) -> int:
        """The size of a segment beyond the peak, in proportion to it; 0 for a block that gets one of its own size."""
        size = constants.LEAST_SEGMENT
        while size < constants.MOST_SEGMENT and 2 * size * constants.SEGMENTS_OF_ALL <= self._most_reserved:
            size *= 2
        return size if 3 * nbytes <= 2 * size else 0

    def _stay_within_bounds(self, pool: Pool, nbytes: int) -> None:
        """Give back what has to go before the largest segment is taken that a block of ``nbytes`` could get."""
        size = constants.ROUND if pool.small else max(constants.MOST_SEGMENT, _up(nbytes))
        if pool.small and self._pressure.is_near:
            self._exchange(size, nbytes, needed=True)
            return
        room = self._most_reserved + self._granted - self._ledger.reserved
        if size > room and self._may_exceed(size - room):  # little more than the peak, for what repeats itself
            self._granted += size - room
            room = size
        self._make_room(size, nbytes, room)

    def _make_room(self, nbytes: int, asked: int, room: int, *, few: bool = False, needed: bool = True) -> bool:
        """Give idle segments back, smallest first, until ``nbytes`` more for a block of ``asked`` stay within bounds.

        These are ``room`` bytes, and the most that may ever be in use and idle. ``few``: as few segments as will do.
        Unless they are ``needed``, none are given back where all would not suffice. Returns whether there is room.
        """
        idle = sorted((segment.nbytes, segment.address, segment) for segment in self._idle())
        total = sum(size for size, _, _ in idle)
        active = self._ledger.total("active_bytes").current
        peak = max(self._ledger.most_allocated, active + asked)
        excess = max(nbytes - room, active + nbytes + total - peak - peak // constants.MOST_IDLE)
        if not needed and total < excess:
            return False
        leaving: list[HeldMemory] = []
        while excess > 0 and idle:
            suits = bisect_left(idle, excess, key=lambda entry: entry[0]) if few else 0
            size, _, segment = idle.pop(min(suits, len(idle) - 1))
            leaving.append(segment)
            excess -= size
        self._give_back(leaving)
        return True

    def _may_exceed(self, nbytes: int) -> bool:
        """Whether to reserve ``nbytes`` more beyond the peak, for a program that repeats itself."""
        fits = self._granted + nbytes <= self._most_reserved // constants.BEYOND_PEAK
        return fits and self._recurrence.lasts()

    # --- where memory is tight

    def _note_pressure(self) -> int:
        """Look how near the end of memory is.

        Returns how many bytes may still be taken from upstream; below 0 where the limit was lowered below what is held.
        """
        left = self.upstream.memory_info()[0]
        if self.memory_limit is not None:
            left = min(left, self.memory_limit - self._ledger.reserved)
        self._pressure.note(left, self.memory_limit, self._ledger, self._recurrence)
        return left

    def _tightens(self, piece: Piece, pool: Pool, nbytes: int) -> bool:
        """Whether memory would be tight, were ``piece``, if it is a segment as a whole, cut for a large block."""
        if pool.small or not is_idle(piece) or self._is_kept(pool.stream):
            return False
        return self._pressure.is_tight(self._ledger, piece[0] - nbytes)

    def _take_where_tight(self, pool: Pool, nbytes: int) -> tuple[HeldMemory, int, int]:
        """Take a large block from a piece that suits it, else from a segment for it alone, or shared with few."""
        if self._ownerless:
            self._adopt(pool)
        least = _up(nbytes)
        own = nbytes >= constants.LEAST_SEGMENT and (least - nbytes) * constants.OWN_WASTE <= nbytes
        piece = pool.smallest(nbytes) if own else pool.find(nbytes)
        if piece is not None:
            is_shared = not own and min(2 * nbytes, constants.MOST_SEGMENT) <= piece[0] <= 2 * constants.MOST_SEGMENT
            suits = is_shared or piece[0] - nbytes <= nbytes // constants.OWN_WASTE
            if suits or not (own or is_idle(piece)):
                return pool.take(piece, nbytes)
            own = True  # rather than to break an idle segment of another size
        for size in [least] if own else [max(constants.MOST_SEGMENT, least), least]:
            if self._exchange(size, nbytes, needed=piece is None):
                address = self._try_reserve(size, pool)
                if address is not None:
                    return self._take_new(address, pool, nbytes)
        piece = pool.find(nbytes)
        if piece is None:
            raise OutOfMemoryError(f"upstream has no {nbytes} bytes left")
        return pool.take(piece, nbytes)

    def _exchange(self, nbytes: int, asked: int, *, needed: bool) -> bool:
        """As ``_make_room``: a program that repeats may take all that is left, others no more than their peak."""
        left = self._note_pressure()
        room = left if self._recurrence.goes_on() else min(left, self._most_reserved - self._ledger.reserved)
        return self._make_room(nbytes, asked, room, few=True, needed=needed)

    # --- giving memory back

    def _release_cached(self) -> int:
        released = self._give_back(list(self._idle()))
        self._ownerless = [pool for pool in self._ownerless if pool.segments]
        return released

    def _release_left(self, stream: int) -> None:
        left = [pool for pool in self._ownerless if pool.stream == stream]
        self._give_back([segment for pool in left for segment in pool.idle()])
        self._ownerless = [pool for pool in self._ownerless if pool.segments]

    def _give_back(self, segments: list[HeldMemory]) -> int:
        """Wait for the work queued on ``segments``, idle ones, and give them back. Returns their bytes."""
        waited = set()
        for segment in segments:
            pool = segment.kept
            if id(pool) not in waited:
                waited.add(id(pool))
                (pool.fence or self.upstream.fence(pool.stream)).wait()
        for segment in segments:
            pool = segment.kept
            self._release(segment.address, segment.nbytes, small=pool.small, stream=pool.stream)
            pool.remove(segment)
        return sum(segment.nbytes for segment in segments)

    def _idle(self) -> Iterator[HeldMemory]:
        for pool in self._every_pool():
            if pool.fence is not None or not self._is_kept(pool.stream):
                yield from pool.idle()

    def _collect_garbage(self) -> None:
        """PyTorch's ``garbage_collect_cached_blocks``: idle large segments of at least the average age go.

        PyTorch's collects nothing where ``set_per_process_memory_fraction`` has set no limit.
        """
        if self.memory_limit is None and self._follows_torch:
            return
        limit = self.memory_limit if self.memory_limit is not None else self.upstream.memory_info()[1]
        excess = self._ledger.reserved - int(self.garbage_collection_threshold * limit)
        idle = [segment for segment in self._idle() if not segment.small] if excess > 0 else []
        while excess > 0 and idle:
            ages = {id(segment): segment.kept.age(segment) for segment in idle}
            average = sum(ages.values()) // len(idle)
            leaving: list[HeldMemory] = []
            for segment in idle:
                if excess > 0 and ages[id(segment)] >= average:
                    leaving.append(segment)
                    excess -= segment.nbytes
            self._give_back(leaving)
            idle = [segment for segment in idle if segment not in leaving]

    def _release_oversize(self, pool: Pool, nbytes: int) -> bool:
        """PyTorch's ``release_available_cached_blocks``: make room for a request from idle oversize segments."""
        assert self.max_split_size is not None
        if self._is_kept(pool.stream):
            return False
        wanted = max(nbytes, self.max_split_size)
        idle = [segment for segment in pool.idle() if segment.nbytes >= self.max_split_size]
        leaving = next(([segment] for segment in idle if segment.nbytes >= wanted), [])
        if not leaving:
            total = 0
            while idle and total < wanted:
                leaving.append(idle.pop())
                total += leaving[-1].nbytes
        self._give_back(leaving)
        return sum(segment.nbytes for segment in leaving) >= wanted

    # --- streams that are destroyed

    def _forget_stream(self, stream: int) -> None:
        left = [self._pools[key] for key in ((stream, True), (stream, False)) if key in self._pools]
        # made first, since nothing may have changed where the driver refuses it
        fence = self.upstream.fence(stream) if any(pool.segments for pool in left) else None
        for pool in left:
            if pool.segments:
                pool.fence = fence
                self._ownerless.append(pool)
            del self._pools[stream, pool.small]

    def _adopt(self, pool: Pool) -> bool:
        """Take over what destroyed streams have left and have done with. Whether there was any."""
        ready = [left for left in self._ownerless if left.small == pool.small and left.fence and left.fence.done()]
        for left in ready:
            self._ownerless.remove(left)
            pool.absorb(left)
        return bool(ready)

    # --- the map

    def _every_pool(self) -> Iterator[Pool]:
        yield from self._pools.values()
        yield from self._ownerless

    def _segments(self) -> Iterator[Segment]:
        infos: dict[int, list[BlockInfo]] = {address: [] for address in self._held}
        for block in self._in_use.values():
            infos[block.kept.address].append(self._state(block))
        for pool in self._every_pool():
            for nbytes, address, segment, _ in pool.pieces():
                infos[segment.address].append(BlockInfo(address, nbytes, 0, "inactive"))
        for pool in self._every_pool():
            kind: Literal["small", "large"] = "small" if pool.small else "large"
            for segment in pool.segments.values():
                inside = sorted(infos[segment.address], key=lambda info: info.address)
                yield Segment(segment.address, segment.nbytes, pool.stream, kind, tuple(inside))

    def _recover(self) -> None:
        for segment in self._held.values():
            if segment.kept is None:  # taken from upstream, and not yet in a pool
                key = segment.stream, segment.small
                segment.kept = self._pools.get(key) or self._add_pool(segment.stream, small=segment.small)
        self._pools = {key: pool for key, pool in self._pools.items() if pool.fence is None}
        pools = {id(segment.kept): segment.kept for segment in self._held.values()}
        self._ownerless = [pool for pool in pools.values() if pool.fence is not None]
        blocks = sorted(self._in_use.values(), key=int)
        for pool in self._every_pool():
            segments = [segment for segment in self._held.values() if segment.kept is pool]
            pool.recover(segments, (block for block in blocks if block.kept.kept is pool))


def _up(nbytes: int, unit: int = constants.ROUND) -> int:
    return -(-nbytes // unit) * unit


def limit_of(upstream: Upstream, nbytes: int | None, fraction: float | None) -> int | None:
    """The limit in bytes that the options ``memory_limit`` and ``memory_fraction`` mean together; None for none.

    Raises:
        ValueError: the fraction is out of its range.
    """
    if fraction is None:
        return nbytes
    check_option("memory_fraction", fraction, "above 0 and at most 1", fine=0 < fraction <= 1)
    share = int(upstream.memory_info()[1] * fraction)
    return share if nbytes is None else min(nbytes, share)
