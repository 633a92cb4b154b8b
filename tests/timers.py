"""Signals of a timer that cut a function short at any moment."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["AGAIN_S", "Cut", "timers"]

AGAIN_S = 1e-3
Cut = Callable[[Callable[[], object], float], bool]
"""Calls a function while a timer's signal comes after so many seconds. Says whether the signal cut it short."""


class Arrived(BaseException):
    """What the handler of the timer's signal raises."""


@contextmanager
def timers() -> Iterator[Cut]:
    """What cuts functions short.

    Where the signal comes in a finaliser or in another callback that cannot raise, its exception ends there and the
    function goes on. It comes once more then, after ``AGAIN_S``: a function that goes on until it is cut short ends.
    """
    armed = False

    def arrive(_number: int, frame: FrameType | None) -> None:
        nonlocal armed
        while frame is not None and frame.f_code is not come_again.__code__:
            frame = frame.f_back
        if frame is not None:  # where it would be lost once more
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        elif armed:  # else it comes late
            armed = False
            raise Arrived

    def cut(call: Callable[[], object], seconds: float) -> bool:
        nonlocal armed, report
        report, sys.unraisablehook = sys.unraisablehook, come_again  # each time: pytest puts its own there at times
        try:
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, seconds)
                call()
            finally:
                armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Arrived:
            return True
        finally:
            sys.unraisablehook = report
        return False

    def come_again(ignored: Any) -> None:
        nonlocal armed
        if isinstance(ignored.exc_value, Arrived):
            armed = True
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        else:
            report(ignored)

    report = sys.unraisablehook
    before = signal.signal(signal.SIGALRM, arrive)
    try:
        yield cut
    finally:
        signal.signal(signal.SIGALRM, before)
