"""Reads traces, whole or not."""

from __future__ import annotations

import glob
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ...allocators.errors import TraceError
from .format import (
    CUT_OFF,
    EVENT_KINDS,
    FORMAT_VERSION,
    HEADER,
    LAST_PIECE,
    MAGIC,
    PIECE,
    PIECE_FRAME,
    PIECE_INFO,
    PIECE_NAME,
    PIECE_STACK,
    PIECE_THREAD,
    PLACES_GIVEN_UP,
    RECORD_DTYPES,
    STILL_OPEN,
    own_version,
)
from .trace_in_memory import EventArray, Frame, Header, Trace

try:
    import fcntl
except ImportError:  # not a POSIX system: whether a program has gone is then not known
    fcntl = None  # type: ignore[assignment]


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace, also of a program that is still running or was killed: all whole records.

    Raises:
        TraceError: there is no such file, it is no trace, its header is damaged, or its format is newer than this.
    """
    path = os.fspath(path)
    try:
        _require_regular(path)
        with open(path, "rb") as file:
            fixed = file.read(HEADER.size)
            size = os.fstat(file.fileno()).st_size
            version, start, count, fields = _read_header(path, fixed, file, size)
            dtype = RECORD_DTYPES[version]
            whole, rest = divmod(max(size - start, 0), dtype.itemsize)
            file.seek(start)
            records = np.fromfile(file, dtype, whole)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TraceError(f"cannot read {path}: {reason}") from None
    return _assemble(path, version, fields, records, count, rest)


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read what a trace says of its run when it was begun, and none of its events.

    Raises:
        TraceError: as ``read_trace``.
    """
    path = os.fspath(path)
    try:
        _require_regular(path)
        with open(path, "rb") as file:
            version, _, _, fields = _read_header(path, file.read(HEADER.size), file, os.fstat(file.fileno()).st_size)
    except (OSError, ValueError) as error:
        raise TraceError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    return Header(version, fields)


class TraceFollower:
    """Reads a trace that a program is writing, each event once.

    ``trace`` has the header, and the side table as far as it was read; its events are the new ones of the last look.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file, which must have its header.

        Raises:
            TraceError: as ``read_trace``.
        """
        path = os.fspath(path)
        try:
            _require_regular(path)
            self._file = open(path, "rb")  # noqa: SIM115 - it stays open: the file may be replaced meanwhile
            try:
                version, self._place, _, self._fields = _read_header(
                    path, self._file.read(HEADER.size), self._file, os.fstat(self._file.fileno()).st_size
                )
            except BaseException:
                self._file.close()
                raise
        except (OSError, ValueError) as error:
            raise TraceError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
        self._dtype = RECORD_DTYPES[version]
        self._pieces = np.empty(0, self._dtype)
        self._known_hole = -1
        self.ended = False
        """Whether the writer has said that nothing more will come."""
        self.trace = Trace(Header(version, self._fields), np.empty(0, self._dtype), path=path, complete=False)

    def look(self) -> bool:
        """Read what has come since the last look. Gives whether there may be more at once.

        A record that is being written ends a look; one that still is none at the next was given up.
        """
        self._file.seek(0)
        count = HEADER.unpack(self._file.read(HEADER.size))[-1]
        closed = count != STILL_OPEN
        whole = (os.fstat(self._file.fileno()).st_size - self._place) // self._dtype.itemsize
        self._file.seek(self._place)
        records = np.fromfile(self._file, self._dtype, min(max(whole, 0), _AT_ONCE))
        kinds = records["kind"]
        written = np.flatnonzero(kinds)
        end = int(written[-1]) + 1 if len(written) else 0
        holes = [] if closed else np.flatnonzero(kinds[:end] == 0).tolist()
        if holes and self._place + holes[0] * self._dtype.itemsize != self._known_hole:
            end = holes[0]
            self._known_hole = self._place + end * self._dtype.itemsize
        new = records[:end]
        self._place += end * self._dtype.itemsize
        is_piece = new["kind"] >= PIECE_NAME
        if is_piece.any():
            self._pieces = np.concatenate([self._pieces, new[is_piece]])
            _read_side_table(self.trace, self._fields, self._pieces)
        self.trace.events = _in_order_of_time(new[np.isin(new["kind"], list(EVENT_KINDS))])
        more = len(records) == _AT_ONCE
        self.ended = closed and not more
        self.trace.complete = self.ended and count != CUT_OFF
        self.trace.note = _CUT_OFF_NOTE if count == CUT_OFF else ""
        return more

    def is_abandoned(self) -> bool:
        """Whether the program has gone without closing the trace: nobody holds its lock, where files have any."""
        if fcntl is None or self.ended:
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


_CUT_OFF_NOTE = "the trace is cut off here, since the disk had no room for more (or the process no memory)"
_AT_ONCE = 1 << 20
"""Records in one look of a ``TraceFollower``."""


def _require_regular(path: str) -> None:
    """Refuse what is no file: a pipe, say, which nobody may ever write to."""
    if not Path(path).is_file():
        raise TraceError(f"{path} {'is not a regular file' if Path(path).exists() else 'does not exist'}")


