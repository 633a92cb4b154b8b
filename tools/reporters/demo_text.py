"""Prints the demo's comparison."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ..replaying.demonstration import LeftOut, Outcome
from .tables import Column, print_paragraph, print_table
from .units import duration


def print_comparison(outcomes: Sequence[Outcome], left_out: Sequence[LeftOut], console: Console) -> None:
    """Print a column for each allocator, then those left out, then where the traces lie. Sizes are bytes."""
    _print_table(outcomes, console)
    for entry in outcomes:
        if entry.problem:
            print_paragraph(console, f"{entry.allocator} went wrong: {entry.problem}", style="red")
    for missing in left_out:
        print_paragraph(console, f"{missing.allocator} is left out: {missing.reason}.")
    console.print()
    console.print("Traces, for cuplug-trace summary and dump:")
    for entry in outcomes:
        console.print(Text(f"  {entry.trace}"), soft_wrap=True)


def _print_table(outcomes: Sequence[Outcome], console: Console) -> None:
    columns = [Column("", left=True), *(Column(entry.allocator) for entry in outcomes)]
    rows = [
        ("peak requested, bytes", *(f"{entry.peak_requested:,}" for entry in outcomes)),
        ("peak allocated, bytes", *(f"{entry.peak_allocated:,}" for entry in outcomes)),
        ("peak reserved, bytes", *(f"{entry.peak_reserved:,}" for entry in outcomes)),
        ("reserved / requested", *(_ratio(entry) for entry in outcomes)),
        ("driver calls", *(f"{entry.driver_calls:,}" for entry in outcomes)),
        ("events recorded", *(f"{entry.events:,}" for entry in outcomes)),
        ("time", *(duration(entry.seconds * 1e6) for entry in outcomes)),
    ]
    print_table(console, columns, rows)


def _ratio(entry: Outcome) -> str:
    return f"{entry.peak_reserved / entry.peak_requested:.3f}" if entry.peak_requested else "-"
