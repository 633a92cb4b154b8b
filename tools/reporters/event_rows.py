"""Writes events out: as text for people, or as CSV or JSON lines for other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import TextIO

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.contents import Trace

__all__ = ["ASKED", "COLUMNS", "FORMATS", "KIND_NAMES", "rows", "write_dump"]

FORMATS = ("text", "csv", "jsonl", "parquet")
COLUMNS = (
    "event", "time_ns", "kind", "device", "stream", "thread", "address", "nbytes", "requested", "context", "name",
    "stack", "library",
)  # fmt: skip
"""What every format but text gives for an event: its place in the trace, its fields, a marker's name, and the call
stack, innermost first, and the library that asked."""

Row = tuple[int, int, str, int, int, int, int, int, int, int, str, str, str]
KIND_NAMES = {int(kind): kind.name.lower() for kind in EventKind}
_MARKER = int(EventKind.MARKER)
ASKED = (int(EventKind.ALLOCATE), int(EventKind.OUT_OF_MEMORY))
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
            library = trace.library(context) if kind in ASKED else ""
            yield (
                place, time_ns, KIND_NAMES[kind], device, stream, thread, address, nbytes, requested, context, name,
                stack, library,
            )  # fmt: skip


def write_dump(
    trace: Trace, places: npt.NDArray[np.int64], form: str, file: TextIO, done: Callable[[int], None]
) -> None:
    """Write events to a text file, in one of ``FORMATS`` but Parquet. ``done`` is told how many more are written."""
    if form == "text":
        _write_text(trace, places, file, done)
        return
    line, tail = {"csv": (_csv_line, _csv_tail), "jsonl": (_json_line, _json_tail)}[form]
    if form == "csv":
        file.write(",".join(COLUMNS) + "\n")
    tails: dict[tuple[int, bool], str] = {}  # a stack's text is made once
    for part, events in _parts(trace, places):
        lines = []
        for place, event in zip(part, events, strict=True):
            time_ns, address, nbytes, requested, stream, context, thread, device, kind = event
            key = context, kind in ASKED
            end = tails.get(key)
            if end is None:
                end = tails[key] = tail(trace, "", *key)
            if kind == _MARKER:
                end = tail(trace, trace.name(requested), *key)
            lines.append(
                line(place, time_ns, KIND_NAMES[kind], device, stream, thread, address, nbytes, requested, context, end)
            )
        file.write("".join(lines))
        done(len(lines))


def _parts(trace: Trace, places: npt.NDArray[np.int64]) -> Iterator[tuple[list[int], list[tuple[int, ...]]]]:
    """Places and their events' fields, some thousands at a time."""
    for start in range(0, len(places), 4096):
        part = places[start : start + 4096]
        yield part.tolist(), trace.events[part].tolist()


def _csv_line(
    place: int, time_ns: int, kind: str, device: int, stream: int, thread: int, address: int, nbytes: int,
    requested: int, context: int, tail: str,
) -> str:  # fmt: skip
    return f"{place},{time_ns},{kind},{device},{stream},{thread},{address},{nbytes},{requested},{context},{tail}"


def _csv_tail(trace: Trace, name: str, context: int, asked: bool) -> str:
    text = io.StringIO()
    stack = " < ".join(map(str, trace.stack(context)))
    csv.writer(text, lineterminator="\n").writerow((name, stack, trace.library(context) if asked else ""))
    return text.getvalue()


def _json_line(
    place: int, time_ns: int, kind: str, device: int, stream: int, thread: int, address: int, nbytes: int,
    requested: int, context: int, tail: str,
) -> str:  # fmt: skip
    return (
        f'{{"event": {place}, "time_ns": {time_ns}, "kind": "{kind}", "device": {device}, "stream": {stream}, '
        f'"thread": {thread}, "address": {address}, "nbytes": {nbytes}, "requested": {requested}, '
        f'"context": {context}, {tail}'
    )


def _json_tail(trace: Trace, name: str, context: int, asked: bool) -> str:
    stack = [str(frame) for frame in trace.stack(context)]
    entry = {"name": name, "stack": stack, "library": trace.library(context) if asked else ""}
    return json.dumps(entry)[1:] + "\n"


def _write_text(trace: Trace, places: npt.NDArray[np.int64], file: TextIO, done: Callable[[int], None]) -> None:
    write = _text(file, trace)
    for count, row in enumerate(rows(trace, places), 1):
        write(row)
        if not count % 4096:
            done(4096)


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
