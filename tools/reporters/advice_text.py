"""Prints what ``advise`` and ``fit`` found."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..replaying.advice import Advice
from ..replaying.least_memory import Fit
from ..replaying.replayer import ReplayResult
from .replay_text import calls_text
from .units import duration, share, size

__all__ = ["BEYOND_THIS", "advice_as_dict", "print_advice", "print_fits"]

_TIGHT = 0.05

BEYOND_THIS = "Beyond this, a device holds the CUDA context and the libraries: some 0.3 to 1 GiB, not counted."
"""What the figures of ``print_fits`` leave out."""


def advice_as_dict(advice: Advice) -> dict[str, object]:
    """The advice for JSON."""
    best = advice.best
    return {
        "trace": advice.trace,
        "note": advice.note,
        "memory_bytes": advice.memory,
        "duration_seconds": advice.duration,
        "peak_requested_bytes": advice.reference.peak_requested_bytes,
        "recommended": None if best is None else best.allocator,
        "program": None if best is None else _program(best),
        "environment": None if best is None else _environment(best),
        "tried": [{**result.as_dict(), "risk": _risk(result, advice)} for result in advice.ranking],
        "reference": advice.reference.as_dict(),
    }


def print_advice(advice: Advice, console: Console) -> None:
    """Print the ranking and what to do."""
    reference = advice.reference
    limit = f", on {size(advice.memory)} of memory" if advice.memory is not None else ""
    console.print(Text(f"{advice.trace}: {reference.events} events in {advice.duration:.3f} s{limit}"))
    if advice.note:
        console.print(Text(f"note: {advice.note}", style="yellow"))
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("", justify="right")
    table.add_column("Allocator", overflow="fold")
    for name in ("peak reserved", "", "÷ requested", "driver time", "of the run"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("driver calls", overflow="fold")
    if advice.memory is not None:
        table.add_column("risk of OOM", overflow="fold")
    for place, result in enumerate(advice.ranking, 1):
        style = "" if not result.failure else "red"
        failed = bool(result.failure)
        row = [
            "-" if failed else str(place),
            result.allocator,
            "-" if failed else str(result.peak_reserved_bytes),
            "-" if failed else size(result.peak_reserved_bytes),
            "-" if failed else f"{result.reserved_over_requested:.3f}",
            "-" if failed else duration(result.driver_time_us),
            "-" if failed else _of_run(result, advice),
            "-" if failed else calls_text(result.driver_calls),
        ]
        if advice.memory is not None:
            row.append(_risk(result, advice))
        table.add_row(*(Text(cell, style=style) for cell in row))
    console.print(table)
    console.print()
    for result in advice.ranking:
        if result.failure:
            console.print(Text(f"{result.allocator}: {result.failure}", style="red"))
    best = advice.best
    if not reference.failure:
        console.print(
            Text(
                f"No allocator can reserve less than {reference.peak_requested_bytes} bytes "
                f"({size(reference.peak_requested_bytes)}), which the program holds at its peak. One call of the "
                f"driver for every block (direct) would come to {size(reference.peak_reserved_bytes)}, and take "
                f"{duration(reference.driver_time_us)} in the driver ({_of_run(reference, advice)} of the run).",
            )
        )
    if best is None:
        console.print(
            Text(
                "None completes this history: the device needs more memory (cuplug-trace fit says how much), or the "
                "program must hold less (cuplug-trace report shows what it holds).",
                style="bold",
            )
        )
        return
    console.print(Text(f"Use {best.allocator}. In the program:      {_program(best)}", style="bold"))
    console.print(Text(f"or in its environment:  {_environment(best)}", style="bold"))
    if advice.cheaper is not None:
        cheaper = advice.cheaper
        console.print(
            Text(
                f"{cheaper.allocator} reserves {size(cheaper.peak_reserved_bytes)}, at most 2 % more, and spends "
                f"{duration(cheaper.driver_time_us)} in the driver rather than {duration(best.driver_time_us)}."
            )
        )


def print_fits(trace: str, fits: Sequence[Fit], console: Console) -> None:
    """Print the least memory for each allocator."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("Allocator", overflow="fold")
    for name in ("least memory", "", "÷ requested", "reserved without a limit", "replays"):
        table.add_column(name, justify="right")
    for fit in fits:
        found = not fit.failure
        table.add_row(
            Text(fit.allocator, style="" if found else "red"),
            str(fit.least) if found else "none",
            size(fit.least) if found else "",
            f"{fit.least / fit.peak_requested:.3f}" if found and fit.peak_requested else "",
            str(fit.peak_reserved),
            str(fit.replays),
        )
    requested = fits[0].peak_requested
    console.print(Text(f"{trace}: {requested} bytes requested at the peak"))
    if fits[0].note:
        console.print(Text(f"note: {fits[0].note}", style="yellow"))
    console.print(table)
    for fit in fits:
        if fit.failure:
            console.print(Text(f"{fit.allocator}: {fit.failure}", style="red"))
    console.print()


def _of_run(result: ReplayResult, advice: Advice) -> str:
    return share(result.driver_time_us / 1e6 / advice.duration) if advice.duration else "-"


def _risk(result: ReplayResult, advice: Advice) -> str:
    if result.failure:
        return "runs out of memory" if result.out_of_memory_events else "fails"
    if advice.memory is None:
        return "no limit given"
    spare = 1 - result.peak_reserved_bytes / advice.memory
    return f"{'high' if spare < _TIGHT else 'low'}: {share(spare)} spare"


def _program(result: ReplayResult) -> str:
    return f'cuplug.init(allocator="{result.allocator}")'


def _environment(result: ReplayResult) -> str:
    return f"CUPLUG_ALLOCATOR={result.allocator}"
