"""Reads what Nsight Systems saw of GPU memory, from its SQLite export (``nsys profile --cuda-memory-usage=true``, then
``nsys export --type sqlite``): the tables ``CUDA_GPU_MEMORY_USAGE_EVENTS`` and ``CUDA_GPU_MEMORY_POOL_EVENTS``.

Nsight watches the driver: an allocation there is memory taken from the device. It becomes SEGMENT_RESERVE and ALLOCATE,
and its end FREE and SEGMENT_RELEASE. What comes out of one of CUDA's memory pools (``cudaMallocAsync``), which hold
memory by themselves, is ALLOCATE and FREE alone. How much a pool holds, exports since schema 3 say beside each of its
events (``localMemoryPoolSize``): where that changes there is a PAGE_CREATE or PAGE_RELEASE of as many bytes.

Columns are found by name, since versions differ in which they have, and in their order. Sizes are bytes, times
nanoseconds from the start of the recording. Pinned and managed memory is left out, which is said. Of several processes
the one with the most events is read; their addresses are their own.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...allocators.errors import TraceError
from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import EVENT_DTYPE, Header, Trace

_TABLE, _POOLS = "CUDA_GPU_MEMORY_USAGE_EVENTS", "CUDA_GPU_MEMORY_POOL_EVENTS"
_NEEDED = ("start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType")
_OPTIONAL = ("streamId", "localMemoryPoolAddress", "localMemoryPoolSize", "importedMemoryPoolAddress")
_OF_POOLS = ("start", "globalPid", "deviceId", "address", "operationType", "localMemoryPoolSize")
_OF_DEVICES = (2, 3, 5)  # ENUM_CUDA_MEM_KIND: device, array, device static
_ALLOCATION, _DEALLOCATION = 0, 1  # ENUM_CUDA_DEV_MEM_EVENT_OPER
_DESTROYED = 2  # ENUM_CUDA_MEMPOOL_OPER


def is_sqlite(head: bytes) -> bool:
    """Whether a file that begins with these bytes (eight or more) is a database of SQLite's."""
    return head.startswith(b"SQLite f")


def read_nsight_export(path: str | os.PathLike[str]) -> Trace:
    """Read an export. The file is not changed.

    Raises:
        TraceError: it is no export of Nsight Systems, has no memory usage in it, or is damaged.
    """
    path = os.fspath(path)
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            columns = _columns(database, _TABLE)
            if not columns:
                raise TraceError(
                    f"{path} is a database without the table {_TABLE}: record with nsys profile "
                    "--cuda-memory-usage=true, and export with nsys export --type sqlite"
                )
            missing = [name for name in _NEEDED if name not in columns]
            if missing:
                raise TraceError(f"{path} is not as Nsight Systems writes it: {_TABLE} has no column {missing[0]}")
            rows = _rows(database, _TABLE, (*_NEEDED, *_OPTIONAL), columns)
            of_pools = _columns(database, _POOLS)
            pools = _rows(database, _POOLS, _OF_POOLS, of_pools) if {"start", "globalPid"} <= of_pools else []
    except sqlite3.Error as error:
        raise TraceError(f"{path} is a damaged database: {error}") from None
    return _trace(path, rows, pools)


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}


def _rows(database: sqlite3.Connection, table: str, wanted: Iterable[str], known: set[str]) -> list[tuple[Any, ...]]:
    """The rows in order of time; None for what this version does not have."""
    names = ", ".join(name if name in known else "NULL" for name in wanted)
    return database.execute(f"SELECT {names} FROM {table} ORDER BY start, rowid").fetchall()


@dataclass
class _Found:
    """The events found up to now, as rows of a trace."""

    rows: list[tuple[int, ...]] = field(default_factory=list)
    sizes: dict[tuple[int, int], int] = field(default_factory=dict)
    """What each of CUDA's pools holds, by device and the pool's address."""
    unknown: bool = False
    """Whether blocks came out of pools of which is not told how much they hold."""

    def put(self, kind: EventKind, time: int, device: int, address: int, nbytes: int, stream: int) -> None:
        self.rows.append((time, address, nbytes, nbytes, stream, 0, 0, device, int(kind)))

    def hold(self, time: int, device: int, pool: int, nbytes: int) -> None:
        """A pool holds so many bytes from now on."""
        more = nbytes - self.sizes.get((device, pool), 0)
        self.sizes[device, pool] = nbytes
        if more:
            self.put(EventKind.PAGE_CREATE if more > 0 else EventKind.PAGE_RELEASE, time, device, 0, abs(more), 0)


