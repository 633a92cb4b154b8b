"""The simulated driver's streams and events."""

from __future__ import annotations

from ..base import driver_error
from .machine import call
from .operations import Event, Operation, Stream
from .state import SimState

__all__ = ["StreamCalls"]

_LEAST_PRIORITY, _GREATEST_PRIORITY = 0, -5


class StreamCalls(SimState):
    """See ``Driver``: the section on streams and events."""

    @call
    def stream_create(self, *, non_blocking: bool = True, priority: int = 0) -> int:
        """Create a stream on the current device. Priorities are clamped, and change nothing."""
        priority = min(max(priority, _GREATEST_PRIORITY), _LEAST_PRIORITY)
        stream = Stream(self._here(), blocking=not non_blocking, priority=priority)
        stream.handle = self._streams.add(stream)
        return stream.handle

    @call
    def stream_destroy(self, stream: int) -> None:
        """Destroy a stream. Its queued work still runs; the handle goes to the next stream that is made."""
        self._here()
        self._streams.remove(stream)

    @call
    def stream_priority_range(self) -> tuple[int, int]:
        """The least and the greatest priority: (0, -5)."""
        self._here()
        return _LEAST_PRIORITY, _GREATEST_PRIORITY

    @call
    def stream_synchronize(self, stream: int) -> None:
        """Wait for the work queued on the stream. Raises what the device's work did."""
        self._here()
        waiting = self._stream(stream)
        if waiting.queue:
            self._schedule.wait(waiting.queue[-1])
        self._host_us = max(self._host_us, waiting.finished_us)
        waiting.device.settle()

    @call
    def stream_query(self, stream: int) -> bool:
        """Whether all work queued on the stream has completed. Raises what the device's work did."""
        self._here()
        asked = self._stream(stream)
        done = not asked.queue or self._schedule.poll(asked.queue[-1])
        asked.device.settle()
        return done

    @call
    def stream_wait_event(self, stream: int, event: int) -> None:
        """Let work queued on ``stream`` from now on wait for the latest recording of ``event``."""
        self._here()
        marker = self._events.get(event).marker
        waiting = self._stream(stream)
        if marker is not None:
            self._submit(Operation("stream_wait_event", waiting, after=(marker,)))

    @call
    def event_create(self, *, timing: bool = False) -> int:
        """Create an event on the current device, unrecorded."""
        return self._events.add(Event(self._here(), timing=timing))

    @call
    def event_destroy(self, event: int) -> None:
        """Destroy an event. Waits for it that are queued stay."""
        self._here()
        self._events.remove(event)

    @call
    def event_record(self, event: int, *, stream: int) -> None:
        """Mark the work queued on ``stream`` so far. Both belong to one device."""
        self._here()
        marked, queue = self._events.get(event), self._stream(stream)
        if marked.device is not queue.device:
            raise driver_error(
                400,
                f"event_record: the event is of device {marked.device.ordinal}, the stream of {queue.device.ordinal}",
            )
        marked.marker = self._submit(Operation("event_record", queue))

    @call
    def event_query(self, event: int) -> bool:
        """Whether the marked work has completed. Raises what the device's work did."""
        self._here()
        asked = self._events.get(event)
        done = asked.marker is None or self._schedule.poll(asked.marker)
        asked.device.settle()
        return done

    @call
    def event_synchronize(self, event: int) -> None:
        """Wait for the marked work. Raises what the device's work did."""
        self._here()
        marker = self._events.get(event).marker
        if marker is not None:
            self._wait(marker)

    @call
    def event_elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds on the simulated clock. It depends on what the program did, and not on the schedule."""
        self._here()
        first, last = self._events.get(start), self._events.get(end)
        if first.device is not last.device:
            raise driver_error(400, "event_elapsed_ms: the events are of two devices")
        if not (first.timing and last.timing):
            raise driver_error(400, "event_elapsed_ms: create both events with timing=True")
        if first.marker is None or last.marker is None:
            raise driver_error(400, "event_elapsed_ms: record both events first")
        if not (first.marker.done and last.marker.done):
            raise driver_error(600, "event_elapsed_ms: wait for both events first")
        return (last.marker.finished_us - first.marker.finished_us) / 1000
