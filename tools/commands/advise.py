"""``cuplug-trace advise``."""

from __future__ import annotations

import json

import typer

from ..console import out
from ..replaying.advice import advise as find_advice
from ..reporters.advice_text import advice_as_dict, print_advice
from .options import AllocatorList, AsJson, Jobs, Memory, TraceFile, checked_allocators, checked_jobs, memory_bytes


def advise(
    file: TraceFile, memory: Memory = None, allocator: AllocatorList = None, as_json: AsJson = False, jobs: Jobs = None
) -> None:
    """Which allocator and options a program should use: the installed ones are tried on its history and ranked.

    The exit status is 1 if none completes the history. --allocator adds selections to try.
    """
    extra = checked_allocators(allocator, [])
    found = find_advice(file, memory=memory_bytes(memory), jobs=checked_jobs(jobs), allocators=extra)
    if as_json:
        typer.echo(json.dumps(advice_as_dict(found)))
    else:
        print_advice(found, out())
    if found.best is None:
        raise typer.Exit(1)
