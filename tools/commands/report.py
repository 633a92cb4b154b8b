"""``cuplug-trace report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..console import UsageError, progress, say
from ..foreign.load import load
from ..outputs import whole_output
from ..replaying.rank_files import job_of_files
from ..reporters.replay_text import short_name
from ..reporters.report_html import of_the_job, shown_devices, write_report
from .options import Histories, history_files, load_one, tell_notes


def report(
    files: Histories,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.", metavar="FILE")] = Path(
        "report.html"
    ),
    device: Annotated[
        int | None,
        typer.Option(help="The device to show; by default all, that which held most first.", min=0, metavar="ORDINAL"),
    ] = None,
) -> None:
    """One page that shows a trace: memory over time, the allocator event by event, what holds the memory, and more.

    Several histories are those of a job's processes: they are compared, and any of them can be chosen in the page, that
    which ran out of memory first, or that which reserves the most.
    """
    histories = history_files(files)
    job = job_of_files(histories, jobs=1) if len(histories) > 1 else None
    labels = {rank.trace: rank.name for rank in job.ranks} if job else {}
    if job:
        histories.sort(key=lambda file: file != job.worst.trace)
    shown = []
    for file in histories:
        trace = load(file) if job else load_one(file)
        if device is not None and device not in trace.devices:
            raise UsageError(f"{file} has no events of device {device}; it has of: {trace.devices or 'none'}")
        if not trace.devices:
            raise UsageError(f"{file} has no events of any device: there is nothing to show")
        if job:
            tell_notes([(file, trace.note)])
        with progress(f"looking at {file}"):
            shown += shown_devices(trace, labels.get(file, short_name(file)), device)
    title = f"Memory of {len(histories)} processes" if job else f"Memory of {short_name(histories[0])}"
    with progress(f"writing {output}"), whole_output(output) as page:
        write_report(shown, title, page, before=of_the_job(job.findings) if job else "")
    if job:
        worst = f"{job.worst.name} ({job.worst.trace})"
        why = "ran out of memory" if job.worst.out_of_memory else f"reserves the most of {len(histories)} processes"
        say(f"shown first is {worst}, which {why}")
    say(f"{output} written: open it in a browser")
