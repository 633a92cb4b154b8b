"""Events: marks in streams. Named and meant as in ``torch.cuda``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..allocators.errors import CuplugError
from ..allocators.uncopyable import refuse_copies
from .checks import flag
from .default_runtime import runtime_or_default
from .runtime import Runtime

if TYPE_CHECKING:
    from .stream import Stream

__all__ = ["Event"]


class Event:
    """Marks the work queued on a stream up to a moment. It belongs to the device of the stream first recorded on."""

    __slots__ = ("__weakref__", "_handle", "_runtime", "blocking", "device", "enable_timing")
    __reduce_ex__ = refuse_copies("pass the event itself on, or make another one")

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        """Make an event. The driver makes its own when it is first recorded.

        Args:
            enable_timing: whether ``elapsed_time`` may use it.
            blocking: as PyTorch's argument; waiting releases the interpreter either way.
            interprocess: not supported.
            runtime: the default runtime, if left out.

        Raises:
            ValueError: ``interprocess`` is true.
            TypeError: an argument is neither True nor False, or ``runtime`` is no runtime.
        """
        if flag(interprocess, "interprocess"):
            raise ValueError("events between processes are not supported; pass interprocess=False")
        self._runtime = runtime_or_default(runtime)
        self._handle = 0
        self.enable_timing = flag(enable_timing, "enable_timing")
        self.blocking = flag(blocking, "blocking")
        self.device: int | None = None
        """The ordinal of its device; None before it is recorded."""

    @property
    def cuda_event(self) -> int:
        """The driver's handle (``CUevent``); 0 before it is recorded."""
        return self._handle

    def record(self, stream: Any = None) -> None:
        """Mark the work queued on ``stream``, by default the current one, up to now. Replaces what it marked before.

        Raises:
            CuplugError: it was recorded on another device before.
        """
        chosen = self._stream(stream)
        runtime = chosen._runtime
        with runtime.on_device(chosen.device):
            if not self._handle:
                handle = runtime.device(chosen.device).events.take(self, int(self.enable_timing))
                self._runtime, self._handle, self.device = runtime, handle, chosen.device
            elif self.device != chosen.device or self._runtime is not runtime:
                raise CuplugError(
                    f"this event belongs to device {self.device} and cannot be recorded on {chosen!r}; make another one"
                )
            runtime.driver.event_record(self._handle, stream=chosen.cuda_stream)

    def wait(self, stream: Any = None) -> None:
        """Let work queued on ``stream``, by default the current one, from now on wait for what is marked.

        Also on another device. An event that was never recorded is not waited for.
        """
        chosen = self._stream(stream)
        if self._handle:
            with chosen._runtime.on_device(chosen.device):
                chosen._runtime.driver.stream_wait_event(chosen.cuda_stream, self._handle)

    def query(self) -> bool:
        """Whether the marked work is done. True before anything is marked. Raises what the work did."""
        if self.device is None:
            return True
        with self._runtime.on_device(self.device):
            return self._runtime.driver.event_query(self._handle)

    def synchronize(self) -> None:
        """Wait for the marked work.

        Raises:
            DriverError: what the work did, for example ``CUDA_ERROR_ILLEGAL_ADDRESS``.
        """
        if self.device is not None:
            with self._runtime.on_device(self.device):
                self._runtime.driver.event_synchronize(self._handle)

    def elapsed_time(self, end_event: Event) -> float:
        """The milliseconds between this event and ``end_event``. Both must have been reached.

        Raises:
            TypeError: ``end_event`` is not an Event.
            CuplugError: one was made without ``enable_timing``, or not recorded.
            DriverError: ``CUDA_ERROR_NOT_READY``: the work is not done; synchronise first.
        """
        if not isinstance(end_event, Event):
            raise TypeError(f"end_event must be a cuplug Event, not {end_event!r}")
        if not (self.enable_timing and end_event.enable_timing):
            raise CuplugError("both events must be made with enable_timing=True to measure the time between them")
        if self.device is None or end_event.device is None:
            raise CuplugError("both events must be recorded before the time between them can be measured")
        with self._runtime.on_device(self.device):
            return self._runtime.driver.event_elapsed_ms(self._handle, end_event._handle)

    def _stream(self, stream: Any) -> Stream:
        from .stream import as_stream

        return as_stream(stream, self._runtime)

    def __repr__(self) -> str:
        where = "not recorded" if self.device is None else f"{self._handle:#x} on device {self.device}"
        return f"<Event {where}>"
