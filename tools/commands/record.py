"""``cuplug-trace record``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ...allocators.errors import TraceError
from ...plugins.manager import default_manager
from ...plugins.tracing.format import is_trace
from ...plugins.tracing.reader import read_trace
from ...plugins.tracing.stacks import parse_stacks
from ..console import UsageError, say
from ..replaying.driver_choice import choose_driver
from .recorded_run import check_target, run_recorded


def record(
    target: Annotated[str, typer.Argument(help="The script to run.", metavar="SCRIPT")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments.", metavar="ARGS")] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module's name, as in python -m.")] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", help="The trace file. {pid} becomes the process's number.")
    ] = "trace.cuplug",
    allocator: Annotated[
        str | None, typer.Option("--allocator", "-a", help="For example caching, or bump:chunk_size=64MiB.")
    ] = None,
    driver: Annotated[str | None, typer.Option("--driver", "-d", help="For example cuda, or sim:memory=16GiB.")] = None,
    stacks: Annotated[str, typer.Option(help="Call stacks to record: none, python, or python:DEPTH.")] = "none",
) -> None:
    """Run a script or a module, and record every event of its allocators.

    What the program itself says in cuplug.init() takes precedence over --allocator and --driver.
    """
    if allocator is not None:
        default_manager().check_allocator(allocator)
    parse_stacks(stacks)
    check_target(target, module=module)
    _check_output(output)
    chosen, remark = choose_driver(driver)
    if remark:
        say(remark)
    environment = {"CUPLUG_TRACE": output, "CUPLUG_DRIVER": chosen, "CUPLUG_TRACE_STACKS": stacks}
    if allocator is not None:
        environment["CUPLUG_ALLOCATOR"] = allocator
    status = run_recorded(target, arguments or [], module=module, environment=environment)
    path = output.replace("{pid}", str(os.getpid()))
    written = _written(path)
    if written is None:
        say("The program did not use cuplug: no trace was written.")
        status = status or 1
    else:
        say(f"{written} events recorded in {path}")
    raise typer.Exit(status)


def _check_output(output: str) -> None:
    """Find out before the program runs, and not in the middle, that the trace cannot be written."""
    path = Path(output.replace("{pid}", str(os.getpid())))
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no directory {path.parent}")
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a directory")
    if path.exists():
        with path.open("rb") as file:
            head = file.read(8)
        if head and not is_trace(head):
            raise UsageError(f"{path} exists and is not a trace: remove it, or choose another path with -o")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"cannot write {path}: permission denied")


def _written(path: str) -> int | None:
    """How many events this process wrote, or None if it wrote no trace."""
    try:
        trace = read_trace(path)
    except TraceError:
        return None
    return len(trace.events) if trace.header.fields.get("pid") == os.getpid() else None
