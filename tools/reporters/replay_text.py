"""Prints what replays have measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..replaying.replayer import ReplayResult
from .units import duration, size

__all__ = ["calls_text", "print_results", "short_name"]


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
    for place, (trace, rows) in enumerate(by_trace.items()):
        if place:
            console.print()
        first = rows[0]
        console.print(Text(f"{trace}: {first.events} events, {first.peak_requested_bytes} bytes requested at the peak"))
        console.print(_table(rows, estimated=estimated))


def calls_text(calls: dict[str, int]) -> str:
    """Driver calls by kind, for a table."""
    return ", ".join(f"{count} {name.removeprefix('cu')}" for name, count in calls.items() if count) or "none"


def short_name(path: str) -> str:
    """A file's name without its folders and endings."""
    name = Path(path).name
    for ending in (".xz", ".gz", ".pickle", ".cuplug", ".csv"):
        name = name.removesuffix(ending)
    return name


def _table(rows: Sequence[ReplayResult], *, estimated: bool) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("Allocator", overflow="fold")
    for name in ("peak allocated", "peak reserved", "", "÷ requested"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("driver calls", overflow="fold")
    for name in ("estimated time" if estimated else "driver time", "OOM", "events/s"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            Text(row.allocator),
            str(row.peak_allocated_bytes),
            str(row.peak_reserved_bytes),
            size(row.peak_reserved_bytes),
            f"{row.reserved_over_requested:.3f}",
            calls_text(row.driver_calls),
            duration(row.driver_time_us),
            Text(str(row.out_of_memory_events), style="red" if row.out_of_memory_events else ""),
            f"{row.events_per_second:,.0f}",
        )
    return table
