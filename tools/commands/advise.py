"""``cuplug-trace advise``."""

from __future__ import annotations

import json

import typer

from ..console import out
from ..replaying.advice import advise as find_advice
from ..reporters.advice_text import advice_as_dict, print_advice
from .options import (
    AllocatorList,
    AsJson,
    Histories,
    Jobs,
    Memory,
    checked_allocators,
    checked_jobs,
    history_files,
    memory_bytes,
)


def advise(
    files: Histories, memory: Memory = None, allocator: AllocatorList = None, as_json: AsJson = False, jobs: Jobs = None
) -> None:
    """Which allocator and options a program should use: the installed ones are tried on its history and ranked.

    The exit status is 1 if none completes a history. --allocator adds selections to try. With several histories, each
    is tried by itself; --json then prints a list.
    """
    extra = checked_allocators(allocator, [])
    limit, console = memory_bytes(memory), out()
    found = [
        find_advice(file, memory=limit, jobs=checked_jobs(jobs), allocators=extra) for file in history_files(files)
    ]
    if as_json:
        told = [advice_as_dict(advice) for advice in found]
        typer.echo(json.dumps(told if len(told) > 1 else told[0]))
    else:
        for place, advice in enumerate(found):
            if place:
                console.print()
            print_advice(advice, console)
    if any(advice.best is None for advice in found):
        raise typer.Exit(1)
