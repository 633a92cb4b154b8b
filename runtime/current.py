"""What is current in one thread: a device, and a stream on each device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..allocators.uncopyable import refuse_copies
from .buffer import Buffer
from .drivers.base import LEGACY_STREAM, PER_THREAD_STREAM
from .runtime_upstream import per_thread_key

if TYPE_CHECKING:
    from .machine import Runtime

__all__ = ["Current"]


class Current:
    """One thread's current device and streams, for one runtime. Only that thread touches it.

    A thread starts with the runtime's ``home`` device, and with the default stream on every device. No context is made
    before something needs one.
    """

    __reduce_ex__ = refuse_copies("it belongs to its thread")
    __slots__ = ("__weakref__", "_prepared", "device", "number", "runtime", "stream", "streams")

    def __init__(self, runtime: Runtime) -> None:
        runtime.driver  # noqa: B018 - raises where there is no device
        self.runtime = runtime
        self.number = next(runtime.thread_numbers)
        """Of this thread, in the order in which they came; never used for another."""
        self.streams: dict[int, Any] = {}
        """The ``Stream`` chosen for a device. Missing: the default stream."""
        self.device: int
        """The current device's ordinal."""
        self.stream: int
        """The current stream of the current device, as allocators know it."""
        self._prepared: bool
        """Whether ``_first_allocation`` has run since the device was chosen."""
        self._choose(runtime.home)

    def set_device(self, ordinal: int) -> None:
        """Make ``ordinal`` current here and in the driver."""
        self.runtime.driver.set_device(ordinal)
        self._choose(ordinal)

    def set_stream(self, ordinal: int, stream: Any) -> None:
        """Make ``stream`` the current one of its device, and its device current."""
        self.streams[ordinal] = stream
        if ordinal != self.device:
            self.set_device(ordinal)
        else:
            self._choose(ordinal)

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
        self._prepared = False

    def allocate(self, nbytes: int) -> Buffer:
        """Memory of the current device, for its current stream."""
        if not self._prepared:
            self._first_allocation()
        return Buffer.allocate(self.runtime.allocator(self.device), nbytes, stream=self.stream)

    def _first_allocation(self) -> None:
        """The first one on the current device since it became that: have a context current, since what comes next is
        likely a call of another library (PyCUDA) with this memory."""
        driver = self.runtime.driver
        if driver.current_device() is None:
            driver.set_device(self.device)
        self._prepared = True
