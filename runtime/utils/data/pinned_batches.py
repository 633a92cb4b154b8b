"""Batches whose tensors are copied to page-locked memory: by the caller, or by a thread that is one ahead."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

from ...tensor.core.tensor import Tensor
from .collation import mapped


class ChangedBatches(Iterator[Any]):
    """Batches of another iterator, changed."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches

    def close(self) -> None:
        """Make no more."""
        self._batches.close()


class Pinned(ChangedBatches):
    """Batches copied to page-locked memory."""

    def __next__(self) -> Any:
        return _pinned_batch(next(self._batches))


class PinnedByThread(ChangedBatches):
    """Batches copied to page-locked memory by a thread, one ahead."""

    def __init__(self, batches: Any) -> None:
        super().__init__(batches)
        self._ready: queue.Queue[Any] = queue.Queue(2)
        self._stop = threading.Event()
        told = batches, self._ready, self._stop  # not this iterator, which a thread would keep alive
        self._thread = threading.Thread(target=_pin_all, args=told, name="cuplug pins batches", daemon=True)
        self._thread.start()

    def __next__(self) -> Any:
        if self._stop.is_set():
            raise StopIteration
        batch, error = self._ready.get()
        if isinstance(error, StopIteration):
            self.close()
        try:
            if error is not None:
                raise error
        finally:
            del error  # its traceback has this frame, and would keep the iterator and its workers
        return batch

    def close(self) -> None:
        """Let the thread end, which then makes no more."""
        self._stop.set()
        self._thread.join()

    def __del__(self) -> None:
        self.close()


def _pin_all(batches: Any, ready: queue.Queue[Any], stop: threading.Event) -> None:
    try:
        ended = False
        while not ended and not stop.is_set():
            made = _made(batches)
            ended = isinstance(made[1], StopIteration)
            while not stop.is_set():
                try:
                    ready.put(made, timeout=0.1)
                except queue.Full:
                    continue
                break
            del made
    finally:
        batches.close()


def _made(batches: Any) -> tuple[Any, BaseException | None]:
    """The next batch, pinned; or what was raised instead."""
    try:
        return _pinned_batch(next(batches)), None
    except BaseException as error:
        return None, error


def _pinned_batch(batch: Any) -> Any:
    """A batch whose tensors are pinned; an object with a ``pin_memory`` of its own pins itself, as torch has it."""
    return mapped(batch, _pin, _pins_itself)


def _pins_itself(each: Any) -> bool:
    return callable(getattr(each, "pin_memory", None))


def _pin(each: Any) -> Any:
    if isinstance(each, Tensor):
        return each.pin_memory() if each.is_cpu else each
    return each.pin_memory() if _pins_itself(each) else each
