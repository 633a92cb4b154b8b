"""What streams queue: operations, streams, events, and what they cost in simulated time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ....allocators.errors import DriverError
from ..base import driver_error

if TYPE_CHECKING:
    from .memory import DeviceMemory, HostMemory

__all__ = ["Device", "Event", "Operation", "Range", "Stream"]

Range = tuple[int, int]
"""An address and a size in bytes."""


class Device:
    """One simulated device: its memory, its own streams, and whether its work has failed."""

    def __init__(self, ordinal: int, memory: DeviceMemory, host: HostMemory) -> None:
        self.ordinal = ordinal
        self.memory = memory
        self.host = host
        self.streams_made = 0
        self.legacy = Stream(self, blocking=True)
        self.blocking_finished_us = 0.0
        """When the last operation executed on a blocking stream (not the legacy one) ended, in simulated time."""
        self.finished_us = 0.0
        """When the last operation executed on any stream ended."""
        self.peers: set[Device] = set()
        self.variables: dict[int, int] = {}
        """Addresses and sizes of the variables of loaded modules: memory that is the device's, but lies elsewhere."""
        self.failure: DriverError | None = None
        """What the device's work did. No operation runs any more."""
        self.reported = False
        """Whether a call that waits has raised it: from then on every call does."""

    def fail(self, error: DriverError) -> None:
        """Enter the sticky error state, unless in it already."""
        self.failure = self.failure or error

    def settle(self) -> None:
        """Raise what the device's work did: the end of every call that waits."""
        if self.failure is not None:
            self.reported = True
            raise driver_error(self.failure.code, self.failure.message) from self.failure.__cause__

    def fault(self, address: int, nbytes: int) -> str | None:
        """Why this device could not access the range, or None: then it is ready to be accessed."""
        memory, host = self.memory, self.host
        if memory.start <= address < memory.end:
            return memory.touch(address, nbytes)
        if host.start <= address < host.end:
            return host.fault(address, nbytes)
        for peer in self.peers:
            if peer.memory.start <= address < peer.memory.end:
                return peer.memory.touch_from_peer(address, nbytes)
        for start, size in self.variables.items():
            if start <= address and address + nbytes <= start + size:
                return None
        return f"it is not memory of device {self.ordinal}, nor of a peer whose access is enabled"


class Stream:
    """A queue of operations. ``blocking`` ones order themselves with the device's legacy stream."""

    __slots__ = ("blocking", "device", "finished_us", "handle", "number", "priority", "queue")

    def __init__(self, device: Device, *, blocking: bool, handle: int = 0, priority: int = 0) -> None:
        self.device = device
        self.blocking = blocking
        self.handle = handle
        self.priority = priority
        self.number = device.streams_made
        device.streams_made += 1
        self.queue: deque[Operation] = deque()
        self.finished_us = 0.0


class Operation:
    """One piece of queued work."""

    __slots__ = (
        "after",
        "body",
        "cost_us",
        "done",
        "finished_us",
        "homes",
        "name",
        "reads",
        "stream",
        "submitted_us",
        "writes",
    )

    def __init__(
        self,
        name: str,
        stream: Stream,
        body: Callable[[], object] | None = None,
        *,
        reads: tuple[Range, ...] = (),
        writes: tuple[Range, ...] = (),
        after: tuple[Operation, ...] = (),
        homes: tuple[Device, Device] | None = None,
        cost_us: float = 0.0,
    ) -> None:
        self.name = name
        self.stream = stream
        self.body = body
        self.reads = reads
        self.writes = writes
        self.after = after
        """Operations of other streams that come first."""
        self.homes = homes
        """Whose memory is read and written, where that is not this device's and its peers'."""
        self.cost_us = cost_us
        self.submitted_us = 0.0
        self.finished_us = 0.0
        self.done = False

    def execute(self) -> None:
        """Check the addresses, then run. Faults put the device in its sticky error state and are not raised."""
        stream = self.stream
        device = stream.device
        start, legacy = self.submitted_us, stream is device.legacy
        if stream.finished_us > start:  # comparing costs a third of max()
            start = stream.finished_us
        for earlier in self.after:
            start = max(start, earlier.finished_us)
        if stream.blocking:
            ordered = device.blocking_finished_us if legacy else device.legacy.finished_us
            if ordered > start:
                start = ordered
        try:
            if device.failure is None:
                self._run(device)
        finally:
            self.done = True
            self.finished_us = stream.finished_us = finished = start + self.cost_us
            if finished > device.finished_us:
                device.finished_us = finished
            if stream.blocking and not legacy and finished > device.blocking_finished_us:
                device.blocking_finished_us = finished
            self.after = ()

    def _run(self, device: Device) -> None:
        reader, writer = self.homes or (device, device)
        for address, nbytes in self.reads:
            fault = reader.fault(address, nbytes)
            if fault is not None:
                device.fail(self._illegal("reads", address, nbytes, fault))
                return
        for address, nbytes in self.writes:
            fault = writer.fault(address, nbytes)
            if fault is not None:
                device.fail(self._illegal("writes", address, nbytes, fault))
                return
        if self.body is None:
            return
        try:
            self.body()
        except DriverError as error:
            device.fail(error)
        except Exception as error:
            failure = _failure(719, f"{self.name} on device {device.ordinal} raised {error!r}")
            failure.__cause__ = error
            device.fail(failure)
        except BaseException:  # Ctrl-C, in the middle of the work
            device.fail(_failure(719, f"{self.name} on device {device.ordinal} was interrupted"))
            raise

    def _illegal(self, verb: str, address: int, nbytes: int, fault: str) -> DriverError:
        device = self.stream.device
        return _failure(
            700,
            f"{self.name} on device {device.ordinal}, stream {self.stream.handle:#x}, {verb} {nbytes} bytes at "
            f"{address:#x}: {fault}. The device stays in this state: close the driver to begin again",
        )


class Event:
    """A mark in a stream."""

    __slots__ = ("device", "marker", "timing")

    def __init__(self, device: Device, *, timing: bool) -> None:
        self.device = device
        self.timing = timing
        self.marker: Operation | None = None
        """The latest recording."""


def _failure(code: int, message: str) -> DriverError:
    error = driver_error(code, message)
    assert isinstance(error, DriverError)
    return error
