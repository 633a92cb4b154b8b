"""Runs a user's program in this process, as ``python`` would."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["run_program"]


def run_program(program: str, arguments: Sequence[str], *, module: bool) -> None:
    """Run a program as ``__main__``, with its own arguments and its folder first in the path of imports.

    Args:
        program: its file, or the name of a module.
        arguments: what ``sys.argv`` has behind the program.
        module: whether it is a module, as for ``python -m``.

    Raises:
        SystemExit: the program ends so; what else it raises is raised, too.
    """
    sys.argv = [program, *arguments]
    if module:
        sys.path[0] = ""
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(program).resolve().parent)
        runpy.run_path(program, run_name="__main__")
