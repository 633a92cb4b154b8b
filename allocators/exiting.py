"""The end of the interpreter: what becomes of threads that still run and ask for memory then."""

from __future__ import annotations

import threading

__all__ = ["note_exit", "wait_if_exiting"]

_exiting = threading.Event()


def note_exit() -> None:
    """The interpreter exits: everything is closed from here on."""
    _exiting.set()


def wait_if_exiting() -> None:
    """Called before something that is closed raises. A daemon thread that asks for it while the interpreter exits waits
    for the end of the process, as it would at any other moment of the exit: its error would be a traceback where
    a program ends as it should."""
    if _exiting.is_set() and threading.current_thread() is not threading.main_thread():
        forever = threading.Lock()
        forever.acquire()
        forever.acquire()
