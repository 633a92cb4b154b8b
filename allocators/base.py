"""The contract of every allocator: policy, checks, statistics and locking, over a strategy's few underscore methods.

How the parts fit together:

- **Freeing never takes a lock.** ``free`` appends the block to its ``home``, which is one atomic operation, so that
  it may run in a finaliser at any bytecode, also while this thread is inside the allocator. The next operation that
  holds the lock *settles*: it takes returned blocks in order and hands them to the strategy.
- **A hit takes no lock either.** A strategy may keep *bins*: lists of returned blocks of one stream and one requested
  size. ``allocate`` pops from them. Blocks in a bin still count as allocated; ``statistics`` corrects for them. A
  hit only takes up again what was counted before, so that no peak can be passed on this path: every peak is exact.
- **Everything else** happens under one lock, in ``_allocate_slow`` and its kin, where the counters are kept.
- **Observers** are called outside the lock, in order. While there are any, hits go through the lock as well (same
  policy, same blocks) and homes report what is returned to them. Without any, they cost nothing.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from operator import index

from .block import ALIGNMENT, Block, BlockInfo, Home, Segment
from .errors import CuplugError, InvalidFreeError, OutOfMemoryError
from .events import EventKind, Observer
from .sizes import format_size
from .statistics import SMALL_BLOCK, Counter, Counters, Statistics
from .upstream import Fence, Upstream

__all__ = ["ALIGNMENT", "Allocator", "Block", "BlockInfo", "Fence", "Segment", "Statistics", "Upstream"]

_Event = tuple[EventKind, int, int, int, int, int, int, int]


class Allocator(ABC):
    """Hands out blocks of one device's memory. Every public method may be called from any thread.

    A strategy implements ``_allocate``, ``_free``, ``_release_cached``, ``_live_blocks`` and ``segments``'s
    ``_segments``; all run under the lock. It takes memory with ``_reserve`` and gives it back with ``_release``,
    which count, check the limit and tell the observers.
    """

    on_out_of_memory: Callable[[int, int], bool] | None = None
    """Called with bytes and stream when nothing else helps; frees something and answers whether to try again."""

    def __init__(self, upstream: Upstream, *, memory_limit: int | None = None) -> None:
        self.upstream = upstream
        self.memory_limit = memory_limit
        """Reserve at most this many bytes: more counts as out of memory. None for no limit."""
        self._statistics = Statistics()
        self._bins: dict[int, dict[int, list[Block]]] = {}
        self._quick = self._bins  # emptied while somebody observes
        self._all_bins: list[list[Block]] = []
        self._returned: deque[Block] = deque()
        self._waiting: deque[tuple[list[Fence], Block]] = deque()
        self._lock = threading.RLock()
        self._inside = False
        self._closed: str | None = None
        self._observers: tuple[Observer, ...] = ()
        self._context: Callable[[], int] | None = None
        self._outbox: deque[_Event] = deque()
        self._delivering = threading.Lock()
        self._prompt = _Prompt(self)

    # --- the public contract -------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, *, stream: int) -> Block:
        """Take ``nbytes`` bytes for use on ``stream``. The contents are undefined. Zero bytes give address 0.

        When memory is short, in this order: wait for blocks that wait for streams, give cached memory back, ask
        ``on_out_of_memory``; each time try again. Memory that another thread frees meanwhile is found when its
        ``free`` returned before the attempt began.

        Raises:
            OutOfMemoryError: nothing helped. Every block and counter is as before (but for ``num_ooms``).
            DriverError: the device is in a sticky error state.
            ValueError: ``nbytes`` is negative.
        """
        bins = self._quick.get(stream)
        if bins is not None:
            returned = bins.get(nbytes)
            if returned:
                try:
                    block = returned.pop()
                except IndexError:  # another thread took the last one
                    pass
                else:
                    block.uses += 1
                    return block
        return self._allocate_slow(nbytes, stream)

    def free(self, block: Block) -> None:
        """Give ``block`` up: reusable at once on its own stream, elsewhere when fences say so. Never blocks.

        Once the allocator is closed this does nothing. Two threads that free one block at the same instant are not
        told apart from one.

        Raises:
            InvalidFreeError: the block is not in the program's hands, or belongs to another allocator.
        """
        uses = block.uses
        if block.allocator is not self or not uses & 1:
            if self._closed is not None and block.allocator is self:
                return  # close() took it back already
            raise InvalidFreeError(self._why_not_free(block))
        block.uses = uses + 1
        block.home.append(block)

    def record_stream(self, block: Block, stream: int) -> None:
        """Say that ``stream`` uses ``block`` too: once freed, it waits for the work queued there at that time.

        Raises:
            InvalidFreeError: the block is not in the program's hands, or belongs to another allocator.
        """
        if block.allocator is not self or not block.uses & 1:
            raise InvalidFreeError(self._why_not_free(block))
        if stream == block.stream or not block.nbytes:
            return
        context = self._context() if self._context else 0
        self._enter()
        try:
            if block.streams is None:
                block.streams = set()
                block.home = self._watched(self._prompt)
            block.streams.add(stream)
            self._emit(EventKind.RECORD_STREAM, stream, block.address, block.nbytes, block.requested, context)
        finally:
            self._leave()
        self._deliver()

    def release_cached(self) -> int:
        """Give back upstream what no live block needs, waiting for queued work where it must (``empty_cache``).

        Returns:
            The bytes given back.

        Raises:
            DriverError: the device is in a sticky error state.
        """
        self._enter()
        try:
            self._check_open()
            self._settle()
            self._await_waiting()
            released = self._release_cached()
        finally:
            self._leave()
        self._deliver()
        return released

    def forget_stream(self, stream: int) -> None:
        """Say that ``stream`` is about to be destroyed: what is cached for it must stay neither stranded nor unsafe.

        The driver may give the handle to a new stream, on which the old one's blocks are not yet safe.
        """
        self._enter()
        try:
            if self._closed is None:
                self._settle()
                self._forget_stream(stream)
        finally:
            self._leave()
        self._deliver()

    def statistics(self) -> Statistics:
        """What has been counted up to now, exact to the byte."""
        self._enter()
        try:
            if self._closed is None:
                self._settle_returned()
            return self._counted()
        finally:
            self._leave()
            self._deliver()

    def reset_peaks(self) -> None:
        """Start every peak again from its current value (``reset_peak_memory_stats``)."""
        self._reset(Counter.reset_peak)

    def reset_accumulated(self) -> None:
        """Start every cumulative figure again from zero (``reset_accumulated_memory_stats``)."""
        self._reset(Counter.reset_accumulated)
        self._statistics.num_alloc_retries = self._statistics.num_ooms = 0

    def segments(self) -> list[Segment]:
        """The map of what is held, in order of address."""
        self._enter()
        try:
            if self._closed is None:
                self._settle()
            return sorted(self._segments(), key=lambda segment: segment.address)
        finally:
            self._leave()
            self._deliver()

    def live_blocks(self) -> list[Block]:
        """The blocks in the program's hands, in order of address."""
        self._enter()
        try:
            return sorted((block for block in self._live_blocks() if block.uses & 1), key=int)
        finally:
            self._leave()

    def attach(self, observer: Observer, *, context: Callable[[], int] | None = None) -> None:
        """Call ``observer`` with every event from now on.

        Args:
            observer: see ``Observer``.
            context: called without arguments on the thread that causes an event, before the event; its result (a
                call stack's number, say) travels with the event. One context source at a time.

        Raises:
            ValueError: there is a context source already.
        """
        self._enter()
        try:
            if context is not None and self._context is not None:
                raise ValueError("this allocator has a context source already; detach its observer first")
            self._context = context or self._context
            if not self._observers:
                self._quick = {}
                for block in self._live_blocks():
                    block.home = _Watched(self, block.home)
            self._observers = (*self._observers, observer)
        finally:
            self._leave()

    def detach(self, observer: Observer) -> None:
        """Stop calling ``observer``. Unknown observers are ignored. The context source goes with the last one."""
        self._deliver()
        self._enter()
        try:
            had = self._observers
            self._observers = tuple(other for other in had if other is not observer)
            if had and not self._observers:
                self._context = None
                for block in self._live_blocks():
                    if isinstance(block.home, _Watched):
                        block.home = block.home.home
                if self._closed is None:
                    self._quick = self._bins
        finally:
            self._leave()

    def close(self) -> None:
        """Wait for the queued work and give everything back. Live blocks become invalid. Idempotent.

        Raises:
            DriverError: the device is in a sticky error state; the memory is left to the driver.
        """
        self._enter()
        try:
            if self._closed is not None:
                return
            self._settle()
            self._await_waiting()
            live = [block for block in self._live_blocks() if block.uses & 1]
            for block in live:
                block.uses += 1
                self._take_back(block)
            self._await_waiting()
            self._release_all()
            self._quick = {}
            self._closed = "it was closed"
        finally:
            self._leave()
        self._deliver()

    def abandon(self, why: str) -> None:
        """Forget everything without a call upstream: after a fork, or once the device is lost.

        ``why`` completes the sentence "this allocator cannot be used: ".
        """
        self._lock = threading.RLock()  # another thread may have held it when the process forked
        self._delivering = threading.Lock()
        self._inside = False
        self._quick = {}
        self._observers = ()
        self._outbox.clear()
        self._closed = why

    # --- what a strategy implements, called under the lock ---------------------------------------------------------

    @abstractmethod
    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        """Find ``nbytes`` (``requested``, rounded by ``_rounded``), or raise OutOfMemoryError having changed nothing.

        The block's ``home`` is set by the caller, to ``_home``'s answer.
        """

    @abstractmethod
    def _free(self, block: Block) -> None:
        """Take ``block`` back: its own stream may use it at once, and all other streams have finished with it."""

    @abstractmethod
    def _release_cached(self) -> int:
        """Give back upstream whatever no live block needs, and return its bytes. May wait for fences."""

    def _release_all(self) -> None:
        """Give everything back upstream: no block is live any more. ``close`` calls it."""
        self._release_cached()

    @abstractmethod
    def _live_blocks(self) -> Iterable[Block]:
        """Every block that ``_allocate`` returned and ``_free`` has not seen, those in bins included."""

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
        """The bin for blocks of one stream and one requested size, made at first use."""
        bins = self._bins.setdefault(stream, {})
        found = bins.get(requested)
        if found is None:
            found = bins[requested] = []
            self._all_bins.append(found)
        return found

    def _reserve(self, nbytes: int, *, small: bool, stream: int) -> int:
        """Take ``nbytes`` from upstream, within the limit. Raises OutOfMemoryError having counted nothing."""
        held = self._statistics.all.reserved_bytes.current
        if self.memory_limit is not None and held + nbytes > self.memory_limit:
            raise OutOfMemoryError(f"the memory limit of {self.memory_limit} bytes leaves no room for {nbytes} more")
        address = self.upstream.reserve(nbytes)
        self._statistics.num_device_alloc += 1
        for counters in self._counters(small):
            counters.segment.increase(1)
            counters.reserved_bytes.increase(nbytes)
        self._emit(EventKind.SEGMENT_RESERVE, stream, address, nbytes, nbytes)
        return address

    def _release(self, address: int, nbytes: int, *, small: bool, stream: int) -> None:
        """Give back what ``_reserve`` returned. The caller has seen to it that no queued work touches it."""
        self._emit(EventKind.SEGMENT_RELEASE, stream, address, nbytes, nbytes)
        for counters in self._counters(small):
            counters.segment.decrease(1)
            counters.reserved_bytes.decrease(nbytes)
        self._statistics.num_device_free += 1
        self.upstream.release(address)

    def _counters(self, small: bool) -> tuple[Counters, Counters]:
        """The two groups of counters that a block or segment counts in."""
        return self._statistics.all, self._statistics.small if small else self._statistics.large

    def _state(self, block: Block) -> BlockInfo:
        """The entry for ``block``, live or pending, in a segment's map."""
        pending = block.uses & 1 == 0
        state = "active_pending_free" if pending else "active_allocated"
        return BlockInfo(block.address, block.nbytes, block.requested, state)  # type: ignore[arg-type]

    def _emit(self, kind: EventKind, stream: int, address: int, nbytes: int, requested: int, context: int = 0) -> None:
        """Queue an event for the observers, if there are any."""
        if self._observers:
            event = (kind, time.perf_counter_ns(), threading.get_ident(), stream, address, nbytes, requested, context)
            self._outbox.append(event)

    # --- allocation under the lock ----------------------------------------------------------------------------------

    def _allocate_slow(self, nbytes: int, stream: int) -> Block:
        requested, stream = index(nbytes), index(stream)
        if requested < 0:
            raise ValueError(f"cannot allocate {requested} bytes: a size is zero or more")
        if not requested:
            self._check_open()
            block = Block(self, 0, 0, 0, stream)  # as cudaMalloc(0) gives a null pointer; it is counted nowhere
            block.uses = 1
            return block
        context = self._context() if self._context else 0
        before: tuple[int, int] | None = None
        while True:
            self._enter()
            try:
                self._check_open()
                found = self._attempt(requested, stream, context)
                free = None if found is not None else self._progress()
            finally:
                self._leave()
            self._deliver()
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
        block = self._from_bin(requested, stream)
        if block is None:
            nbytes = self._rounded(requested)
            self._settle()
            block = self._try(requested, nbytes, stream)
            if block is None and self._waiting:
                self._await_waiting()
                block = self._try(requested, nbytes, stream)
            if block is None and self._release_cached():
                block = self._try(requested, nbytes, stream)
                self._statistics.num_alloc_retries += block is not None
            if block is None:
                return None
            block.uses = 1
            block.home = self._watched(self._home(block))
            self._count_in(block)
        self._emit(EventKind.ALLOCATE, stream, block.address, block.nbytes, requested, context)
        return block

    def _try(self, requested: int, nbytes: int, stream: int) -> Block | None:
        try:
            return self._allocate(requested, nbytes, stream)
        except OutOfMemoryError:
            return None

    def _from_bin(self, requested: int, stream: int) -> Block | None:
        """The quick path again, for when observers have closed it."""
        returned = self._bins.get(stream, {}).get(requested)
        try:
            block = returned.pop() if returned else None
        except IndexError:
            return None
        if block is not None:
            block.uses += 1
        return block

    def _progress(self) -> tuple[int, int]:
        """What changes when somebody frees memory: the device's free bytes, and the bytes in the program's hands."""
        return self.upstream.memory_info()[0], self._counted().all.allocated_bytes.current

    def _give_up(self, requested: int, stream: int, context: int) -> None:
        free, total = self.upstream.memory_info()
        self._enter()
        try:
            self._statistics.num_ooms += 1
            self._emit(EventKind.OUT_OF_MEMORY, stream, 0, free, requested, context)
            counted = self._counted().all
            inactive = [
                info.nbytes for segment in self._segments() for info in segment.blocks if info.state == "inactive"
            ]
        finally:
            self._leave()
        self._deliver()
        largest, lost = max(inactive, default=0), sum(inactive)
        limit = "" if self.memory_limit is None else f" The allocator's limit is {format_size(self.memory_limit)}."
        advice = (
            "Much of it is fragmentation: another allocator or option may fit; compare them by replaying a trace."
            if lost >= requested
            else "Free something, use a smaller batch, or choose a larger device."
        )
        raise OutOfMemoryError(
            f"tried to allocate {format_size(requested)} on stream {stream:#x}. The device has "
            f"{format_size(total)}, of which "
            f"{format_size(free)} are free.{limit} The program holds {format_size(counted.allocated_bytes.current)} "
            f"({format_size(counted.requested_bytes.current)} requested) and the allocator has reserved "
            f"{format_size(counted.reserved_bytes.current)}; its largest free block has {format_size(largest)}, and "
            f"{format_size(lost)} are lost to fragmentation. {advice}"
        )

    # --- blocks that come back ----------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Hand every returned block to the strategy, those in bins included, and poll the fences."""
        self._settle_returned()
        for returned in filter(None, self._all_bins):
            while True:
                try:
                    block = returned.pop()
                except IndexError:
                    break
                self._take_back(block)
        self._poll_waiting()
        self._poll()

    def _settle_returned(self) -> None:
        while self._returned:
            self._take_back(self._returned.popleft())

    def _take_back(self, block: Block) -> None:
        self._count_out(block)
        if block.streams:
            fences = [self.upstream.fence(stream) for stream in sorted(block.streams)]
            self._waiting.append((fences, block))
        else:
            self._reusable(block)

    def _poll_waiting(self) -> None:
        for _ in range(len(self._waiting)):
            fences, block = self._waiting.popleft()
            if all(fence.done() for fence in fences):
                self._passed(block)
            else:
                self._waiting.append((fences, block))

    def _await_waiting(self) -> None:
        self._statistics.num_sync_all_streams += bool(self._waiting)
        while self._waiting:
            fences, block = self._waiting[0]
            for fence in fences:
                fence.wait()
            self._waiting.popleft()
            self._passed(block)

    def _passed(self, block: Block) -> None:
        self._emit(EventKind.FENCE_PASSED, block.stream, block.address, block.nbytes, block.requested)
        self._reusable(block)

    def _reusable(self, block: Block) -> None:
        for counters in self._counters(block.nbytes <= SMALL_BLOCK):
            counters.active.decrease(1)
            counters.active_bytes.decrease(block.nbytes)
        block.streams = None
        self._free(block)

    # --- counting -----------------------------------------------------------------------------------------------------

    def _count_in(self, block: Block) -> None:
        nbytes, requested = block.nbytes, block.requested
        for counters in self._counters(nbytes <= SMALL_BLOCK):
            counters.allocation.increase(1)
            counters.allocated_bytes.increase(nbytes)
            counters.requested_bytes.increase(requested)
            counters.active.increase(1)
            counters.active_bytes.increase(nbytes)

    def _count_out(self, block: Block) -> None:
        nbytes, requested = block.nbytes, block.requested
        hits = block.uses // 2 - 1
        block.uses = 0
        for counters in self._counters(nbytes <= SMALL_BLOCK):
            counters.allocation.decrease(1)
            counters.allocated_bytes.decrease(nbytes)
            counters.requested_bytes.decrease(requested)
            if hits:
                _count_hits(counters, nbytes, requested, hits)

    def _counted(self) -> Statistics:
        """The counters, corrected for blocks that lie in bins or were taken from them."""
        counted = self._statistics.copy()
        for block in self._live_blocks():
            uses = block.uses
            in_bin = uses & 1 == 0 and block.streams is None
            hits = (uses - 1) // 2
            if not in_bin and hits <= 0:
                continue
            nbytes, requested = block.nbytes, block.requested
            for counters in (counted.all, counted.small if nbytes <= SMALL_BLOCK else counted.large):
                if hits > 0:
                    _count_hits(counters, nbytes, requested, hits)
                if in_bin:
                    counters.allocation.decrease(1)
                    counters.allocated_bytes.decrease(nbytes)
                    counters.requested_bytes.decrease(requested)
                    counters.active.decrease(1)
                    counters.active_bytes.decrease(nbytes)
        return counted

    def _reset(self, reset: Callable[[Counter], None]) -> None:
        self._enter()
        try:
            if self._closed is None:
                self._settle()
            for _, counters in self._statistics.pools():
                for _, counter in counters.named():
                    reset(counter)
        finally:
            self._leave()
        self._deliver()

    # --- lock, state, observers ---------------------------------------------------------------------------------------

    def _enter(self) -> None:
        self._lock.acquire()
        if self._inside:
            self._lock.release()
            raise CuplugError(
                "an allocator was used from a finaliser, or from an observer, while the same thread was inside it; "
                "there, only free() may be called"
            )
        self._inside = True

    def _leave(self) -> None:
        self._inside = False
        self._lock.release()

    def _settle_promptly(self) -> None:
        """Settle now if the lock is free; else the next operation does. Never raises: it may run in a finaliser."""
        lock = self._lock
        if not lock.acquire(blocking=False):
            return
        try:
            if not self._inside and self._closed is None:
                self._inside = True
                try:
                    self._settle_returned()
                    self._poll_waiting()
                    self._poll()
                except CuplugError:
                    pass  # a sticky error of the device: it surfaces at the next call that waits, as CUDA's do
                finally:
                    self._inside = False
        finally:
            lock.release()
        self._deliver()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise CuplugError(f"this allocator cannot be used: {self._closed}")

    def _watched(self, home: Home) -> Home:
        return _Watched(self, home) if self._observers else home

    def _deliver(self) -> None:
        """Call the observers, one event at a time and in order. Whoever is delivering delivers for all."""
        while self._outbox and self._delivering.acquire(blocking=False):
            try:
                while self._outbox:
                    event = self._outbox.popleft()
                    for observer in self._observers:
                        self._notify(observer, event)
            finally:
                self._delivering.release()

    def _notify(self, observer: Observer, event: _Event) -> None:
        try:
            observer(*event)
        except Exception as error:
            self._observers = tuple(other for other in self._observers if other is not observer)
            warnings.warn(f"observer {observer!r} raised {error!r} and was detached", RuntimeWarning, stacklevel=2)

    def _why_not_free(self, block: Block) -> str:
        if block.allocator is not self:
            return f"{block!r} belongs to another allocator ({block.allocator!r}); free it there"
        return f"{block!r} is not in the program's hands: it was freed before, or its allocator was closed"


class _Prompt:
    """A home for blocks that should go back as soon as possible: it settles at once where it can."""

    __slots__ = ("allocator",)

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator

    def append(self, block: Block, /) -> None:
        self.allocator._returned.append(block)
        if not sys.is_finalizing():
            self.allocator._settle_promptly()


class _Watched:
    """A home while somebody observes: it reports the free, then passes the block on."""

    __slots__ = ("allocator", "home")

    def __init__(self, allocator: Allocator, home: Home) -> None:
        self.allocator = allocator
        self.home = home

    def append(self, block: Block, /) -> None:
        allocator = self.allocator
        context = allocator._context() if allocator._context else 0
        allocator._emit(EventKind.FREE, block.stream, block.address, block.nbytes, block.requested, context)
        self.home.append(block)
        allocator._deliver()


def _count_hits(counters: Counters, nbytes: int, requested: int, hits: int) -> None:
    counters.allocation.passed_through(hits)
    counters.allocated_bytes.passed_through(nbytes * hits)
    counters.requested_bytes.passed_through(requested * hits)
    counters.active.passed_through(hits)
    counters.active_bytes.passed_through(nbytes * hits)
