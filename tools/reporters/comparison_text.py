"""Prints comparisons and differences."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ..analysis.pytorch_settings import in_pytorchs_words, in_selections_words
from ..replaying.comparison import Change, Difference, Mean, Row, means
from .replay_text import DRIVER_TIME, LONGER_THAN_THE_RUN, SHARE, calls_text, short_name
from .tables import Cell, Column, print_notes, print_paragraph, print_table
from .units import NO_SHARE, driver_time, size

RECORDED = "as recorded"
"""In place of an allocator's name."""


def label(row: Row, rows: Sequence[Row]) -> str:
    """What one of these rows is called in a legend."""
    return f"{short_name(row.trace)}, {allocator_name(row.allocator, rows)}"


def allocator_name(allocator: str, rows: Sequence[Row]) -> str:
    """What an allocator is called where these rows are shown: as PyTorch calls it, if all histories are PyTorch's."""
    if not allocator:
        return RECORDED
    return in_pytorchs_words(allocator) if all(row.of_pytorch for row in rows if row.allocator) else allocator


def reserved_cells(row: Row) -> tuple[str, str, str]:
    """What a row says of reserved memory: its bytes, the same for people, and as a multiple of what was requested."""
    if not row.knows_reserved:
        return "unknown", "unknown", ""
    return str(row.reserved), size(row.reserved), f"{row.reserved_over_requested:.3f}"


def print_comparison(rows: Sequence[Row], console: Console) -> None:
    """Print one table for all."""
    cells = [*(_row(row, rows) for row in rows), *(_mean_row(mean, rows) for mean in means(rows))]
    notes = print_table(console, _COLUMNS, cells)
    if SHARE.note in notes and any(NO_SHARE in row for row in cells):
        notes.append(LONGER_THAN_THE_RUN)
    notes.append(
        in_selections_words(
            row.allocator for row in rows if allocator_name(row.allocator, rows) not in (row.allocator, RECORDED)
        )
    )
    if len({row.trace for row in rows}) > _A_FEW:
        console.print()
        print_table(console, _SPREAD_COLUMNS, _spreads(rows))
    if any(row.driver_time_us is not None for row in rows):
        print_notes(console, notes)


_A_FEW = 2  # from more traces on, how far they are apart is not seen at a glance


def _spreads(rows: Sequence[Row]) -> list[list[Cell]]:
    found: list[list[Cell]] = []
    for allocator in dict.fromkeys(row.allocator for row in rows):
        mine = sorted((row for row in rows if row.allocator == allocator), key=lambda row: row.reserved)
        if not all(row.knows_reserved for row in mine):
            continue
        least, middle, most = mine[0], mine[len(mine) // 2], mine[-1]
        told = [allocator_name(allocator, rows), *(size(row.reserved) for row in (least, middle, most))]
        found.append([*told, short_name(most.trace)])
    return found


_SPREAD_COLUMNS = (
    Column("Peak reserved over all", left=True), Column("least"), Column("median", rank=1), Column("most"),
    Column("worst", left=True),
)  # fmt: skip


_OVER_REQUESTED = Column("÷ requested")
_COLUMNS = (
    Column("Trace", left=True),
    Column("Allocator", left=True),
    Column("events", rank=6),
    Column("peak requested", rank=5),
    Column("bytes", rank=4),
    Column("peak reserved", rank=2),
    _OVER_REQUESTED,
    DRIVER_TIME,
    SHARE,
    Column("OOM", rank=3),
    Column("driver calls", left=True, rank=7),
)


_MOST_OF_NAME = 28
"""Columns for a trace's name; of a longer one its end is shown."""


def _row(row: Row, rows: Sequence[Row]) -> Sequence[Cell]:
    name = short_name(row.trace)
    return (
        name if len(name) <= _MOST_OF_NAME else f"…{name[1 - _MOST_OF_NAME :]}",
        allocator_name(row.allocator, rows),
        str(row.events),
        str(row.requested),
        *reserved_cells(row),
        *(("", "") if row.driver_time_us is None else driver_time(row.driver_time_us, row.run_seconds)),
        Text(str(row.out_of_memory), style="red" if row.out_of_memory else ""),
        calls_text(row.driver_calls),
    )


def _mean_row(mean: Mean, rows: Sequence[Row]) -> Sequence[Cell]:
    blank = [""] * (len(_COLUMNS) - 3)
    ratio = f"{mean.reserved_over_requested:.3f}"
    before = _COLUMNS.index(_OVER_REQUESTED) - 2
    return ("geometric mean", allocator_name(mean.allocator, rows), *blank[:before], ratio, *blank[before:])


def print_differences(found: Sequence[Difference], console: Console) -> None:
    """Print what changed, device by device."""
    for device in found:
        console.print(Text(f"Device {device.device}", style="bold"))
        _print_changes(console, "", device.peaks)
        failed = device.failed
        if failed.before or failed.after:
            told = f"Requests that failed for lack of memory: {failed.before} before, {failed.after} after."
            print_paragraph(console, f"{told} A run that ends there holds less.", style="red" if failed.by > 0 else "")
        if device.sites:
            _print_changes(console, "Held at the peak, by call site", device.sites, last=True)
        sizes = [Change("up to " + size(int(c.what)), c.before, c.after) for c in device.sizes if c.by]
        if sizes:
            _print_changes(console, "Allocations, by requested size", sizes, bytes_too=False)
        else:
            console.print("As many allocations of every size as before.")


def _print_changes(
    console: Console, title: str, changes: Sequence[Change], *, bytes_too: bool = True, last: bool = False
) -> None:
    """Print a table of changes. Names of any length come last."""
    columns = [Column(title, left=True), Column("before"), Column("after"), Column("change"), Column("")]
    rows: list[list[Cell]] = []
    for change in changes:
        style = "red" if change.by > 0 else "green" if change.by < 0 else ""
        by = Text(f"{change.by:+d}", style=style)
        rows.append([change.what, str(change.before), str(change.after), by, size(change.by)])
    kept = 5 if bytes_too else 4
    columns, rows = columns[:kept], [row[:kept] for row in rows]
    if last:
        columns, rows = [*columns[1:], columns[0]], [[*row[1:], row[0]] for row in rows]
    print_table(console, columns, rows)
