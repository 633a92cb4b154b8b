"""``cuplug-trace advise``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from ..console import out, say
from ..replaying.advice import advise as find_advice
from ..replaying.advice import for_job
from ..replaying.one_replay import history
from ..replaying.rank_files import job_of_files
from ..replaying.worker_pool import default_jobs
from ..reporters.advice_text import advice_as_dict, print_advice
from ..reporters.job_advice_text import print_job_advice
from ..reporters.ranks_text import job_as_dict, print_job
from ..reporters.tables import print_paragraph
from .options import (
    AllocatorList,
    AsJson,
    Histories,
    Jobs,
    Memory,
    OnlyDevice,
    Scheduler,
    checked_allocators,
    history_files,
    memory_bytes,
)


def advise(
    files: Histories,
    memory: Memory = None,
    allocator: AllocatorList = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    device: OnlyDevice = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say of each failure what was short.")] = False,
) -> None:
    """Which allocator and options a program should use: the installed ones are tried on its history and ranked.

    The exit status is 1 if none completes a history. --allocator adds selections to try. Several histories are those of
    a job's processes: one choice is made for all, by the process that fares worst, and what one process does
    and others do not is named.
    """
    extra = checked_allocators(allocator, [])
    limit, processes, traces = memory_bytes(memory), jobs or default_jobs(), history_files(files)
    alone = {trace: state for trace in traces if (state := history(trace).state)}
    if alone:
        _tell_states(alone, traces, as_json=as_json)
        traces = [trace for trace in traces if trace not in alone]
        if not traces:
            raise typer.Exit(1)
    found = find_advice(traces, memory=limit, jobs=processes, allocators=extra, scheduler=scheduler, device=device)
    if len(found) == 1:
        if as_json:
            typer.echo(json.dumps(advice_as_dict(found[0])))
        else:
            print_advice(found[0], out(), verbose=verbose)
        failed = found[0].best is None
    else:
        choice = for_job(found)
        job = job_of_files(traces, jobs=processes, scheduler=scheduler)
        if as_json:
            told = {
                "recommended": choice.recommended.allocator if choice.recommended is not None else None,
                "ranking": [asdict(one) for one in choice.ranking],
                "job": job_as_dict(job),
                "histories": [advice_as_dict(advice) for advice in found],
            }
            typer.echo(json.dumps(told))
        else:
            console = out()
            print_job(job, console)
            console.print()
            print_job_advice(choice, found, console)
        failed = choice.best is None
    if failed:
        raise typer.Exit(1)


def _tell_states(alone: dict[str, str], traces: Sequence[str], *, as_json: bool) -> None:
    """Say what is known of files without a history: nothing that advice could rest on."""
    if as_json and len(alone) == len(traces):
        told = [{"trace": trace, "note": state, "recommended": None} for trace, state in alone.items()]
        typer.echo(json.dumps(told[0] if len(told) == 1 else told))
        return
    for trace, state in alone.items():
        if as_json:
            say(f"{trace}: {state}")
        else:
            print_paragraph(out(), f"{trace}: {state} No allocator can be advised from it.")
