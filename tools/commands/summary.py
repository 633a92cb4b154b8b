"""``cuplug-trace summary``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ..analysis.summarize import Summary, summarize
from ..console import UsageError, out, progress
from ..foreign.load import load
from ..reporters.summary_text import print_summary
from .options import Histories, history_files


def summary(
    files: Histories,
    device: Annotated[int | None, typer.Option(help="Only this device.", min=0)] = None,
    top: Annotated[int, typer.Option(help="How many call sites to name.", min=1)] = 10,
    by: Annotated[
        str | None, typer.Option(help="Only who asked for how much: library.", metavar="WHAT", show_default=False)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object, or a list of several histories' instead of tables.")
    ] = False,
) -> None:
    """Peaks, sizes, lifetimes, fragmentation, streams, call sites, and what was never freed."""
    if by not in (None, "library"):
        raise UsageError(f"cannot summarise by {by!r}; write --by library")
    found = [_summary(file, device, top) for file in history_files(files)]
    if as_json:
        told = [asdict(one) for one in found]
        typer.echo(json.dumps(told if len(told) > 1 else told[0]))
        return
    console = out()
    for place, one in enumerate(found):
        if place:
            console.print()
        print_summary(one, console, only_libraries=by is not None)


def _summary(file: str, device: int | None, top: int) -> Summary:
    with progress(f"reading {file}"):
        trace = load(file)
        if device is not None and device not in trace.devices:
            known = ", ".join(map(str, trace.devices)) or "none"
            raise UsageError(f"{file} has no events of device {device}; it has of: {known}")
        return summarize(trace, device=device, top=top)
