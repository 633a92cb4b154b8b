"""A lock that an exception at any point leaves open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Lock:
    """Runs functions one at a time. Whatever exception arrives, and wherever, the lock is open again afterwards.

    ``with lock:`` does not promise that: an interrupt may come between the acquisition and the block, or between its
    end and the release. Here the only truth is what the lock itself knows, which is whether this thread holds it. A
    thread enters only while it does not hold it, so that to hold it afterwards is the trace of an interrupt.
    """

    __slots__ = ("_lock", "acquire", "is_mine", "release")

    def __init__(self) -> None:
        lock: Any = threading.RLock()
        self._lock = lock
        self.is_mine: Callable[[], bool] = lock._is_owned  # as threading.Condition asks
        """Whether the calling thread is inside ``run``."""
        self.acquire: Callable[..., bool] = lock.acquire
        """For whoever writes ``run`` out at the place where it is called; so is ``release``."""
        self.release: Callable[[], None] = lock.release

    def run(self, work: Callable[..., T], *args: Any) -> T:
        """The result of ``work(*args)``, with the lock held. The calling thread does not hold it yet."""
        try:
            self.acquire()
            result = work(*args)
            self.release()
        except BaseException:
            self.open()
            raise
        return result

    def run_if_free(self, work: Callable[[], None]) -> bool:
        """Call ``work`` with the lock held, unless another thread holds it. Whether it was called. Never blocks."""
        try:
            free = self.acquire(blocking=False)
            if free:
                work()
                self.release()
        except BaseException:
            self.open()
            raise
        return free

    def open(self) -> None:
        """Let go of the lock, if the calling thread holds it: at the end of a ``run`` that an exception broke off."""
        while True:
            try:
                while self.is_mine():
                    self.release()
            except BaseException:  # another interrupt: the first one is under way already
                continue
            return
