"""Prints the demo's comparison."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..replaying.demonstration import LeftOut, Outcome
from .units import duration

__all__ = ["print_comparison"]


def print_comparison(outcomes: Sequence[Outcome], left_out: Sequence[LeftOut], console: Console) -> None:
    """Print a column for each allocator, then those left out, then where the traces lie. Sizes are bytes."""
    console.print(_table(outcomes))
    for entry in outcomes:
        if entry.problem:
            console.print(Text(f"{entry.allocator} went wrong: {entry.problem}", style="red"))
    for missing in left_out:
        console.print(Text(f"{missing.allocator} is left out: {missing.reason}."))
    console.print()
    console.print("Traces, for cuplug-trace summary and dump:")
    for entry in outcomes:
        console.print(Text(f"  {entry.trace}"), soft_wrap=True)


def _table(outcomes: Sequence[Outcome]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("")
    for entry in outcomes:
        table.add_column(entry.allocator, justify="right", no_wrap=True)
    table.add_row("peak requested, bytes", *(f"{entry.peak_requested:,}" for entry in outcomes))
    table.add_row("peak allocated, bytes", *(f"{entry.peak_allocated:,}" for entry in outcomes))
    table.add_row("peak reserved, bytes", *(f"{entry.peak_reserved:,}" for entry in outcomes))
    table.add_row("reserved / requested", *(_ratio(entry) for entry in outcomes))
    table.add_row("driver calls", *(f"{entry.driver_calls:,}" for entry in outcomes))
    table.add_row("events recorded", *(f"{entry.events:,}" for entry in outcomes))
    table.add_row("time", *(duration(entry.seconds * 1e6) for entry in outcomes))
    return table


def _ratio(entry: Outcome) -> str:
    return f"{entry.peak_reserved / entry.peak_requested:.3f}" if entry.peak_requested else "-"
