"""Writes events out: as text for people, or as CSV or JSON lines for other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import NO_DEVICE, EventArray, Trace
from ..foreign.text_columns import Part, Texts, lines
from .tables import Column, folded

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
    trace: Trace,
    places: npt.NDArray[np.int64],
    form: str,
    file: TextIO,
    done: Callable[[int], None],
    width: int | None = None,
) -> None:
    """Write events to a text file, in one of ``FORMATS`` but Parquet.

    Among JSON's lines are some that give a context's call stack. Each comes once, before the first event that names
    this context by its number.

    Args:
        trace: where they are.
        places: which.
        form: the format.
        file: where to.
        done: is told how many more are written.
        width: of the terminal, in columns, for ``text``: what matters less goes until the rest fits. None for all.
    """
    if form == "text":
        _write_text(trace, places, file, done, width)
        return
    if form == "csv":
        file.write(",".join(COLUMNS) + "\n")
    told: set[int] = {0}
    for start in range(0, len(places), _AT_ONCE):
        part = places[start : start + _AT_ONCE]
        events = trace.events[part]
        if form == "jsonl":
            new = sorted(set(np.unique(events["context"]).tolist()) - told)
            told.update(new)
            file.write("".join(_context_line(trace, context) for context in new))
        file.write(lines(_parts(trace, part, events, form), len(part)).decode())
        done(len(part))


_AT_ONCE = 1 << 15
_MOST_NAMES = (1 << 29) - 1
_NUMBERS = ("device", "stream", "thread", "address", "nbytes", "requested", "context")


def _parts(trace: Trace, places: npt.NDArray[np.int64], events: EventArray, form: str) -> list[Part]:
    kinds = events["kind"]
    named = Texts(kinds.astype(np.int64), [KIND_NAMES.get(kind, "").encode() for kind in range(max(KIND_NAMES) + 1)])
    tail = {"csv": _csv_tail, "jsonl": _json_tail}[form]
    names = np.where(kinds == _MARKER, np.clip(events["requested"], 0, _MOST_NAMES) + 1, 0)
    key = names << 33 | events["context"].astype(np.int64) << 1 | np.isin(kinds, ASKED)
    keys, place = np.unique(key, return_inverse=True)
    ends = Texts(
        place,
        [
            tail(trace, trace.name((one >> 33) - 1) if one >> 33 else "", one >> 1 & 0xFFFFFFFF, bool(one & 1))
            for one in keys.tolist()
        ],
    )
    if form == "csv":
        parts: list[Part] = [places, b",", events["time"], b",", named, b","]
        for name in _NUMBERS:
            parts += [events[name], b","]
        return [*parts, ends]
    parts = [b'{"event": ', places, b', "time_ns": ', events["time"], b', "kind": "', named, b'"']
    for name in _NUMBERS:
        parts += [f', "{name}": '.encode(), events[name]]
    return [*parts, b", ", ends]


def _csv_tail(trace: Trace, name: str, context: int, asked: bool) -> bytes:
    text = io.StringIO()
    stack = " < ".join(map(str, trace.stack(context)))
    csv.writer(text, lineterminator="\n").writerow((name, stack, trace.library(context) if asked else ""))
    return text.getvalue().encode(errors="backslashreplace")


def _json_tail(trace: Trace, name: str, context: int, asked: bool) -> bytes:
    entry = {"name": name, "library": trace.library(context) if asked else ""}
    return (json.dumps(entry)[1:] + "\n").encode()


def _context_line(trace: Trace, context: int) -> str:
    stack = [str(frame) for frame in trace.stack(context)]
    return json.dumps({"context": context, "stack": stack}) + "\n"


def _write_text(
    trace: Trace, places: npt.NDArray[np.int64], file: TextIO, done: Callable[[int], None], width: int | None
) -> None:
    origin = int(trace.events["time"][0]) if len(trace.events) else 0
    shown = _shown_columns(trace, places, origin, width)
    head = _aligned((_TEXT_COLUMNS[at].title for at, _ in shown), shown)
    before = len(head) + 2

    def write(line: str) -> None:
        line = line.rstrip()
        file.write("\n".join([line] if width is None else folded(line, before, width)) + "\n")

    write(f"{head}  name, call stack")
    for count, row in enumerate(rows(trace, places), 1):
        place, time_ns, kind, device, stream, _, address, nbytes, requested, _, name, stack, _ = row
        cells = (
            str(place), f"{(time_ns - origin) / 1e9:.6f}", kind, "all" if device == NO_DEVICE else str(device),
            f"{stream:#x}", f"{address:#x}", str(nbytes), str(requested),
        )  # fmt: skip
        write(f"{_aligned((cells[at] for at, _ in shown), shown)}  {name or stack}")
        if not count % 4096:
            done(4096)


_TEXT_COLUMNS = (
    Column("event"),
    Column("seconds"),
    Column("kind", left=True),
    Column("dev", rank=1),
    Column("stream", rank=2),
    Column("address"),
    Column("bytes", rank=3),
    Column("requested"),
)


def _shown_columns(
    trace: Trace, places: npt.NDArray[np.int64], origin: int, width: int | None
) -> list[tuple[int, int]]:
    """Which of ``_TEXT_COLUMNS`` are shown, and how wide each is."""
    events = trace.events[places]

    def most(name: str) -> int:
        return int(events[name].max()) if len(events) else 0

    last_seconds = (most("time") - origin) / 1e9
    kinds = [len(KIND_NAMES.get(kind, "")) for kind in np.unique(events["kind"]).tolist()]
    widest = (
        len(str(int(places.max()) if len(places) else 0)), len(f"{last_seconds:.6f}"), max(kinds, default=0), 3,
        len(hex(most("stream"))), len(hex(most("address"))), len(str(most("nbytes"))), len(str(most("requested"))),
    )  # fmt: skip
    shown = [
        (at, max(len(column.title), needed))
        for at, (column, needed) in enumerate(zip(_TEXT_COLUMNS, widest, strict=True))
    ]
    while width is not None and sum(needed + 2 for _, needed in shown) > width - _ROOM_FOR_NAMES:
        least = max(shown, key=lambda one: _TEXT_COLUMNS[one[0]].rank)
        if not _TEXT_COLUMNS[least[0]].rank:
            break
        shown.remove(least)
    return shown


_ROOM_FOR_NAMES = 12


def _aligned(cells: Iterable[str], shown: Sequence[tuple[int, int]]) -> str:
    return "  ".join(
        cell.ljust(needed) if _TEXT_COLUMNS[at].left else cell.rjust(needed)
        for cell, (at, needed) in zip(cells, shown, strict=True)
    )
