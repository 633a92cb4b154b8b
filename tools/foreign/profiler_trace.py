"""Reads the memory events of PyTorch's profiler, from its Chrome trace (``profile(profile_memory=True)``, then
``export_chrome_trace``; also compressed with gzip).

Each is an instant named ``[memory]``: its address, how many bytes more or fewer are allocated, and what is allocated
and reserved in all from then on. It becomes ALLOCATE or FREE. Bytes are as PyTorch's allocator rounded them; what the
program asked for, the streams, and where segments lie is not told. What is reserved is known as a total: where that
changes there is a PAGE_CREATE or PAGE_RELEASE of as many bytes. Blocks that are freed and never allocated were there
before; what else was is said as a number. Times are nanoseconds. Events of the CPU's memory are left out.

The first profiles of this kind (2021) have neither addresses nor totals: all that they tell is the curve of what is
allocated. A free then ends the latest block of its size, or one from before; which block it was, and how long blocks
lived, is not known (``Header.paired``), nor what is reserved.
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
    first = next(iter(entries), {}) if isinstance(entries, list) else told
    if isinstance(first, dict) and not first.keys().isdisjoint(("device_traces", "segments", "total_size")):
        raise TraceError(
            f"{path} is a memory snapshot written as JSON: write it with torch.cuda.memory._dump_snapshot() or pickle"
        )
    if not isinstance(entries, list):
        raise TraceError(f"{path} is not a profile of PyTorch's: it has no 'traceEvents'")
    if not isinstance(first, dict):
        raise TraceError(
            f"{path} is no Chrome trace: its events are no objects. export_memory_timeline() writes such files, "
            "without the allocations; call export_chrome_trace() of the same profile"
        )
    memory = [entry for entry in entries if isinstance(entry, dict) and entry.get("name") == _NAME]
    try:
        rows = sorted(map(_row, memory), key=lambda row: row[0])
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        raise TraceError(f"{path} is damaged: a {_NAME} event in it is not as PyTorch's profiler writes it") from None
    rows = [row for row in rows if row[1] >= 0]
    if not rows:
        why = (
            f"its {len(memory)} events of memory are of the CPU's"
            if memory
            else "record with torch.profiler.profile(profile_memory=True)"
        )
        raise TraceError(f"{path} has no events of a GPU's memory: {why}")
    return _trace(path, rows)


_Row = tuple[int, int, int, int, int, int]
"""Time, device (-1 for the CPU), address, bytes more, allocated and reserved then; -1 for what is not told."""


def _row(entry: dict[str, Any]) -> _Row:
    args = entry["args"]
    if int(args["Device Type"]) != _CUDA:
        return 0, -1, 0, 0, 0, 0
    device = int(args["Device Id"])
    told = [int(args[name]) if name in args else None for name in ("Addr", "Total Allocated", "Total Reserved")]
    nbytes, time = int(args["Bytes"]), round(float(entry["ts"]) * 1000)
    if not (0 <= device < 255 and 0 <= time < 1 << 63 and abs(nbytes) < 1 << 53):
        raise ValueError("out of range")
    if any(
        value is not None and not 0 <= value < most
        for value, most in zip(told, (1 << 64, 1 << 53, 1 << 53), strict=True)
    ):
        raise ValueError("out of range")
    address, allocated, held = (-1 if value is None else value for value in told)
    return time, device, address, nbytes, allocated, held


def _trace(path: str, rows: list[_Row]) -> Trace:
    older: list[tuple[int, ...]] = []
    events: list[tuple[int, ...]] = []
    live: set[tuple[int, int]] = set()
    reserved: dict[int, int] = {}
    unpaired = _Unpaired()
    unseen: dict[int, int] = {}
    origin = rows[0][0]

    def note(to: list[tuple[int, ...]], time: int, device: int, kind: EventKind, address: int, nbytes: int) -> None:
        to.append((time, address, nbytes, nbytes if kind <= EventKind.FREE else 0, 0, 0, 0, device, int(kind)))

    for time, device, address, nbytes, allocated, held in rows:
        if address < 0:
            address = unpaired.address(device, nbytes)
        if device not in reserved:
            reserved[device] = held
            unseen[device] = allocated - nbytes if allocated >= 0 else 0
            if held >= 0:
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
                unseen[device] += nbytes if allocated >= 0 else 0
                note(older, origin, device, EventKind.ALLOCATE, address, -nbytes)
            live.discard((device, address))
            note(events, time, device, EventKind.FREE, address, -nbytes)
        if more < 0:
            note(events, time, device, EventKind.PAGE_RELEASE, 0, -more)
    left = sum(max(nbytes, 0) for nbytes in unseen.values())
    blocks = sum(row[-1] == EventKind.ALLOCATE for row in older)
    told = "what is reserved is not known" if rows[0][-1] < 0 else "of what is reserved, only the total is known"
    notes = [
        f"sizes are as PyTorch rounded them; {told}",
        "there are no addresses: how much is allocated is known, but not which block is freed when"
        * bool(unpaired.used),
        f"{blocks} blocks are from before the profile, and are counted" if blocks else "",
        f"{format_size(left)} that were allocated before it and are not freed in it are not" if left else "",
    ]
    return Trace(
        Header(fields={"source": "pytorch profiler", "older_events": len(older), **unpaired.fields()}),
        np.array([*older, *events], EVENT_DTYPE),
        path=path,
        note="; ".join(filter(None, notes)),
    )


class _Unpaired:
    """Gives blocks without an address one of their own: a free that of the latest block of its size."""

    def __init__(self) -> None:
        self.used = 0
        self._live: dict[tuple[int, int], list[int]] = {}
        self._next = 1 << 40

    def address(self, device: int, nbytes: int) -> int:
        """Of the block that an event of so many bytes more, or fewer, is about."""
        self.used += 1
        known = self._live.setdefault((device, abs(nbytes)), [])
        if nbytes < 0 and known:
            return known.pop()
        address = self._next
        self._next += -(-abs(nbytes) // 512) * 512 + 512
        if nbytes >= 0:
            known.append(address)
        return address

    def fields(self) -> dict[str, bool]:
        """What a header says of it."""
        return {"unpaired": True} if self.used else {}


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
