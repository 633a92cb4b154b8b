"""Tells observers what an allocator does: in order, one event at a time, and outside the allocator's lock."""

from __future__ import annotations

import sys
import threading
import types
import warnings
from collections import deque
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Protocol

from .block import Block, Home
from .events import EventKind, Observer

__all__ = ["Observation", "Watched"]

_Event = tuple[EventKind, int, int, int, int, int, int, int]


class Observation:
    """The observers of one allocator, and the events on their way to them.

    ``emit`` puts an event into a queue, which is atomic and may happen anywhere; ``deliver`` empties the queue and is
    called where no lock is held. Whoever delivers delivers for all threads. ``report`` spares an event the queue.
    """

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self.source: Callable[[], int] | None = None
        self._outbox: deque[_Event] = deque()
        self._delivering = threading.Lock()
        self._deliverer = 0
        self._last_time = 0

    def context(self) -> int:
        """What the context source says of the calling thread, or 0."""
        return self.source() if self.source is not None else 0

    def emit(self, kind: EventKind, stream: int, address: int, nbytes: int, requested: int, context: int = 0) -> None:
        """Queue an event, if anybody observes."""
        if self.observers:
            event = (kind, perf_counter_ns(), get_ident(), stream, address, nbytes, requested, context)
            self._outbox.append(event)

    def emit_block(self, kind: EventKind, block: Block, context: int = 0) -> None:
        """Queue an event about a block, with its own stream."""
        if self.observers:
            self.emit(kind, block.stream, block.address, block.nbytes, block.requested, context)

    def report(self, kind: EventKind, block: Block, context: int = 0) -> None:
        """As ``emit_block`` and ``deliver``, at half the cost while nothing else is queued. Not inside an operation."""
        delivering = self._delivering
        if self._outbox or not delivering.acquire(False):
            self.emit_block(kind, block, context)
            self.deliver()
            return
        self._deliverer = thread = get_ident()
        try:
            self._last_time = time_ns = perf_counter_ns()
            for observer in self.observers:
                try:
                    observer(kind, time_ns, thread, block.stream, block.address, block.nbytes, block.requested, context)
                except Exception as error:
                    self._detach(observer, error)
        finally:
            self._deliverer = 0
            delivering.release()
        if self._outbox:  # others found the delivery taken
            self.deliver()

    def deliver(self) -> None:
        """Call the observers with every queued event, unless somebody is at it already."""
        while self._outbox and self._delivering.acquire(blocking=False):
            self._deliverer = get_ident()
            try:
                while self._outbox:
                    self._notify(self._outbox.popleft())
            finally:
                self._deliverer = 0
                self._delivering.release()

    def finish(self) -> None:
        """Deliver what is queued, and return once nobody else is delivering: no observer runs any more."""
        self.deliver()
        if self._deliverer != get_ident():
            with self._delivering:
                pass

    def drop(self) -> None:
        """Forget observers and events, in a process that was forked: another thread may have been delivering."""
        self.observers = ()
        self.source = None
        self._outbox.clear()
        self._delivering = threading.Lock()
        self._deliverer = 0

    def _notify(self, event: _Event) -> None:
        # Two threads may queue events in another order than they read the clock.
        self._last_time = time_ns = max(event[1], self._last_time)
        for observer in self.observers:
            try:
                observer(event[0], time_ns, *event[2:])
            except Exception as error:
                self._detach(observer, error)

    def _detach(self, faulty: Observer, error: Exception) -> None:
        self.observers = tuple(other for other in self.observers if other is not faulty)
        _warn(f"observer {faulty!r} raised {error!r} and was detached")


class Watched:
    """A block's home while somebody observes: it reports the free, then passes the block on.

    ``live`` says whether the observers take the block to be live. A thread that was in the middle of an allocation or
    a free when observation began may have passed this object by: then its allocation stays unreported as a whole, or
    the free is reported by whoever meets the block next.
    """

    __slots__ = ("home", "live", "watcher")

    def __init__(self, watcher: Watcher, home: Home, *, live: bool) -> None:
        self.watcher = watcher
        self.home = home
        self.live = live

    def append(self, block: Block, /) -> None:
        watcher = self.watcher
        outside = watcher._owner != get_ident()
        if outside and self.live:
            self.live = False
            observation = watcher._observation
            source = observation.source
            observation.report(EventKind.FREE, block, source() if source is not None else 0)
            self.home.append(block)
            return
        self.report(block)
        self.home.append(block)
        if outside:
            watcher._observation.deliver()

    def report(self, block: Block) -> None:
        """Queue for the observers that ``block`` was freed, unless they know."""
        if self.live:
            self.live = False
            self.watcher._observation.emit_block(EventKind.FREE, block)


class Watcher(Protocol):
    """What ``Watched`` needs of an allocator."""

    _observation: Observation
    _owner: int
    """The thread in the middle of one of the allocator's operations (where it may run a finaliser), or 0."""


def _warn(message: str) -> None:
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    except RuntimeWarning as warning:  # warnings are errors here, but the operation has taken place: do not undo it
        unraisable = types.SimpleNamespace(
            exc_type=RuntimeWarning, exc_value=warning, exc_traceback=None, err_msg=None, object=None
        )
        sys.unraisablehook(unraisable)
