"""The streams and events of a simulated machine: which exist, what is queued on them, and waiting for it."""

from __future__ import annotations

import threading
from functools import partial

from ..base import LEGACY_STREAM, PER_THREAD_STREAM, driver_error
from .handle_table import HandleTable
from .locked_calls import Entering, GivingBack
from .schedule import Schedule
from .simulated_device import Device
from .work import Event, Operation, Stream

PRIORITIES = 0, -5
"""The least and the greatest priority of a stream."""

_EXPLICIT_LEGACY = 1  # CU_STREAM_LEGACY
CALL_US = 2.0
"""Simulated time between the submissions of two operations, in microseconds."""


class _Thread(threading.local):
    streams: dict[Device, Stream] | None = None
    """This thread's own default streams."""


class Streams:
    """All streams and events of one machine. The methods are called under the lock of its ``Calls``."""

    __slots__ = ("_legacy", "_thread", "events", "host_us", "managed", "schedule", "streams")

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.managed = schedule.managed
        self.streams: HandleTable[Stream] = HandleTable("stream", 0x1000)
        self.events: HandleTable[Event] = HandleTable("event", 0x1000_0000)
        self.host_us = 0.0
        """How far the program itself has come, in simulated microseconds."""
        self._legacy: dict[Device, Stream] = {}
        self._thread = _Thread()

    def add_device(self, device: Device) -> None:
        """Make a device's legacy stream."""
        self._legacy[device] = Stream(device, blocking=True, legacy=True)

    def make(self, device: Device, *, blocking: bool, priority: int) -> Entering[int, int]:
        """A new stream of the device. Priorities are clamped, and change nothing."""
        least, greatest = PRIORITIES
        handle = self.streams.unused()
        stream = Stream(device, blocking=blocking, handle=handle, priority=min(max(priority, greatest), least))
        return Entering(self.streams.objects, handle, stream, handle)

    def destroy(self, handle: int) -> GivingBack:
        """Destroying a stream. Its queued work still runs; the handle goes to the next stream that is made."""
        return GivingBack(partial(self.streams.remove, handle, self.streams.get(handle)), memory=False)

    def of(self, handle: int, device: Device) -> Stream:
        """The stream of a handle; 0, 1 and 2 are the default streams of ``device``.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_HANDLE``.
        """
        if handle > PER_THREAD_STREAM:
            return self.streams.get(handle)
        if handle in (LEGACY_STREAM, _EXPLICIT_LEGACY):
            return self._legacy[device]
        if handle != PER_THREAD_STREAM:
            raise driver_error(400, f"{handle} is no stream")
        streams = self._thread.streams
        if streams is None:
            streams = self._thread.streams = {}
        stream = streams.get(device)
        if stream is None:
            stream = streams[device] = Stream(device, blocking=True, handle=PER_THREAD_STREAM)
        return stream

    def submit(self, operation: Operation, stream: Stream) -> Operation:
        """Queue an operation on a stream, behind what it must follow."""
        operation.stream = stream
        self.host_us += CALL_US
        operation.submitted_us = self.host_us
        if self.schedule.defers:
            operation.after += tuple(self.predecessors(stream))
        self.schedule.submit(operation)
        if self.managed.sizes:
            self.managed.note(operation)
        return operation

    def predecessors(self, stream: Stream) -> list[Operation]:
        """The last operations of the streams that legacy ordering makes a new operation of ``stream`` follow."""
        device = stream.device
        if stream.legacy:
            return [
                other.queue[-1]
                for other in self.schedule.active
                if other.blocking and other.device is device and other is not stream
            ]
        if stream.blocking and self._legacy[device].queue:
            return [self._legacy[device].queue[-1]]
        return []

    def ordered_before(self, stream: Stream) -> set[Operation]:
        """The queued operations that an operation queued on ``stream`` now would wait for."""
        reached: set[Operation] = set()
        ends = [*list(stream.queue)[-1:], *self.predecessors(stream)]
        while ends:
            end = ends.pop()
            for operation in end.stream.queue:
                if operation not in reached:
                    reached.add(operation)
                    ends.extend(earlier for earlier in operation.after if not earlier.done)
                if operation is end:
                    break
        return reached

    # --- events

    def make_event(self, device: Device, *, timing: bool) -> Entering[int, int]:
        """A new event of the device, unrecorded."""
        handle = self.events.unused()
        return Entering(self.events.objects, handle, Event(device, timing=timing), handle)

    def destroy_event(self, event: int) -> GivingBack:
        """Destroying an event. Waits for it that are queued stay."""
        return GivingBack(partial(self.events.remove, event, self.events.get(event)), memory=False)

    def record(self, event: int, stream: int, device: Device) -> None:
        """Mark the work queued on a stream so far.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_HANDLE``: they belong to two devices.
        """
        queue = self.of(stream, device)
        marked = self.events.get(event)
        if marked.device is not queue.device:
            raise driver_error(
                400,
                f"event_record: the event is of device {marked.device.ordinal}, the stream of {queue.device.ordinal}",
            )
        marked.marker = self.submit(Operation("event_record"), queue)

    def let_wait(self, stream: int, event: int, device: Device) -> None:
        """Let what is queued on the stream from now on wait for the latest recording of the event."""
        waiting = self.of(stream, device)
        marker = self.events.get(event).marker
        if marker is not None:
            self.submit(Operation("stream_wait_event", after=(marker,)), waiting)

    def has_passed(self, event: int) -> bool:
        """Whether what the event marks has run. Raises what the device's work did."""
        asked = self.events.get(event)
        done = self._has_done(asked.marker, asked.device)
        if done and asked.marker is not None and self.managed.in_use:
            self.managed.waited_until(asked.marker.finished_us)
        return done

    def wait_for_event(self, event: int) -> None:
        """Wait for what the event marks. Raises what the device's work did."""
        marker = self.events.get(event).marker
        if marker is not None:
            self.wait(marker)

    def elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds on the simulated clock between two marks. It depends on what the program did, and not on the
        schedule.

        Raises:
            DriverError: the events are of two devices or without timing, or not recorded, or have not passed.
        """
        first, last = self.events.get(start), self.events.get(end)
        if first.device is not last.device:
            raise driver_error(400, "event_elapsed_ms: the events are of two devices")
        if not (first.timing and last.timing):
            raise driver_error(400, "event_elapsed_ms: create both events with timing=True")
        if first.marker is None or last.marker is None:
            raise driver_error(400, "event_elapsed_ms: record both events first")
        if not (first.marker.done and last.marker.done):
            raise driver_error(600, "event_elapsed_ms: wait for both events first")
        return (last.marker.finished_us - first.marker.finished_us) / 1000

    # --- waiting: each raises what the device's work did

    def wait(self, operation: Operation) -> None:
        """Wait for one operation."""
        if not operation.done:
            self.schedule.wait(operation)
        if operation.finished_us > self.host_us:
            self.host_us = operation.finished_us
        if operation.stream.device.failure is not None:
            operation.stream.device.settle(waits=True)
        if self.managed.in_use:
            self.managed.waited_until(operation.finished_us)

    def wait_for_stream(self, stream: Stream) -> None:
        """Wait for all that is queued on a stream."""
        if stream.queue:
            self.schedule.wait(stream.queue[-1])
        self.host_us = max(self.host_us, stream.finished_us)
        stream.device.settle(waits=True)
        if self.managed.in_use:
            self.managed.waited_until(stream.finished_us)

    def wait_for_device(self, device: Device) -> None:
        """Wait for all that is queued on a device."""
        self.schedule.drain(device)
        self.host_us = max(self.host_us, device.finished_us)
        device.settle(waits=True)
        if self.managed.in_use:
            self.managed.waited_until(device.finished_us)

    def has_run(self, stream: Stream) -> bool:
        """Whether all that is queued on a stream has run. Asking may make progress."""
        done = self._has_done(stream.queue[-1] if stream.queue else None, stream.device)
        if done and self.managed.in_use:
            self.managed.waited_until(stream.finished_us)
        return done

    def _has_done(self, operation: Operation | None, device: Device) -> bool:
        """Whether an operation of the device, if it is one, has run. Asking may make progress."""
        done = operation is None or self.schedule.poll(operation)
        device.settle()
        return done


class Submission:
    """The change of a call that queues work: if the call is interrupted, what it has queued does nothing."""

    __slots__ = ("operation", "stream", "streams", "waits")

    def __init__(self, streams: Streams, stream: Stream, operation: Operation, waits: bool = False) -> None:
        """``waits`` says whether the call returns only once the work is done."""
        self.streams = streams
        self.stream = stream
        self.operation = operation
        self.waits = waits

    def commit(self) -> None:
        """Queue it."""
        self.streams.submit(self.operation, self.stream)
        if self.waits:
            self.streams.wait(self.operation)

    def undo(self) -> None:
        """Cancel it, unless it is done."""
        self.operation.cancel()
