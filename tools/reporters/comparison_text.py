"""Prints comparisons and differences."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..replaying.comparison import Change, Difference, Row
from .replay_text import calls_text, short_name
from .units import duration, size

__all__ = ["label", "print_comparison", "print_differences"]


def label(row: Row) -> str:
    """What a row is called in a legend."""
    return f"{short_name(row.trace)}, {row.allocator or 'as recorded'}"


def print_comparison(rows: Sequence[Row], console: Console) -> None:
    """Print one table for all."""
    table = _table("Trace", "Allocator")
    for name in ("events", "peak requested", "peak reserved", "", "÷ requested"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("driver calls", overflow="fold")
    for name in ("estimated time", "OOM"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            Text(short_name(row.trace)),
            Text(row.allocator or "as recorded"),
            str(row.events),
            str(row.requested),
            str(row.reserved),
            size(row.reserved),
            f"{row.reserved_over_requested:.3f}",
            calls_text(row.driver_calls),
            "" if row.driver_time_us is None else duration(row.driver_time_us),
            Text(str(row.out_of_memory), style="red" if row.out_of_memory else ""),
        )
    console.print(table)


def print_differences(found: Sequence[Difference], console: Console) -> None:
    """Print what changed, device by device."""
    for device in found:
        console.print(Text(f"Device {device.device}", style="bold"))
        console.print(_changes("", device.peaks))
        if device.sites:
            console.print(_changes("Held at the peak, by call site", device.sites))
        sizes = [Change("up to " + size(int(c.what)), c.before, c.after) for c in device.sizes if c.by]
        if sizes:
            console.print(_changes("Allocations, by requested size", sizes, bytes_too=False))
        else:
            console.print("As many allocations of every size as before.")


def _changes(title: str, changes: Sequence[Change], *, bytes_too: bool = True) -> Table:
    table = _table(title)
    for name in ("before", "after", "change", *([""] if bytes_too else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for change in changes:
        style = "red" if change.by > 0 else "green" if change.by < 0 else ""
        cells = [Text(str(change.before)), Text(str(change.after)), Text(f"{change.by:+d}", style=style)]
        table.add_row(Text(change.what), *cells, *([size(change.by)] if bytes_too else []))
    return table


def _table(*names: str) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, overflow="fold")
    return table
