"""Runs a program of PyCUDA's on cuplug: ``python -m cuplug.interop.pycuda program.py``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ....allocators.errors import CuplugError
from ...machine.default_runtime import init
from ..program_runs import run_program, what_is_missing
from . import install

__all__ = ["main"]


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
    parser.add_argument("-d", "--driver", help="for example cuda, or sim:memory=1GiB")
    parser.add_argument("-a", "--allocator", help="for example expandable, or caching:preset=torch")
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    asked = parser.parse_args(arguments)
    missing = what_is_missing(asked.program, module=asked.module)
    if missing:
        parser.exit(2, f"{parser.prog}: {missing}\n")
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
