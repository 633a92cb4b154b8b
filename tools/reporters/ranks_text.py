"""Prints the ranks of a job side by side."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ..analysis.ranks import Job, Rank, Spread
from .tables import Cell, Column, print_paragraph, print_table
from .units import share, size

_SHOWN = 16


def print_job(job: Job, console: Console) -> None:
    """Print a line for each rank, the spread of each figure, and what was found."""
    known = all(rank.knows_reserved for rank in job.ranks)
    worst = sorted(job.ranks, key=lambda rank: -(rank.reserved if known else rank.requested))[:_SHOWN]
    shown = [rank for rank in job.ranks if rank in worst]
    most = "reserve" if known else "request"
    left_out = f", of which the {_SHOWN} that {most} the most are shown" if len(shown) < len(job.ranks) else ""
    alike = len({re.sub(r"[.]?\d+", "", Path(rank.trace).name) for rank in job.ranks}) == 1
    count = f"{len(job.ranks)} processes" if alike else f"{len(job.ranks)} processes, if these files belong together"
    console.print(Text(f"A job of {count}{left_out}", style="bold"), soft_wrap=True)
    print_table(console, _RANK_COLUMNS, map(_row, shown))
    console.print()
    print_table(console, _SPREAD_COLUMNS, map(_spread, job.spreads))
    if job.gpus:
        console.print()
        rows = [(str(gpu.device), str(gpu.processes), size(gpu.reserved), str(gpu.reserved)) for gpu in job.gpus]
        print_table(console, _GPU_COLUMNS, rows)
    for finding in job.findings:
        if finding.kind == "note":
            continue  # the tables say it
        console.print()
        print_paragraph(console, f"{finding.what} {finding.do}".rstrip(), style="red" if finding.kind == "bad" else "")


def job_as_dict(job: Job) -> dict[str, object]:
    """The same for JSON."""
    return {**asdict(job), "worst": job.worst.name}


_RANK_COLUMNS = (
    Column("Process", left=True),
    Column("peak requested"),
    Column("peak reserved"),
    Column("÷ requested", rank=1),
    Column("unused", rank=2),
    Column("live at the end", rank=3),
    Column("growth", rank=4),
    Column("OOM", rank=5),
)


def _row(rank: Rank) -> list[Cell]:
    return [
        rank.name,
        size(rank.requested),
        *(
            (size(rank.reserved), f"{rank.reserved_over_requested:.3f}", share(rank.unused))
            if rank.knows_reserved
            else ("unknown", "", "")
        ),
        size(rank.live),
        size(rank.growth),
        Text(str(rank.out_of_memory), style="red" if rank.out_of_memory else ""),
    ]


_GPU_COLUMNS = (Column("GPU"), Column("processes"), Column("reserved, sum of their peaks"), Column("bytes", rank=1))

_SPREAD_COLUMNS = (
    Column("Over all", left=True), Column("least"), Column("median", rank=1), Column("most"),
    Column("worst", left=True),
)  # fmt: skip


def _spread(spread: Spread) -> list[Cell]:
    def told(figure: float) -> str:
        return f"{figure:.3f}" if spread.what.startswith("reserved for") else size(int(figure))

    return [spread.what, told(spread.least), told(spread.median), told(spread.most), spread.worst]