def family_members(path: str | os.PathLike[str]) -> list[str]:
    """The traces of one program's processes: the one at ``path``, and those that its child processes wrote beside it.

    They are told by name (``run.cuplug``, ``run.12345.cuplug``) and by what their headers have in common; the first is
    ``path`` itself, whether it is there or not. The others come in the order in which they were begun.
    """
    path = os.fspath(path)
    first = Path(path)
    family = _family(path)
    if family is None and first.exists():
        return [path]
    found = []
    for other in first.parent.glob(f"{glob.escape(first.stem)}.*"):
        told = _family(str(other)) if other != first and first.suffix in other.name else None
        if told is not None and (family is None or told[0] == family[0]):
            found.append((told, str(other)))
    latest = max((told[0] for told, _ in found), key=_begun, default="")
    return [path, *(name for told, name in sorted(found) if told[0] == (family[0] if family else latest))]


def _family(path: str) -> tuple[str, int] | None:
    """A trace's family, and when it was begun. None for what is no trace or has no family."""
    try:
        fields = read_header(path).fields
    except TraceError:
        return None
    family, clock = fields.get("family"), fields.get("clock")
    begun = clock.get("time_ns") if isinstance(clock, dict) else 0
    return (family, begun) if isinstance(family, str) and isinstance(begun, int) else None


def _begun(family: str) -> int:
    begun = family.rpartition("-")[2]
    return int(begun) if begun.isdecimal() else 0


def _read_header(path: str, fixed: bytes, file: Any, size: int) -> tuple[int, int, int, dict[str, Any]]:
    if not fixed:
        raise TraceError(f"{path} is empty: no trace was written to it")
    if not fixed.startswith(MAGIC[: len(fixed)]):
        raise TraceError(f"{path} is not a cuplug trace: it begins with {fixed[:8]!r}")
    if len(fixed) < HEADER.size:
        raise TraceError(f"{path} is cut off within its header, after {size} bytes: nothing can be read")
    _, version, start, record_size, length, checksum, count = HEADER.unpack(fixed)
    dtype = RECORD_DTYPES.get(version)
    if version > FORMAT_VERSION:
        raise TraceError(
            f"{path} is in trace format {version}, and this cuplug ({own_version()}) reads formats up to "
            f"{FORMAT_VERSION}: upgrade cuplug to read it"
        )
    if dtype is None or record_size != dtype.itemsize or start < HEADER.size + length:
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


def _assemble(path: str, version: int, fields: dict[str, Any], records: EventArray, count: int, rest: int) -> Trace:
    kinds = records["kind"]
    written = np.flatnonzero(kinds)
    end = int(written[-1]) + 1 if len(written) else 0
    holes = end - len(written)
    is_event = np.isin(kinds[:end], list(EVENT_KINDS))
    events = _in_order_of_time(records[:end] if is_event.all() else records[:end][is_event])
    trace = Trace(Header(version, fields), events, path=path)
    damaged = _read_side_table(trace, fields, records[:end][kinds[:end] >= PIECE_NAME])
    damaged += int(np.count_nonzero((kinds[:end] < PIECE_NAME) & (kinds[:end] > 0) & ~is_event))
    given_up = fields.get(PLACES_GIVEN_UP)
    holes -= min(holes, given_up) if isinstance(given_up, int) and given_up > 0 else 0
    said = []
    if count == CUT_OFF:
        said.append(_CUT_OFF_NOTE)
    elif count == STILL_OPEN:
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


def _in_order_of_time(events: EventArray) -> EventArray:
    """Events whose times never go back on a device: threads that write at once may take places in another order than
    they read the clock."""
    if not np.any(np.diff(events["time"]) < 0):
        return events
    for device in np.unique(events["device"]):
        own = np.flatnonzero(events["device"] == device)
        times = events["time"][own]
        if np.any(np.diff(times) < 0):
            events = events.copy()
            events["time"][own] = np.maximum.accumulate(times)
    return events


def _read_side_table(trace: Trace, fields: dict[str, Any], pieces: EventArray) -> int:
    """Put the side table's entries into ``trace``, and return how many were damaged."""
    unfinished: dict[tuple[int, int], bytes] = {}
    damaged = 0
    raw = np.ascontiguousarray(pieces).tobytes()
    for data, number, length, _, kind in PIECE.iter_unpack(raw):
        so_far = unfinished.pop((kind, number), b"") + data[: length & ~LAST_PIECE]
        if not length & LAST_PIECE:
            unfinished[kind, number] = so_far
            continue
        try:
            _read_entry(trace, fields, kind, number, so_far.decode(errors="surrogatepass"))
        except (ValueError, TypeError, RecursionError):
            damaged += 1
    return damaged


def _read_entry(trace: Trace, fields: dict[str, Any], kind: int, number: int, text: str) -> None:
    if kind == PIECE_NAME:
        trace.names[number] = text
    elif kind == PIECE_THREAD:
        trace.threads[number] = text
    elif kind == PIECE_FRAME:
        filename, line, function = json.loads(text)
        trace.frames[number] = Frame(str(filename), int(line), str(function))
    elif kind == PIECE_STACK:
        trace.stacks[number] = tuple(int(frame) for frame in json.loads(text))
    elif kind == PIECE_INFO:
        for name, value in dict(json.loads(text)).items():
            had = fields.get(name)
            fields[name] = {**had, **value} if isinstance(had, dict) and isinstance(value, dict) else value
    else:
        raise ValueError(f"unknown kind {kind}")
