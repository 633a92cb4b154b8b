"""Signals wait while a Python function runs as a kernel.

On a GPU, Ctrl-C stops the program that waits for a kernel, and never the kernel. Here the thread that waits runs it, so
that an exception from a signal's handler would cut it short, with memory half written that other threads rely on. So
on the main thread, the only one on which Python runs handlers, stand-ins take note of signals until the kernel has
ended, and then let them arrive.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from threading import get_ident
from types import FrameType
from typing import Any

from ..forking import in_forked_child

# The functions behind those of the module signal, which convert numbers to enumerations at four times the cost.
_signal: Any = importlib.import_module("_signal")
_get_handler, _set_handler, _DEFAULT = _signal.getsignal, _signal.signal, _signal.SIG_DFL
_NAMES = ("SIGINT", "SIGTERM", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2")
_NUMBERS = tuple(getattr(_signal, name) for name in _NAMES if hasattr(_signal, name))
_main_thread = threading.main_thread().ident


@in_forked_child
def _note_main_thread() -> None:
    global _main_thread
    _main_thread = get_ident()


def run_without_signals(work: Callable[[], None]) -> None:
    """Call ``work``. Signals that come meanwhile arrive once it has returned, and a second Ctrl-C at once."""
    if get_ident() != _main_thread:
        work()
        return
    stand_in = _StandIn()
    handlers = stand_in.handlers
    try:
        for number in _NUMBERS:
            handler = _get_handler(number)
            if handler is not _DEFAULT and callable(handler):
                handlers[number] = handler
                _set_handler(number, stand_in)
        _run(work)
    finally:
        for number in handlers:
            if _get_handler(number) is stand_in:  # and no other one was installed meanwhile
                _set_handler(number, handlers[number])
        if stand_in.came:
            _arrive(stand_in.came)


def _run(work: Callable[[], None]) -> None:
    """As long as this is on the stack, signals are held back."""
    work()


class _StandIn:
    """The handler of signals that are held back. Should it be left over, it makes way when the signal comes."""

    __slots__ = ("came", "handlers")

    def __init__(self) -> None:
        self.came: list[int] = []
        """The signals that are to arrive."""
        self.handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        """By signal, its own handler."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        # Who presses Ctrl-C again wants the kernel to stop: the device has failed then.
        again = number == _signal.SIGINT and number in self.came
        running: FrameType | None = frame
        while running is not None and running.f_code is not _run.__code__:
            running = running.f_back
        if running is not None and not again:
            self.came.append(number)
            return
        if _get_handler(number) is self:
            _set_handler(number, self.handlers[number])
        self.handlers[number](number, frame)


def _arrive(came: list[int]) -> None:
    try:
        _signal.raise_signal(came.pop())
    finally:
        if came:
            _arrive(came)
