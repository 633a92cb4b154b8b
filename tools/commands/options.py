"""Arguments that several commands take, and how their text is read."""

from __future__ import annotations

from typing import Annotated

import typer

from ...allocators.sizes import parse_size
from ...plugins.manager import default_manager
from ..console import UsageError
from ..replaying.jobs import default_jobs

__all__ = [
    "AllocatorList",
    "AsJson",
    "Jobs",
    "Memory",
    "TraceFile",
    "TraceFiles",
    "checked_allocators",
    "checked_jobs",
    "memory_bytes",
]

TraceFile = Annotated[
    str, typer.Argument(help="A cuplug trace, a PyTorch memory snapshot, or a log of RMM's.", metavar="FILE")
]
TraceFiles = Annotated[
    list[str], typer.Argument(help="cuplug traces, PyTorch memory snapshots, or logs of RMM's.", metavar="FILE...")
]
AllocatorList = Annotated[
    list[str] | None,
    typer.Option("--allocator", "-a", help="For example caching, or caching:preset=torch; may be repeated."),
]
Memory = Annotated[str | None, typer.Option("--memory", "-m", help="Each device's memory, for example 24GiB.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Processes to use; by default all processors.", min=1)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def checked_allocators(asked: list[str] | None, default: list[str]) -> list[str]:
    """The selections asked for, each once, or else the default.

    Raises:
        PluginError: one is unknown, or an option of it is.
    """
    chosen = list(dict.fromkeys(asked or default))
    for selection in chosen:
        default_manager().check_allocator(selection)
    return chosen


def checked_jobs(jobs: int | None) -> int:
    """The number of processes to use."""
    return jobs or default_jobs()


def memory_bytes(text: str | None) -> int | None:
    """What ``--memory`` says, in bytes.

    Raises:
        UsageError: it is no size, or none at all.
    """
    if text is None:
        return None
    try:
        nbytes = parse_size(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if nbytes <= 0:
        raise UsageError(f"--memory is {text}; it must be more than nothing")
    return nbytes
