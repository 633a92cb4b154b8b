"""``cuplug-trace advise``."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from ..console import out
from ..replaying.advice import advise as find_advice
from ..replaying.advice import for_job
from ..replaying.rank_files import job_of_files
from ..reporters.advice_text import advice_as_dict, print_advice
from ..reporters.job_advice_text import print_job_advice
from ..reporters.ranks_text import job_as_dict, print_job
from .options import (
    AllocatorList,
    AsJson,
    Histories,
    Jobs,
    Memory,
    Scheduler,
    checked_allocators,
    checked_jobs,
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
) -> None:
    """Which allocator and options a program should use: the installed ones are tried on its history and ranked.

    The exit status is 1 if none completes a history. --allocator adds selections to try. Several histories are those of
    a job's processes: one choice is made for all, by the process that fares worst, and what one process does
    and others do not is named.
    """
    extra = checked_allocators(allocator, [])
    limit, processes, traces = memory_bytes(memory), checked_jobs(jobs), history_files(files)
    found = find_advice(traces, memory=limit, jobs=processes, allocators=extra, scheduler=scheduler)
    if len(found) == 1:
        if as_json:
            typer.echo(json.dumps(advice_as_dict(found[0])))
        else:
            print_advice(found[0], out())
        failed = found[0].best is None
    else:
        choice = for_job(found)
        job = job_of_files(traces, jobs=processes, scheduler=scheduler)
        if as_json:
            recommended = None if choice.best is None else choice.best.allocator
            told = {
                "recommended": recommended,
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
