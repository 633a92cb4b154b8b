"""Streams, events that mark places in them, and which stream is current. Named and meant as in ``torch.cuda``."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...allocators.core_choice import is_available
from ...allocators.errors import CuplugError
from ..drivers.base import LEGACY_STREAM
from ..machine.checks import flag, whole_number
from ..machine.current import Entered
from ..machine.default_runtime import runtime_or_default
from ..machine.device import device_index, ordinal_in
from ..machine.device_name import device as DeviceName  # noqa: N812 - torch's class has a small name
from ..machine.foreign_handles import device_of, event_handle, stream_handle
from ..machine.runtime import Runtime
from ..machine.uncopyable import refuse_copies

if TYPE_CHECKING:
    from typing_extensions import Self


class _Entered(threading.local):
    """The streams that this thread has entered by ``with``, the last one innermost."""

    def __init__(self) -> None:
        self.contexts: list[StreamContext] = []


class _Leaver:
    """The end of ``with stream:``. A signal may interrupt it at its beginning; the one that the native core has, in C,
    it does not."""

    __slots__ = ()
    _here: _Entered

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        contexts = self._here.contexts
        for position in range(len(contexts) - 1, -1, -1):
            if contexts[position].stream is self:
                context = contexts[position]
                del contexts[position:]  # above it are those whose end a signal's exception has kept from running
                context.__exit__(kind, error, traceback)
                break


if is_available() and not TYPE_CHECKING:
    from ...allocators import _native

    _Leaver = _native.StreamLeaver


class Stream(_Leaver):
    """A queue of work on one device. Work on one stream runs in order; streams run independently of each other.

    ``cuda_stream``, ``handle`` and ``__cuda_stream__`` give the driver's handle to other libraries. The work queued
    on a stream runs also when the object is dropped. Its handle then serves a later ``Stream``.
    """

    __slots__ = ("__weakref__", "_handle", "_runtime", "device_index", "priority")
    __reduce_ex__ = refuse_copies("pass the stream itself on, or make another one")
    _here = _Entered()

    def __init__(self, device: Any = None, priority: int = 0, *, runtime: Runtime | None = None) -> None:
        """Make a stream that does not order itself with the default stream (as PyTorch's).

        Args:
            device: see ``device_index``; by default the current one.
            priority: lower numbers go first; the driver's range is (0, -5) on most devices, others become the nearest.
            runtime: the default runtime, if left out.
        """
        runtime, priority = runtime_or_default(runtime), whole_number(priority, "priority")
        ordinal = device_index(device, runtime)
        pool = runtime.device(ordinal).streams
        with runtime.on_device(ordinal):
            least, greatest = runtime.driver.stream_priority_range()
            priority = max(greatest, min(least, priority))
            handle = pool.take(self, priority)
        self._assign(runtime, ordinal, handle, priority)

    def _assign(self, runtime: Runtime, ordinal: int, handle: int, priority: int) -> None:
        self._runtime = runtime
        self._handle = handle
        self.device_index = ordinal
        """The ordinal of its device."""
        self.priority = priority

    @property
    def cuda_stream(self) -> int:
        """The driver's handle (``CUstream``)."""
        return self._handle

    handle = cuda_stream

    @property
    def device(self) -> DeviceName:
        """Its device, as tensors name theirs."""
        return DeviceName("cuda", self.device_index)

    @property
    def stream_id(self) -> int:
        """What tells streams of a device apart: the driver's handle."""
        return self._handle

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest priority and the highest one, which is the smaller number: of the current device.

        Raises:
            CuplugError: there is no device.
        """
        runtime = runtime_or_default(None)
        with runtime.on_device(runtime.current.device):
            return runtime.driver.stream_priority_range()

    def __enter__(self) -> Self:
        context = StreamContext(self)
        context.__enter__()
        contexts = self._here.contexts
        contexts += [context]  # behind a call, append, a signal's exception could come and leave it there
        return self

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle

    # --- order with other work

    def synchronize(self) -> None:
        """Wait for the work queued here.

        Raises:
            DriverError: what the work did, for example ``CUDA_ERROR_ILLEGAL_ADDRESS``.
        """
        runtime = self._runtime
        borrowed = runtime.device(self.device_index).borrowed
        queued = borrowed.queued(runtime.current.key(self._handle))
        with runtime.on_device(self.device_index):
            runtime.driver.stream_synchronize(self._handle)
        borrowed.end(queued)

    def query(self) -> bool:
        """Whether all work queued here is done. Raises as ``synchronize``."""
        with self._runtime.on_device(self.device_index):
            return self._runtime.driver.stream_query(self._handle)

    def wait_event(self, event: Any) -> None:
        """Let work queued here from now on wait for the latest recording of ``event``, also another library's."""
        if isinstance(event, Event):
            event.wait(self)
        else:
            with self._runtime.on_device(self.device_index):
                self._runtime.driver.stream_wait_event(self._handle, event_handle(event))

    def wait_stream(self, stream: Any) -> None:
        """Let work queued here from now on wait for all work queued on ``stream`` up to now."""
        as_stream(stream, self._runtime).record_event().wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        """Mark the work queued here up to now, with ``event`` or a new one, which is returned.

        Raises:
            TypeError: ``event`` is not a cuplug Event.
            CuplugError: it was recorded on another device before.
        """
        if event is None:
            event = Event(runtime=self._runtime)
        elif not isinstance(event, Event):
            raise TypeError(f"event must be a cuplug Event or None, not {event!r}")
        event.record(self)
        return event

    # --- identity

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        same = self._handle == other._handle and self.device_index == other.device_index
        return same and self._runtime is other._runtime

    def __hash__(self) -> int:
        return hash((self._handle, self.device_index))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._handle:#x} on device {self.device_index}>"


class ExternalStream(Stream):
    """A stream that somebody else made and destroys. It must exist for as long as memory allocated for it does."""

    __slots__ = ()

    def __init__(self, stream_ptr: Any, device: Any = None, *, runtime: Runtime | None = None) -> None:
        """Wrap a stream.

        Args:
            stream_ptr: the handle, or another library's stream object.
            device: its device, by default the one that the object names, else the current one.
            runtime: the default runtime, if left out.

        Raises:
            TypeError: ``stream_ptr`` is no stream.
        """
        runtime = runtime_or_default(runtime)
        ordinal = device_index(device_of(stream_ptr) if device is None else device, runtime)
        self._assign(runtime, ordinal, stream_handle(stream_ptr), 0)


class Event:
    """Marks the work queued on a stream up to a moment. It belongs to the device of the stream first recorded on."""

    __slots__ = ("__weakref__", "_handle", "_runtime", "blocking", "device_index", "enable_timing")
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
        self.device_index: int | None = None
        """The ordinal of its device; None before it is recorded."""

    @property
    def device(self) -> DeviceName | None:
        """Its device, as tensors name theirs; None before it is recorded."""
        return None if self.device_index is None else DeviceName("cuda", self.device_index)

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
        with runtime.on_device(chosen.device_index):
            if not self._handle:
                handle = runtime.device(chosen.device_index).events.take(self, int(self.enable_timing))
                self._runtime, self._handle, self.device_index = runtime, handle, chosen.device_index
            elif self.device_index != chosen.device_index or self._runtime is not runtime:
                raise CuplugError(
                    f"this event belongs to device {self.device_index} and cannot be recorded on {chosen!r}; "
                    "make another one"
                )
            runtime.driver.event_record(self._handle, stream=chosen.cuda_stream)

    def wait(self, stream: Any = None) -> None:
        """Let work queued on ``stream``, by default the current one, from now on wait for what is marked.

        Also on another device. An event that was never recorded is not waited for.
        """
        chosen = self._stream(stream)
        if self._handle:
            with chosen._runtime.on_device(chosen.device_index):
                chosen._runtime.driver.stream_wait_event(chosen.cuda_stream, self._handle)

    def query(self) -> bool:
        """Whether the marked work is done. True before anything is marked. Raises what the work did."""
        if self.device_index is None:
            return True
        with self._runtime.on_device(self.device_index):
            return self._runtime.driver.event_query(self._handle)

    def synchronize(self) -> None:
        """Wait for the marked work.

        Raises:
            DriverError: what the work did, for example ``CUDA_ERROR_ILLEGAL_ADDRESS``.
        """
        if self.device_index is not None:
            with self._runtime.on_device(self.device_index):
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
        if self.device_index is None or end_event.device_index is None:
            raise CuplugError("both events must be recorded before the time between them can be measured")
        with self._runtime.on_device(self.device_index):
            return self._runtime.driver.event_elapsed_ms(self._handle, end_event._handle)

    def _stream(self, stream: Any) -> Stream:
        return as_stream(stream, self._runtime)

    def __repr__(self) -> str:
        where = "not recorded" if self.device_index is None else f"{self._handle:#x} on device {self.device_index}"
        return f"<Event {where}>"


class StreamContext:
    """Makes a stream current, and its device with it; afterwards brings back what was current before on both devices.

    None means no change. One object may be entered again inside itself.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._entered: list[Entered | None] = []

    def __enter__(self) -> Stream | None:
        if self.stream is None:
            self._entered.append(None)
            return None
        stream = as_stream(self.stream)
        current = stream._runtime.current
        entered = Entered(current, stream.device_index, streams=True)
        current.set_stream(stream.device_index, stream)
        self._entered.append(entered)
        return stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        entered = self._entered.pop()
        if entered is not None:
            entered.restore()


def stream(stream: Any) -> StreamContext:
    """``with cuplug.cuda.stream(s):`` makes a stream current in this thread, and its device. None does nothing."""
    return StreamContext(stream)


def current_stream(device: Any = None, *, runtime: Runtime | None = None) -> Stream:
    """This thread's current stream on a device, by default on the current one."""
    runtime = runtime_or_default(runtime)
    ordinal = ordinal_in(runtime, device)
    chosen: Stream | None = runtime.current.streams.get(ordinal)
    return chosen if chosen is not None else _default_stream(runtime, ordinal)


def default_stream(device: Any = None, *, runtime: Runtime | None = None) -> Stream:
    """The default stream of a device: the legacy stream, with which all blocking streams order themselves."""
    runtime = runtime_or_default(runtime)
    return _default_stream(runtime, ordinal_in(runtime, device))


def _default_stream(runtime: Runtime, ordinal: int) -> Stream:
    objects = runtime.device(ordinal).objects
    found: Stream | None = objects.get("default_stream")
    if found is None:
        found = objects.setdefault("default_stream", ExternalStream(LEGACY_STREAM, ordinal, runtime=runtime))
    return found


def set_stream(stream: Any) -> None:
    """Make a stream current in this thread, and its device. None does nothing. Prefer ``with stream(...)``."""
    if stream is not None:
        chosen = as_stream(stream)
        current = chosen._runtime.current
        current.set_stream(chosen.device_index, chosen)


def as_stream(stream: Any, runtime: Runtime | None = None) -> Stream:
    """A ``Stream`` as it is; another library's stream, or a handle, as an ``ExternalStream``; None as the current one.

    Raises:
        TypeError: it is no stream.
    """
    if isinstance(stream, Stream):
        return stream
    if stream is None:
        return current_stream(runtime=runtime)
    return ExternalStream(stream, runtime=runtime)
