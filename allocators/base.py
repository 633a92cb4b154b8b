"""The contract of every allocator: policy, checks, statistics and locking, over a strategy's few underscore methods.

How the parts fit together:

- **One lock.** Every operation but ``free`` runs under it, as a whole (``_operate``).
- **Freeing takes no lock.** ``free`` appends the block to a list, so that it may run in a finaliser at any bytecode,
  also while this thread is inside the allocator. The next operation first takes back what has been returned, in order.
- **Interrupts.** An exception may arrive at any point, such as ``KeyboardInterrupt`` or ``MemoryError``. So little is
  kept as the truth, and each part of it changes in one step: ``Block.live`` and ``Block.waiting``, the blocks in use,
  and what is held from upstream. All else follows from that: counters, free lists, queues. An operation that an
  exception broke off leaves ``_torn`` set; the next one makes everything anew from the truth before it does its own.
- **Observers** are called outside the lock, in order (``observation.py``). Without any, they cost nothing.
- **Blocks that other streams use** wait behind fences when they come back (``waiting.py``).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from operator import attrgetter, index
from typing import TYPE_CHECKING, Any, TypeVar

from .block import ALIGNMENT, Block, BlockInfo, Segment, why_not_free
from .errors import CuplugError, InvalidFreeError, OutOfMemoryError
from .events import EventKind, Observer
from .exiting import wait_if_exiting
from .held_memory import HeldMemory
from .libraries import OWN
from .lock import Lock
from .moving import Copier, Side, cannot_move, check_move
from .observation import Observation
from .out_of_memory import shortage_message
from .private_streams import names_pool, without_pool
from .request import MOST_BYTES, Request
from .sleeping import Keep, Sleeping, cannot_wake, check_sleep
from .statistics import Ledger, Statistics
from .tagged_memory import TaggedMemory
from .upstream import Fence, Upstream, in_one_step
from .waiting import LateFence, Waiting, fence_or_later

__all__ = ["ALIGNMENT", "Allocator", "Block", "BlockInfo", "Fence", "HeldMemory", "Segment", "Statistics", "Upstream"]

T = TypeVar("T")
_address = attrgetter("address")


class _Limit:
    """``Allocator.memory_limit``: read like any attribute, without a call; observers are told when it is changed."""

    def __set__(self, allocator: Allocator, nbytes: int | None) -> None:
        if "memory_limit" in allocator.__dict__:
            allocator._operate(allocator._change_limit, nbytes)
        else:  # as it is made
            allocator.__dict__["memory_limit"] = nbytes


class Allocator(ABC):
    """Hands out blocks of one device's memory. Every public method may be called from any thread.

    A strategy derives from it and implements ``_allocate``, ``_free``, ``_release_cached`` and ``_segments``, and
    ``_recover`` if it is to survive interrupts; all of that runs under the lock. It takes memory with ``_reserve`` and
    gives it back with ``_release``, which count, check the limit and tell the observers.
    """

    on_out_of_memory: Callable[[int, int], bool] | None = None
    """Called with bytes and stream when nothing else helps; frees something and answers whether to try again."""
    guard = 0
    """At least so many bytes behind each block that is allocated from now on are nobody's: they are rounded up with
    what was asked for. A runtime sets it on a simulator, where reaching into them is found."""
    on_beyond: Callable[[int, int], None] | None = None
    """Called once, with bytes and stream, when the first block lies in memory of another kind for want of the
    device's own. Like the other hook it is called without the lock, and what it raises comes out of ``allocate``."""
    _told_beyond = False
    frees_at_once = False
    """Whether a free makes the strategy work at once, if nobody else is inside, instead of at the next operation."""
    only_replays = False
    """Whether it stands for another library's allocator in replays, and no program can allocate from it."""
    can_sleep = False
    """Whether the strategy can put tagged memory to sleep (``sleeping.py``)."""
    can_move = False
    """Whether it may take memory of the host, so that tagged memory can move there and back (``moving.py``)."""
    counts_splits = False
    """Whether the strategy counts free blocks that share a segment with used ones (``Ledger.split``)."""
    _tagged: TaggedMemory | None = None
    """The memory of each tag, where the strategy keeps it apart: what can sleep or move has one."""
    _steps = 0
    """In so many steps for each power of two sizes are rounded up (``roundup_power2_divisions``); 0 or 1 for not."""

    if TYPE_CHECKING:
        memory_limit: int | None
    else:
        memory_limit = _Limit()
    """At most so many bytes are reserved; more counts as out of memory. None for no limit. It may be changed."""

    def __init__(self, upstream: Upstream, *, memory_limit: int | None = None) -> None:
        """Over ``upstream``, reserving at most ``memory_limit`` bytes; None for no limit.

        Raises:
            ValueError: the limit is not positive.
        """
        check_option("memory_limit", memory_limit, "at least one byte", fine=memory_limit is None or memory_limit >= 1)
        self.upstream = upstream
        self.memory_limit = memory_limit
        self._in_use: dict[int, Block] = {}
        """By address: the blocks in the program's hands, those returned meanwhile, and those that wait for streams."""
        self._held: dict[int, HeldMemory] = {}
        """By address: what ``_reserve`` took."""
        self._arriving: HeldMemory | None = None
        """What ``_reserve`` is taking at present."""
        self._departing: HeldMemory | None = None
        """What ``_release`` is giving back at present."""
        self._returned: deque[Block] = deque()
        self._unlisted = False  # whether blocks may have been freed that are not among the returned ones
        self._torn = False
        self._closed: str | None = None
        self._contradicts = False
        """Whether an operation broke off for good, so that the strategy's own lists may contradict one another."""
        self._keeps_pools = True  # until the end
        self._ledger = Ledger()
        self._waiting = Waiting(self._passed)
        self._observation = Observation()
        self._lock = Lock()
        self._process = os.getpid()

    # --- the public contract -------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, *, stream: int, library: int = OWN) -> Block:
        """Take ``nbytes`` bytes for use on ``stream``. The contents are undefined. Zero bytes give address 0.

        ``library`` is the number of the library that asks (``allocators/libraries.py``), which observers are told.

        When memory is short, in this order: wait for blocks that wait for streams, give cached memory back, ask
        ``on_out_of_memory``; each time try again; and at last, if the strategy has it, take memory of another kind
        (the host's). The hook is asked again as long as each answer leaves more memory available than ever before in
        this call. Memory that other threads free meanwhile is found if ``free`` returned before the latest of these
        attempts began; what they free later may come too late.
        An allocation that fails raises in one thread alone: others go on, and none waits for another's free.

        An exception that comes before the caller has the block, such as an interrupt, gives it back. A block that the
        caller drops without freeing it stays allocated: ``live_blocks`` finds it.

        Raises:
            OutOfMemoryError: nothing helped. Every block and counter is as before (but for ``num_ooms``).
            DriverError: the device is in a sticky error state.
            ValueError: ``nbytes`` is negative.
            CuplugError: the allocator was closed, or is called from a finaliser or an observer in its middle.
        """
        request = Request(index(nbytes), index(stream))
        if request.nbytes < 0:
            raise ValueError(f"cannot allocate {request.nbytes} bytes: a size is zero or more")
        if not request.nbytes:
            return self._operate(self._allocate_nothing, request.stream)
        if self._observation.observers:
            request.context = self._observation.context(library)
        try:
            self._obtain(request)
            assert request.block is not None
            return request.block  # noqa: TRY300 - an interrupt before it is caught here, too
        except BaseException:
            if request.block is not None:  # its caller never gets it
                self.give_back(request.block)
            raise

    def free(self, block: Block) -> None:
        """Give ``block`` up: reusable at once on its own stream, elsewhere when fences say so. Never blocks.

        Once the allocator is closed this does nothing. Two threads that free one block at the same instant are not
        told apart from one.

        Raises:
            InvalidFreeError: the block is not in the program's hands, or belongs to another allocator.
        """
        if block.live and block.allocator is self:
            self.give_back(block)
        elif self._closed is None or block.allocator is not self:  # else close() took it back already
            raise InvalidFreeError(why_not_free(block, self))

    def give_back(self, block: Block) -> None:
        """As ``free``, for finalisers: what is not in the program's hands is passed over, and lack of memory too."""
        if not block.live:
            return
        observation = self._observation
        try:
            if observation.observers:
                context = 0 if self._lock.is_mine() else observation.context()
                block.live = False
                observation.emit_block(EventKind.FREE, block, context)
            block.live = False
            self._returned.append(block)
        except MemoryError:
            block.live = False
            self._unlisted = True  # the next operation looks for it
        except BaseException:
            self._unlisted = True
            raise
        if block.streams or self.frees_at_once:
            self._poll_soon()
        elif observation.observers and not self._lock.is_mine():
            observation.deliver()

    def record_stream(self, block: Block, stream: int) -> None:
        """Say that ``stream`` uses ``block`` too: once freed, it waits for the work queued there at that time.

        Raises:
            InvalidFreeError: the block is not in the program's hands, or belongs to another allocator.
        """
        if block.allocator is not self or not block.live:
            raise InvalidFreeError(why_not_free(block, self))
        if (stream == block.stream and not block.orphan) or not block.nbytes:
            return
        self._operate(self._record_stream, block, stream, self._observation.context())

    def release_cached(self) -> int:
        """Give back upstream what no live block needs, waiting for queued work where it must (``empty_cache``).

        Returns:
            The bytes given back.

        Raises:
            DriverError: the device is in a sticky error state.
        """
        return self._operate(self._release_all_cached)

    def forget_stream(self, stream: int) -> None:
        """Say that ``stream`` is about to be destroyed: what is cached for it must stay neither stranded nor unsafe.

        The driver may give the handle to a new stream, on which the old one's blocks are not yet safe. Live blocks of
        the stream stay valid; once freed, they wait for the work that is queued on it now.

        Raises:
            DriverError: the driver makes no fence of the stream's work. The stream must not be destroyed yet; call this
                again.
        """
        try:
            self._operate(self._forget, stream)
        except BaseException:
            # It may have taken effect all the same, and the caller may go on with the stream: what had an early fence
            # waits for the stream once more, unless this is called again.
            for block in list(self._in_use.values()):
                if not block.waiting and any(key is fence for key, fence in block.fences):
                    block.streams |= {stream}
            raise

    def release_forgotten(self, stream: int) -> int:
        """Give back upstream what ``stream`` has left, and nothing else: what ``forget_stream`` has found cached for it
        and other streams have not taken over. Waits for the work queued on it by then where it must.

        Returns:
            The bytes given back.

        Raises:
            DriverError: the device is in a sticky error state.
        """
        return self._operate(self._release_all_left, stream)

    def statistics(self) -> Statistics:
        """What has been counted up to now, exact to the byte."""
        return self._operate(self._ledger.statistics)

    def sleep(self, tag: str, *, keep: Keep | None = None) -> int:
        """Give back upstream what stands behind the blocks tagged ``tag``; they stay live, at their addresses.

        The work that was queued before on the streams of these blocks, and on those recorded for them, is waited for.
        Until ``wake``, using the memory is an error of the program; freeing it is none. A tag that is asleep already,
        or that has no memory, is passed over.

        Args:
            tag: as ``memory_tag`` had it.
            keep: keeps the contents of a block; None drops them all.

        Returns:
            The bytes given back.

        Raises:
            OutOfMemoryError: the host has no room for the contents. Nothing has changed.
            DriverError: the device is in a sticky error state, or a call failed. Nothing has changed.
            CuplugError: the allocator cannot put memory to sleep.
        """
        number = check_sleep(type(self).__name__, tag, can_sleep=self.can_sleep)
        if number is None or self._tagged is None:
            return 0
        return self._operate(self._once_free, self._tagged.fall_asleep, number, keep)

    def wake(self, tag: str) -> int:
        """Bring memory and contents of the blocks tagged ``tag`` back to their addresses.

        When memory is short, what ``allocate`` does is done here. What fails leaves the tag asleep. A tag that is
        awake is passed over.

        Returns:
            The bytes taken from upstream.

        Raises:
            OutOfMemoryError: nothing helped.
            DriverError: the device is in a sticky error state, or a call failed.
            CuplugError: the allocator cannot put memory to sleep.
        """
        number = check_sleep(type(self).__name__, tag, can_sleep=self.can_sleep)
        if number is None or self._tagged is None:
            return 0
        request = Request(0, 0, partial(self._tagged.wake, number), partial(self._tagged.needed, number))
        try:
            self._obtain(request)
        except OutOfMemoryError as error:
            raise cannot_wake(tag, error) from None
        return request.nbytes

    def move(self, tag: str, to: Side, *, copier: Copier) -> int:
        """Let the blocks tagged ``tag`` lie in the device's memory or in the host's, at the addresses that they have.

        The work that was queued before on their streams, and on those recorded for them, is waited for. No other may
        use them until this returns. What lies there already is passed over. When the device's memory is short, what
        ``allocate`` does is done here. What fails leaves all where it was.

        Args:
            tag: as ``memory_tag`` had it.
            to: ``device`` or ``host``.
            copier: copies their contents.

        Returns:
            The bytes taken there from upstream.

        Raises:
            OutOfMemoryError: there is no room.
            DriverError: the device is in a sticky error state, or a call failed.
            CuplugError: the allocator takes no memory of the host, or the tag is asleep.
            ValueError: ``to`` is neither of the two.
        """
        number = check_move(type(self).__name__, tag, to, can_move=self.can_move)
        if number is None or self._tagged is None:
            return 0
        work = partial(self._once_free, partial(self._tagged.move, host=to == "host"), number, copier)
        needs = partial(self._tagged.to_move, number, host=to == "host")
        if to == "host":
            try:
                return self._operate(work)
            except OutOfMemoryError:
                raise cannot_move(tag, to, self._operate(needs)) from None
        request = Request(0, 0, work, needs)
        try:
            self._obtain(request)
        except OutOfMemoryError as error:
            raise cannot_move(tag, to, request.nbytes, error) from None
        return request.nbytes

    def asleep(self) -> list[Sleeping]:
        """What sleeps, by tags."""
        return self._operate(self._asleep_now)

    def reset_peaks(self) -> None:
        """Start every peak again from its current value (``reset_peak_memory_stats``)."""
        self._operate(self._start_peaks_anew)

    def reset_accumulated(self) -> None:
        """Start every cumulative figure again from zero (``reset_accumulated_memory_stats``)."""
        self._operate(self._ledger.reset_accumulated)

    def segments(self) -> list[Segment]:
        """The map of what is held, in order of address."""
        return self._operate(self._sorted_segments)

    def live_blocks(self) -> list[Block]:
        """The blocks in the program's hands, in order of address."""
        return self._operate(self._sorted_live_blocks)

    def attach(self, observer: Observer, *, context: Callable[[], int] | None = None) -> None:
        """Call ``observer`` with every event from now on.

        Args:
            observer: see ``Observer``.
            context: called without arguments on the thread that causes an event, before the event; its result (a
                call stack's number, say) travels with the event. One context source at a time. Frees by a finaliser
                in the middle of an operation have no context.

        Raises:
            ValueError: there is a context source already.
        """
        self._operate(self._observation.attach, observer, context)

    def detach(self, observer: Observer) -> None:
        """Stop calling ``observer``: it is not called again once this has returned, unless an observer called this.

        Unknown observers are ignored. The context source goes with the last one.
        """
        if self._observation.is_observing:
            self._lock.run(self._observation.detach, observer)
            return
        self._operate(self._observation.detach, observer)
        self._observation.finish()

    def close(self) -> None:
        """Wait for the queued work and give everything back. Live blocks become invalid. Idempotent.

        Raises:
            DriverError: the device is in a sticky error state; the memory is left to the driver.
        """
        self._operate(self._close)

    def abandon(self, why: str) -> None:
        """Forget everything without a call upstream: after a fork, or once the device is lost.

        ``why`` completes the sentence "this allocator cannot be used: ".
        """
        self._closed = why
        if os.getpid() != self._process:  # of the parent's threads none is here to let go of these, or to end its step
            self._contradicts = True
            self._lock = Lock()
            self._observation.drop()

    # --- what a strategy implements, called under the lock ---------------------------------------------------------

    @abstractmethod
    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        """A new ``Block`` of ``nbytes`` (``requested``, rounded by ``_rounded``).

        Raises:
            OutOfMemoryError: there is no room. Nothing has changed.
        """

    def _allocate_beyond(self, requested: int, nbytes: int, stream: int) -> Block:  # noqa: ARG002 - for strategies
        """As ``_allocate``, from memory of another kind: when nothing else has helped, before the error.

        Raises:
            OutOfMemoryError: there is none, as by default. Nothing has changed.
        """
        raise OutOfMemoryError("")

    def _release_beyond(self) -> None:  # noqa: B027 - optional
        """Give back what of that kind no live block needs. Nothing is by default."""

    @abstractmethod
    def _free(self, block: Block) -> None:
        """Take ``block`` back: its own stream may use it at once, and all other streams have finished with it.

        If it is an ``orphan``, its stream has been destroyed, and every stream may use it. Must not raise.
        """

    @abstractmethod
    def _release_cached(self) -> int:
        """Give back upstream whatever no live block needs, and return its bytes. May wait for fences."""

    @abstractmethod
    def _segments(self) -> Iterable[Segment]:
        """The map of what is held, in any order. ``self._state(block)`` is the entry of a block."""

    def _recover(self) -> None:
        """Make the strategy's own lists anew from ``_in_use`` and ``_held``: an operation broke off anywhere.

        Memory without a block in ``_in_use`` is free. It may have been in use on its stream a moment ago, so that it is
        in order on that stream, and on no other. A strategy without this method is abandoned by an interrupt.
        """
        raise NotImplementedError

    def _release_all(self) -> None:
        """Give everything back upstream: no block is live any more. ``close`` calls it."""
        self._release_beyond()
        self._release_cached()

    def _rounded(self, nbytes: int) -> int:
        """The size in bytes to set aside for a request of ``nbytes``: PyTorch's ``round_size``."""
        steps = self._steps
        if steps > 1 and nbytes > ALIGNMENT * steps:
            step = (1 << nbytes.bit_length() - 1) // steps
            return max(-(-nbytes // step) * step, ALIGNMENT)
        return nbytes + -nbytes % ALIGNMENT

    def _forget_stream(self, stream: int) -> None:  # noqa: B027 - optional
        """Fence what is cached for ``stream`` and make it available to other streams. Nothing is by default."""

    def _release_left(self, stream: int) -> None:  # noqa: B027 - optional
        """Give back upstream what ``stream``, which was forgotten, has left. Nothing by default."""

    def _poll(self) -> None:  # noqa: B027 - optional
        """Look whether fences of the strategy's own have passed. Called before each allocation."""

    # --- what a strategy uses, under the lock -----------------------------------------------------------------------

    def _reserve(self, nbytes: int, *, small: bool, stream: int) -> int:
        """Take ``nbytes`` from upstream, within the limit, and return the address.

        ``small`` says for which blocks it is, those up to 1 MiB or those above: the statistics count them apart.

        Raises:
            OutOfMemoryError: upstream has no such piece, or the limit forbids it. Nothing has been counted.
        """
        self._check_limit(nbytes)
        held = self._arriving = HeldMemory(nbytes, small=small, stream=stream)
        held.number = self._ledger.num_device_alloc + 1
        (held.address,) = in_one_step(self.upstream.reserve, nbytes)
        self._held[held.address] = held
        self._ledger.num_device_alloc = held.number
        self._ledger.mapped(1, nbytes, small=small)
        self._arriving = None
        self._emit(EventKind.SEGMENT_RESERVE, stream, held.address, nbytes, nbytes)
        return held.address

    def _release(self, address: int, nbytes: int, *, small: bool, stream: int) -> None:  # noqa: ARG002 - for authors
        """Give back what ``_reserve`` returned, with the same arguments. No queued work touches it any more.

        Raises:
            DriverError: the driver refused. Nothing has been counted.
        """
        held = self._departing = self._held[address]
        held.number = self._ledger.num_device_free + 1
        held.present = [*in_one_step(self.upstream.release, address)] != [None]
        del self._held[address]
        self._ledger.num_device_free = held.number
        self._ledger.mapped(-1, -held.nbytes, small=held.small)
        self._departing = None
        self._emit(EventKind.SEGMENT_RELEASE, stream, address, nbytes, nbytes)

    def _check_limit(self, nbytes: int) -> None:
        """Raise OutOfMemoryError if the limit, on the device's memory, leaves no room for ``nbytes`` more."""
        limit = self.memory_limit
        if limit is not None and self._ledger.reserved - self._ledger.host + nbytes > limit:
            raise OutOfMemoryError(f"the memory limit of {limit} bytes leaves no room for {nbytes} more")

    def _is_kept(self, stream: int) -> bool:
        """Whether the free memory of ``stream`` stays where it is: it names a private pool."""
        return self._keeps_pools and names_pool(stream)

    def _state(self, block: Block) -> BlockInfo:
        """The entry for ``block``, live or pending, in a segment's map."""
        state = "active_allocated" if block.live else "active_pending_free"
        return BlockInfo(block.address, block.nbytes, block.requested, state)  # type: ignore[arg-type]

    def _segment_of(self, held: HeldMemory, *pieces: BlockInfo) -> Segment:
        """The entry for what ``_reserve`` took, with ``pieces`` in order of address, in the map."""
        return Segment(held.address, held.nbytes, held.stream, "small" if held.small else "large", pieces)

    def _emit(self, kind: EventKind, stream: int, address: int, nbytes: int, requested: int, context: int = 0) -> None:
        """Queue an event for the observers, if there are any."""
        self._observation.emit(kind, stream, address, nbytes, requested, context)

    def _await_waiting(self) -> None:
        """Block until no freed block waits for a stream any more."""
        if self._waiting.queues:
            self._ledger.num_sync_all_streams += 1
            self._waiting.wait()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise CuplugError(f"this allocator cannot be used: {self._closed}")

    # --- operations ---------------------------------------------------------------------------------------------------

    def _operate(self, work: Callable[..., T], *args: Any, blocking: bool = True) -> T:
        """The result of ``work(*args)``, carried out under the lock as a whole, or repaired by the next operation.

        Unless it is ``blocking``, nothing is carried out while another thread holds the lock.
        """
        lock, observation = self._lock, self._observation
        if lock.is_mine() or (observation.outbox and observation.is_observing):
            raise CuplugError(
                "an allocator was used from a finaliser, or from an observer, while the same thread was inside it; "
                "there, only free() may be called"
            )
        try:  # ``Lock.run``, written out
            if not lock.acquire(blocking):
                return None  # type: ignore[return-value]
            result = self._whole(work, args)
            lock.release()
        except BaseException:
            lock.open()
            raise
        finally:
            if observation.outbox:
                observation.deliver()
        return result

    def _whole(self, work: Callable[..., T], args: tuple[Any, ...]) -> T:
        if self._torn:
            self._repair()
        self._torn = True
        try:
            if self._closed is None:
                if self._unlisted:
                    self._list_returned()
                returned = self._returned
                while returned:
                    self._take_back(returned[0])
                    returned.popleft()
            result = work(*args)
        except (CuplugError, ValueError):  # raised on purpose, with everything in order
            self._torn = False
            raise
        self._torn = False
        return result

    def _poll_soon(self) -> None:
        """Do at once, unless a thread is inside, what the next operation would do first."""
        if self._closed is not None or self._lock.is_mine() or self._observation.is_observing:
            return
        with suppress(CuplugError, MemoryError):  # what the device says surfaces at the next call that waits, as CUDA's
            self._operate(self._poll_fences, blocking=False)

    def _poll_fences(self) -> None:
        """Look whether fences have passed. Raises CuplugError where the allocator can be used no more."""
        if self._closed is not None:
            self._check_open()
        if self._waiting.queues:
            self._waiting.poll()
        self._poll()

    def _repair(self) -> None:
        """Make everything that is derived follow from the truth again."""
        if self._closed is not None:
            return
        if type(self)._recover is Allocator._recover:
            self._contradicts = True
            self._closed = (
                "an operation was interrupted in its middle, and this strategy cannot mend itself (it has no _recover "
                "method); its memory stays with the driver until the process ends"
            )
            return
        counted, arriving, leaving = self._ledger, self._arriving, self._departing
        if arriving is not None and arriving.address:
            self._held[arriving.address] = arriving
            counted.num_device_alloc = arriving.number
        if leaving is not None and not leaving.present:
            counted.num_device_free = leaving.number
        for held in [held for held in self._held.values() if not held.present]:
            del self._held[held.address]
        self._recover()
        self._unlisted = True
        self._waiting.restart([block for block in self._in_use.values() if block.waiting])
        self._ledger.correct(self._in_use.values(), self._segments(), splits=self.counts_splits)
        self._arriving = self._departing = None

    # --- allocation ---------------------------------------------------------------------------------------------------

    def _allocate_nothing(self, stream: int) -> Block:
        self._check_open()
        block = Block(self, 0, 0, 0, stream)  # as cudaMalloc(0) gives a null pointer; it is counted nowhere
        block.live = True
        return block

    def _obtain(self, request: Request) -> None:
        most_available = -1
        try:
            while self._operate(self._serve, request):
                # Here no lock is held and no exception handled: a hook may free what a traceback would keep alive.
                hook, may_ask = self.on_out_of_memory, request.available > most_available
                if hook is None or not may_ask or not hook(request.nbytes, request.stream):
                    if self._operate(self._give_up, request):
                        raise OutOfMemoryError(request.failure)
                    self._tell_beyond(request)
                    return
                most_available = request.available
        except CuplugError:
            if self._closed is not None:
                wait_if_exiting()
            raise

    def _serve(self, request: Request) -> bool:
        """One pass through everything that the allocator itself can do. Whether memory is still short."""
        request.available = 0
        if request.nbytes > MOST_BYTES and request.work is None:
            return True
        self._poll_fences()
        if self._try(request):
            return False
        if self._waiting.queues:
            self._await_waiting()
            if self._try(request):
                return False
        if self._release_cached() and self._try(request):
            self._ledger.num_alloc_retries += 1
            return False
        sleeping = sum(one.nbytes for one in self._asleep_now())
        lying = self._ledger.reserved - (self._ledger.total("allocated_bytes").current - sleeping)
        request.available = self.upstream.memory_info()[0] + lying
        return True

    def _try(self, request: Request, *, beyond: bool = False) -> bool:
        """Serve the request, from memory of another kind if ``beyond`` says so. False if there is no room."""
        try:
            if request.work is not None:
                request.nbytes = request.work()
                return True
            take = self._allocate_beyond if beyond else self._allocate
            block = take(request.nbytes, self._rounded(request.nbytes + self.guard), request.stream)
        except OutOfMemoryError:
            if request.needs is not None:
                request.nbytes = request.needs()
            return False
        request.block = block  # first, so that an interrupt leaves no live block that nobody has
        try:
            block.live = True
        except AttributeError:
            request.block = None
            raise TypeError(f"_allocate of {type(self).__name__} returned {block!r}, which is no Block") from None
        self._in_use[block.address] = block
        self._ledger.allocated(block.nbytes, block.requested)
        if self._observation.observers:
            self._observation.emit_block(EventKind.ALLOCATE, block, request.context)
        return True

    def _give_up(self, request: Request) -> bool:
        """Take memory of another kind, or note the shortage. Whether it is one."""
        if request.work is None and request.nbytes <= MOST_BYTES:
            self._check_open()
            if self._try(request, beyond=True):
                return False
        free, total = self.upstream.memory_info()
        self._ledger.num_ooms += 1
        self._emit(EventKind.OUT_OF_MEMORY, request.stream, 0, free, request.nbytes, request.context)
        counted = self._ledger.statistics().all
        awake = [segment for segment in self._segments() if not segment.asleep]
        inactive = [info.nbytes for segment in awake for info in segment.blocks if info.state == "inactive"]
        request.failure = shortage_message(
            request.nbytes,
            request.stream,
            free,
            total,
            self.memory_limit,
            counted.allocated_bytes.current,
            counted.requested_bytes.current,
            counted.reserved_bytes.current,
            max(inactive, default=0),
            sum(inactive),
        )
        return True

    def _tell_beyond(self, request: Request) -> None:
        """The first time, let ``on_beyond`` know."""
        hook, told = self.on_beyond, self._told_beyond
        self._told_beyond = True
        if hook is not None and not told:
            hook(request.nbytes, request.stream)

    # --- blocks that come back ----------------------------------------------------------------------------------------

    def _list_returned(self) -> None:
        """List the blocks that were freed, and that an exception kept from being listed."""
        self._unlisted = False
        listed = {id(block) for block in list(self._returned)}
        for block in self._in_use.values():
            if not block.live and not block.waiting and id(block) not in listed:
                self._returned.append(block)

    def _take_back(self, block: Block) -> None:
        """Take a block out of the program's hands: the strategy gets it, once other streams have finished with it."""
        if self._in_use.get(block.address) is not block or block.waiting:
            return  # an interrupt came between taking it back and striking it off the list
        if block.streams:
            fences = ((stream, fence_or_later(self.upstream, stream)) for stream in sorted(block.streams))
            block.fences = (*block.fences, *fences)
            block.streams = frozenset()
        if block.fences:
            block.waiting = True
            self._ledger.freed(block.nbytes, block.requested, waits=True)
            self._waiting.add(block, block.fences)
        else:
            del self._in_use[block.address]
            self._ledger.freed(block.nbytes, block.requested)
            self._free(block)

    def _revoke(self, block: Block) -> None:
        """Take a block back under the program's hands: it becomes invalid."""
        if block.live:  # no finaliser has freed it meanwhile
            block.live = False
            self._observation.emit_block(EventKind.FREE, block)
        self._take_back(block)

    def _passed(self, block: Block) -> None:
        """Called by ``_waiting`` once every fence of ``block`` has passed."""
        self._observation.emit_block(EventKind.FENCE_PASSED, block)
        del self._in_use[block.address]
        block.waiting = False
        block.fences = ()
        self._ledger.passed(block.nbytes)
        self._free(block)

    # --- what the public methods do under the lock --------------------------------------------------------------------

    def _once_free(self, work: Callable[..., int], *args: Any) -> int:
        """``work(*args)``, once no block waits for streams any more."""
        self._poll_fences()
        self._await_waiting()
        return work(*args)

    def _asleep_now(self) -> list[Sleeping]:
        return [] if self._tagged is None else self._tagged.asleep()

    def _record_stream(self, block: Block, stream: int, context: int) -> None:
        block.streams |= {stream}
        self._emit(EventKind.RECORD_STREAM, stream, block.address, block.nbytes, block.requested, context)

    def _release_all_cached(self) -> int:
        held = self._ledger.reserved
        self._poll_fences()
        self._ledger.num_sync_all_streams += not self._waiting.queues  # torch counts one without a wait, too
        self._await_waiting()
        self._release_beyond()
        self._release_cached()
        released = held - self._ledger.reserved
        self._emit(EventKind.EMPTY_CACHE, 0, 0, released, 0)
        return released

    def _change_limit(self, nbytes: int | None) -> None:
        self.__dict__["memory_limit"] = nbytes
        self._emit(EventKind.LIMIT, 0, 0, nbytes or 0, int(nbytes is not None))

    def _start_peaks_anew(self) -> None:
        self._ledger.reset_peaks()
        self._emit(EventKind.RESET_PEAKS, 0, 0, 0, 0)

    def _forget(self, stream: int) -> None:
        if self._closed is not None:
            return
        fence: Fence | None = None
        for block in self._in_use.values():
            for _, late in block.fences:
                if isinstance(late, LateFence) and late.stream == stream:
                    late.made()
        for block in self._in_use.values():
            uses = stream in block.streams
            if block.stream != stream and not uses:
                continue
            if names_pool(stream) and not uses and not block.waiting:  # the pool ends, but the stream goes on
                own = without_pool(stream)
                block.streams |= {own}
                block.orphan, block.stream = True, own
                continue
            fence = fence or self.upstream.fence(stream)
            block.fences = (*block.fences, (fence, fence))
            block.streams -= {stream}
            block.orphan = block.orphan or block.stream == stream
        self._waiting.restart([block for block in self._in_use.values() if block.waiting])
        self._forget_stream(stream)

    def _release_all_left(self, stream: int) -> int:
        held = self._ledger.reserved
        self._poll_fences()
        if any(block.waiting and block.stream == stream for block in self._in_use.values()):
            self._await_waiting()
        self._release_left(stream)
        return held - self._ledger.reserved

    def _sorted_segments(self) -> list[Segment]:
        if self._closed is None:
            self._poll_fences()
        if not self._contradicts:
            return sorted(self._segments(), key=_address)
        whole = [(held, BlockInfo(held.address, held.nbytes, 0, "inactive")) for held in self._held.values()]
        return sorted((self._segment_of(held, piece) for held, piece in whole), key=_address)

    def _sorted_live_blocks(self) -> list[Block]:
        return sorted((block for block in self._in_use.values() if block.live), key=_address)

    def _close(self) -> None:
        if self._closed is not None:
            return
        self._await_waiting()
        for block in list(self._in_use.values()):
            self._revoke(block)
        self._await_waiting()
        self._keeps_pools = False
        self._release_all()
        self._closed = "it was closed"


def check_option(name: str, value: object, expected: str, *, fine: bool) -> None:
    """Raise ValueError, which says what is ``expected``, unless the ``value`` of an option is ``fine``."""
    if not fine:
        raise ValueError(f"{name} is {value}; it must be {expected}")


def check_steps(steps: int) -> int:
    """The option ``roundup_power2_divisions``. Raises ValueError if it is out of its range."""
    check_option("roundup_power2_divisions", steps, "0 or a power of two", fine=steps >= 0 and not steps & (steps - 1))
    return steps
