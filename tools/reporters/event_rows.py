"""Writes events out: as text for people, or as CSV, JSON lines or Parquet for other programs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import IO, Any, TextIO

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.contents import Trace
from ..console import UsageError

__all__ = ["COLUMNS", "FORMATS", "rows", "write_dump", "write_parquet"]

FORMATS = ("text", "csv", "jsonl", "parquet")
COLUMNS = (
    "event", "time_ns", "kind", "device", "stream", "thread", "address", "nbytes", "requested", "context", "name",
    "stack", "library",
)  # fmt: skip
"""What every format but text gives for an event: its place in the trace, its fields, a marker's name, and the call
stack, innermost first, and the library that asked."""

Row = tuple[int, int, str, int, int, int, int, int, int, int, str, str, str]
_NAMES = {int(kind): kind.name.lower() for kind in EventKind}
_MARKER = int(EventKind.MARKER)
_ASKED = (int(EventKind.ALLOCATE), int(EventKind.OUT_OF_MEMORY))
"""Events that say which library caused them."""


def rows(trace: Trace, places: npt.NDArray[np.int64]) -> Iterator[Row]:
    """The events at these places as tuples of ``COLUMNS``."""
    stacks: dict[int, str] = {0: ""}
    for start in range(0, len(places), 4096):
        part = places[start : start + 4096]
        for place, event in zip(part.tolist(), trace.events[part].tolist(), strict=True):
            time_ns, address, nbytes, requested, stream, context, thread, device, kind = event
            stack = stacks.get(context)
            if stack is None:
                stack = stacks[context] = " < ".join(map(str, trace.stack(context)))
            name = trace.name(requested) if kind == _MARKER else ""
            library = trace.library(context) if kind in _ASKED else ""
            yield (
                place, time_ns, _NAMES[kind], device, stream, thread, address, nbytes, requested, context, name, stack,
                library,
            )  # fmt: skip


def write_dump(
    trace: Trace, places: npt.NDArray[np.int64], form: str, file: TextIO, done: Callable[[int], None]
) -> None:
    """Write events to a text file, in one of ``FORMATS`` but Parquet. ``done`` is told how many more are written."""
    write = {"text": _text, "csv": _csv, "jsonl": _jsonl}[form](file, trace)
    for count, row in enumerate(rows(trace, places), 1):
        write(row)
        if not count % 4096:
            done(4096)


def write_parquet(trace: Trace, places: npt.NDArray[np.int64], file: IO[bytes]) -> None:
    """Write events to an open file, as Parquet.

    Raises:
        UsageError: pyarrow is not installed.
        OSError: the file cannot be written.
    """
    try:
        pa: Any = import_module("pyarrow")
        pq: Any = import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise UsageError("Parquet needs pyarrow: pip install 'cuplug[parquet]', or choose another --format") from None
    types = [pa.int64(), pa.int64(), pa.string(), pa.uint8(), pa.uint64(), pa.uint16(), pa.uint64(), pa.int64()]
    types += [pa.int64(), pa.uint32(), pa.string(), pa.string(), pa.string()]
    columns: Sequence[Sequence[Any]] = list(zip(*rows(trace, places), strict=True)) or [()] * len(COLUMNS)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    pq.write_table(pa.table(dict(zip(COLUMNS, arrays, strict=True))), file)


def _text(file: TextIO, trace: Trace) -> Callable[[Row], None]:
    origin = int(trace.events["time"][0]) if len(trace.events) else 0
    file.write(
        f"{'event':>8} {'seconds':>12} {'kind':<15} {'dev':>3} {'stream':>14} {'address':>16} {'bytes':>14} "
        f"{'requested':>14}  name, call stack\n"
    )

    def write(row: Row) -> None:
        place, time_ns, kind, device, stream, _, address, nbytes, requested, _, name, stack, _ = row
        seconds = (time_ns - origin) / 1e9
        where = "all" if device == 255 else device
        line = (
            f"{place:>8} {seconds:>12.6f} {kind:<15} {where:>3} {stream:>#14x} {address:>#16x} {nbytes:>14} "
            f"{requested:>14}  {name or stack}"
        )
        file.write(line.rstrip() + "\n")

    return write


def _csv(file: TextIO, _trace: Trace) -> Callable[[Row], Any]:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    return writer.writerow


def _jsonl(file: TextIO, trace: Trace) -> Callable[[Row], None]:
    stacks: dict[int, list[str]] = {}

    def write(row: Row) -> None:
        entry: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
        context = entry["context"]
        if context not in stacks:
            stacks[context] = [str(frame) for frame in trace.stack(context)]
        entry["stack"] = stacks[context]
        file.write(json.dumps(entry) + "\n")

    return write
