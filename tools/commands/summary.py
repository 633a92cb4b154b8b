"""``cuplug-trace summary``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ..analysis.ranks import Rank, job_of, rank_of
from ..analysis.summarize import Summary, summarize
from ..console import UsageError, out, progress
from ..foreign.load import load
from ..reporters.ranks_text import job_as_dict, print_job
from ..reporters.summary_text import print_summary
from .options import Histories, OnlyDevice, Top, history_files, one_of

_complete_groups = one_of("library", "module")


def summary(
    files: Histories,
    device: OnlyDevice = None,
    top: Top = 10,
    by: Annotated[
        str | None,
        typer.Option(
            help="Only who asked for how much: library, or module.",
            metavar="WHAT",
            show_default=False,
            autocompletion=_complete_groups,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object instead of tables: of several histories, one of all.")
    ] = False,
) -> None:
    """Peaks, sizes, lifetimes, fragmentation, streams, call sites, and what was never freed.

    Several histories are those of a job's processes: they are compared, and the worst one's summary follows.
    """
    if by not in (None, "library", "module"):
        raise UsageError(f"cannot summarise by {by!r}; write --by library, or --by module")
    read = [_read(file, device, top, by) for file in history_files(files)]
    found = [summary for _, summary in read]
    job = job_of([rank for rank, _ in read]) if len(found) > 1 else None
    console = out()
    if as_json:
        told = [_told(one) for one in found]
        typer.echo(json.dumps({"job": job_as_dict(job), "histories": told} if job else told[0]))
    elif job is None or by is not None:
        for place, one in enumerate(found):
            if place:
                console.print()
            print_summary(one, console, by=by)
    else:
        print_job(job, console)
        console.print()
        print_summary(next(one for one in found if one.path == job.worst.trace), console)


def _told(found: Summary) -> dict[str, object]:
    told = asdict(found)
    for device in told["devices"]:
        for name in ("modules", "served"):
            if not device[name]:  # of most histories
                del device[name]
    return told


def _read(file: str, device: int | None, top: int, by: str | None) -> tuple[Rank, Summary]:
    with progress(f"reading {file}"):
        trace = load(file)
        if by == "module" and not trace.header.has_modules:
            raise UsageError(
                f"{file} knows no modules of networks; record it with cuplug-trace record --stacks modules"
            )
        if device is not None and device not in trace.devices:
            known = ", ".join(map(str, trace.devices)) or "none"
            raise UsageError(f"{file} has no events of device {device}; it has of: {known}")
        summary = summarize(trace, device=device, top=top)
        return rank_of(trace, summary), summary
