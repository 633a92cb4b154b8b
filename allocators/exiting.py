"""The end of the interpreter: what becomes of threads that still run and ask for memory then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .errors import CuplugError

_exiting = threading.Event()


def note_exit() -> None:
    """The interpreter exits: everything is closed from here on."""
    if not _exiting.is_set():
        _exiting.set()
        threading.excepthook = _keep_quiet(threading.excepthook)


def wait_if_exiting() -> None:
    """Called before something that is closed raises. A daemon thread that asks for it while the interpreter exits waits
    for the end of the process, as it would at any other moment of the exit: its error would be a traceback where
    a program ends as it should."""
    if _exiting.is_set() and threading.current_thread() is not threading.main_thread():
        forever = threading.Lock()
        forever.acquire()
        forever.acquire()


def _keep_quiet(report: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Instead of ``report``, for errors that end a thread: one of cuplug's comes of what is closed, wherever that was
    raised, and the thread waits as above. It holds no lock by then, which it might where the error is raised."""

    def hook(args: threading.ExceptHookArgs) -> None:
        if issubclass(args.exc_type, CuplugError):
            wait_if_exiting()
        report(args)

    return hook
