"""The processes that load: what they do, and how their batches come through shared memory.

Each is spawned and has a pipe of its own, so that one that dies leaves the others' alone. It ends when its pipe is
closed, also by the end of the program. Batches' tensors lie in blocks of shared memory, which the program copies and
removes.
"""

from __future__ import annotations

import random
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from ...tensor.core.dtypes import dtype
from ...tensor.core.generator import manual_seed
from ...tensor.core.tensor import Tensor
from ...tensor.ops.creation import empty
from ...tensor.ops.exchange import frombuffer
from ...tensor.ops.reshape import contiguous, reshape
from ...tensor.places.place import place_at
from .collation import mapped

__all__ = ["Failure", "Finished", "Task", "WorkerInfo", "discard", "get_worker_info", "load", "receive"]


@dataclass
class WorkerInfo:
    """What a worker knows of itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: list[WorkerInfo] = []


def get_worker_info() -> WorkerInfo | None:
    """In a worker what it is, None in the program itself."""
    return _info[0] if _info else None


@dataclass
class Task:
    """What a worker is to do, as it is told when it starts."""

    dataset: Any
    collate: Callable[[Any], Any]
    iterable: bool
    batch_size: int | None
    drop_last: bool
    number: int
    count: int
    seed: int
    init: Callable[[int], Any] | None


class Finished:
    """A worker's answer: its part of an ``IterableDataset`` has ended."""


@dataclass
class Failure:
    """A worker's answer: an exception was raised."""

    kind: type[BaseException]
    text: str

    def again(self, number: int) -> BaseException:
        """The exception, with the worker's traceback in its text."""
        text = f"in worker {number} of a DataLoader:\n{self.text}"
        try:
            return self.kind(text)
        except Exception:  # it wants other arguments
            return RuntimeError(text)


@dataclass
class _Shared:
    """A tensor in shared memory."""

    name: str
    kind: dtype
    shape: tuple[int, ...]


def load(task: Task, pipe: Connection) -> None:
    """What a worker does: answer each list of numbers by a batch, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program ends its workers
    _info[:] = [WorkerInfo(task.number, task.count, task.seed, task.dataset)]
    random.seed(task.seed)
    manual_seed(task.seed)
    np.random.seed(task.seed % 2**32)
    samples: Any = None
    failed: Failure | None = None
    try:
        if task.init is not None:
            task.init(task.number)
    except BaseException as error:
        failed = Failure(type(error), traceback.format_exc())
    while True:
        try:
            asked = pipe.recv()
        except (EOFError, OSError):
            return
        if asked is None:  # a new epoch
            samples = iter(task.dataset) if task.iterable else None
            continue
        answer: Any = failed
        made: list[_Shared] = []
        if failed is None:
            try:
                answer = mapped(_batch(task, asked, samples), partial(_share, made))
            except StopIteration:
                answer = Finished()
            except BaseException as error:
                answer = Failure(type(error), traceback.format_exc())
        try:
            pipe.send(answer)
        except (BrokenPipeError, OSError):
            for each in made:
                _remove(each.name)
            return


def _batch(task: Task, asked: Any, samples: Any) -> Any:
    if not task.iterable:
        if isinstance(asked, list):
            return task.collate([task.dataset[each] for each in asked])
        return task.collate(task.dataset[asked])
    if task.batch_size is None:
        return task.collate(next(samples))
    found = []
    for each in samples:
        found.append(each)
        if len(found) == task.batch_size:
            break
    if not found or (task.drop_last and len(found) < task.batch_size):
        raise StopIteration
    return task.collate(found)


def _share(made: list[_Shared], each: Any) -> Any:
    if not isinstance(each, Tensor) or not each.is_cpu:
        return each
    source = contiguous(each.detach())
    block = SharedMemory(create=True, size=max(source.nbytes, 1))
    shared = _Shared(block.name, each.dtype, tuple(each.shape))
    made.append(shared)
    if source.nbytes:
        elements = place_at(source._layout).read(source)
        memory: Any = block.buf
        memory[: source.nbytes] = np.ascontiguousarray(elements).reshape(-1).view(np.uint8).data
    block.close()
    return shared


def receive(answer: Any) -> Any:
    """A batch with tensors of the program's own."""
    return mapped(answer, _received)


def _received(each: Any) -> Any:
    if not isinstance(each, _Shared):
        return each
    block = SharedMemory(each.name)
    try:
        count = int(np.prod(each.shape))
        memory: Any = block.buf
        view = frombuffer(bytearray(memory[: count * each.kind.itemsize]), dtype=each.kind) if count else None
        if view is None:
            return empty(each.shape, dtype=each.kind)
        return reshape(view, each.shape)
    finally:
        block.close()
        block.unlink()


def discard(answer: Any) -> None:
    """Remove the shared memory of a batch that nobody wants."""
    mapped(answer, lambda each: _remove(each.name) if isinstance(each, _Shared) else None)


def _remove(name: str) -> None:
    try:
        block = SharedMemory(name)
    except FileNotFoundError:
        return
    block.close()
    block.unlink()
