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

__all__ = ["run_without_signals"]

# The functions behind those of the module signal, which convert numbers to enumerations at four times the cost.
_signal: Any = importlib.import_module("_signal")
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
    stand_ins: list[_StandIn] = []
    came: list[int] = []
    try:
        for number in _NUMBERS:
            handler = _signal.getsignal(number)
            if callable(handler):
                stand_ins.append(_StandIn(came, number, handler))
                _signal.signal(number, stand_ins[-1])
        _run(work)
    finally:
        for stand_in in stand_ins:
            stand_in.put_back()
        _arrive(came)


def _run(work: Callable[[], None]) -> None:
    """As long as this is on the stack, signals are held back."""
    work()


class _StandIn:
    """The handler of one signal while it is held back. Should it be left over, it makes way when the signal comes."""

    __slots__ = ("came", "handler", "number")

    def __init__(self, came: list[int], number: int, handler: Callable[[int, FrameType | None], Any]) -> None:
        self.came = came
        self.number = number
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        # Who presses Ctrl-C again wants the kernel to stop: the device has failed then.
        again = number == _signal.SIGINT and number in self.came
        running: FrameType | None = frame
        while running is not None and running.f_code is not _run.__code__:
            running = running.f_back
        if running is not None and not again:
            self.came.append(number)
            return
        self.put_back()
        self.handler(number, frame)

    def put_back(self) -> None:
        """Put the signal's own handler back, unless another one was installed meanwhile."""
        if _signal.getsignal(self.number) is self:
            _signal.signal(self.number, self.handler)


def _arrive(came: list[int]) -> None:
    if came:
        try:
            _signal.raise_signal(came.pop())
        finally:
            _arrive(came)
