"""Streams and events of one device that nobody holds at present.

Making and destroying these costs driver calls, and a destroyed stream's handle may be given to a new stream while
blocks of the old one are still cached, pending or in the program's hands (PITFALLS: cupy#5264, cupy#8068). So
finalisers only put handles aside, here, and they are used again. The driver destroys them when the runtime closes,
after the allocators did. PyTorch never destroys its streams either (``c10/cuda/CUDAStream.cpp``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..allocators.errors import CuplugError
from .drivers.base import Driver

__all__ = ["EventPool", "StreamPool"]


class StreamPool:
    """The streams that were made on one device. The device must be current when a method is called."""

    def __init__(self, driver: Driver, forget: Callable[[int], None]) -> None:
        """``forget`` is called with the handle of a stream whose object has gone: see ``Allocator.forget_stream``."""
        self._driver = driver
        self._forget = forget
        self._idle: dict[int, deque[int]] = {}
        self._made: list[int] = []
        self.dropped: deque[tuple[int, int]] = deque()
        """Where finalisers put priority and handle: appending is atomic and calls nothing."""

    def take(self, priority: int) -> int:
        """A non-blocking stream of that priority: one without pending work that nobody holds, or a new one."""
        self.settle()
        try:
            handle = self._idle[priority].popleft()
        except LookupError:
            pass
        else:
            if self._driver.stream_query(handle):
                return handle
            self._idle[priority].append(handle)
        handle = self._driver.stream_create(non_blocking=True, priority=priority)
        self._made.append(handle)
        return handle

    def settle(self) -> bool:
        """Tell the allocator which streams have gone. Whether there were any."""
        some = False
        while True:
            try:
                priority, handle = self.dropped.popleft()
            except IndexError:
                return some
            some = True
            self._forget(handle)
            self._idle.setdefault(priority, deque()).append(handle)

    def close(self) -> None:
        """Destroy them all. What the driver refuses, on a device in a sticky error state, is left to it."""
        _destroy(self._made, self._driver.stream_destroy)


class EventPool:
    """The events that were made on one device. The device must be current when a method is called.

    An event is used again even while a recording of it is pending: what waits for that one keeps waiting for it, since
    a wait refers to the recording that was the latest when it was queued (``cuStreamWaitEvent``).
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._made: list[int] = []
        self.dropped: tuple[list[int], list[int]] = ([], [])
        """Where finalisers put handles of events without and with timing."""

    def take(self, timing: bool) -> int:
        """An event whose last recording nobody can ask for any more, or a new one."""
        try:
            return self.dropped[timing].pop()
        except IndexError:
            handle = self._driver.event_create(timing=timing)
            self._made.append(handle)
            return handle

    def close(self) -> None:
        """Destroy them all, as ``StreamPool.close``."""
        _destroy(self._made, self._driver.event_destroy)


def _destroy(handles: list[int], destroy: Callable[[int], None]) -> None:
    while handles:
        try:
            destroy(handles.pop())
        except CuplugError:
            return
