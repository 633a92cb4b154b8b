"""The CUDA driver's streams and events."""

from __future__ import annotations

import ctypes

from ..base import PER_THREAD_STREAM, driver_error
from .state import CudaState

__all__ = ["StreamCalls"]

_NOT_READY = 600
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_DISABLE_TIMING = 2  # CU_EVENT_DISABLE_TIMING


class StreamCalls(CudaState):
    """See ``Driver``: the section on streams and events. Any library's handles may be given, except to destroy."""

    def stream_create(self, *, non_blocking: bool = True, priority: int = 0) -> int:
        """Create a stream on the current device. CUDA clamps the priority to the device's range."""
        flags = _NON_BLOCKING if non_blocking else 0
        return self._make(self._streams, "cuStreamCreateWithPriority", flags, priority)

    def stream_destroy(self, stream: int) -> None:
        """Destroy a stream. Its queued work still runs. The handle may be given to a later stream."""
        self._destroy(self._streams, "cuStreamDestroy", stream, invalid=400)

    def stream_priority_range(self) -> tuple[int, int]:
        """The least and the greatest priority, for example (0, -5)."""
        least, greatest = ctypes.c_int(), ctypes.c_int()
        self._call("cuCtxGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
        return least.value, greatest.value

    def stream_synchronize(self, stream: int) -> None:
        """Wait for the work queued on the stream. Raises what the work did."""
        self._queue("cuStreamSynchronize", stream=stream)

    def stream_query(self, stream: int) -> bool:
        """Whether all work queued on the stream has completed. Raises what the work did."""
        pushed = stream <= PER_THREAD_STREAM and self._contexts.enter()
        try:
            code = self._cuda.cuStreamQuery(stream)
        finally:
            if pushed:
                self._contexts.leave()
        if code and code != _NOT_READY:
            raise self._error("cuStreamQuery", code)
        return not code

    def stream_wait_event(self, stream: int, event: int) -> None:
        """Let work queued on ``stream`` from now on wait for the latest recording of ``event`` (none: no wait)."""
        if stream > PER_THREAD_STREAM:
            code = self._cuda.cuStreamWaitEvent(stream, event, 0)
            if not code:
                return
            self._check_retry("cuStreamWaitEvent", code)
        self._call("cuStreamWaitEvent", stream, event, 0)

    def event_create(self, *, timing: bool = False) -> int:
        """Create an event on the current device, unrecorded. ``timing`` lets ``event_elapsed_ms`` use it."""
        event = ctypes.c_void_p()
        contexts = self._contexts
        pushed = contexts.enter()
        try:
            code = self._cuda.cuEventCreate(ctypes.byref(event), 0 if timing else _DISABLE_TIMING)
        finally:
            if pushed:
                contexts.leave()
        if code:
            raise self._error("cuEventCreate", code)
        handle = event.value or 0
        self._events[handle] = contexts.here()
        return handle

    def event_destroy(self, event: int) -> None:
        """Destroy an event, also while a recording is pending."""
        ordinal = self._events.pop(event, None)
        if ordinal is None:
            self._destroy(self._events, "cuEventDestroy", event, invalid=400)  # says so
        else:
            self._give_back("cuEventDestroy", event, ordinal)

    def event_record(self, event: int, *, stream: int) -> None:
        """Mark the work queued on ``stream`` so far. Both belong to one device."""
        if stream <= PER_THREAD_STREAM:
            self._contexts.here()
        # On a default stream too: if that is another context's, CUDA refuses (400, seen), and the context is switched.
        code = self._cuda.cuEventRecord(event, stream)
        if code:
            self._check_retry("cuEventRecord", code)
            self._call("cuEventRecord", event, stream)

    def event_query(self, event: int) -> bool:
        """Whether the marked work has completed. True for an unrecorded event."""
        code = self._cuda.cuEventQuery(event)
        if not code:
            return True
        if code == _NOT_READY:
            return False
        raise self._error("cuEventQuery", code)

    def event_synchronize(self, event: int) -> None:
        """Wait for the marked work. Raises what the work did."""
        code = self._cuda.cuEventSynchronize(event)
        if code:
            raise self._error("cuEventSynchronize", code)

    def event_elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds between two recorded, completed events created with ``timing``."""
        if not (start and end):
            raise driver_error(400, "event_elapsed_ms: 0 is no event")
        milliseconds = ctypes.c_float()
        code = self._cuda.cuEventElapsedTime(ctypes.byref(milliseconds), start, end)
        if code:
            detail = "wait for both events first" if code == _NOT_READY else "record both, made with timing=True"
            raise self._error("cuEventElapsedTime", code, detail)
        return milliseconds.value
