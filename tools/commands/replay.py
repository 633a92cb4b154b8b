"""``cuplug-trace replay``."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Annotated

import typer

from ...plugins.manager import default_manager
from ..console import out, say
from ..replaying.one_replay import Work, run, runs_in_the_core
from ..replaying.worker_pool import default_jobs, in_parallel
from ..reporters.replay_text import print_results
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
    known_drivers,
    memory_bytes,
    tell_notes,
)


def replay(
    files: Histories,
    allocator: AllocatorList = None,
    memory: Memory = None,
    driver: Annotated[
        str,
        typer.Option(
            "--driver",
            "-d",
            help="null for address arithmetic alone; sim or cuda make real calls.",
            metavar="DRIVER",
            autocompletion=known_drivers,
        ),
    ] = "null",
    as_json: AsJson = False,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    device: OnlyDevice = None,
) -> None:
    """Replay histories on allocators, and measure what each would have reserved and cost.

    The exit status is 1 if an event failed, such as an allocation that found no memory; the event is named.
    """
    allocators = checked_allocators(allocator, ["caching"])
    if driver != "null":
        default_manager().check_driver(driver)
    shared_device = driver.partition(":")[0] == "cuda"  # several replays at once would share its memory and its time
    processes = jobs or (1 if shared_device else default_jobs())
    capacity = memory_bytes(memory)
    work = [
        Work(file, selection, capacity, driver, device=device)
        for file in history_files(files)
        for selection in allocators
    ]
    quick = driver == "null" and all(map(runs_in_the_core, allocators))
    outcomes = in_parallel(run, work, jobs=processes, description="replaying", threads=quick, scheduler=scheduler)
    results = list(map(attrgetter("result"), outcomes))
    if as_json:
        typer.echo(json.dumps([result.as_dict() for result in results]))
    else:
        print_results(results, out(), estimated=driver == "null")
    tell_notes(map(attrgetter("trace", "note"), results))
    failed = list(filter(attrgetter("failure"), results))
    for result in failed:
        say(f"{result.trace} on {result.allocator}: {result.failure}")
    if failed:
        raise typer.Exit(1)
