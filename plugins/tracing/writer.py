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
from collections.abc import Iterable, Mapping
from typing import Any

from ...allocators.errors import TraceError
from .contents import EventArray, Trace
from .format import (
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
    RECORD_SIZE,
    STILL_OPEN,
    is_trace,
    own_version,
)

try:
    import fcntl
except ImportError:  # not a POSIX system: two processes may then write one file unnoticed
    fcntl = None  # type: ignore[assignment]

__all__ = ["TraceWriter", "write_trace"]

_WINDOW = 20480  # records mapped at a time, just under 1 MiB


class TraceWriter:
    """Writes a trace. Any thread may call any method, also from a finaliser that interrupts another call.

    Places are handed out by an atomic counter, never by a lock, since a lock could be held by the very code that a
    finaliser interrupts. ``places`` gives offsets in the file; ``window`` is the part of the file that is mapped, as
    (begin, end, map).
    """

    EVENT = struct.Struct("<qQqqQIHBB")
    """How an event is packed: the fields of ``EVENT_DTYPE``, in their order."""

    def __init__(
        self, path: str | os.PathLike[str], fields: Mapping[str, Any] | None = None, *, about_process: bool = True
    ) -> None:
        """Create the file. A trace of the same name is replaced, any other file is not.

        Args:
            path: where.
            fields: what the header says (see ``Header``).
            about_process: whether the header also describes this process: number, command line, clocks, versions.

        Raises:
            TraceError: the file cannot be made, is no trace, or another process is writing it.
        """
        self.path = os.fspath(path)
        self.window: tuple[int, int, Any] = _CLOSED
        self._numbers = {kind: itertools.count(1) for kind in (PIECE_NAME, PIECE_FRAME, PIECE_STACK)} | {
            kind: itertools.count() for kind in (PIECE_THREAD, PIECE_INFO)
        }
        self._known: dict[tuple[int, Any], int] = {}
        self._growing = threading.RLock()
        self._pid = os.getpid()
        about = _about_this_process() if about_process else {}
        text = json.dumps({**about, **(fields or {})}).encode()
        self._start = -(-(HEADER.size + len(text)) // PAGE) * PAGE
        self.places = itertools.count(self._start, RECORD_SIZE)
        fixed = HEADER.pack(MAGIC, FORMAT_VERSION, self._start, RECORD_SIZE, len(text), zlib.crc32(text), STILL_OPEN)
        self._file = _create(self.path)
        try:
            os.write(self._file, (fixed + text).ljust(self._start, b"\0"))
            self._advance(self._start)
        except OSError as error:
            os.close(self._file)
            raise TraceError(f"cannot write a trace to {self.path}: {error.strerror}") from None
        self._open = True

    def append(
        self, kind: int, device: int, time_ns: int, thread: int, stream: int,
        address: int, nbytes: int, requested: int, context: int,
    ) -> None:  # fmt: skip
        """Write one event; ``thread`` is a number from ``thread``. Nothing happens once the writer is closed.

        Raises:
            TraceError: the disk is full.
        """
        place = next(self.places)
        begin, end, view = self.window
        if not begin <= place < end:
            begin, _, view = self.window_for(place)
            if view is None:
                return
        self.EVENT.pack_into(
            view, place - begin, time_ns, address, nbytes, requested, stream, context, thread, device, kind
        )

    def extend(self, events: EventArray) -> None:
        """Write many events, in order."""
        for row in events.tolist():
            time_ns, address, nbytes, requested, stream, context, thread, device, kind = row
            self.append(kind, device, time_ns, thread, stream, address, nbytes, requested, context)

    def name(self, text: str) -> int:
        """The number of a name in the side table."""
        return self._entry(PIECE_NAME, text, text)

    def thread(self, text: str) -> int:
        """A number for one more thread, of that name."""
        number = min(next(self._numbers[PIECE_THREAD]), 0xFFFF)  # the last number stands for all further threads
        self._write(PIECE_THREAD, number, text)
        return number

    def stack(self, frames: Iterable[tuple[str, int, str]]) -> int:
        """The number of a call stack of (file name, line, function), innermost first. 0 for an empty one."""
        numbers = tuple(self._entry(PIECE_FRAME, frame := tuple(entry), json.dumps(frame)) for entry in frames)
        return self._entry(PIECE_STACK, numbers, json.dumps(numbers)) if numbers else 0

    def describe(self, **fields: Any) -> None:
        """Add to the header what was not known when the file was made. Dictionaries are merged."""
        self._write(PIECE_INFO, next(self._numbers[PIECE_INFO]), json.dumps(fields))

    def window_for(self, place: int) -> tuple[int, int, Any]:
        """The mapped part of the file that holds a record, growing the file if need be; ``_CLOSED`` once closed.

        Raises:
            TraceError: the disk is full.
        """
        with self._growing:
            begin, end, _ = self.window
            if not self._open or self._pid != os.getpid():
                return _CLOSED
            if begin <= place < end:
                return self.window
            try:
                if place < begin:  # a thread was held up while others filled the window
                    return self._map(place, place + RECORD_SIZE)
                self._advance(place)
            except OSError as error:
                raise TraceError(f"cannot go on with the trace {self.path}: {error.strerror}") from None
            return self.window

    def flush(self) -> None:
        """Ask the kernel to bring everything to disk. Not needed against a killed process, only against a power cut."""
        view = self.window[2]
        if view is not None and self._pid == os.getpid():
            view.flush()
            os.fsync(self._file)

    def close(self) -> None:
        """Mark the recording as whole and cut the file to its length. Idempotent; nothing in a forked child."""
        with self._growing:
            if not self._open or self._pid != os.getpid():
                return
            self._open = False
            self.window = _CLOSED  # before the counter is read: whoever comes later writes nothing
            end = next(self.places)
            os.ftruncate(self._file, end)
            os.lseek(self._file, HEADER.size - 8, os.SEEK_SET)
            os.write(self._file, struct.pack("<Q", (end - self._start) // RECORD_SIZE))
            os.close(self._file)

    def disown(self) -> None:
        """In a forked child: let go of the parent's file without a trace."""
        self._growing = threading.RLock()  # another thread of the parent may have held it
        self.window = _CLOSED
        if self._open:
            self._open = False
            os.close(self._file)

    def _entry(self, kind: int, key: Any, text: str) -> int:
        number = self._known.get((kind, key))
        if number is None:
            new = next(self._numbers[kind])
            number = self._known.setdefault((kind, key), new)
            if number == new:
                self._write(kind, number, text)
        return number

    def _write(self, kind: int, number: int, text: str) -> None:
        """Write one entry of the side table. Other records may come between its pieces."""
        data = text.encode(errors="surrogatepass")
        for start in range(0, max(len(data), 1), 40):
            piece = data[start : start + 40]
            last = LAST_PIECE if start + 40 >= len(data) else 0
            place = next(self.places)
            begin, _, view = self.window_for(place)
            if view is not None:
                PIECE.pack_into(view, place - begin, piece, number, len(piece) | last, 0, kind)

    def _advance(self, place: int) -> None:
        """Map the part of the file from the record at ``place`` on."""
        size = place + _WINDOW * RECORD_SIZE
        has = os.fstat(self._file).st_size
        if has < size and hasattr(os, "posix_fallocate"):
            # Takes the disk space now: a memory map without it would end in a bus error on a full disk.
            os.posix_fallocate(self._file, has, size - has)
        elif has < size:
            os.ftruncate(self._file, size)
        self.window = self._map(place, size)

    def _map(self, place: int, end: int) -> tuple[int, int, Any]:
        begin = place // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        return begin, end, mmap.mmap(self._file, end - begin, offset=begin)


_CLOSED: tuple[int, int, Any] = (0, 0, None)


def write_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace that is in memory, with its header's fields and side table, in the present format.

    Raises:
        TraceError: the file cannot be written.
    """
    writer = TraceWriter(path, trace.header.fields, about_process=False)
    for kind, table in ((PIECE_NAME, trace.names), (PIECE_THREAD, trace.threads)):
        for number, text in table.items():
            writer._write(kind, number, text)
    for kind, entries in ((PIECE_FRAME, trace.frames), (PIECE_STACK, trace.stacks)):
        for number, entry in entries.items():
            writer._write(kind, number, json.dumps(entry))
    writer.extend(trace.events)
    writer.close()


def _create(path: str) -> int:
    """Open a new file for a trace, in place of an older trace that nobody is writing."""
    try:
        older = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        older = None
    except OSError as error:
        raise TraceError(f"cannot write a trace to {path}: {error.strerror}") from None
    if older is not None:
        try:
            head = os.read(older, len(MAGIC))
            if head and not is_trace(head):
                raise TraceError(f"{path} exists and is not a trace: remove it, or write the trace elsewhere")
            _lock(older, path)
            os.unlink(path)  # rather than cut it short under somebody who reads it
        finally:
            os.close(older)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise TraceError(f"cannot write a trace to {path}: {error.strerror}") from None
    _lock(file, path)
    return file


def _lock(file: int, path: str) -> None:
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TraceError(
                f"{path} is being written already, by another process or runtime: choose another path, or write "
                "'{pid}' in it to give each process its own"
            ) from None
        except OSError:
            pass  # a file system without locks


def _about_this_process() -> dict[str, Any]:
    clock = {"perf_counter_ns": time.perf_counter_ns(), "time_ns": time.time_ns()}
    python = ".".join(map(str, sys.version_info[:3]))
    argv = list(getattr(sys, "argv", []))
    return {
        "source": "cuplug", "cuplug": own_version(), "python": python, "pid": os.getpid(), "argv": argv, "clock": clock
    }  # fmt: skip
