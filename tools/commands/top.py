"""``cuplug-trace top``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from ...plugins.tracing.contents import Trace
from ...plugins.tracing.reader import read_trace
from ..analysis.live_state import now
from ..console import UsageError, out
from ..reporters.live_text import live_view


def top(
    file: Annotated[str, typer.Argument(help="A cuplug trace that a program is writing.", metavar="FILE")],
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.05)] = 1.0,
    count: Annotated[int, typer.Option(help="How many call sites to name.", min=1)] = 10,
    once: Annotated[bool, typer.Option("--once", help="Look once, and print it.")] = False,
) -> None:
    """Watch a running program's memory through the trace that it writes, until it ends or you press Ctrl-C.

    The whole file is read at each look: where that takes long, looks become rarer.
    """
    if not Path(file).is_file():
        raise UsageError(f"{file} does not exist: start the program with cuplug-trace record -o {file}, then this")
    console = out()
    trace = read_trace(file)
    if once or not console.is_terminal:
        console.print(live_view(_title(file, trace), now(trace, top=count), console.width), soft_wrap=True)
        return
    try:
        shown = live_view(_title(file, trace), now(trace, top=count), console.width)
        with Live(shown, console=console, auto_refresh=False) as view:
            while not trace.complete:
                began = time.monotonic()
                trace = read_trace(file)
                view.update(live_view(_title(file, trace), now(trace, top=count), console.width), refresh=True)
                time.sleep(max(interval, 4 * (time.monotonic() - began)))
    except KeyboardInterrupt:
        pass


def _title(file: str, trace: Trace) -> str:
    state = "ended" if trace.complete else trace.note
    return f"{file}: {len(trace.events)} events, {state}"
