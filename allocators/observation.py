"""Tells observers what an allocator does: in order, one event at a time, and outside the allocator's lock."""

from __future__ import annotations

import sys
import types
import warnings
from collections import deque
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns

from .block import Block
from .events import EventKind, Observer
from .libraries import LIBRARY_SHIFT, OWN
from .lock import Lock

_Event = tuple[EventKind, int, int, int, int, int, int, int]


class Observation:
    """The observers of one allocator, and the events on their way to them.

    ``emit`` puts an event into a queue, which is atomic and may happen anywhere; ``deliver`` empties the queue and is
    called where no lock is held. Whoever delivers delivers for all threads. An event leaves the queue once the
    observers have had it: a delivery that an exception interrupts is repeated, so that an observer may see an event
    twice, and never misses one.
    """

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self.source: Callable[[], int] | None = None
        self.outbox: deque[_Event] = deque()
        """Events that the observers have not had yet."""
        self.delivering = Lock()
        """Held by the thread that is inside an observer."""
        self._last_time = 0

    def attach(self, observer: Observer, context: Callable[[], int] | None) -> None:
        """Call ``observer`` from now on, and take contexts from ``context`` if that is given.

        Raises:
            ValueError: there is a context source already.
        """
        self.add_source(context)
        self.observers = (*self.observers, observer)

    def add_source(self, context: Callable[[], int] | None) -> None:
        """Take contexts from ``context``, if it is given.

        Raises:
            ValueError: there is a context source already.
        """
        if context is not None and self.source is not None:
            raise ValueError("this allocator has a context source already; detach its observer first")
        self.source = context or self.source

    def detach(self, observer: Observer) -> None:
        """Do not call ``observer`` any more. The context source goes with the last one."""
        self.observers = tuple(other for other in self.observers if other is not observer)
        if not self.observers:
            self.source = None

    def context(self, library: int = OWN) -> int:
        """What the context source says of the calling thread, or 0, with the number of the library that asks."""
        context = self.source() if self.source is not None else 0
        return context | library << LIBRARY_SHIFT if library else context

    def emit(self, kind: EventKind, stream: int, address: int, nbytes: int, requested: int, context: int = 0) -> None:
        """Queue an event, if anybody observes."""
        if self.observers:
            event = (kind, perf_counter_ns(), get_ident(), stream, address, nbytes, requested, context)
            self.outbox.append(event)

    def emit_block(self, kind: EventKind, block: Block, context: int = 0) -> None:
        """Queue an event about a block, with its own stream."""
        if self.observers:
            self.emit(kind, block.stream, block.address, block.nbytes, block.requested, context)

    @property
    def is_observing(self) -> bool:
        """Whether the calling thread is inside an observer."""
        return self.delivering.is_mine()

    def deliver(self) -> None:
        """Call the observers with every queued event, unless somebody is at it already."""
        while self.outbox and not self.delivering.is_mine():
            if not self.delivering.run_if_free(self._deliver_all):
                return

    def finish(self) -> None:
        """Deliver what is queued, and return once nobody else is delivering: no observer runs any more."""
        self.deliver()
        if not self.delivering.is_mine():
            self.delivering.run(_nothing)

    def drop(self) -> None:
        """Forget observers and events, in a process that was forked: another thread may have been delivering."""
        self.observers = ()
        self.source = None
        self.outbox.clear()
        self.delivering = Lock()

    def _deliver_all(self) -> None:
        while self.outbox:
            self._notify(self.outbox[0])
            self.outbox.popleft()

    def _notify(self, event: _Event) -> None:
        # Two threads may queue events in another order than they read the clock.
        self._last_time = time_ns = max(event[1], self._last_time)
        for observer in self.observers:
            try:
                observer(event[0], time_ns, *event[2:])
            except Exception as error:
                self.observers = tuple(other for other in self.observers if other is not observer)
                warn(f"observer {observer!r} raised {error!r} and was detached")


def _nothing() -> None:
    """To have waited for the lock is enough."""


def warn(message: str) -> None:
    """Tell the program of something that must not keep an operation from taking place. Never raises."""
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    except RuntimeWarning as warning:  # warnings are errors here, but the operation has taken place: do not undo it
        unraisable = types.SimpleNamespace(
            exc_type=RuntimeWarning, exc_value=warning, exc_traceback=None, err_msg=None, object=None
        )
        sys.unraisablehook(unraisable)
