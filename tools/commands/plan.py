"""``cuplug-trace plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...allocators.sizes import format_size
from ..console import UsageError, progress, say
from ..outputs import whole_output
from ..replaying.plans import plan_of
from ..replaying.program import decode
from .options import OnlyDevice, TraceFile, load_one


def plan(
    file: TraceFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the plan.", metavar="FILE")],
    device: OnlyDevice = None,
) -> None:
    """Work out where the blocks of a program that repeats itself go, for --allocator planned:plan=OUTPUT.

    The exit status is 1 if nothing repeats on any stream; no plan is written then.
    """
    trace = load_one(file)
    programs = {program.device: program for program in decode(trace) if len(program.steps)}
    chosen = [program for ordinal, program in programs.items() if device is None or ordinal == device]
    if not chosen:
        raise UsageError(f"{file} has no allocations" + (f" of device {device}" if device is not None else ""))
    with progress("planning"):
        made = plan_of(chosen)
    if not made.cycles:
        say(f"nothing repeats in {file}: expandable serves such a program best")
        raise typer.Exit(1)
    with whole_output(output) as text:
        text.write(made.to_text())
    for cycle in made.cycles:
        share = cycle.planned_bytes / max(sum(cycle.repeated), 1)
        where = f"device {cycle.device}, " if len(programs) > 1 else ""
        say(
            f"{where}stream {cycle.stream:#x}: {len(cycle.sizes) - cycle.begin} requests repeat, behind {cycle.begin} "
            f"at the beginning; {share:.2%} of their bytes lie in one range of {format_size(cycle.height)} "
            f"({cycle.height / max(cycle.bound, 1):.4f} of what lives at once, which is the least that is possible)"
        )
    say(f"{output} written, for --allocator planned:plan={output}")
