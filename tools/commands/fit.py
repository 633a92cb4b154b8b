"""``cuplug-trace fit``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ...allocators.sizes import short_size
from ...plugins.manager import default_manager
from ..analysis.candidates import defaults
from ..analysis.pytorch_settings import in_pytorchs_words, in_selections_words
from ..console import out
from ..replaying.advice import LARGEST_DEVICE
from ..replaying.beside_device import all_on_host, fit_on_host
from ..replaying.least_memory import FitWork, fit_each
from ..replaying.one_replay import history, runs_in_the_core
from ..replaying.worker_pool import default_jobs, in_parallel
from ..reporters.advice_text import BEYOND_THIS, print_fits
from ..reporters.job_advice_text import print_job_fits
from ..reporters.tables import print_notes, print_paragraph
from .options import (
    AllocatorList,
    AsJson,
    Histories,
    Jobs,
    OnlyDevice,
    Scheduler,
    checked_allocators,
    history_files,
    memory_bytes,
)


def fit(
    files: Histories,
    allocator: AllocatorList = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    device: OnlyDevice = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            "-m",
            help="Say, too, how much of the host's memory devices of this size need beside it (expandable:host=).",
            metavar="SIZE",
        ),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Search to 2 MiB, however long it takes.")] = False,
) -> None:
    """The smallest device memory on which each allocator completes the history.

    Of each GPU by itself, to 2 MiB, or 1/4096 of what is reserved where that is more (1/64 for allocators that waste
    most of it); the table says which, as ±. The exit status is 1 if one completes it on no memory at all.
    """
    chosen = checked_allocators(allocator, defaults(default_manager().describe_allocators()))
    limit, histories = memory_bytes(memory), history_files(files)
    work = [
        FitWork(file, selection, exact, device, plans_in_vain=bool(allocator))
        for file in histories
        for selection in chosen
    ]
    quick = all(map(runs_in_the_core, chosen))
    tried = in_parallel(
        fit_each, work, jobs=jobs or default_jobs(), description="fitting", threads=quick, scheduler=scheduler
    )
    found = [one for each in tried for one in each]
    beside = [] if limit is None else [fit_on_host(one, limit, at) for one, at in _devices(histories, device)]
    found.sort(key=lambda one: (one.device, bool(one.failure), one.least, one.allocator))
    if as_json:
        on_host = {(one.trace, one.device): asdict(one) for one in beside}
        told = [
            asdict(one) | ({} if limit is None else {"on_host": on_host.get((one.trace, one.device))}) for one in found
        ]
        typer.echo(json.dumps(told))
    else:
        console = out()
        left_out = [one for one in found if one.least > LARGEST_DEVICE and not allocator]
        called = in_pytorchs_words if all(history(file).of_pytorch for file in histories) else str
        for file in histories:
            print_fits(file, [one for one in found if one.trace == file and one not in left_out], console, called)
            own = [with_host for with_host in beside if with_host.trace == file]
            for with_host in own:
                name = f"Device {with_host.device}: " if len(own) > 1 else ""
                print_paragraph(console, f"{name}{with_host.sentence()}", style="bold")
        if sum(bool(one.host) for one in beside) > 1:
            print_paragraph(console, all_on_host(beside).sentence(), style="bold")
        for one in left_out:
            needed = f"it would need {short_size(one.least)}, more than any device has."
            print_paragraph(console, f"{called(one.allocator)} is left out: {needed}")
        if len(histories) > 1:
            print_job_fits([one for one in found if one not in left_out], console, called)
        print_paragraph(console, BEYOND_THIS)
        if called is not str:
            print_notes(console, [in_selections_words(one.allocator for one in found)])
    if any(one.failure for one in found) or any(one.failure for one in beside):
        raise typer.Exit(1)


def _devices(files: list[str], device: int | None) -> list[tuple[str, int]]:
    """Each file with the ordinals of the devices whose histories it has, or of the one that is wanted."""
    return [
        (file, program.device)
        for file in files
        if not history(file).state
        for program in history(file).programs
        if len(program.steps) and device in (None, program.device)
    ]
