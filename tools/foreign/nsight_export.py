"""Reads what Nsight Systems saw of GPU memory, from its SQLite export (``nsys profile --cuda-memory-usage=true``, then
``nsys export --type sqlite``): the table ``CUDA_GPU_MEMORY_USAGE_EVENTS``.

Nsight watches the driver: an allocation there is memory taken from the device. It becomes SEGMENT_RESERVE and ALLOCATE,
and its end FREE and SEGMENT_RELEASE. What comes out of one of CUDA's memory pools, which hold memory by themselves, is
ALLOCATE and FREE alone. Sizes are bytes, times nanoseconds from the start of the recording. Pinned and managed memory
is left out, which is said. Of several processes the one with the most events is read; their addresses are their own.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ...allocators.errors import TraceError
from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import EVENT_DTYPE, Header, Trace

__all__ = ["is_sqlite", "read_nsight_export"]

_TABLE = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_NEEDED = ("start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType")
_OF_DEVICES = (2, 3, 5)  # ENUM_CUDA_MEM_KIND: device, array, device static
_ALLOCATION, _DEALLOCATION = 0, 1  # ENUM_CUDA_DEV_MEM_EVENT_OPER


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
            columns = {str(row[1]) for row in database.execute(f"PRAGMA table_info({_TABLE})")}
            if not columns:
                raise TraceError(
                    f"{path} is a database without the table {_TABLE}: record with nsys profile "
                    "--cuda-memory-usage=true, and export with nsys export --type sqlite"
                )
            missing = [name for name in _NEEDED if name not in columns]
            if missing:
                raise TraceError(f"{path} is not as Nsight Systems writes it: {_TABLE} has no column {missing[0]}")
            optional = ("streamId", "localMemoryPoolAddress")
            wanted = [*_NEEDED, *(name if name in columns else "NULL" for name in optional)]
            rows = database.execute(f"SELECT {', '.join(wanted)} FROM {_TABLE} ORDER BY start, rowid").fetchall()
    except sqlite3.Error as error:
        raise TraceError(f"{path} is a damaged database: {error}") from None
    return _trace(path, rows)


def _trace(path: str, rows: list[tuple[Any, ...]]) -> Trace:
    counts: dict[Any, int] = {}
    for row in rows:
        counts[row[1]] = counts.get(row[1], 0) + 1
    process = max(counts, key=lambda one: counts[one], default=None)
    found: list[tuple[int, ...]] = []
    left_out, in_pools = 0, False
    for number, (start, own, device, address, nbytes, kind, operation, stream, pool) in enumerate(rows, 1):
        if own != process:
            continue
        if kind not in _OF_DEVICES:
            left_out += 1
            continue
        try:
            if not (0 <= nbytes < 1 << 53 and 0 <= device < 255 and operation in (_ALLOCATION, _DEALLOCATION)):
                raise ValueError("out of range")  # noqa: TRY301 - said better below
            common = int(start), int(address) & (1 << 64) - 1, int(nbytes), int(nbytes), int(stream or 0)
        except (TypeError, ValueError):
            raise TraceError(f"{path} is damaged: row {number} of {_TABLE} is out of range") from None
        in_pools = in_pools or bool(pool)
        kinds = [EventKind.ALLOCATE] if operation == _ALLOCATION else [EventKind.FREE]
        if not pool:
            kinds = (
                [EventKind.SEGMENT_RESERVE, *kinds] if operation == _ALLOCATION else [*kinds, EventKind.SEGMENT_RELEASE]
            )
        found += [(*common, 0, 0, int(device), int(kind)) for kind in kinds]
    notes = [
        f"{left_out} events of pinned and managed memory are left out" if left_out else "",
        f"{len(counts) - 1} other processes of the export are left out" if len(counts) > 1 else "",
        "what CUDA's memory pools hold besides the blocks is not known, and not in what is reserved"
        if in_pools
        else "",
    ]
    try:
        events = np.array(found, EVENT_DTYPE)
    except OverflowError:
        raise TraceError(f"{path} is damaged: a value in {_TABLE} is out of range") from None
    return Trace(Header(fields={"source": "nsight"}), events, path=path, note="; ".join(filter(None, notes)))
