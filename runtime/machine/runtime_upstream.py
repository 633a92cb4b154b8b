"""A device's memory as the runtime's allocators take it, and the keys by which they tell streams apart."""

from __future__ import annotations

from collections.abc import Callable

from ...allocators.private_streams import without_pool
from ...allocators.upstream import Fence
from ..drivers.base import LEGACY_STREAM, PER_THREAD_STREAM, Driver
from ..drivers.device_upstream import DeviceUpstream, EventFence

PER_THREAD_KEY = 1 << 63
"""Set in the key of a thread's own default stream."""


def per_thread_key(thread: int) -> int:
    """The key of the per-thread default stream of the thread with this number.

    All threads name their streams by one handle (``CU_STREAM_PER_THREAD``), although they are not in order with each
    other: to an allocator, each must be a stream of its own (cupy#5069).
    """
    return PER_THREAD_KEY | thread << 8 | PER_THREAD_STREAM


def driver_handle(key: int) -> int:
    """The driver's handle of the stream that allocators know as ``key``."""
    return PER_THREAD_STREAM if key & PER_THREAD_KEY else key


class RuntimeUpstream(DeviceUpstream):
    """A device's memory, for allocators that know streams by keys."""

    def __init__(self, driver: Driver, ordinal: int, key: Callable[[int], int]) -> None:
        """The memory of the device ``ordinal``. ``key`` gives the key of a stream's handle in the calling thread."""
        super().__init__(driver, ordinal)
        self.key = key
        """The key of a stream's handle in the calling thread. Raises CuplugError once the runtime cannot be used."""

    def fence(self, stream: int) -> Fence:
        """See ``Upstream.fence``; ``stream`` is a key."""
        # Another thread's own stream cannot be named. The legacy stream waits for all of them.
        handle = LEGACY_STREAM if stream & PER_THREAD_KEY else without_pool(stream)
        return EventFence(self.driver, self.ordinal, handle, self._events)
