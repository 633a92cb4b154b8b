"""The contract of every allocator: policy, checks, statistics and locking, over a strategy's few underscore methods.

How the parts fit together:

- **Freeing never takes a lock.** ``free`` appends the block to its ``home``, which is one atomic operation, so that
  it may run in a finaliser at any bytecode, also while this thread is inside the allocator. The next operation that
  holds the lock *settles*: it takes returned blocks in order and hands them to the strategy.
- **A hit takes no lock either.** A strategy may keep *bins*: lists of returned blocks of one stream and one requested
  size. ``allocate`` pops from them. Blocks in a bin still count as allocated; ``statistics`` corrects for them. A
  hit only takes up again what was counted before, so that no peak can be passed on this path: every peak is exact.
- **Everything else** happens under one lock, in ``_allocate_slow`` and its kin, where the counters are kept. Whatever
  an operation holds in its hands there, a finaliser can only append to the homes; it never enters (``Operation``).
- **Observers** are called outside the lock, in order (``observation.py``). While there are any, hits go through the
  lock as well (same policy, same blocks) and homes report what is returned to them. Without any, they cost nothing.
- **Blocks that other streams use** wait behind fences when they come back (``waiting.py``).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from operator import index
from threading import get_ident

from .block import ALIGNMENT, Block, BlockInfo, Segment
from .errors import InvalidFreeError, OutOfMemoryError
from .events import EventKind, Observer
from .observation import Watched
from .report import out_of_memory_message
from .statistics import Statistics
from .strategy import Strategy
from .upstream import Fence, Upstream
from .waiting import fence_or_error

__all__ = ["ALIGNMENT", "Allocator", "Block", "BlockInfo", "Fence", "Segment", "Statistics", "Upstream"]


class Allocator(Strategy):
    """Hands out blocks of one device's memory. Every public method may be called from any thread.

    A strategy derives from it and implements what ``Strategy`` lists; all of that runs under the lock.
    """

    on_out_of_memory: Callable[[int, int], bool] | None = None
    """Called with bytes and stream when nothing else helps; frees something and answers whether to try again."""

    # --- the public contract -------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, *, stream: int) -> Block:
        """Take ``nbytes`` bytes for use on ``stream``. The contents are undefined. Zero bytes give address 0.

        When memory is short, in this order: wait for blocks that wait for streams, give cached memory back, ask
        ``on_out_of_memory``; each time try again. Memory that other threads free meanwhile is found if ``free``
        returned before the latest of these attempts began; what they free later may come too late. An allocation
        that fails raises in one thread alone: others go on, and none waits for another's free.

        Raises:
            OutOfMemoryError: nothing helped. Every block and counter is as before (but for ``num_ooms``).
            DriverError: the device is in a sticky error state.
            ValueError: ``nbytes`` is negative.
        """
        try:
            block = self._quick[stream][nbytes].pop()
        except LookupError:  # nothing of that size came back on that stream
            pass
        else:
            block.uses += 1
            return block
        return self._allocate_slow(nbytes, stream)

    def allocate_owned(self, nbytes: int, *, stream: int) -> Block:
        """As ``allocate``, for an owner: an object that gives the block up by calling ``block.give_back()``, once, and
        never by ``free``. That is a C function: a finaliser made of it enters no Python.

        An owner may do itself what happens here at a hit: pop a block from ``lane(stream)[nbytes]`` and add 2 to its
        ``uses``. After ``record_stream`` it must take ``block.give_back`` anew. Raises as ``allocate``.
        """
        try:
            block = self._lanes[stream][nbytes].pop()
        except LookupError:
            pass
        else:
            block.uses += 2
            return block
        return self._allocate_slow(nbytes, stream, owned=True)

    def lane(self, stream: int) -> dict[int, list[Block]]:
        """The bins of owners' blocks for ``stream``, by requested size in bytes.

        For one stream always the same dictionary, until the stream is forgotten. Empty while somebody observes, and
        once the allocator is closed.
        """
        return self._lanes.get(stream) or self._lanes.setdefault(stream, {})

    def free(self, block: Block) -> None:
        """Give ``block`` up: reusable at once on its own stream, elsewhere when fences say so. Never blocks.

        Once the allocator is closed this does nothing. Two threads that free one block at the same instant are not
        told apart from one.

        Raises:
            InvalidFreeError: the block is not in the program's hands, or belongs to another allocator.
        """
        uses = block.uses
        if uses & 1 and block.allocator is self:
            block.uses = uses + 1
            block.home.append(block)
        elif self._closed is None or block.allocator is not self:  # else close() took it back already
            raise InvalidFreeError(self._why_not_free(block))

    def record_stream(self, block: Block, stream: int) -> None:
        """Say that ``stream`` uses ``block`` too: once freed, it waits for the work queued there at that time.

        Raises:
            InvalidFreeError: the block is not in the program's hands, or belongs to another allocator.
        """
        if block.allocator is not self or not block.uses & 1:
            raise InvalidFreeError(self._why_not_free(block))
        if (stream == block.stream and not block.orphan) or not block.nbytes:
            return
        context = self._observation.context()
        with self._inside:
            if block.streams is None:
                block.streams = set()
                self._move(block, self._watched(self._prompt))
            block.streams.add(stream)
            self._emit(EventKind.RECORD_STREAM, stream, block.address, block.nbytes, block.requested, context)

    def release_cached(self) -> int:
        """Give back upstream what no live block needs, waiting for queued work where it must (``empty_cache``).

        Returns:
            The bytes given back.

        Raises:
            DriverError: the device is in a sticky error state.
        """
        with self._inside:
            self._check_open()
            held = self._ledger.reserved
            self._settle()
            self._await_waiting()
            self._release_cached()
            return held - self._ledger.reserved

    def forget_stream(self, stream: int) -> None:
        """Say that ``stream`` is about to be destroyed: what is cached for it must stay neither stranded nor unsafe.

        The driver may give the handle to a new stream, on which the old one's blocks are not yet safe. Live blocks of
        the stream stay valid; once freed, they wait for the work that is queued on it now.
        """
        with self._inside:
            if self._closed is not None:
                return
            self._settle()
            fence: Fence | None = None
            for block in self._live_blocks():
                if block.stream != stream and stream not in (block.streams or ()):
                    continue
                # Also of one that another thread is freeing, or that waits for other streams.
                fence = fence or fence_or_error(self.upstream, stream)
                self._early.setdefault(block, []).append(fence)
                block.streams = (block.streams or set()) - {stream}
                block.orphan = block.orphan or block.stream == stream
            self._lanes.pop(stream, {}).clear()
            self._owned_bins.pop(stream, None)
            self._bins.pop(stream, None)  # settled like all bins until no block has one of them as its home
            self._forget_stream(stream)

    def statistics(self) -> Statistics:
        """What has been counted up to now, exact to the byte."""
        with self._inside:
            if self._closed is None:
                self._settle_returned()
            return self._counted()

    def reset_peaks(self) -> None:
        """Start every peak again from its current value (``reset_peak_memory_stats``)."""
        with self._inside:
            if self._closed is None:
                self._settle()
            self._ledger.reset_peaks()

    def reset_accumulated(self) -> None:
        """Start every cumulative figure again from zero (``reset_accumulated_memory_stats``)."""
        with self._inside:
            if self._closed is None:
                self._settle()
            self._ledger.reset_accumulated()

    def segments(self) -> list[Segment]:
        """The map of what is held, in order of address."""
        with self._inside:
            if self._closed is None:
                self._settle()
            return sorted(self._segments(), key=lambda segment: segment.address)

    def live_blocks(self) -> list[Block]:
        """The blocks in the program's hands, in order of address."""
        with self._inside:
            lying = self._lying()
            live = (block for block in self._live_blocks() if block.uses & 1 and id(block) not in lying)
            return sorted(live, key=int)

    def attach(self, observer: Observer, *, context: Callable[[], int] | None = None) -> None:
        """Call ``observer`` with every event from now on.

        What other threads are in the middle of when the first observer comes may go unreported as a whole.

        Args:
            observer: see ``Observer``.
            context: called without arguments on the thread that causes an event, before the event; its result (a
                call stack's number, say) travels with the event. One context source at a time. Frees by a finaliser
                in the middle of an operation have no context.

        Raises:
            ValueError: there is a context source already.
        """
        with self._inside:
            observation = self._observation
            if context is not None and observation.source is not None:
                raise ValueError("this allocator has a context source already; detach its observer first")
            observation.source = context or observation.source
            if not observation.observers and self._closed is None:
                self._settle()
                self._close_quick_paths()
                # These stand before the methods of the same names, for as long as somebody observes.
                self.__dict__.update(allocate=self._allocate_watched, allocate_owned=self._allocate_owned_watched)
                for block in self._live_blocks():
                    block.home = Watched(self, block.home, live=block.uses & 1 == 1)
            observation.observers = (*observation.observers, observer)

    def detach(self, observer: Observer) -> None:
        """Stop calling ``observer``: it is not called again once this has returned, unless an observer called this.

        Unknown observers are ignored. The context source goes with the last one.
        """
        self._deliver()
        with self._inside:
            observation = self._observation
            had = observation.observers
            observation.observers = tuple(other for other in had if other is not observer)
            if had and not observation.observers:
                observation.source = None
                for block in self._live_blocks():
                    if isinstance(block.home, Watched):
                        block.home.live = False  # an owner may give the block back through it all the same
                        block.home = block.home.home
                if self._closed is None:
                    self._open_quick_paths()
        self._observation.finish()

    def close(self) -> None:
        """Wait for the queued work and give everything back. Live blocks become invalid. Idempotent.

        Raises:
            DriverError: the device is in a sticky error state; the memory is left to the driver.
        """
        with self._inside:
            if self._closed is not None:
                return
            self._close_quick_paths()
            self._settle()
            self._await_waiting()
            for block in [block for block in self._live_blocks() if block.uses & 1]:
                if block.uses & 1:  # no finaliser has freed it meanwhile
                    block.uses += 1
                    self._take_back(block)
            self._settle()
            self._await_waiting()
            self._release_all()
            self._closed = "it was closed"

    def abandon(self, why: str) -> None:
        """Forget everything without a call upstream: after a fork, or once the device is lost.

        ``why`` completes the sentence "this allocator cannot be used: ".
        """
        self._closed = why
        self._close_quick_paths()
        if os.getpid() != self._process:  # of the parent's threads none is here to let go of these
            self._lock = threading.RLock()
            self._owner = 0
            self._observation.drop()

    # --- allocation while somebody observes --------------------------------------------------------------------------

    def _allocate_watched(self, nbytes: int, *, stream: int) -> Block:
        return self._watched_hit(nbytes, stream, owned=False) or self._allocate_slow(nbytes, stream)

    def _allocate_owned_watched(self, nbytes: int, *, stream: int) -> Block:
        return self._watched_hit(nbytes, stream, owned=True) or self._allocate_slow(nbytes, stream, owned=True)

    def _watched_hit(self, nbytes: int, stream: int, *, owned: bool) -> Block | None:
        """A hit with its event. As without observers, it needs no lock."""
        if self._owner == get_ident():
            return None  # a finaliser, in the middle of an operation: no place to call an observer
        observation = self._observation
        context = observation.source() if observation.source is not None else 0
        block = self._from_bin(nbytes, stream, owned=owned)
        if block is not None:
            if owned:
                self._move(block, block.home)
            observation.report(EventKind.ALLOCATE, block, context)
        return block

    # --- allocation under the lock ----------------------------------------------------------------------------------

    def _allocate_slow(self, nbytes: int, stream: int, *, owned: bool = False) -> Block:
        requested, stream = index(nbytes), index(stream)
        if requested < 0:
            raise ValueError(f"cannot allocate {requested} bytes: a size is zero or more")
        if not requested:
            self._check_open()
            block = Block(self, 0, 0, 0, stream)  # as cudaMalloc(0) gives a null pointer; it is counted nowhere
            block.uses = 1
            self._move(block, block.home)
            return block
        context = self._observation.context()
        before: tuple[int, int] | None = None
        while True:
            with self._inside:
                self._check_open()
                self._owned = owned
                found = self._attempt(requested, stream, context)
                free = None if found is not None else self._progress()
            if found is not None:
                return found
            # Here no lock is held and no exception handled: a hook may free what a traceback would keep alive.
            # Hooks are asked for as long as their answers make a difference.
            retry = free != before and self.on_out_of_memory is not None and self.on_out_of_memory(requested, stream)
            before = free
            if not retry:
                self._give_up(requested, stream, context)

    def _attempt(self, requested: int, stream: int, context: int) -> Block | None:
        """One pass through everything that the allocator itself can do. None when memory is still short."""
        block = self._from_bin(requested, stream, owned=self._owned)
        if block is None:
            nbytes = self._rounded(requested)
            self._misses += 1
            self._missed_nbytes += nbytes
            self._settle_large()
            block = self._from_aside(requested, nbytes, stream) or self._try(requested, nbytes, stream)
            if block is None and self._waiting:
                self._await_waiting()
                block = self._try(requested, nbytes, stream)
            if block is None and self._release_cached():
                block = self._try(requested, nbytes, stream)
                self._ledger.calls.num_alloc_retries += block is not None
            if block is None:
                return None
            block.home = self._watched(self._home(block))
            block.uses = 1
            self._count(block.nbytes, requested)
        if self._owned:
            self._move(block, block.home)
        self._observation.emit_block(EventKind.ALLOCATE, block, context)
        return block

    def _try(self, requested: int, nbytes: int, stream: int) -> Block | None:
        try:
            return self._allocate(requested, nbytes, stream)
        except OutOfMemoryError:
            return None

    def _from_bin(self, requested: int, stream: int, *, owned: bool) -> Block | None:
        """The quick path again, for when observers have closed it."""
        bins = (self._owned_bins if owned else self._bins).get(stream)
        returned = bins.get(requested) if bins else None
        try:
            block = returned.pop() if returned else None
        except IndexError:
            return None
        if block is not None:
            home = block.home
            if isinstance(home, Watched):
                if home.live:
                    home.report(block)
                home.live = True
            block.uses += 2 if owned else 1
        return block

    def _progress(self) -> tuple[int, int]:
        """What changes when somebody frees memory: the device's free bytes, and the bytes in the program's hands."""
        return self.upstream.memory_info()[0], self._counted().all.allocated_bytes.current

    def _give_up(self, requested: int, stream: int, context: int) -> None:
        free, total = self.upstream.memory_info()
        with self._inside:
            self._ledger.calls.num_ooms += 1
            self._emit(EventKind.OUT_OF_MEMORY, stream, 0, free, requested, context)
            counted, segments = self._counted(), list(self._segments())
        message = out_of_memory_message(requested, stream, free, total, self.memory_limit, counted.all, segments)
        raise OutOfMemoryError(message)
