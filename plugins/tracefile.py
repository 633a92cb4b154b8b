"""The trace format: the one module that writes it and reads it.

A trace file is a header and then an array of 48-byte records, little-endian throughout:

- The header is ``_FIXED`` (magic, format version, header size, record size, length and CRC-32 of the text, and the
  count of records once the file was closed), then a JSON object, then zeros up to the header size (a multiple of
  4096).
- A record is one event (``EVENT_DTYPE``), or one piece of the side table, which holds what does not fit into a fixed
  size: names, call stacks, and what became known after the header was written. A piece has a kind from 240 up and 40
  bytes of text; pieces of one kind and number make up one entry, in order. NumPy reads the whole without parsing:
  ``np.fromfile(path, EVENT_DTYPE, offset=header_size)``.

Records are stored through a memory map, so that whatever kills the process, the kernel keeps what was written. A
record's last byte is its kind, and it is stored last: a record whose kind is zero was not written, or not wholly.
"""

from __future__ import annotations

import importlib.metadata
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
from pathlib import Path
from typing import Any

import numpy as np

from ..allocators.errors import TraceError
from ..allocators.events import EventKind
from .trace import EVENT_DTYPE, NO_DEVICE, EventArray, Frame, Header, Trace

try:
    import fcntl
except ImportError:  # not a POSIX system: two processes may then write one file unnoticed
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "EVENT_DTYPE",
    "FORMAT_VERSION",
    "NO_DEVICE",
    "EventArray",
    "Frame",
    "Header",
    "Trace",
    "TraceWriter",
    "is_trace",
    "read_trace",
    "write_trace",
]

FORMAT_VERSION = 1
MAGIC = b"\x89CUPLUG\n"
_FIXED = struct.Struct("<8sIIIIIQ")
_RECORD_SIZE = EVENT_DTYPE.itemsize
_PIECE = struct.Struct("<40sIHBB")
_RECORD_DTYPES = {1: EVENT_DTYPE}  # of every version that was ever written
_STILL_OPEN = (1 << 64) - 1
_PAGE = 4096
_WINDOW = 20480  # records mapped at a time, just under 1 MiB

