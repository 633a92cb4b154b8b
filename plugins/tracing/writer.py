"""Writes traces."""

from __future__ import annotations

import itertools
import json
import mmap
import os
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ...allocators import native
from ...allocators.errors import TraceError
from ...allocators.libraries import STACK_MASK
from .families import family_of_environment
from .format import (
    CUT_OFF,
    FORMAT_VERSION,
    HEADER,
    LAST_PIECE,
    MAGIC,
    PAGE,
    PIECE,
    PIECE_FRAME,
    PIECE_INFO,
    PIECE_NAME,
    PIECE_STACK,
    PIECE_THREAD,
    PLACES_GIVEN_UP,
    RECORD_SIZE,
    STILL_OPEN,
    own_version,
)
from .new_file import allocate, create, let_go
from .trace_in_memory import EventArray, Trace

if TYPE_CHECKING:
    from ...allocators import _native

T = TypeVar("T")

_WINDOW = 20480  # records mapped at a time, just under 1 MiB


class TraceWriter:
    """Writes a trace. Any thread may call any method, also from a finaliser that interrupts another call.

    Places are handed out by an atomic counter, never by a lock, since a lock could be held by the very code that a
    finaliser interrupts. ``places`` gives offsets in the file; ``window`` is the part of the file that is mapped, as
    (begin, end, map). Allocators of the native core write their events into the same file by themselves, through
    ``log``; the counter is then theirs too.

    An exception that comes at any point, such as ``KeyboardInterrupt``, loses no event: what is written by then is
    written again at its place, and goes on its way. A place that was handed out and never came to be known is given
    up, and counted.
    """

    EVENT = struct.Struct("<qQqqQIHBB")
    """How an event is packed: the fields of ``EVENT_DTYPE``, in their order."""

    def __init__(
        self, path: str | os.PathLike[str], fields: Mapping[str, Any] | None = None, *, about_process: bool = True
    ) -> None:
        """Create the file. A trace of the same name is replaced once the new one can be written; no other file is.

        Args:
            path: where.
            fields: what the header says (see ``Header``).
            about_process: whether the header also describes this process: number, command line, clocks, versions.

        Raises:
            TraceError: the file cannot be made, is no trace, or another process is writing it.
        """
        self.path = os.fspath(path)
        self.window: tuple[int, int, Any] = _CLOSED
        self.given_up = 0
        """Places that an exception took: they were handed out, and nothing stands there."""
        self._numbers = {kind: itertools.count(1) for kind in (PIECE_NAME, PIECE_FRAME, PIECE_STACK)} | {
            kind: itertools.count() for kind in (PIECE_THREAD, PIECE_INFO)
        }
        self._known: dict[tuple[int, Any], int] = {}
        self._growing = threading.RLock()
        self._cut_off = False
        self._pid = os.getpid()
        about = _about_this_process() if about_process else {}
        text = json.dumps({**about, **(fields or {})}).encode()
        self._start = -(-(HEADER.size + len(text)) // PAGE) * PAGE
        self.log: _native.TraceLog | None = None
        """Where native allocators write; None where there is no native core."""
        self.places: Iterator[int] = itertools.count(self._start, RECORD_SIZE)
        fixed = HEADER.pack(MAGIC, FORMAT_VERSION, self._start, RECORD_SIZE, len(text), zlib.crc32(text), STILL_OPEN)
        head = (fixed + text).ljust(self._start, b"\0")
        self._file = create(self.path, head, self._start + _WINDOW * RECORD_SIZE)
        try:
            if native.is_available():
                self.log = self.places = _open_log(self._file.fileno(), self._start)
            self._advance(self._start)
        except BaseException:
            self._file.close()
            raise

    def append(
        self, kind: int, device: int, time_ns: int, thread: int, stream: int,
        address: int, nbytes: int, requested: int, context: int,
    ) -> None:  # fmt: skip
        """Write one event; ``thread`` is a number from ``thread``. Nothing happens once the writer is closed.

        Raises:
            TraceError: the disk is full, as this event is the first to find. What comes later is dropped.
        """
        place = -1
        event = time_ns, address, nbytes, requested, stream, context, thread, device, kind
        try:
            place = next(self.places)
            begin, end, view = self.window
            if not begin <= place < end:
                begin, _, view = self.window_for(place)
                if view is None:
                    return
            self.EVENT.pack_into(view, place - begin, *event)
        except TraceError:
            raise
        except BaseException:
            self.write_again(place, event)
            raise

    def extend(self, events: EventArray) -> None:
        """Write many events, in order."""
        for row in events.tolist():
            time_ns, address, nbytes, requested, stream, context, thread, device, kind = row
            self.append(kind, device, time_ns, thread, stream, address, nbytes, requested, context)

    def holds(self, place: int, event: tuple[int, ...]) -> bool:
        """Whether an event, its fields in ``EVENT``'s order, stands at a place. False once the writer is closed."""
        begin, _, view = self.window_for(place) if place >= 0 else _CLOSED
        return view is not None and self.EVENT.unpack_from(view, place - begin) == event

    def write_again(self, place: int, event: tuple[int, ...]) -> int:
        """Write an event that an exception interrupted.

        Args:
            place: where it belongs, or -1 if that is not known: it then gets a new place.
            event: its fields, in ``EVENT``'s order.

        Returns:
            Its place.
        """
        try:
            if place < 0:
                self.given_up += 1
                place = next(self.places)
            begin, _, view = self.window_for(place)
            if view is not None:
                self.EVENT.pack_into(view, place - begin, *event)
        except TraceError:
            pass  # the disk is full, which the file says, and another exception is on its way
        except BaseException:
            self.cut_off()
            raise
        return place

    def name(self, text: str) -> int:
        """The number of a name in the side table."""
        return self._entry(PIECE_NAME, text, text)

    def thread(self, text: str) -> int:
        """A number for one more thread, of that name."""
        number = next(self._numbers[PIECE_THREAD])
        if self.log is not None:
            return min(self.log.thread(_NO_THREAD + number, text), 0xFFFF)
        number = min(number, 0xFFFF)  # the last number stands for all further threads
        self._write(PIECE_THREAD, number, text)
        return number

    def thread_of(self, identity: int) -> int:
        """The number of the thread of that identity (``threading.get_ident``). To be asked for once for each."""
        text = thread_name(identity)
        return self.thread(text) if self.log is None else min(self.log.thread(identity, text), 0xFFFF)

    def stack(self, frames: Iterable[tuple[str, int, str]]) -> int:
        """The number of a call stack of (file name, line, function), innermost first. 0 for an empty one, and for what
        is one too many: a context has so many numbers for stacks."""
        numbers = tuple(self._entry(PIECE_FRAME, frame := tuple(entry), json.dumps(frame)) for entry in frames)
        number = self._entry(PIECE_STACK, numbers, json.dumps(numbers)) if numbers else 0
        return number if number <= STACK_MASK else 0

    def describe(self, **fields: Any) -> None:
        """Add to the header what was not known when the file was made. Dictionaries are merged."""
        self._write(PIECE_INFO, next(self._numbers[PIECE_INFO]), json.dumps(fields))

    def window_for(self, place: int) -> tuple[int, int, Any]:
        """The mapped part of the file that holds a record, growing the file if need be.

        ``_CLOSED`` once the writer is closed, and behind the end of a file that the disk has no room to grow.

        Raises:
            TraceError: the disk is full. Only the first to find that gets the error.
        """
        return self._alone(self._window_for, place)

    def cut_off(self) -> None:
        """Note in the file that events are missing from here on."""
        self._cut_off = True
        if not self._file.closed:
            os.pwrite(self._file.fileno(), struct.pack("<Q", CUT_OFF), HEADER.size - 8)

    @property
    def is_cut_off(self) -> bool:
        """Whether events are missing at the end, for want of room on the disk."""
        return self._cut_off or (self.log is not None and self.log.error != 0)

    def flush(self) -> None:
        """Ask the kernel to bring everything to disk. Not needed against a killed process, only against a power cut."""
        view = self.window[2]
        if view is not None and self._pid == os.getpid():
            view.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Mark the recording as whole and cut the file to its length. Idempotent; nothing in a forked child.

        One that an exception interrupts may be called again.
        """
        self._alone(self._close)

    def disown(self) -> None:
        """In a forked child: let go of the parent's file without a trace."""
        self._growing = threading.RLock()  # another thread of the parent may have held it
        self.window = _CLOSED
        self._file.close()

    def _entry(self, kind: int, key: Any, text: str) -> int:
        number = self._known.get((kind, key))
        if number is None:
            number = next(self._numbers[kind])
            self._write(kind, number, text)  # before it is known: an exception in the middle leaves it unknown
            number = self._known.setdefault((kind, key), number)
        return number

    def _write(self, kind: int, number: int, text: str) -> None:
        """Write one entry of the side table. Other records may come between its pieces."""
        data = text.encode(errors="surrogatepass")
        for start in range(0, max(len(data), 1), 40):
            piece = data[start : start + 40]
            last = LAST_PIECE if start + 40 >= len(data) else 0
            try:
                place = next(self.places)
                begin, _, view = self.window_for(place)
                if view is not None:
                    PIECE.pack_into(view, place - begin, piece, number, len(piece) | last, 0, kind)
            except TraceError:
                raise
            except BaseException:
                self.given_up += 1
                raise

    def _window_for(self, place: int) -> tuple[int, int, Any]:
        begin, end, _ = self.window
        if self._file.closed or self._pid != os.getpid():
            return _CLOSED
        if begin <= place < end:
            return self.window
        try:
            if place < begin:  # a thread was held up while others filled the window
                return self._map(place, place + RECORD_SIZE)
            if self.is_cut_off:
                return _CLOSED
            self._advance(place)
        except OSError as error:
            self.cut_off()
            raise TraceError(
                f"cannot go on with the trace {self.path}: {error.strerror}; what comes from here on is missing in it"
            ) from None
        return self.window

    def _close(self) -> None:
        if self._file.closed or self._pid != os.getpid():
            return
        if self.given_up:
            with suppress(TraceError):  # then the file says already that it is cut off
                self.describe(**{PLACES_GIVEN_UP: self.given_up})
        self.window = _CLOSED  # before the counter is read: whoever comes later writes nothing
        file = self._file.fileno()
        end = min(next(self.places) if self.log is None else self.log.close(), os.fstat(file).st_size)
        os.ftruncate(file, end)
        if not self.is_cut_off:
            os.pwrite(file, struct.pack("<Q", (end - self._start) // RECORD_SIZE), HEADER.size - 8)
        let_go(self._file)

    def _alone(self, work: Callable[..., T], *args: Any) -> T:
        """The result of ``work(*args)``, which one thread at a time does. Any exception leaves the lock open.

        ``with lock:`` does not promise that: an interrupt may come between the block's end and the release.
        """
        lock: Any = self._growing
        if lock._is_owned():  # a finaliser that interrupted this very function
            return work(*args)
        try:
            lock.acquire()
            result = work(*args)
            lock.release()
        except BaseException:
            while lock._is_owned():
                lock.release()
            raise
        return result

    def _advance(self, place: int) -> None:
        """Map the part of the file from the record at ``place`` on."""
        size = place + _WINDOW * RECORD_SIZE
        file = self._file.fileno()
        if self.log is not None:
            self.log.grow(size)
        elif (has := os.fstat(file).st_size) < size:
            allocate(file, has, size)
        self.window = self._map(place, size)

    def _map(self, place: int, end: int) -> tuple[int, int, Any]:
        begin = place // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        return begin, end, mmap.mmap(self._file.fileno(), end - begin, offset=begin)


_CLOSED: tuple[int, int, Any] = (0, 0, None)
_NO_THREAD = 1 << 63  # identities from here on are no thread's


def thread_name(identity: int) -> str:
    """What the thread of that identity (``threading.get_ident``) is called."""
    for thread in threading.enumerate():
        if thread.ident == identity:
            return thread.name
    return "unknown thread"


def _open_log(file: int, start: int) -> _native.TraceLog:
    from ...allocators import _native

    return _native.TraceLog(file, start, thread_name)


def write_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace that is in memory, with its header's fields and side table, in the present format.

    What stood at ``path`` is replaced once all is written.

    Raises:
        TraceError: the file cannot be written.
    """
    beside = f"{os.fspath(path)}.{os.getpid()}.part"
    writer = TraceWriter(beside, trace.header.fields, about_process=False)
    try:
        for kind, table in ((PIECE_NAME, trace.names), (PIECE_THREAD, trace.threads)):
            for number, text in table.items():
                writer._write(kind, number, text)
        for kind, entries in ((PIECE_FRAME, trace.frames), (PIECE_STACK, trace.stacks)):
            for number, entry in entries.items():
                writer._write(kind, number, json.dumps(entry))
        writer.extend(trace.events)
        writer.close()
        os.replace(beside, path)
    except BaseException as error:
        writer.close()
        with suppress(FileNotFoundError):
            os.unlink(beside)
        if isinstance(error, OSError):
            raise TraceError(f"cannot write a trace to {os.fspath(path)}: {error.strerror}") from None
        raise


def _about_this_process() -> dict[str, Any]:
    clock = {"perf_counter_ns": time.perf_counter_ns(), "time_ns": time.time_ns()}
    python = ".".join(map(str, sys.version_info[:3]))
    argv = list(getattr(sys, "argv", []))
    family = family_of_environment()
    about = {"source": "cuplug", "cuplug": own_version(), "python": python, "pid": os.getpid(), "argv": argv}
    return {**about, "clock": clock, **({"family": family} if family else {})}
