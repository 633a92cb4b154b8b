"""What a strategy implements and uses, and what keeps its books: everything that happens under an allocator's lock."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from functools import partial

from .block import ALIGNMENT, Block, BlockInfo, Home, Segment
from .errors import CuplugError, OutOfMemoryError
from .events import EventKind
from .ledger import Ledger
from .observation import Observation, Watched
from .operation import Operation, Prompt
from .statistics import SMALL_BLOCK, Statistics
from .upstream import Fence, Upstream
from .waiting import Waiting, fence_or_error

__all__ = ["Strategy"]

_BINS_REVIEW = 1024


class Strategy(ABC):
    """The part of an allocator that works under its lock. ``base.Allocator`` puts the public contract on top.

    A strategy implements ``_allocate``, ``_free``, ``_release_cached``, ``_live_blocks`` and ``_segments``. It takes
    memory with ``_reserve`` and gives it back with ``_release``, which count, check the limit and tell the observers.
    """

    def __init__(self, upstream: Upstream, *, memory_limit: int | None = None) -> None:
        self.upstream = upstream
        self.memory_limit = memory_limit
        """Reserve at most this many bytes: more counts as out of memory. None for no limit."""
        self._ledger = Ledger()
        self._bins: dict[int, dict[int, list[Block]]] = {}
        self._quick = self._bins  # empty while somebody observes, and once the allocator is closed
        self._owned_bins: dict[int, dict[int, list[Block]]] = {}  # for blocks with owners
        self._lanes: dict[int, dict[int, list[Block]]] = {}  # the same, but empty whenever _quick is
        self._owned = False  # whether the allocation under way is for an owner
        self._all_bins: list[list[Block]] = []
        self._large_bins: list[list[Block]] = []  # those of them that are for large blocks
        self._aside: dict[tuple[int, int], list[Block]] = {}  # by stream and size, see _count
        self._hand = 0  # where _count looked last
        self._misses = 0
        """Allocations that no bin served."""
        self._missed_nbytes = 0
        """Their bytes, rounded, in sum."""
        self._next_review = 0  # the miss at which bins out of use are looked for next
        self._returned: deque[Block] = deque()
        self._prompt: Home = Prompt(self)
        self._waiting = Waiting(self._passed)
        self._early: dict[Block, list[Fence]] = {}  # of live blocks: fences of streams that have been destroyed since
        self._observation = Observation()
        self._lock = threading.RLock()
        self._owner = 0  # the thread inside an operation
        self._inside = Operation(self)
        self._process = os.getpid()
        self._closed: str | None = None

    # --- what a strategy implements, called under the lock ---------------------------------------------------------

    @abstractmethod
    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        """Find ``nbytes`` (``requested``, rounded by ``_rounded``), or raise OutOfMemoryError having changed nothing.

        With bins, it calls ``_settle`` before it takes more from upstream, since small blocks may lie there.
        The block's ``home`` is set by the caller, to ``_home``'s answer.
        """

    @abstractmethod
    def _free(self, block: Block) -> None:
        """Take ``block`` back: its own stream may use it at once, and all other streams have finished with it.

        If it is an ``orphan``, its stream has been destroyed, and every stream may use it. Must not raise.
        """

    @abstractmethod
    def _release_cached(self) -> int:
        """Give back upstream whatever no live block needs, and return its bytes. May wait for fences."""

    def _release_all(self) -> None:
        """Give everything back upstream: no block is live any more. ``close`` calls it."""
        self._release_cached()

    @abstractmethod
    def _live_blocks(self) -> Iterable[Block]:
        """Every block that ``_allocate`` returned and ``_free`` has not seen, in bins and set aside too."""

    @abstractmethod
    def _segments(self) -> Iterable[Segment]:
        """The map of what is held, in any order. ``self._state(block)`` names a block's state."""

    def _rounded(self, nbytes: int) -> int:
        """The size in bytes to set aside for a request of ``nbytes``."""
        return (nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT

    def _home(self, block: Block) -> Home:  # noqa: ARG002 - strategies use it
        """Where a free of ``block`` puts it: the queue, a bin (``_bin``), or ``_prompt`` to settle at once."""
        return self._returned

    def _forget_stream(self, stream: int) -> None:  # noqa: B027 - optional
        """Fence what is cached for ``stream`` and make it available to other streams. Nothing is by default."""

    def _poll(self) -> None:  # noqa: B027 - optional
        """Look whether fences of the strategy's own have passed. Called whenever the allocator settles."""

    # --- what a strategy uses, under the lock -----------------------------------------------------------------------

    def _bin(self, stream: int, requested: int) -> list[Block]:
        """The bin for blocks of one stream and one requested size, made at first use.

        Blocks with owners have bins of their own: ``uses`` counts them in another way.
        """
        bins = (self._owned_bins if self._owned else self._bins).setdefault(stream, {})
        found = bins.get(requested)
        if found is None:
            found = bins[requested] = []
            self._all_bins.append(found)
            if requested > SMALL_BLOCK:
                self._large_bins.append(found)
            if self._owned:
                lane = self._lanes.setdefault(stream, {})
                if not self._observation.observers:
                    lane[requested] = found
        return found

    def _bounded_bin(self, block: Block, *, most: int) -> Home:
        """The bin of ``block`` while there are at most ``most`` bins, else the queue: a miss may look through all bins.

        Every so many misses, bins out of use are dropped.
        """
        if len(self._all_bins) >= most and not self._has_bin(block.stream, block.requested):
            if self._misses < self._next_review:
                return self._returned
            self._next_review = self._misses + _BINS_REVIEW
            self._drop_unused_bins()
            if len(self._all_bins) >= most:
                return self._returned
        return self._bin(block.stream, block.requested)

    def _has_bin(self, stream: int, requested: int) -> bool:
        """Whether ``_bin`` would find one."""
        return requested in (self._owned_bins if self._owned else self._bins).get(stream, ())

    def _drop_unused_bins(self) -> None:
        """Forget the bins that no block has as its home."""
        homes = (block.home for block in self._live_blocks())
        used = {id(home.home if isinstance(home, Watched) else home) for home in homes}
        self._all_bins = [found for found in self._all_bins if id(found) in used]
        self._large_bins = [found for found in self._large_bins if id(found) in used]
        for all_bins in (self._bins, self._owned_bins):
            for stream, bins in list(all_bins.items()):
                for requested, found in list(bins.items()):
                    if id(found) not in used:
                        del bins[requested]
                if not bins:
                    del all_bins[stream]
        if not self._observation.observers:
            self._open_quick_paths()

    def _reserve(self, nbytes: int, *, small: bool, stream: int) -> int:
        """Take ``nbytes`` from upstream, within the limit. Raises OutOfMemoryError having counted nothing."""
        if self.memory_limit is not None and self._ledger.reserved + nbytes > self.memory_limit:
            raise OutOfMemoryError(f"the memory limit of {self.memory_limit} bytes leaves no room for {nbytes} more")
        address = self.upstream.reserve(nbytes)
        self._ledger.took_segment(nbytes, small=small)
        self._emit(EventKind.SEGMENT_RESERVE, stream, address, nbytes, nbytes)
        return address

    def _release(self, address: int, nbytes: int, *, small: bool, stream: int) -> None:
        """Give back what ``_reserve`` returned. The caller has seen to it that no queued work touches it.

        Raises:
            DriverError: the driver refused. Nothing has been counted.
        """
        self.upstream.release(address)
        self._ledger.gave_segment(nbytes, small=small)
        self._emit(EventKind.SEGMENT_RELEASE, stream, address, nbytes, nbytes)

    def _state(self, block: Block) -> BlockInfo:
        """The entry for ``block``, live or pending, in a segment's map."""
        pending = block.uses & 1 == 0
        state = "active_pending_free" if pending else "active_allocated"
        return BlockInfo(block.address, block.nbytes, block.requested, state)  # type: ignore[arg-type]

    def _emit(self, kind: EventKind, stream: int, address: int, nbytes: int, requested: int, context: int = 0) -> None:
        """Queue an event for the observers, if there are any."""
        self._observation.emit(kind, stream, address, nbytes, requested, context)

    # --- blocks that come back ----------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Hand every returned block to the strategy, those in bins and those set aside too, and poll the fences."""
        self._settle_returned()
        self._settle_bins(self._all_bins)
        aside, self._aside = self._aside, {}
        for blocks in aside.values():
            for block in blocks:
                self._free(block)
        self._poll_fences()

    def _settle_large(self) -> None:
        """The same, but for small blocks in bins and set aside.

        These stay there until nothing else fits a request: then the strategy calls ``_settle``. They hold little
        memory, and work with small tensors asks for them again and again. Large blocks would hold much: they are made
        one with their neighbours before each search.
        """
        self._settle_returned()
        self._settle_bins(self._large_bins)
        self._poll_fences()

    def _settle_bins(self, bins: list[list[Block]]) -> None:
        for returned in list(filter(None, bins)):
            while returned:
                try:
                    block = returned.pop()
                except IndexError:  # another thread took the last one
                    break
                self._take_back(block)

    def _count(self, nbytes: int, requested: int) -> None:
        """Count a block that goes into the program's hands, once no peak rises that counts some which lie in bins.

        Nobody counts when a block is taken from a bin, or comes back to it: it counts as in use all the time. So what
        counts must stay below the peaks, which were reached once, or nothing may lie in a bin. Small blocks that are
        taken out are set aside: counted as free, but kept as they are for a request of their size.
        """
        ledger, bins = self._ledger, self._all_bins
        rises, looked = ledger.rises(nbytes, requested), 0
        while rises and looked < len(bins):
            self._hand %= len(bins)
            try:
                block = bins[self._hand].pop()
            except IndexError:  # one bin until it is empty: where many lie, they are not asked for again soon
                self._hand += 1
                looked += 1
                continue
            if self._ended(block):
                self._keep(block)
            rises = ledger.rises(nbytes, requested)
        ledger.allocated(nbytes, requested, rises=rises)

    def _keep(self, block: Block) -> None:
        """Set a small block of a living stream aside; others go to the strategy."""
        if block.nbytes > SMALL_BLOCK or block.orphan:
            self._free(block)
        else:
            self._aside.setdefault((block.stream, block.nbytes), []).append(block)

    def _from_aside(self, requested: int, nbytes: int, stream: int) -> Block | None:
        """A block that was set aside, if one has this size."""
        blocks = self._aside.get((stream, nbytes))
        if not blocks:
            return None
        block = blocks.pop()
        block.requested = requested
        return block

    def _settle_returned(self) -> None:
        while self._returned:
            self._take_back(self._returned.popleft())

    def _poll_fences(self) -> None:
        if self._waiting:
            self._waiting.poll()
        self._poll()

    def _await_waiting(self) -> None:
        if self._waiting:
            self._ledger.calls.num_sync_all_streams += 1
            self._waiting.wait()

    def _take_back(self, block: Block) -> None:
        """Take a block out of the program's hands: the strategy gets it, once other streams have finished with it."""
        if self._ended(block):
            self._free(block)

    def _ended(self, block: Block) -> bool:
        """Count a block out of the program's hands. Whether it is free now; else it waits for other streams."""
        times = (block.uses + 1) // 2
        if not times:
            return False  # it was taken back under its owner's hands, who lets go of it only now
        if isinstance(block.home, Watched):
            block.home.report(block)
        block.uses = 0
        if block.streams is not None:
            fences = [(id(fence), fence) for fence in self._early.pop(block, ())]
            fences += [(stream, fence_or_error(self.upstream, stream)) for stream in sorted(block.streams)]
            if fences:
                self._ledger.freed(block.nbytes, block.requested, times, waits=True)
                self._waiting.add(block, fences)
                return False
            block.streams = None
        self._ledger.freed(block.nbytes, block.requested, times)
        return True

    def _passed(self, block: Block) -> None:
        """Called by ``_waiting`` once every fence of ``block`` has passed."""
        early = self._early.pop(block, None)
        if early:  # its stream was destroyed while it waited for others
            self._waiting.add(block, [(id(fence), fence) for fence in early])
            return
        self._observation.emit_block(EventKind.FENCE_PASSED, block)
        self._ledger.passed(block.nbytes)
        block.streams = None
        self._free(block)

    # --- counting -----------------------------------------------------------------------------------------------------

    def _counted(self) -> Statistics:
        """The counters, corrected for blocks that lie in bins or were taken from them."""
        counted, lying = self._ledger.statistics(), self._lying()
        for block in self._live_blocks():
            uses = block.uses
            in_bin = uses > 0 and (uses & 1 == 0 or id(block) in lying)  # 0: taken back, and perhaps waiting
            hits = (uses - 1) // 2
            if not in_bin and hits <= 0:
                continue
            nbytes, requested = block.nbytes, block.requested
            for counters in (counted.all, counted.small if nbytes <= SMALL_BLOCK else counted.large):
                if hits > 0:
                    counters.passed_through(nbytes, requested, hits)
                if in_bin:
                    counters.freed(nbytes, requested, waits=block.streams is not None)
        return counted

    def _lying(self) -> set[int]:
        """The identities of the blocks that came back and were not settled."""
        return {id(block) for found in (*self._all_bins, self._returned) for block in list(found)}

    # --- small help ---------------------------------------------------------------------------------------------------

    def _move(self, block: Block, home: Home) -> None:
        """Change the block's home, for an owner too that takes ``give_back`` from now on."""
        block.home = home
        block.give_back = partial(home.append, block)

    def _close_quick_paths(self) -> None:
        self._stop_reporting_hits()
        self._quick = {}
        for lane in list(self._lanes.values()):
            lane.clear()

    def _open_quick_paths(self) -> None:
        self._stop_reporting_hits()
        self._quick = self._bins
        for stream, lane in list(self._lanes.items()):
            lane.clear()
            lane.update(self._owned_bins.get(stream, {}))

    def _stop_reporting_hits(self) -> None:
        for name in ("allocate", "allocate_owned"):
            self.__dict__.pop(name, None)

    def _settle_promptly(self) -> None:
        """What an operation of its own would settle, by a free that found the lock open. Under the lock."""
        if self._closed is None:
            self._settle_returned()
            self._poll_fences()

    def _is_outside(self) -> bool:
        return self._owner != threading.get_ident()

    def _deliver(self) -> None:
        """Call the observers, unless this thread is inside an operation: it does so at its end."""
        if self._is_outside():
            self._observation.deliver()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise CuplugError(f"this allocator cannot be used: {self._closed}")

    def _watched(self, home: Home) -> Home:
        return Watched(self, home, live=True) if self._observation.observers else home

    def _why_not_free(self, block: Block) -> str:
        if block.allocator is not self:
            return f"{block!r} belongs to another allocator ({block.allocator!r}); free it there"
        return f"{block!r} is not in the program's hands: it was freed before, or its allocator was closed"
