"""What a runtime keeps for one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...allocators.base import Allocator
from ..drivers.base import Driver
from ..drivers.device_upstream import on_device
from .borrowed import BorrowedMemory
from .handle_pool import HandlePool
from .runtime_upstream import RuntimeUpstream
from .uncopyable import refuse_copies


class DeviceState:
    """What a runtime keeps for one device. Made at its first use."""

    __reduce_ex__ = refuse_copies("it belongs to its runtime; pass the device's ordinal on")

    def __init__(self, driver: Driver, ordinal: int, stream_key: Callable[[int], int]) -> None:
        """For the device ``ordinal`` of ``driver``. ``stream_key`` is what ``RuntimeUpstream`` takes."""
        self._driver = driver
        self.ordinal = ordinal
        self.upstream = RuntimeUpstream(driver, ordinal, stream_key)
        self.allocator: Allocator | None = None
        self.streams = HandlePool(
            lambda priority: driver.stream_create(non_blocking=True, priority=priority),
            lambda stream: driver.stream_destroy(stream),
            forget=self._forget_stream,
            is_usable=lambda stream: driver.stream_query(stream),
        )
        """Non-blocking streams, by priority. One with work pending is not given out: its next owner's would wait."""
        self.events = HandlePool(
            lambda timing: driver.event_create(timing=bool(timing)),
            lambda event: driver.event_destroy(event),
        )
        """Events, by whether they measure time. One may be used again while a recording of it is pending: what waits
        for that one keeps waiting for it, since a wait refers to the recording that was the latest when it was queued
        (``cuStreamWaitEvent``)."""
        self.borrowed = BorrowedMemory()
        self.objects: dict[str, Any] = {}
        """What the floors above keep for the device, by their own names."""

    def synchronize(self) -> None:
        """Wait for all work. Raises what the work did."""
        queued = self.borrowed.queued()
        with on_device(self._driver, self.ordinal):
            self._driver.synchronize()
        self.borrowed.end(queued)

    def close_handles(self) -> None:
        """Destroy streams and events. No allocator may use them any more."""
        with on_device(self._driver, self.ordinal):
            self.events.close()
            self.streams.close()

    def _forget_stream(self, handle: int) -> None:
        if self.allocator is not None:
            self.allocator.forget_stream(handle)
