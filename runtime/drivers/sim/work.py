"""The work of a simulated device: operations, the streams that queue them, and the events that mark them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ....allocators.errors import DriverError
from .held_signals import run_without_signals
from .simulated_device import Device, Extent, failure


class Stream:
    """A queue of operations. ``blocking`` ones order themselves with the device's legacy stream."""

    __slots__ = ("blocking", "device", "finished_us", "handle", "legacy", "number", "priority", "queue")

    def __init__(
        self, device: Device, *, blocking: bool, handle: int = 0, priority: int = 0, legacy: bool = False
    ) -> None:
        self.device = device
        self.blocking = blocking
        self.legacy = legacy
        """Whether it is the device's legacy default stream."""
        self.handle = handle
        self.priority = priority
        self.number = device.streams_made
        device.streams_made += 1
        self.queue: deque[Operation] = deque()
        self.finished_us = 0.0


class Operation:
    """One piece of work. Its stream is settled when it is queued."""

    __slots__ = (
        "after",
        "body",
        "cost_us",
        "done",
        "finished_us",
        "homes",
        "name",
        "reads",
        "repeatable",
        "stream",
        "submitted_us",
        "writes",
    )
    stream: Stream
    """Where it is queued."""

    def __init__(
        self,
        name: str,
        body: Callable[[], object] | None = None,
        reads: tuple[Extent, ...] = (),
        writes: tuple[Extent, ...] = (),
        cost_us: float = 0.0,
        repeatable: bool = True,
        after: tuple[Operation, ...] = (),
        homes: tuple[Device, Device] | None = None,
    ) -> None:
        self.name = name
        self.body = body
        self.reads = reads
        self.writes = writes
        self.cost_us = cost_us
        self.repeatable = repeatable
        """Whether an execution that was interrupted may begin again, as that of a copy may."""
        self.after = after
        """Operations of other streams that come first."""
        self.homes = homes
        """Whose memory is read and written, where that is not this device's and its peers'."""
        self.submitted_us = 0.0
        self.finished_us = 0.0
        self.done = False

    def cancel(self) -> None:
        """Let it do nothing when its turn comes. What waits for it still does."""
        if not self.done:
            self.body, self.reads, self.writes = None, (), ()

    def execute(self) -> None:
        """Check the addresses, then run. Faults put the device in its sticky error state and are not raised.

        What is repeatable may be interrupted: it is not done then, and runs again. Of the rest, whoever calls this
        holds signals back.
        """
        stream = self.stream
        device = stream.device
        start = self.submitted_us
        if stream.finished_us > start:  # comparing costs a third of max()
            start = stream.finished_us
        for earlier in self.after:
            start = max(start, earlier.finished_us)
        if stream.blocking:
            ordered = device.blocking_finished_us if stream.legacy else device.legacy_finished_us
            if ordered > start:
                start = ordered
        if device.failure is None and (self.body is not None or self.reads or self.writes):  # no mark in a stream
            self._run(device)
        self.done = True
        self.finished_us = stream.finished_us = finished = start + self.cost_us
        if finished > device.finished_us:
            device.finished_us = finished
        if stream.legacy:
            device.legacy_finished_us = finished
        elif stream.blocking and finished > device.blocking_finished_us:
            device.blocking_finished_us = finished
        self.after = ()

    def _run(self, device: Device) -> None:
        illegal = self._illegal_access(device)
        if illegal is not None:
            device.fail(illegal)
            return
        if self.body is None:
            return
        try:
            self.body()
        except BaseException as error:
            if not self.is_failure(device, error):
                raise

    def is_failure(self, device: Device, error: BaseException) -> bool:
        """Whether what the body raised is the device's failure, as which it is entered; if not, it is to be raised."""
        is_own = isinstance(error, Exception) and not isinstance(error, MemoryError | RecursionError)
        if self.repeatable:
            by_itself = self._own_error() if is_own else None
            if by_itself is None:
                return False
            error = by_itself
        elif not is_own and not _was_entered(error):
            return False
        if isinstance(error, DriverError):
            device.fail(error)
            return True
        what = f"{self.name} on device {device.ordinal}"
        if isinstance(error, Exception):
            raised = failure(719, f"{what} raised {error!r}")
            raised.__cause__ = error
            device.fail(raised)
            return True
        # A second Ctrl-C, or an interrupt of the work's own making.
        cause = error.__cause__  # where the work knows better
        device.fail(cause if isinstance(cause, DriverError) else failure(719, f"{what} was interrupted"))
        self.done = device.told = True
        return False

    def _own_error(self) -> Exception | None:
        """What the body, which may run again, raises of its own without signals; None if only a signal's handler has
        raised, or memory or the stack has run out."""
        assert self.body is not None
        body, is_done = self.body, False

        def run() -> None:
            nonlocal is_done
            body()
            is_done = True

        try:
            run_without_signals(run)
        except (MemoryError, RecursionError):
            return None
        except Exception as error:
            return None if is_done else error
        return None

    def _illegal_access(self, device: Device) -> DriverError | None:
        """The error of the first range that must not be accessed, or None."""
        ranges = (*self.reads, *self.writes)
        if self.homes is None:
            fault = device.first_fault(ranges)
        else:
            reader, writer = self.homes
            fault = reader.first_fault(self.reads)
            if fault is None and (there := writer.first_fault(self.writes)) is not None:
                fault = len(self.reads) + there[0], there[1]
        if fault is None:
            return None
        place, why = fault
        address, nbytes = ranges[place]
        verb = "reads" if place < len(self.reads) else "writes"
        return failure(
            700,
            f"{self.name} on device {device.ordinal}, stream {self.stream.handle:#x}, {verb} {nbytes} bytes at "
            f"{address:#x}: {why}. The device stays in this state: close the driver to begin again",
        )


def _was_entered(error: BaseException) -> bool:
    """Whether the body of an operation, which raised this, was entered."""
    traceback = error.__traceback__
    if traceback is not None and traceback.tb_frame.f_code is Operation._run.__code__:  # not by HostLaunch
        traceback = traceback.tb_next
    return traceback is not None


class Event:
    """A mark in a stream."""

    __slots__ = ("device", "marker", "timing")

    def __init__(self, device: Device, *, timing: bool) -> None:
        self.device = device
        self.timing = timing
        self.marker: Operation | None = None
        """The latest recording."""
