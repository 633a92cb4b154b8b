"""What is current in one thread: a device, and a stream on each device."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from ..allocators.block import Block
from .drivers.base import LEGACY_STREAM, PER_THREAD_STREAM
from .upstream import per_thread_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from .runtime import Runtime

__all__ = ["Current"]

_numbers = count(1)


class Current:
    """One thread's current device and streams, for one runtime. Only that thread touches it.

    A thread starts with the device that the driver has current for it (another library may have chosen it), else with
    device 0, and with the default stream on every device. No context is made before something needs one.
    """

    __slots__ = ("allocate", "device", "number", "runtime", "stream", "streams")

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.number = next(_numbers)
        """Of this thread, never used for another."""
        self.streams: dict[int, Any] = {}
        """The ``Stream`` chosen for a device. Missing: the default stream."""
        self.device: int
        """The current device's ordinal."""
        self.stream: int
        """The current stream of the current device, as allocators know it."""
        self.allocate: Callable[..., Block]
        """``allocate(nbytes, stream=...)`` of the current device's allocator."""
        before = runtime.driver.current_device()
        self._choose(before if before is not None and before < runtime.device_count() else 0)

    def set_device(self, ordinal: int) -> None:
        """Make ``ordinal`` current here and in the driver."""
        self.runtime.driver.set_device(ordinal)
        self._choose(ordinal)

    def set_stream(self, ordinal: int, stream: Any, key: int) -> None:
        """Make ``stream``, which allocators know as ``key``, the current one of its device, and its device current."""
        if ordinal != self.device:
            self.set_device(ordinal)
        self.streams[ordinal] = stream
        self.stream = key

    def state(self) -> tuple[int, int | None]:
        """What ``restore`` needs to bring the present device back, in the driver too."""
        return self.device, self.runtime.driver.current_device()

    def restore(self, state: tuple[int, int | None]) -> None:
        """Bring back the device of ``state``; where the driver had none, that too, so that no context is made."""
        ordinal, in_driver = state
        if not self.runtime.usable:
            return  # it was shut down meanwhile: there is nothing to bring back
        if self.runtime.driver.current_device() != in_driver:
            self.runtime.driver.set_device(in_driver)
        self._choose(ordinal)

    def key(self, handle: int) -> int:
        """What allocators know the stream ``handle`` as."""
        return handle if handle != PER_THREAD_STREAM else per_thread_key(self.number)

    def _choose(self, ordinal: int) -> None:
        self.device = ordinal
        stream = self.streams.get(ordinal)
        self.stream = LEGACY_STREAM if stream is None else self.key(stream.cuda_stream)
        self.allocate = self._first_allocation

    def _first_allocation(self, nbytes: int, *, stream: int) -> Block:
        """The first one on the current device since it became that: find the allocator, and have a context current,
        since what comes next is likely a call of another library (PyCUDA) with this memory."""
        driver = self.runtime.driver
        if driver.current_device() is None:
            driver.set_device(self.device)
        self.allocate = self.runtime.allocator(self.device).allocate
        return self.allocate(nbytes, stream=stream)
