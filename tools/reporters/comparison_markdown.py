"""Prints a comparison as a table in Markdown: a line for each history, a column for each allocator."""

from __future__ import annotations

from collections.abc import Sequence

from ..replaying.comparison import Row, means
from .comparison_text import allocator_name
from .replay_text import short_name
from .units import share


def comparison_as_markdown(rows: Sequence[Row], version: str) -> str:
    """The table, and below it what its figures are.

    Args:
        rows: what was recorded, and what replays have found.
        version: cuplug's, for who reads the table later.
    """
    allocators = list(dict.fromkeys(row.allocator for row in rows))
    titles, rule = ["history"], ["---"]
    for allocator in allocators:
        titles += [allocator_name(allocator, rows), *(["share"] if allocator else [])]
        rule += ["---:", *(["---:"] if allocator else [])]
    lines = [titles, rule]
    for trace in dict.fromkeys(row.trace for row in rows):
        found = {row.allocator: row for row in rows if row.trace == trace}
        lines.append([short_name(trace)])
        for allocator in allocators:
            lines[-1] += _cells(found.get(allocator), with_share=bool(allocator))
    if average := {mean.allocator: f"**{mean.reserved_over_requested:.3f}**" for mean in means(rows)}:
        lines.append(["geometric mean"])
        for allocator in allocators:
            lines[-1] += [average.get(allocator, ""), *([""] if allocator else [])]
    told = "Peak reserved ÷ peak requested"
    if len(allocators) > 1:
        told += (
            "; share: the time estimated for the driver's memory calls, from what each costs on an H200, as a part of "
            "the recorded time"
        )
    table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    return f"{table}\n\n{told}. cuplug {version}."


def _cells(row: Row | None, *, with_share: bool) -> list[str]:
    if row is None:
        return ["", ""] if with_share else [""]
    if row.failure:
        return ["fails", ""]
    ratio = f"{row.reserved_over_requested:.3f}" if row.knows_reserved else "unknown"
    part = row.driver_time_share
    return [ratio, *(["" if part is None or part > 1 else share(part)] if with_share else [])]
