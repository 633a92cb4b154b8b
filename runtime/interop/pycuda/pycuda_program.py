"""Runs a program of PyCUDA's on cuplug: ``python -m cuplug.interop.pycuda program.py``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ....allocators.errors import CuplugError
from ...machine.default_runtime import init
from ..program_runs import note_misplaced, run_program, what_is_missing
from . import install


def main(arguments: Sequence[str] | None = None) -> None:
    """Install, then run the program as ``python`` would. ``arguments`` are by default the process's own.

    Without ``-d`` and ``CUPLUG_DRIVER`` a GPU is used where PyCUDA finds one, else the simulator.

    Raises:
        SystemExit: the command line is wrong, or cuplug cannot serve PyCUDA; or the program ends so.
    """
    parser = argparse.ArgumentParser(
        prog="python -m cuplug.interop.pycuda",
        description="Run a program that uses PyCUDA: on a GPU with cuplug's memory, else on the simulator.",
    )
    parser.add_argument(
        "-d",
        "--driver",
        help="cuda, or the simulator: sim; sim:check=races also finds races and memory that nobody wrote, "
        "sim:timeout=10s ends kernels that hang, sim:memory=1GiB sets the memory; sim:help lists all options",
    )
    parser.add_argument("-a", "--allocator", help="for example expandable, or caching:preset=torch")
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program", nargs="?")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    asked = parser.parse_args(arguments)
    asks_for_help = (asked.driver or "").endswith(":help")  # which needs no program, and comes as an error of `init`
    if asked.program is None and not asks_for_help:
        parser.error("name the program to run")
    missing = "" if asks_for_help else what_is_missing(asked.program, module=asked.module)
    if missing:
        parser.exit(2, f"{parser.prog}: {missing}\n")
    note_misplaced(parser.prog, asked.arguments, ("-d", "--driver", "-a", "--allocator"))
    driver = asked.driver or os.environ.get("CUPLUG_DRIVER")
    try:
        runtime = init(driver=driver, allocator=asked.allocator)
        if driver in (None, "auto") and not runtime.device_count():
            print(f"{parser.prog}: there is no GPU here: using the simulator", file=sys.stderr)
            driver = "sim"
            init(driver=driver, allocator=asked.allocator)
        install()
    except CuplugError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    for name, value in {"CUPLUG_DRIVER": driver, "CUPLUG_ALLOCATOR": asked.allocator}.items():
        if value:
            os.environ[name] = value  # for the processes that the program starts
    run_program(asked.program, asked.arguments, module=asked.module)
