"""Runs a program in this process with its allocations recorded."""

from __future__ import annotations

import os
import runpy
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ... import interop, shutdown
from ...runtime.interop.program_runs import print_error, what_is_missing
from ...runtime.machine.default_runtime import default_runtime, is_initialized
from ..console import ClosedOutput, UsageError

__cuplug_stacks_end_here__ = True  # what is outside of this module's frames is no part of the recorded program


def run_recorded(
    target: str,
    arguments: Sequence[str],
    *,
    module: bool,
    environment: Mapping[str, str],
    libraries: Sequence[str] = (),
) -> int:
    """Run a script, or a module as ``python -m`` does, and close the runtime after it.

    Args:
        target: the script's path, or the module's name.
        arguments: what the program finds in ``sys.argv`` behind its name.
        module: whether ``target`` names a module.
        environment: variables to set meanwhile: they choose allocator, driver and trace.
        libraries: those to put cuplug under before the program begins (``cuplug.interop.install``).

    Returns:
        The program's exit status. An exception that it does not catch is printed as Python prints it, and gives 1.

    Raises:
        UsageError: there is no such script or module.
        CuplugError: cuplug cannot be put under one of the libraries.
    """
    check_target(target, module=module)
    with _as_main_program(target, arguments, module, environment):
        if libraries:
            interop.install(*libraries)
        # What the program holds at its end is live in the trace, as it is when Python itself runs it.
        held: dict[str, object] = {}
        try:
            if module:
                held = runpy.run_module(target, run_name="__main__", alter_sys=True)
            else:
                held = runpy.run_path(target, run_name="__main__")
        except SystemExit as ended:
            return _status(ended)
        except KeyboardInterrupt as interrupt:
            if interrupt.__cause__ is not None:  # a kernel that was ended
                print_error(interrupt)
            return 130
        except BaseException as error:
            print_error(error)
            return 1
        else:
            return 0
        finally:
            for thread in threading.enumerate():
                if not thread.daemon and thread is not threading.current_thread():
                    thread.join()
            if libraries:
                _end_recording(held)
            else:
                shutdown()
                held.clear()


def _end_recording(held: dict[str, object]) -> None:
    """End the trace, if there is one, and leave the memory to the libraries, which use it until the process ends."""
    recorder = default_runtime().recorder if is_initialized() else None
    if recorder is None:
        return
    recorder.closing()
    held.clear()
    recorder.close()


def check_target(target: str, *, module: bool) -> None:
    """Raise UsageError if there is no such script, or module."""
    missing = what_is_missing(target, module=module)
    if missing:
        raise UsageError(missing)


@contextmanager
def _as_main_program(
    target: str, arguments: Sequence[str], module: bool, environment: Mapping[str, str]
) -> Iterator[None]:
    argv, path, variables, output = sys.argv[:], sys.path[:], dict(os.environ), sys.stdout
    if isinstance(output, ClosedOutput):
        sys.stdout = None  # as Python itself leaves it
    sys.argv[:] = [target, *arguments]
    sys.path.insert(0, os.getcwd() if module else str(Path(target).resolve().parent))
    os.environ.update(environment)
    try:
        yield
    finally:
        sys.argv[:], sys.path[:], sys.stdout = argv, path, output
        os.environ.clear()
        os.environ.update(variables)


def _status(ended: SystemExit) -> int:
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    print(ended.code, file=sys.stderr)
    return 1
