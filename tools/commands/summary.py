"""``cuplug-trace summary``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ..analysis.summarize import summarize
from ..console import UsageError, out, progress
from ..foreign.load import load
from ..reporters.summary_text import print_summary


def summary(
    file: Annotated[str, typer.Argument(help="A cuplug trace, or a PyTorch memory snapshot.", metavar="FILE")],
    device: Annotated[int | None, typer.Option(help="Only this device.", min=0)] = None,
    top: Annotated[int, typer.Option(help="How many call sites to name.", min=1)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Peaks, sizes, lifetimes, fragmentation, streams, call sites, and what was never freed."""
    with progress(f"reading {file}"):
        trace = load(file)
        if device is not None and device not in trace.devices:
            known = ", ".join(map(str, trace.devices)) or "none"
            raise UsageError(f"{file} has no events of device {device}; it has of: {known}")
        found = summarize(trace, device=device, top=top)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        print_summary(found, out())
