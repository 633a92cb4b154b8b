"""Prints the demo's comparison."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..demo import LeftOut, Outcome
from .figures import duration

__all__ = ["print_comparison"]


def print_comparison(outcomes: Sequence[Outcome], left_out: Sequence[LeftOut], console: Console) -> None:
    """Print a line for each allocator, then those left out, then where the traces lie. Sizes are bytes."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("allocator")
    columns = ("peak requested", "peak allocated", "peak reserved", "reserved / requested", "driver calls", "events")
    for name in (*columns, "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in outcomes:
        ratio = entry.peak_reserved / entry.peak_requested if entry.peak_requested else 0.0
        table.add_row(
            entry.allocator,
            f"{entry.peak_requested:,}",
            f"{entry.peak_allocated:,}",
            f"{entry.peak_reserved:,}",
            f"{ratio:.3f}",
            f"{entry.driver_calls:,}",
            f"{entry.events:,}",
            duration(entry.seconds * 1e6),
        )
    console.print(table)
    for entry in outcomes:
        if entry.problem:
            console.print(Text(f"{entry.allocator} went wrong: {entry.problem}", style="red"))
    for missing in left_out:
        console.print(Text(f"{missing.allocator} is left out: {missing.reason}."))
    console.print()
    console.print("Traces, for cuplug-trace summary and dump:")
    for entry in outcomes:
        console.print(Text(f"  {entry.trace}"), soft_wrap=True)
