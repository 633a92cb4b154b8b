"""Records an allocator's events in a trace file, as an observer."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from ...allocators.errors import TraceError
from ...allocators.events import EventKind, Observer
from ...allocators.libraries import LIBRARIES
from ...runtime.drivers.forking import in_forked_child
from .stacks import DEFAULT_DEPTH, ModuleStacks, PythonStacks, parse_stacks
from .trace_in_memory import CLOSING, NO_DEVICE
from .training_scope import ITERATION, watch
from .writer import TraceWriter


class TraceRecorder:
    """Writes what allocators report into one trace file. Any thread may use it.

    In a forked child it writes nothing: the file is the parent's. A file that is never closed, since the process was
    killed, can be read up to the last event.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, stacks: str | None = None, depth: int | None = None, **fields: Any
    ) -> None:
        """Create the file.

        Args:
            path: where; ``{pid}`` in it becomes the number of the process. An older trace there is replaced.
            stacks: ``none``; ``python`` to record the Python call stack of every allocation and free; or ``modules``
                to record the module of a network and the phase of the training instead, and the end of each iteration.
                By default what ``CUPLUG_TRACE_STACKS`` says, else ``none``. ``python:8`` sets the depth as well.
            depth: how many levels of a stack to keep.
            fields: what else is known of the run (see ``describe``).

        Raises:
            TraceError: the file cannot be made, or ``stacks`` is none of these.
        """
        kind, levels = parse_stacks(stacks)
        self.path = os.fspath(path).replace("{pid}", str(os.getpid()))
        libraries = {str(number): name for number, name in LIBRARIES.items()}
        self._writer = TraceWriter(self.path, {"stacks": kind, "libraries": libraries, **fields})
        self._threads = _Threads(self._writer)
        self.context: Callable[[], int] | None = None
        """What allocators call for an event's context (``Allocator.attach``). None when no stacks are recorded."""
        if kind == "python":
            self.context = PythonStacks(self._writer.stack, depth or levels or DEFAULT_DEPTH).context
        self._end_watch: Callable[[], None] | None = None
        if kind == "modules":
            self.context = ModuleStacks(self._writer.stack).context
            self._end_watch = watch(_Iterations(self))
        self._closer = weakref.finalize(self, self._writer.close)
        self._closer.atexit = False  # it might run before the runtime's own end, whose events belong in the trace
        _writers.add(self._writer)

    def observer(self, device: int) -> Observer:
        """The observer for the allocator of a device, by the device's ordinal.

        Native allocators do not call it: they write the same into the file by themselves, as its attribute
        ``native_log`` says.
        """
        writer, threads = self._writer, self._threads
        next_place, pack_into = writer.places.__next__, writer.EVENT.pack_into

        last_time, last_place = -1, -1

        def record(
            kind: EventKind, time_ns: int, thread: int, stream: int,
            address: int, nbytes: int, requested: int, context: int, /,
        ) -> None:  # fmt: skip
            nonlocal last_time, last_place
            place = -1
            try:
                number = threads[thread]
                if time_ns == last_time and writer.holds(
                    last_place, (time_ns, address, nbytes, requested, stream, context, number, device, kind)
                ):
                    return  # a delivery that an exception interrupted is repeated
                place = next_place()
                begin, end, view = writer.window
                if not begin <= place < end:
                    begin, end, view = writer.window_for(place)
                    if view is None:
                        return  # closed, or a forked child
                pack_into(
                    view, place - begin,
                    time_ns, address, nbytes, requested, stream, context, number, device, kind,
                )  # fmt: skip
                last_place, last_time = place, time_ns
            except TraceError:
                raise
            except BaseException:  # an interrupt, say: the event has taken place all the same
                event = (time_ns, address, nbytes, requested, stream, context, threads[thread], device, kind)
                if time_ns != last_time or not writer.holds(last_place, event):
                    last_place, last_time = writer.write_again(place, event), time_ns
                raise

        if writer.log is not None:
            vars(record)["native_log"] = writer.log, device
        return record

    def marker(self, name: str) -> None:
        """Put a named mark into the trace, at this moment.

        Raises:
            TraceError: the disk is full.
        """
        number, thread = self._writer.name(name), self._threads[threading.get_ident()]
        now = time.perf_counter_ns()
        self._writer.append(EventKind.MARKER, NO_DEVICE, now, thread, 0, 0, 0, number, 0)

    def closing(self) -> None:
        """Mark the program's end: what is live now, the program never freed, whatever the runtime frees from here on.

        Never raises: on a full disk the mark is missing, and nothing else that closing has to do.
        """
        with contextlib.suppress(TraceError):
            self.marker(CLOSING)

    def describe(self, **fields: Any) -> None:
        """Add to the trace's header (``Header``): ``driver`` and ``allocators`` (a dictionary from a device's ordinal
        to a selection), ``devices`` (a list of dictionaries with ``ordinal``, ``name`` and ``total_memory``), or more.
        """
        self._writer.describe(**fields)

    def flush(self) -> None:
        """Bring everything to disk. Only needed against a power cut: a killed process loses nothing."""
        self._writer.flush()

    def close(self) -> None:
        """Mark the trace as whole. Events that come later are dropped. Idempotent."""
        if self._end_watch is not None:
            self._end_watch()
        self._writer.close()


class _Iterations:
    """Marks the end of each iteration, for as long as there is the recorder."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = weakref.ref(recorder)

    def __call__(self) -> None:
        recorder = self._recorder()
        if recorder is not None:
            recorder.marker(ITERATION)


class _Threads(dict[int, int]):
    """From a thread's identity to its number in the trace, in order of their first events.

    The system gives the identity of a thread that has ended to a later one: both then share number and name.
    """

    def __init__(self, writer: TraceWriter) -> None:
        super().__init__()
        self._writer = writer

    def __missing__(self, identity: int) -> int:
        number = self[identity] = self._writer.thread_of(identity)
        return number


_writers: weakref.WeakSet[TraceWriter] = weakref.WeakSet()


@in_forked_child
def _disown_all() -> None:
    for writer in list(_writers):
        writer.disown()
