"""What an allocator tells its observers."""

from __future__ import annotations

import enum
from typing import Protocol


class EventKind(enum.IntEnum):
    """What happened. The numbers stand in trace files: they are never reused or changed."""

    ALLOCATE = 1
    FREE = 2
    """The program gave the block up. It may still wait for streams: then FENCE_PASSED follows."""
    RECORD_STREAM = 3
    """``stream`` is the stream that uses the block besides its own."""
    FENCE_PASSED = 4
    """A freed block that waited for streams is reusable now."""
    SEGMENT_RESERVE = 5
    SEGMENT_RELEASE = 6
    PAGE_CREATE = 7
    """``address`` is the page's handle."""
    PAGE_MAP = 8
    """``requested`` is the page's handle."""
    PAGE_UNMAP = 9
    PAGE_RELEASE = 10
    """``address`` is the page's handle."""
    OUT_OF_MEMORY = 11
    """``requested`` is what was asked for, ``nbytes`` what the device had free."""
    MARKER = 12
    """A name given by the program; ``requested`` is its number in the trace's side table."""
    SLEEP = 13
    """Tagged memory fell asleep: ``nbytes`` went back to the device, ``requested`` is the tag's number. What happened
    to pages is told before."""
    WAKE = 14
    """Tagged memory woke: ``nbytes`` were taken for it, ``requested`` is the tag's number."""
    LIMIT = 18
    """The program changed the limit (``memory_limit``, ``set_per_process_memory_fraction``): at most ``nbytes`` may be
    reserved from here on; where ``requested`` is 0, and not 1, there is no limit."""
    RESET_PEAKS = 19
    """The program started every peak anew (``reset_peak_memory_stats``)."""
    MOVE = 20
    """Tagged memory moved at its addresses: ``nbytes`` were taken on the other side, ``requested`` is the tag's number,
    ``address`` 1 for the host and 0 for the device. What happened to pages is told before."""
    EMPTY_CACHE = 15
    """The program asked that what is cached be given back (``empty_cache``): ``nbytes`` went. What happened to
    segments and pages is told before."""
    HOST_PAGE_CREATE = 16
    """As PAGE_CREATE, for a page of the host's memory. It is mapped and unmapped as one of the device's."""
    HOST_PAGE_RELEASE = 17
    """As PAGE_RELEASE, for a page of the host's memory."""


class Observer(Protocol):
    """Receives an allocator's events, in the order in which they took effect, one at a time, and outside its lock.

    An observer may be called on any thread, also one that did not cause the event, and while the garbage collector
    runs. It must not use the allocator that it observes. One that raises is detached, with a warning.
    """

    def __call__(
        self,
        kind: EventKind,
        time_ns: int,
        thread: int,
        stream: int,
        address: int,
        nbytes: int,
        requested: int,
        context: int,
        /,
    ) -> None:
        """Take one event.

        Args:
            kind: what happened.
            time_ns: when, on the clock of ``time.perf_counter_ns``.
            thread: the thread (``threading.get_ident``) that caused it.
            stream: the stream of the block.
            address: the device address, or a page's handle.
            nbytes: the size in bytes as the allocator rounded it.
            requested: the size in bytes as the program asked.
            context: what the observer's context source returned on the thread that caused the event, else 0.
        """
