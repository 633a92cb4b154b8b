"""What a runtime keeps for one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..allocators.base import Allocator
from .handles import EventPool, StreamPool
from .upstream import RuntimeUpstream

if TYPE_CHECKING:
    from .runtime import Runtime

__all__ = ["DeviceState"]


class DeviceState:
    """What a runtime keeps for one device. Made at its first use."""

    def __init__(self, runtime: Runtime, ordinal: int) -> None:
        self.runtime = runtime
        self.ordinal = ordinal
        self.upstream = RuntimeUpstream(runtime, runtime.driver, ordinal)
        self.allocator: Allocator | None = None
        self.streams = StreamPool(runtime.driver, self._forget_stream)
        self.events = EventPool(runtime.driver)
        self.objects: dict[str, Any] = {}
        """What the floors above keep for the device, by their own names."""

    def _forget_stream(self, handle: int) -> None:
        if self.allocator is not None:
            self.allocator.forget_stream(handle)
