"""Collectives that have begun: what ``async_op=True`` returns."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from ...allocators.errors import CuplugError


class Work:
    """A collective that runs in the group's thread, which does one after the other."""

    def __init__(self, finish: Callable[[], None] | None = None) -> None:
        """``finish`` is called once in the thread that waits, when the collective is done."""
        self._finish = finish
        self._ended = threading.Event()
        self._error: BaseException | None = None

    def wait(self, timeout: Any = None) -> bool:
        """Wait until the collective is done. On a device that is done which is queued: its current stream waits.

        Raises:
            CuplugError: it failed.
        """
        del timeout  # the group's, which the collective itself keeps
        self._ended.wait()
        if self._error is not None:
            raise CuplugError(str(self._error)) from self._error
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True

    def is_completed(self) -> bool:
        """Whether the collective is done."""
        return self._ended.is_set()

    def end(self, error: BaseException | None = None) -> None:
        """Note that it is done, or why it failed."""
        self._error = error
        self._ended.set()


class Done(Work):
    """A collective that is queued on a device, or needs nobody."""

    def __init__(self, finish: Callable[[], None] | None = None, query: Callable[[], bool] | None = None) -> None:
        """``finish`` lets the current stream wait for it; ``query`` says whether it is done."""
        super().__init__(finish)
        self._query = query
        self.end()

    def is_completed(self) -> bool:
        """Whether the device has done it."""
        return self._query is None or self._query()


class Worker:
    """A thread that does one piece of work after the other."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[[], None], Work] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="cuplug-collectives", daemon=True)
        self._thread.start()

    def begin(self, job: Callable[[], None], work: Work) -> Work:
        """Have the thread do ``job``."""
        self._queue.put((job, work))
        return work

    def _run(self) -> None:
        while True:
            taken = self._queue.get()
            if taken is None:
                return
            job, work = taken
            try:
                job()
            except BaseException as error:
                work.end(error)
            else:
                work.end()
            del taken, job, work

    def stop(self) -> None:
        """End the thread, once it has done what it was given."""
        self._queue.put(None)
        self._thread.join()
