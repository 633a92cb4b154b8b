"""A lock that an exception at any point leaves open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Lock"]

T = TypeVar("T")


class Lock:
    """Runs functions one at a time. Whatever exception arrives, and wherever, the lock is open again afterwards.

    ``with lock:`` does not promise that: an interrupt may come between the acquisition and the block, or between its
    end and the release. Here the only truth is what the lock itself knows, which is whether this thread holds it. A
    thread enters only while it does not hold it, so that to hold it afterwards is the trace of an interrupt.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()

    def is_mine(self) -> bool:
        """Whether the calling thread is inside ``run``."""
        return bool(self._lock._is_owned())  # as threading.Condition asks

    def run(self, work: Callable[..., T], *args: Any) -> T:
        """The result of ``work(*args)``, with the lock held. The calling thread does not hold it yet."""
        try:
            self._lock.acquire()
            result = work(*args)
            self._lock.release()
        except BaseException:
            self._open()
            raise
        return result

    def run_if_free(self, work: Callable[[], None]) -> bool:
        """Call ``work`` with the lock held, unless another thread holds it. Whether it was called. Never blocks."""
        try:
            free = self._lock.acquire(blocking=False)
            if free:
                work()
                self._lock.release()
        except BaseException:
            self._open()
            raise
        return bool(free)

    def _open(self) -> None:
        while True:
            try:
                while self._lock._is_owned():
                    self._lock.release()
            except BaseException:  # another interrupt: the first one is under way already
                continue
            return
