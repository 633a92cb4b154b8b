"""``cuplug-trace report``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from ..analysis.summarize import summarize
from ..console import UsageError, progress, say
from ..outputs import whole_output
from ..replaying.job import job_of_files
from ..reporters.replay_text import short_name
from .options import Histories, history_files, load_one


def report(
    files: Histories,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    device: Annotated[
        int | None, typer.Option(help="The device to show; by default the one that held most.", min=0)
    ] = None,
) -> None:
    """One page that shows a trace: memory over time, the address map, what holds the memory at the peak, and more.

    Several histories are those of a job's processes: they are compared, and the one that reserves the most is shown.
    """
    require_bokeh()
    from ..reporters.report_page import render_report

    histories = history_files(files)
    job = job_of_files(histories, jobs=1) if len(histories) > 1 else None
    file = job.worst.trace if job else histories[0]
    trace = load_one(file)
    if device is not None and device not in trace.devices:
        raise UsageError(f"{file} has no events of device {device}; it has of: {trace.devices or 'none'}")
    if not trace.devices:
        raise UsageError(f"{file} has no events of any device: there is nothing to show")
    with progress(f"writing {output}"):
        shown = max(summarize(trace, device=device).devices, key=lambda one: one.requested.nbytes)
        write_page(output, render_report(trace, shown, f"Memory of {short_name(file)}", job.findings if job else ()))
    if job:
        say(f"shown is {job.worst.name} ({file}), which reserves the most of {len(histories)} processes")
    if device is None and len(trace.devices) > 1:
        say(f"shown is device {shown.device}; the others, of {trace.devices}, with --device")
    say(f"{output} written: open it in a browser")


def require_bokeh() -> None:
    """Say what to install where Bokeh is missing."""
    try:
        import_module("bokeh")
    except ModuleNotFoundError:
        raise UsageError("the page needs Bokeh: pip install 'cuplug[tools]'") from None


def write_page(path: Path, text: str) -> None:
    """Write a file, or say in one line why not."""
    with whole_output(path) as file:
        file.write(text)
