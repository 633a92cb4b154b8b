"""Prints what replays have measured."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ..analysis.pytorch_settings import in_pytorchs_words, in_selections_words
from ..replaying.replayer import ReplayResult
from .tables import Cell, Column, print_notes, print_paragraph, print_table
from .units import NO_SHARE, driver_time, events, size

_TIME = "Driver time is the time in the driver's memory calls"
DRIVER_TIME = Column("driver time", note=f"{_TIME}, estimated from what each costs on an H200.")
MEASURED_TIME = Column("driver time", note=f"{_TIME}, measured.")
SHARE = Column(
    "share",
    rank=1,
    note="The share is that of the recorded time, from the first event to the last. What the program waits because of "
    "these calls, for its queued work say, is not in it.",
)
"""Columns: the time in the driver's memory calls, and its share of the recorded run's time."""
LONGER_THAN_THE_RUN = (
    f"'{NO_SHARE}' stands where no times were recorded, or where on an H200 these calls alone would take longer than "
    "the whole recorded time: that of a program on the simulator, for example."
)
"""What to say below a table with such a share."""


def print_results(results: Sequence[ReplayResult], console: Console, *, estimated: bool) -> None:
    """Print a table for each trace.

    Args:
        results: what was measured.
        console: where to.
        estimated: whether driver times are estimates.
    """
    by_trace: dict[str, list[ReplayResult]] = {}
    for result in results:
        by_trace.setdefault(result.trace, []).append(result)
    notes: list[str] = []
    columns = [MEASURED_TIME if one is DRIVER_TIME and not estimated else one for one in _COLUMNS]
    for place, (trace, rows) in enumerate(by_trace.items()):
        if place:
            console.print()
        first = rows[0]
        requested = first.history_peak_bytes
        when = "requested at the peak" if first.events else "live at that moment"
        timed = any(row.run_seconds for row in rows)
        head = f"{trace}: {events(first.events)}, {requested} bytes {when}"
        kept = [at for at, column in enumerate(columns) if timed or column is not SHARE]
        shown, cells = [columns[at] for at in kept], [[row[at] for at in kept] for row in map(_row, rows)]
        without_share = any(NO_SHARE in row for row in cells)
        print_paragraph(console, head)
        if first.devices > 1:
            print_paragraph(console, f"Figures are sums over {first.devices} GPUs; --device shows one by itself.")
        notes += print_table(console, shown, cells)
        if SHARE in shown and SHARE.note in notes and without_share:
            notes.append(LONGER_THAN_THE_RUN)
        for row in rows:
            if row.served is not None:
                name = in_pytorchs_words(row.allocator) if row.of_pytorch else row.allocator
                print_paragraph(console, f"{name}: its plan served {row.served}")
    if any(map(attrgetter("of_pytorch"), results)):
        notes.append(in_selections_words([row.allocator for row in results if row.of_pytorch]))
    print_notes(console, notes)


def calls_text(calls: dict[str, int]) -> str:
    """Driver calls by kind, for a table."""
    return ", ".join(f"{count} {name.removeprefix('cu')}" for name, count in calls.items() if count) or "none"


def short_name(path: str) -> str:
    """A file's name without its folders and endings."""
    name = Path(path).name
    for ending in (".xz", ".gz", ".pickle", ".cuplug", ".csv"):
        name = name.removesuffix(ending)
    return name


_COLUMNS = (
    Column("Allocator", left=True),
    Column("peak allocated", rank=6),
    Column("bytes", rank=4),
    Column("peak reserved", rank=2),
    Column("÷ requested"),
    DRIVER_TIME,
    SHARE,
    Column("OOM", rank=3),
    Column("events/s", rank=5),
    Column("driver calls", left=True, rank=7),
)


def _row(row: ReplayResult) -> Sequence[Cell]:
    speed, over_requested = row.events_per_second, row.reserved_over_requested
    return (
        in_pytorchs_words(row.allocator) if row.of_pytorch else row.allocator,
        str(row.peak_allocated_bytes),
        str(row.peak_reserved_bytes),
        size(row.peak_reserved_bytes),
        f"{over_requested:.3f}",
        *driver_time(row.driver_time_us, row.run_seconds),
        Text(str(row.out_of_memory_events), style="red" if row.out_of_memory_events else ""),
        f"{speed:,.0f}",
        calls_text(row.driver_calls),
    )
