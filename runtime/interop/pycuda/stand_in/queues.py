"""Streams and events of ``pycuda.driver``."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from .....allocators.errors import CuplugError
from .device_contexts import current_ordinal, runtime
from .driver_constants import event_flags
from .driver_errors import LogicError, lacking, translated

__all__ = ["Event", "Stream", "handle_of"]


def handle_of(stream: Any) -> int:
    """The driver's handle of a stream, 0 for None: the default stream."""
    return 0 if stream is None else int(stream.handle)


class Stream:
    """A queue of work on the current device. Unless made with flag 1, it waits for the default stream, and that one for
    it."""

    @translated
    def __init__(self, flags: int = 0) -> None:
        self._handle = 0
        self._runtime, self._device = runtime(), current_ordinal()
        with self._runtime.on_device(self._device):
            self._handle = self._runtime.driver.stream_create(non_blocking=bool(flags & 1))

    @property
    def handle(self) -> int:
        """The driver's handle."""
        return self._handle

    @translated
    def synchronize(self) -> None:
        """Wait for the work queued here. Raises LaunchError for what it did."""
        with self._runtime.on_device(self._device):
            self._runtime.driver.stream_synchronize(self._handle)

    @translated
    def is_done(self) -> bool:
        """Whether all work queued here is done."""
        with self._runtime.on_device(self._device):
            return self._runtime.driver.stream_query(self._handle)

    @translated
    def wait_for_event(self, evt: Event) -> None:
        """Let work queued here from now on wait for the event."""
        with self._runtime.on_device(self._device):
            self._runtime.driver.stream_wait_event(self._handle, evt.handle)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._handle == self._handle

    def __hash__(self) -> int:
        return hash(self._handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", 0) and self._runtime.usable:
            with suppress(CuplugError), self._runtime.on_device(self._device):
                self._runtime.driver.stream_destroy(self._handle)


class Event:
    """Marks a place in a stream."""

    @translated
    def __init__(self, flags: int = 0) -> None:
        """Make an event; ``event_flags`` are for ``flags``. Raises NotImplementedError for those between processes."""
        if flags & event_flags.INTERPROCESS:
            lacking("event between processes")
        self._runtime, self._device = runtime(), current_ordinal()
        timing = not flags & event_flags.DISABLE_TIMING
        self._handle = self._runtime.driver.event_create(timing=timing, device=self._device)
        self._recorded = False

    @property
    def handle(self) -> int:
        """The driver's handle."""
        return self._handle

    @translated
    def record(self, stream: Stream | None = None) -> Event:
        """Mark the work queued on ``stream`` up to now. Returns this event."""
        self._runtime.driver.event_record(self._handle, stream=handle_of(stream), device=self._device)
        self._recorded = True
        return self

    @translated
    def synchronize(self) -> Event:
        """Wait for the marked work. Returns this event."""
        self._runtime.driver.event_synchronize(self._handle, device=self._device)
        return self

    @translated
    def query(self) -> bool:
        """Whether the marked work is done."""
        return self._runtime.driver.event_query(self._handle, device=self._device)

    @translated
    def time_since(self, event: Event) -> float:
        """The milliseconds from ``event`` to this one: of the simulated clock.

        Raises:
            LogicError: one of them was not reached yet.
        """
        if not (self._recorded and event._recorded):
            raise LogicError("both events must be recorded before the time between them can be measured")
        with self._runtime.on_device(self._device):
            return self._runtime.driver.event_elapsed_ms(event._handle, self._handle)

    def time_till(self, event: Event) -> float:
        """The milliseconds from this event to ``event``. Raises as ``time_since``."""
        return event.time_since(self)

    def ipc_handle(self) -> bytes:
        """Refused. Raises NotImplementedError."""
        lacking("Event.ipc_handle")

    @staticmethod
    def from_ipc_handle(handle: bytes) -> Event:  # noqa: ARG004 - as PyCUDA's
        """Refused. Raises NotImplementedError."""
        lacking("Event.from_ipc_handle")

    def __del__(self) -> None:
        if getattr(self, "_handle", 0) and self._runtime.usable:
            with suppress(CuplugError):
                self._runtime.driver.event_destroy(self._handle, device=self._device)
