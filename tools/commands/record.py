"""``cuplug-trace record``."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Annotated

import typer

from ...allocators.errors import TraceError
from ...plugins.manager import default_manager
from ...plugins.tracing.families import FAMILY, new_family
from ...plugins.tracing.format import is_trace
from ...plugins.tracing.reader import family_members, read_trace
from ...plugins.tracing.stacks import parse_stacks
from ...plugins.tracing.trace_in_memory import Trace
from ...runtime.interop import LIBRARIES
from ..console import UsageError, say
from ..replaying.driver_choice import choose_driver
from .options import Allocator, Cupy, Driver, Numba, Pycuda, Rmm, Torch, chosen_libraries, one_of
from .recorded_run import check_target, run_recorded

_complete_stacks = one_of("none", "python", "python:", "modules")


def record(
    target: Annotated[str, typer.Argument(help="The script to run.", metavar="SCRIPT")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments.", metavar="ARGS")] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module's name, as in python -m.")] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", help="The trace file. {pid} becomes the process's number.", metavar="FILE")
    ] = "trace.cuplug",
    allocator: Allocator = None,
    driver: Driver = None,
    stacks: Annotated[
        str,
        typer.Option(
            help="What to record of each event: none, python or python:DEPTH (call stacks), modules (of networks).",
            metavar="WHAT",
            autocompletion=_complete_stacks,
        ),
    ] = "none",
    torch: Torch = False,
    cupy: Cupy = False,
    numba: Numba = False,
    rmm: Rmm = False,
    pycuda: Pycuda = False,
) -> None:
    """Run a script or a module, and record every event of its allocators.

    What the program itself says in cuplug.init() takes precedence over --allocator and --driver. Child processes that
    use cuplug write traces of their own beside it, with the numbers of their processes in the names. A program that
    does not know cuplug is recorded too: --torch and its kin put cuplug under the libraries that it uses.
    """
    libraries = chosen_libraries(torch=torch, cupy=cupy, numba=numba, rmm=rmm, pycuda=pycuda)
    if allocator is not None:
        default_manager().check_allocator(allocator)
    parse_stacks(stacks)
    check_target(target, module=module)
    _check_output(output)
    chosen, remark = choose_driver(driver, libraries)
    if remark:
        say(remark)
    family = new_family(os.path.abspath(output))  # for children may have other directories
    environment = {**family, "CUPLUG_DRIVER": chosen, "CUPLUG_TRACE_STACKS": stacks}
    if allocator is not None:
        environment["CUPLUG_ALLOCATOR"] = allocator
    status = run_recorded(target, arguments or [], module=module, environment=environment, libraries=libraries)
    written = list(_written(output, family[FAMILY]))
    for trace in written:
        note = f"; {trace.note}" if trace.note else ""
        say(f"{len(trace.events)} events recorded in {trace.path}{note}")
    if not written:
        options = [f"--{name}" for name in LIBRARIES if name in sys.modules and name not in libraries]
        hint = f" For the memory of a library that it imported, add {' or '.join(options)}." if options else ""
        say(f"The program did not use cuplug: no trace was written.{hint}")
        status = status or 1
    raise typer.Exit(status)


def _check_output(output: str) -> None:
    """Find out before the program runs, and not in the middle, that the trace cannot be written."""
    path = Path(output.replace("{pid}", str(os.getpid())))
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no directory {path.parent}")
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a directory")
    if path.exists() and not path.is_file():
        raise UsageError(f"cannot write {path}: it is not a regular file")
    if path.exists():
        with path.open("rb") as file:
            head = file.read(8)
        if head and not is_trace(head):
            raise UsageError(f"{path} exists and is not a trace: remove it, or choose another path with -o")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"cannot write {path}: permission denied")


def _written(output: str, family: str) -> Iterator[Trace]:
    """The traces that this process and its children have written."""
    paths = sorted(glob(output.replace("{pid}", "*"))) if "{pid}" in output else family_members(output)
    for path in paths:
        with contextlib.suppress(TraceError):
            trace = read_trace(path)
            if trace.header.fields.get("family") == family.partition(":")[0]:
                yield trace