def _trace(path: str, rows: list[tuple[Any, ...]], pools: list[tuple[Any, ...]]) -> Trace:
    counts: dict[Any, int] = {}
    for row in rows:
        counts[row[1]] = counts.get(row[1], 0) + 1
    process = max(counts, key=lambda one: counts[one], default=None)
    if not all(isinstance(row[0], int) for row in pools):
        raise TraceError(f"{path} is damaged: a time in {_POOLS} is no number")
    changes = iter([row for row in pools if row[1] == process])
    change = next(changes, None)
    found, left_out = _Found(), 0
    for number, row in enumerate(rows, 1):
        if row[1] != process:
            continue
        while change is not None and isinstance(row[0], int) and change[0] < row[0]:
            _note_pool(path, found, change)
            change = next(changes, None)
        if row[5] in _OF_DEVICES:
            _note_block(path, found, number, row)
        else:
            left_out += 1
    while change is not None:
        _note_pool(path, found, change)
        change = next(changes, None)
    notes = [
        f"{left_out} events of pinned and managed memory are left out" if left_out else "",
        f"{len(counts) - 1} other processes of the export are left out" if len(counts) > 1 else "",
        "what CUDA's memory pools hold besides the blocks is not known, and not in what is reserved"
        if found.unknown
        else "",
    ]
    try:
        events = np.array(found.rows, EVENT_DTYPE)
    except OverflowError:
        raise TraceError(f"{path} is damaged: a value in {_TABLE} is out of range") from None
    fields: dict[str, Any] = {"source": "nsight"}
    if len(events) > 1 and events["time"][-1] == events["time"][0]:  # as where a clock could not be read
        fields["untimed"] = True
        events["time"] = np.arange(len(events)) * 1000
        notes.append("the export has no times: events are taken to be 1 µs apart")
    return Trace(Header(fields=fields), events, path=path, note="; ".join(filter(None, notes)))


def _note_block(path: str, found: _Found, number: int, row: tuple[Any, ...]) -> None:
    start, _, device, address, nbytes, _, operation, stream, pool, held, imported = row
    try:
        if not (0 <= nbytes < 1 << 53 and 0 <= device < 255 and operation in (_ALLOCATION, _DEALLOCATION)):
            raise ValueError("out of range")  # noqa: TRY301 - said better below
        if held is not None and not 0 <= held < 1 << 53:
            raise ValueError("out of range")  # noqa: TRY301
        if stream is not None and stream < 0:
            raise ValueError("out of range")  # noqa: TRY301
        time, device, address, nbytes = int(start), int(device), int(address) & (1 << 64) - 1, int(nbytes)
        common = time, device, address, nbytes, int(stream or 0)
    except (TypeError, ValueError):
        raise TraceError(f"{path} is damaged: row {number} of {_TABLE} is out of range") from None
    pooled = bool(pool or imported)
    found.unknown = found.unknown or (pooled and held is None)
    if operation == _ALLOCATION:
        if pool and held is not None:
            found.hold(time, device, int(pool), int(held))
        if not pooled:
            found.put(EventKind.SEGMENT_RESERVE, *common)
        found.put(EventKind.ALLOCATE, *common)
    else:
        found.put(EventKind.FREE, *common)
        if not pooled:
            found.put(EventKind.SEGMENT_RELEASE, *common)
        if pool and held is not None:
            found.hold(time, device, int(pool), int(held))


def _note_pool(path: str, found: _Found, row: tuple[Any, ...]) -> None:
    """A pool was made, trimmed or destroyed."""
    start, _, device, pool, operation, held = row
    held = 0 if operation == _DESTROYED else held
    if held is None or pool is None:
        return
    try:
        if not (0 <= held < 1 << 53 and 0 <= device < 255):
            raise ValueError("out of range")  # noqa: TRY301 - said better below
        found.hold(int(start), int(device), int(pool), int(held))
    except (TypeError, ValueError):
        raise TraceError(f"{path} is damaged: a row of {_POOLS} is out of range") from None
