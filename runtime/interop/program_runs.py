"""Runs a user's program in this process, as ``python`` would."""

from __future__ import annotations

import linecache
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

_PACKAGE = __name__.partition(".")[0]


def what_is_missing(program: str, *, module: bool) -> str:
    """Why a program cannot be run, as a sentence; empty where it is there.

    Args:
        program: its file, or the name of a module.
        module: whether it is a module, as for ``python -m``.
    """
    if not module:
        if Path(program).is_file():
            return "" if _may_be_a_program(program) else f"{program} is no Python program: it holds binary data"
        there = Path(program, "__main__.py").is_file()
        return "" if there else f"there is no script {program}; to run a module, write -m before its name"
    before = sys.path[:]
    sys.path.insert(0, "")
    try:
        found = find_spec(program)
    except (ImportError, ValueError):
        found = None
    finally:
        sys.path[:] = before
    return "" if found else f"there is no module {program}; to run a script, leave -m out"


def _may_be_a_program(path: str) -> bool:
    """Whether a file may be a source, or a compiled one, or an archive of such: only the latter two have null bytes."""
    with open(path, "rb") as file:
        head = file.read(4096)
    return b"\0" not in head or head.startswith((MAGIC_NUMBER, b"PK", b"#!"))


def note_misplaced(runner: str, arguments: Sequence[str], options: Sequence[str]) -> None:
    """Say so where options of what runs a program stand behind the program, which gets them instead.

    Args:
        runner: what runs it, as people type it.
        arguments: the program's own.
        options: the runner's.
    """
    for each in arguments:
        if any(each == option or (len(option) > 2 and each.startswith(f"{option}=")) for option in options):
            print(f"{runner}: {each} stands behind the program, which gets it; write it before", file=sys.stderr)


def run_program(program: str, arguments: Sequence[str], *, module: bool) -> None:
    """Run a program as ``__main__``, with its own arguments and its folder first in the path of imports.

    Args:
        program: its file, or the name of a module.
        arguments: what ``sys.argv`` has behind the program.
        module: whether it is a module, as for ``python -m``.

    Raises:
        SystemExit: the program ends so, or by an error, which is printed (``print_error``).
        KeyboardInterrupt: the program was interrupted. Python then prints it as ``print_error`` does.
    """
    sys.argv = [program, *arguments]
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _print_error_of_thread
    try:
        if module:
            sys.path[0] = ""
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(program).resolve().parent)
            runpy.run_path(os.path.abspath(program), run_name="__main__")
    except KeyboardInterrupt as interrupt:
        inner = interrupt.__traceback__
        if sys.excepthook is sys.__excepthook__:
            sys.excepthook = lambda _, error, __: print_error(error.with_traceback(inner))
        raise
    except Exception as error:
        if sys.excepthook is not sys.__excepthook__:  # the program shows its errors by itself
            raise
        print_error(error)
        sys.exit(1)


def _print_error_of_thread(args: Any) -> None:
    """The same for an error that ends a thread, as Python prints it."""
    if isinstance(args.exc_value, SystemExit) or args.exc_value is None:
        return
    print(f"Exception in thread {args.thread.name if args.thread else ''}:", file=sys.stderr)
    print_error(args.exc_value)


def print_error(error: BaseException) -> None:
    """Print an error as Python does, with the frames that say something to the program's author.

    What runs the program is left out, and of errors that cuplug raises on purpose, and of interrupts, cuplug's frames
    are. All stay where the error is of another kind, or where no frame is the program's: then it may be cuplug's fault.
    """
    told = traceback.TracebackException(type(error), error, error.__traceback__)
    _shorten(told, error)
    print("".join(told.format()), file=sys.stderr, end="")
    if isinstance(error, ModuleNotFoundError) and error.name == "pycuda":
        print(
            f"PyCUDA is not installed. Without a GPU, run the program with {_PACKAGE}'s simulator in its place: "
            f"python -m {_PACKAGE}.interop.pycuda PROGRAM, or {_PACKAGE}-trace run --pycuda PROGRAM",
            file=sys.stderr,
        )


def is_on_purpose(error: BaseException) -> bool:
    """Whether cuplug raises it to tell the program something: it is of cuplug's kinds, or a ``raise`` of cuplug's
    has raised it."""
    if any(kind.__module__.partition(".")[0] == _PACKAGE for kind in type(error).__mro__):
        return True
    frames = list(_frames(error.__traceback__))
    if not frames or not _in_package(frames[-1][0]):
        return False
    frame, line = frames[-1]
    return linecache.getline(frame.f_code.co_filename, line).lstrip().startswith("raise ")


def _shorten(told: traceback.TracebackException, error: BaseException) -> None:
    frames = list(_frames(error.__traceback__))
    first = next((at for at, (frame, _) in enumerate(frames) if not _runs_programs(frame)), len(frames))
    kept = frames[first:]
    is_refusal = is_on_purpose(error)
    if is_refusal or isinstance(error, KeyboardInterrupt):
        kept = [(frame, line) for frame, line in kept if not _in_package(frame)]
    if kept:
        told.stack = traceback.StackSummary.extract(iter(kept))
    for name in ("__cause__", "__context__"):
        before, said = getattr(error, name), getattr(told, name)
        if before is None or said is None:
            continue
        if (
            is_refusal
            and is_on_purpose(before)
            and all(_in_package(frame) for frame, _ in _frames(before.__traceback__))
        ):
            setattr(told, name, None)  # what it says, the error says in the words of the library
        else:
            _shorten(said, before)


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    return traceback.walk_tb(trace)


def _name(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _in_package(frame: FrameType) -> bool:
    return _name(frame).partition(".")[0] == _PACKAGE


def _runs_programs(frame: FrameType) -> bool:
    """Whether it is of what starts programs: this package, or the standard library's runner."""
    return _in_package(frame) or _name(frame) == "runpy"
