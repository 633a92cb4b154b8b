"""Runs a user's program in this process, as ``python`` would."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

__all__ = ["run_program"]


def run_program(program: str, arguments: Sequence[str], *, module: bool) -> None:
    """Run a program as ``__main__``, with its own arguments and its folder first in the path of imports.

    Args:
        program: its file, or the name of a module.
        arguments: what ``sys.argv`` has behind the program.
        module: whether it is a module, as for ``python -m``.

    Raises:
        SystemExit: the program ends so; what else it raises is raised, too, and where nobody catches it, shown as
            ``python`` would: from the program's first line on.
    """
    sys.excepthook = partial(_show_from_the_program_on, sys.excepthook)
    sys.argv = [program, *arguments]
    if module:
        sys.path[0] = ""
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(program).resolve().parent)
        runpy.run_path(program, run_name="__main__")


def _show_from_the_program_on(
    show: Callable[[type[BaseException], BaseException, TracebackType | None], object],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    begins, frame = trace, trace
    while frame is not None:
        if frame.tb_frame.f_code.co_filename in ("<frozen runpy>", runpy.__file__):
            begins = frame.tb_next
        frame = frame.tb_next
    shown = begins or trace
    show(kind, error.with_traceback(shown), shown)
