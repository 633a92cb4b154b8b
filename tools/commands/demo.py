"""``cuplug-trace demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..console import UsageError, out, progress, say
from ..replaying.demonstration import LeftOut, Outcome, bundled_allocators, history, obstacle_to_resets, run_one
from ..replaying.driver_choice import choose_driver
from ..replaying.program import decode
from ..reporters.demo_text import print_comparison
from ..reporters.tables import print_paragraph
from .options import Driver


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the traces go.", metavar="FOLDER")] = Path(
        "cuplug-demo"
    ),
    driver: Driver = None,
) -> None:
    """Carry out a real training run's allocations under each bundled allocator, record them, and compare."""
    chosen, remark = choose_driver(driver)
    if remark:
        say(remark)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {output}: {error.strerror}") from None
    with progress("reading the history"):
        trace = history()
    console = out()
    print_paragraph(
        console,
        f"The {len(trace.events):,} events of a ResNet-50 training run (PyTorch, H200; 24 iterations of batch 32, "
        f"resolution 160 to 320), on the driver {chosen}:",
    )
    console.print()
    steps = sum(len(program.steps) for program in decode(trace))
    outcomes: list[Outcome] = []
    left_out: list[LeftOut] = []
    for allocator in bundled_allocators():
        obstacle = obstacle_to_resets(trace) if allocator == "bump" else ""
        if obstacle:
            left_out.append(LeftOut(allocator, obstacle))
            continue
        with progress(allocator, steps) as done:
            outcomes.append(run_one(trace, allocator, chosen, output, done))
    print_comparison(outcomes, left_out, console)
