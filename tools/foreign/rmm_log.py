"""Reads RMM's CSV log of allocations as a trace (``rmm.enable_logging``, ``logging_resource_adaptor``).

Its columns are ``Thread,Time,Action,Pointer,Size,Stream``. What becomes what:

================ ==============================================================================
action           event
================ ==============================================================================
allocate         ALLOCATE; the log has only the requested size, which is ``nbytes`` too
free             FREE
allocate failure OUT_OF_MEMORY, with nothing known of what was free
================ ==============================================================================

Pointers and streams are hexadecimal, with ``0x`` or without. Times are of the day,
``hours:minutes:seconds:microseconds`` (a point before the microseconds is read too), and may step over midnight. RMM
does not name the device, so that every event is of device 0: it writes a file for each device.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...allocators.errors import TraceError
from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import EVENT_DTYPE, UNKNOWN, Header, Trace

_COLUMNS = ["Thread", "Time", "Action", "Pointer", "Size", "Stream"]
_ACTIONS = {
    "allocate": EventKind.ALLOCATE,
    "free": EventKind.FREE,
    "deallocate": EventKind.FREE,
    "allocate failure": EventKind.OUT_OF_MEMORY,
}
_TIME = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:[:.](\d{1,9}))?")
_HEXADECIMAL = re.compile(r"[0-9]*[a-fA-F][0-9a-fA-F]*")
_DAY = 86_400 * 10**9


def is_rmm_log(head: bytes) -> bool:
    """Whether a file that begins with these bytes (eight or more) looks like RMM's log."""
    return head.startswith(b"Thread,T")


def read_rmm_log(path: str | os.PathLike[str]) -> Trace:
    """Read a log, also one that breaks off: all whole lines.

    Raises:
        TraceError: there is no such file, it is no log of RMM's, or a line of it is damaged, which is named.
    """
    path = os.fspath(path)
    try:
        text = Path(path).read_bytes().decode(errors="replace")
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None
    lines = text.split("\n")
    if [name.strip() for name in lines[0].split(",")] != _COLUMNS:
        raise TraceError(f"{path} is not a log of RMM's: its first line is not {','.join(_COLUMNS)}")
    unfinished = lines.pop() if lines[-1] else ""
    bases = [_base(lines[1:], column) for column in (3, 5)]
    threads: dict[str, int] = {}
    rows: list[tuple[int, ...]] = []
    day, last = 0, 0
    for number, line in enumerate(lines[1:], 2):
        row = line.rstrip("\r").split(",")
        if row == [""]:
            continue
        try:
            thread, when, action, pointer, size, stream = (cell.strip() for cell in row)
            moment = _nanoseconds(when)
            if moment < last - _DAY // 2:
                day += _DAY
            last = moment
            kind = _ACTIONS[action.lower()]
            address, nbytes = _number(pointer, bases[0]), int(size)
            handle = _number(stream, bases[1])
            if not (0 <= nbytes < 1 << 53 and 0 <= address < 1 << 64 and 0 <= handle < 1 << 64):
                raise ValueError("out of range")  # noqa: TRY301 - said better below
        except (ValueError, KeyError):
            raise TraceError(f"{path} is damaged: line {number} is {','.join(row)[:80]!r}") from None
        failed = kind == EventKind.OUT_OF_MEMORY
        rows.append(
            (
                day + moment, 0 if failed else address, UNKNOWN if failed else nbytes, nbytes, handle, 0,
                min(threads.setdefault(thread, len(threads)), 0xFFFF), 0, int(kind),
            )
        )  # fmt: skip
    events = np.array(rows, EVENT_DTYPE)
    note = f"the log breaks off: its last line is not whole; {len(events)} events read" if unfinished else ""
    return Trace(
        Header(fields={"source": "rmm"}),
        events,
        threads={number: name for name, number in threads.items()},
        path=path,
        complete=not unfinished,
        note=note,
    )


def _nanoseconds(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    hours, minutes, seconds, fraction = match.groups()
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 10**9 + int((fraction or "0").ljust(9, "0")[:9])


def _base(lines: Sequence[str], column: int) -> int:
    """To which base the numbers of a column are that have no ``0x``: to 16 if one of them has a letter."""
    cells = (cell[column].strip() for cell in (line.split(",") for line in lines) if len(cell) > column)
    return 16 if any(_HEXADECIMAL.fullmatch(cell) for cell in cells) else 10


def _number(text: str, base: int) -> int:
    if text in ("(nil)", "nullptr"):
        return 0
    return int(text, 16 if text.lower().startswith("0x") else base)
