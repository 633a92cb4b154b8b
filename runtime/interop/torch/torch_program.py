"""Runs a program with PyTorch on cuplug's memory: ``python -m cuplug.interop.torch train.py``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from ....allocators.errors import CuplugError
from ..program_runs import run_program, what_is_missing
from .installation import VARIABLE, install


def main(arguments: Sequence[str] | None = None) -> None:
    """Install, then run the program as ``python`` would. ``arguments`` are by default the process's own.

    Raises:
        SystemExit: the command line is wrong, or PyTorch cannot be put on cuplug's memory; or the program ends so.
    """
    parser = argparse.ArgumentParser(
        prog="python -m cuplug.interop.torch", description="Run a program with PyTorch on cuplug's memory."
    )
    parser.add_argument(
        "-a", "--allocator", default="expandable", help="expandable (the default) or caching, with options"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    asked = parser.parse_args(arguments)
    missing = what_is_missing(asked.program, module=asked.module)
    if missing:
        parser.exit(2, f"{parser.prog}: {missing}\n")
    os.environ.pop(VARIABLE, None)  # what was asked for here counts
    try:
        install(asked.allocator)
    except CuplugError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    os.environ[VARIABLE] = asked.allocator  # for the processes that the program starts
    run_program(asked.program, asked.arguments, module=asked.module)