_NAME, _FRAME, _STACK, _THREAD, _INFO = 240, 241, 242, 243, 244
_LAST_PIECE = 0x8000
_KINDS = frozenset(int(kind) for kind in EventKind)


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
        self._numbers = {kind: itertools.count(1) for kind in (_NAME, _FRAME, _STACK)} | {
            kind: itertools.count() for kind in (_THREAD, _INFO)
        }
        self._known: dict[tuple[int, Any], int] = {}
        self._growing = threading.RLock()
        self._pid = os.getpid()
        about = _about_this_process() if about_process else {}
        text = json.dumps({**about, **(fields or {})}).encode()
        self._start = -(-(_FIXED.size + len(text)) // _PAGE) * _PAGE
        self.places = itertools.count(self._start, _RECORD_SIZE)
        fixed = _FIXED.pack(MAGIC, FORMAT_VERSION, self._start, _RECORD_SIZE, len(text), zlib.crc32(text), _STILL_OPEN)
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
        return self._entry(_NAME, text, text)

    def thread(self, text: str) -> int:
        """A number for one more thread, of that name."""
        number = min(next(self._numbers[_THREAD]), 0xFFFF)  # the last number stands for all further threads
        self._write(_THREAD, number, text)
        return number

    def stack(self, frames: Iterable[tuple[str, int, str]]) -> int:
        """The number of a call stack of (file name, line, function), innermost first. 0 for an empty one."""
        numbers = tuple(self._entry(_FRAME, frame := tuple(entry), json.dumps(frame)) for entry in frames)
        return self._entry(_STACK, numbers, json.dumps(numbers)) if numbers else 0

    def describe(self, **fields: Any) -> None:
        """Add to the header what was not known when the file was made. Dictionaries are merged."""
        self._write(_INFO, next(self._numbers[_INFO]), json.dumps(fields))

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
                    return self._map(place, place + _RECORD_SIZE)
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
            os.lseek(self._file, _FIXED.size - 8, os.SEEK_SET)
            os.write(self._file, struct.pack("<Q", (end - self._start) // _RECORD_SIZE))
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
            last = _LAST_PIECE if start + 40 >= len(data) else 0
            place = next(self.places)
            begin, _, view = self.window_for(place)
            if view is not None:
                _PIECE.pack_into(view, place - begin, piece, number, len(piece) | last, 0, kind)

    def _advance(self, place: int) -> None:
        """Map the part of the file from the record at ``place`` on."""
        size = place + _WINDOW * _RECORD_SIZE
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


def is_trace(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a cuplug trace."""
    return head.startswith(MAGIC)


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace, also of a program that is still running or was killed: all whole records.

    Raises:
        TraceError: there is no such file, it is no trace, its header is damaged, or its format is newer than this.
    """
    path = os.fspath(path)
    try:
        if not Path(path).is_file():
            found = "is not a regular file" if Path(path).exists() else "does not exist"
            raise TraceError(f"{path} {found}")
        with open(path, "rb") as file:
            fixed = file.read(_FIXED.size)
            size = os.fstat(file.fileno()).st_size
            version, start, count, fields = _read_header(path, fixed, file, size)
            dtype = _RECORD_DTYPES[version]
            whole, rest = divmod(max(size - start, 0), dtype.itemsize)
            file.seek(start)
            records = np.fromfile(file, dtype, whole)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TraceError(f"cannot read {path}: {reason}") from None
    return _assemble(path, version, fields, records, None if count == _STILL_OPEN else count, rest)


def write_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace that is in memory, with its header's fields and side table, in the present format.

    Raises:
        TraceError: the file cannot be written.
    """
    writer = TraceWriter(path, trace.header.fields, about_process=False)
    for kind, table in ((_NAME, trace.names), (_THREAD, trace.threads)):
        for number, text in table.items():
            writer._write(kind, number, text)
    for kind, entries in ((_FRAME, trace.frames), (_STACK, trace.stacks)):
        for number, entry in entries.items():
            writer._write(kind, number, json.dumps(entry))
    writer.extend(trace.events)
    writer.close()


def _read_header(path: str, fixed: bytes, file: Any, size: int) -> tuple[int, int, int, dict[str, Any]]:
    if not fixed:
        raise TraceError(f"{path} is empty: no trace was written to it")
    if not fixed.startswith(MAGIC[: len(fixed)]):
        raise TraceError(f"{path} is not a cuplug trace: it begins with {fixed[:8]!r}")
    if len(fixed) < _FIXED.size:
        raise TraceError(f"{path} is cut off within its header, after {size} bytes: nothing can be read")
    _, version, start, record_size, length, checksum, count = _FIXED.unpack(fixed)
    dtype = _RECORD_DTYPES.get(version)
    if version > FORMAT_VERSION:
        raise TraceError(
            f"{path} is in trace format {version}, and this cuplug ({_own_version()}) reads formats up to "
            f"{FORMAT_VERSION}: upgrade cuplug to read it"
        )
    if dtype is None or record_size != dtype.itemsize or start < _FIXED.size + length:
        raise TraceError(f"{path} has a damaged header (format {version}, {record_size} bytes a record)")
    text = file.read(length) if length <= size else b""
    if len(text) < length:
        raise TraceError(f"{path} is cut off within its header, after {size} bytes: nothing can be read")
    if zlib.crc32(text) != checksum:
        raise TraceError(f"{path} has a damaged header: its checksum is wrong")
    try:
        fields = dict(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise TraceError(f"{path} has a damaged header: {error}") from None
    return version, start, count, fields


def _assemble(
    path: str, version: int, fields: dict[str, Any], records: EventArray, count: int | None, rest: int
) -> Trace:
    kinds = records["kind"]
    written = np.flatnonzero(kinds)
    end = int(written[-1]) + 1 if len(written) else 0
    holes = end - len(written)
    is_event = np.isin(kinds[:end], list(_KINDS))
    trace = Trace(Header(version, fields), records[:end] if is_event.all() else records[:end][is_event], path=path)
    damaged = _read_side_table(trace, fields, records[:end][kinds[:end] >= _NAME])
    damaged += int(np.count_nonzero((kinds[:end] < _NAME) & (kinds[:end] > 0) & ~is_event))
    said = []
    if count is None:
        said.append("the recording was not closed: the program was killed, or is still running")
    elif len(records) < count or rest:
        said.append(f"the file is cut off: {len(records)} of {count} whole records are there")
    elif len(records) > count:
        said.append(f"the file is damaged: it has {len(records)} records, and should have {count}")
    if holes:
        said.append(f"{holes} not wholly written")
    if damaged:
        said.append(f"{damaged} damaged and left out")
    if said:
        trace.complete = False
        trace.note = f"{'; '.join(said)}; {len(trace.events)} events read"
    return trace


def _read_side_table(trace: Trace, fields: dict[str, Any], pieces: EventArray) -> int:
    """Put the side table's entries into ``trace``, and return how many were damaged."""
    unfinished: dict[tuple[int, int], bytes] = {}
    damaged = 0
    raw = np.ascontiguousarray(pieces).tobytes()
    for data, number, length, _, kind in _PIECE.iter_unpack(raw):
        so_far = unfinished.pop((kind, number), b"") + data[: length & ~_LAST_PIECE]
        if not length & _LAST_PIECE:
            unfinished[kind, number] = so_far
            continue
        try:
            _read_entry(trace, fields, kind, number, so_far.decode(errors="surrogatepass"))
        except (ValueError, TypeError, RecursionError):
            damaged += 1
    return damaged


def _read_entry(trace: Trace, fields: dict[str, Any], kind: int, number: int, text: str) -> None:
    if kind == _NAME:
        trace.names[number] = text
    elif kind == _THREAD:
        trace.threads[number] = text
    elif kind == _FRAME:
        filename, line, function = json.loads(text)
        trace.frames[number] = Frame(str(filename), int(line), str(function))
    elif kind == _STACK:
        trace.stacks[number] = tuple(int(frame) for frame in json.loads(text))
    elif kind == _INFO:
        for name, value in dict(json.loads(text)).items():
            had = fields.get(name)
            fields[name] = {**had, **value} if isinstance(had, dict) and isinstance(value, dict) else value
    else:
        raise ValueError(f"unknown kind {kind}")


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
        "source": "cuplug", "cuplug": _own_version(), "python": python, "pid": os.getpid(), "argv": argv, "clock": clock
    }  # fmt: skip


def _own_version() -> str:
    try:
        return importlib.metadata.version("cuplug")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
