"""Prints what ``advise`` and ``fit`` found for a job of several processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from ..analysis.pytorch_settings import in_pytorchs_words
from ..replaying.advice import Advice, JobAdvice, JobResult
from ..replaying.least_memory import Fit
from .advice_text import FOR_PYTORCH, WIDE, give_memory, no_choice, rmm_pool_note, stay_with
from .replay_text import DRIVER_TIME, short_name
from .tables import Cell, Column, in_two_lines, print_notes, print_paragraph, print_table
from .units import duration, size


def print_job_advice(choice: JobAdvice, advices: Sequence[Advice], console: Console) -> None:
    """Print which allocator suits all processes of a job."""
    for note in dict.fromkeys(advice.note for advice in advices if advice.note):
        concerned = sum(advice.note == note for advice in advices)
        print_paragraph(console, f"note, of {concerned} of {len(advices)} histories: {note}", style="yellow")
    if choice.helpless and choice.best is not None:
        for advice in advices:
            if advice.remedy:
                print_paragraph(console, f"{short_name(advice.trace)}: {advice.ran_out}", style="red")
                print_paragraph(console, no_choice(advice), style="bold")
        return
    called = in_pytorchs_words if choice.of_pytorch else str
    rows: list[Sequence[Cell]] = [
        _job_row(place, one, called(one.allocator)) for place, one in enumerate(choice.ranking, 1)
    ]
    if console.width < WIDE:
        rows = [line for row in rows for line in in_two_lines(row, 1)]
    notes = print_table(console, _JOB_COLUMNS, rows)
    print_notes(console, [*notes, *rmm_pool_note(one.allocator for one in choice.ranking)])
    for advice in advices:
        for told in filter(None, (advice.ran_out, advice.cause if advice.fails else "")):
            print_paragraph(console, f"{short_name(advice.trace)}: {told}", style="red")
    if advices[0].memory is None:
        print_paragraph(console, give_memory(max(advices, key=lambda advice: advice.had is not None)))
    if choice.best is None:
        print_paragraph(
            console,
            "With none of them every process completes: the devices need more memory (cuplug-trace fit says how much), "
            "or the program must hold less.",
            style="bold",
        )
        return
    chosen = choice.recommended
    if chosen is None:
        print_paragraph(console, stay_with(choice), style="bold")
        return
    if choice.of_pytorch:
        lines = [
            f"Use {chosen.allocator} in every process, in the environment:  CUPLUG_TORCH={chosen.allocator}",
            FOR_PYTORCH,
        ]
    else:
        lines = [
            f'Use {chosen.allocator} in every process:  cuplug.init(allocator="{chosen.allocator}")',
            f"or in the environment:  CUPLUG_ALLOCATOR={chosen.allocator}",
        ]
    for line in lines:
        console.print(Text(line, style="bold"), soft_wrap=True)


_JOB_COLUMNS = (
    Column(""), Column("Allocator", left=True), Column("worst process", left=True, rank=4),
    Column("it reserves at most"), Column("the least", rank=3), replace(DRIVER_TIME, rank=2),
    Column("do not complete", rank=5),
)  # fmt: skip


def _job_row(place: int, one: JobResult, name: str) -> list[Cell]:
    cells = [
        "-" if one.failures else str(place),
        name,
        short_name(one.worst),
        "runs out of memory" if one.failures else size(one.peak_reserved),
        "-" if one.failures else size(one.least_reserved),
        "-" if one.failures else duration(one.driver_time_us),
        str(one.failures or ""),
    ]
    return [Text(cell, style="red" if one.failures else "") for cell in cells]


def print_job_fits(fits: Sequence[Fit], console: Console, called: Callable[[str], str] = str) -> None:
    """Print, for each allocator, the least memory on which every process of a job completes. ``called``: its name."""
    by_allocator: dict[str, list[Fit]] = {}
    for fit in fits:
        by_allocator.setdefault(fit.allocator, []).append(fit)
    rows: list[list[Cell]] = []
    for allocator, each in by_allocator.items():
        worst = max(each, key=lambda fit: (bool(fit.failure), fit.least))
        least = min(each, key=lambda fit: fit.least)
        told = "none" if worst.failure else size(worst.least)
        rows.append([called(allocator), told, short_name(worst.trace), size(least.least), short_name(least.trace)])
    print_paragraph(console, f"All {len({fit.trace for fit in fits})} processes, each on a device of its own:")
    print_table(console, _JOB_FIT_COLUMNS, rows)
    console.print()


_JOB_FIT_COLUMNS = (
    Column("Allocator", left=True), Column("least memory"), Column("worst process", left=True, rank=1),
    Column("best", rank=2), Column("process", left=True, rank=3),
)  # fmt: skip
