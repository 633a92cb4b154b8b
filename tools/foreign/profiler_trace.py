"""Reads the memory events of PyTorch's profiler, from its Chrome trace (``profile(profile_memory=True)``, then
``export_chrome_trace``; also compressed with gzip).

Each is an instant named ``[memory]``: its address, how many bytes more or fewer are allocated, and what is allocated
and reserved in all from then on. It becomes ALLOCATE or FREE. Bytes are as PyTorch's allocator rounded them; what the
program asked for, the streams, and where segments lie is not told. What is reserved is known as a total: where that
changes there is a PAGE_CREATE or PAGE_RELEASE of as many bytes. Blocks that are freed and never allocated were there
before; what else was is said as a number. Times are nanoseconds. Events of the CPU's memory are left out.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ...allocators.errors import TraceError
from ...allocators.events import EventKind
from ...allocators.sizes import format_size
from ...plugins.tracing.trace_in_memory import EVENT_DTYPE, Header, Trace

__all__ = ["is_json", "read_profiler_trace"]

_CUDA = 1  # c10::DeviceType
_NAME = "[memory]"
_LARGEST = 4 << 30
"""Files that grow beyond this many bytes are refused."""


def is_json(head: bytes) -> bool:
    """Whether a file that begins with these bytes may be a Chrome trace."""
    return head.lstrip()[:1] in (b"{", b"[")


def read_profiler_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a profile.

    Raises:
        TraceError: it is no Chrome trace, has no events of a GPU's memory, or is damaged.
    """
    path = os.fspath(path)
    told = _parsed(path)
    entries = told.get("traceEvents") if isinstance(told, dict) else told
    if not isinstance(entries, list):
        raise TraceError(f"{path} is not a profile of PyTorch's: it has no 'traceEvents'")
    memory = [entry for entry in entries if isinstance(entry, dict) and entry.get("name") == _NAME]
    try:
        rows = sorted(map(_row, memory), key=lambda row: row[0])
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        raise TraceError(f"{path} is damaged: a {_NAME} event in it is not as PyTorch's profiler writes it") from None
    rows = [row for row in rows if row[1] >= 0]
    if not rows:
        raise TraceError(
            f"{path} has no events of a GPU's memory: record with torch.profiler.profile(profile_memory=True)"
        )
    return _trace(path, rows)


_Row = tuple[int, int, int, int, int, int]
"""Time, device (-1 for the CPU), address, bytes more, allocated and reserved then."""


def _row(entry: dict[str, Any]) -> _Row:
    args = entry["args"]
    if int(args["Device Type"]) != _CUDA:
        return 0, -1, 0, 0, 0, 0
    device = int(args["Device Id"])
    address, nbytes = int(args["Addr"]), int(args["Bytes"])
    totals = int(args["Total Allocated"]), int(args["Total Reserved"])
    time = round(float(entry["ts"]) * 1000)
    if not (0 <= device < 255 and 0 <= address < 1 << 64 and 0 <= time < 1 << 63):
        raise ValueError("out of range")
    if abs(nbytes) >= 1 << 53 or min(totals) < 0 or max(totals) >= 1 << 53:
        raise ValueError("out of range")
    return time, device, address, nbytes, *totals


def _trace(path: str, rows: list[_Row]) -> Trace:
    older: list[tuple[int, ...]] = []
    events: list[tuple[int, ...]] = []
    live: set[tuple[int, int]] = set()
    reserved: dict[int, int] = {}
    unseen: dict[int, int] = {}
    origin = rows[0][0]

    def note(to: list[tuple[int, ...]], time: int, device: int, kind: EventKind, address: int, nbytes: int) -> None:
        to.append((time, address, nbytes, nbytes if kind <= EventKind.FREE else 0, 0, 0, 0, device, int(kind)))

    for time, device, address, nbytes, allocated, held in rows:
        if device not in reserved:
            reserved[device] = held
            unseen[device] = allocated - nbytes
            note(older, origin, device, EventKind.PAGE_CREATE, 0, held)
        more = held - reserved[device]
        reserved[device] = held
        if more > 0:
            note(events, time, device, EventKind.PAGE_CREATE, 0, more)
        if nbytes >= 0:
            live.add((device, address))
            note(events, time, device, EventKind.ALLOCATE, address, nbytes)
        else:
            if (device, address) not in live:
                unseen[device] += nbytes
                note(older, origin, device, EventKind.ALLOCATE, address, -nbytes)
            live.discard((device, address))
            note(events, time, device, EventKind.FREE, address, -nbytes)
        if more < 0:
            note(events, time, device, EventKind.PAGE_RELEASE, 0, -more)
    left = sum(max(nbytes, 0) for nbytes in unseen.values())
    blocks = sum(row[-1] == EventKind.ALLOCATE for row in older)
    notes = [
        "sizes are as PyTorch rounded them; of what is reserved, only the total is known",
        f"{blocks} blocks are from before the profile, and are counted" if blocks else "",
        f"{format_size(left)} that were allocated before it and are not freed in it are not" if left else "",
    ]
    return Trace(
        Header(fields={"source": "pytorch profiler", "older_events": len(older)}),
        np.array([*older, *events], EVENT_DTYPE),
        path=path,
        note="; ".join(filter(None, notes)),
    )


def _parsed(path: str) -> Any:
    try:
        data = Path(path).read_bytes()
        if data.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                data = file.read(_LARGEST + 1)
            if len(data) > _LARGEST:
                raise TraceError(f"{path} grows beyond {_LARGEST} bytes when decompressed, and is not read further")
        return json.loads(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(f"{path} is damaged: {error}") from None
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path} is damaged, or no Chrome trace: {' '.join(str(error).split())}") from None
