"""The processes that load: what each does, and how its batches come through shared memory.

Each has a pipe of its own, so that one that dies leaves the others' alone. It ends when its pipe is
closed, also by the end of the program. Batches' tensors lie in blocks of shared memory, which the program copies and
removes.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from ....allocators.errors import CuplugError
from ...tensor.core.dtypes import dtype
from ...tensor.core.generator import manual_seed
from ...tensor.core.tensor import Tensor
from ...tensor.ops.exchange.exchange import frombuffer
from ...tensor.ops.making.creation import empty
from ...tensor.ops.shapes.reshape import contiguous, reshape
from ...tensor.places.place import place_at
from ..wrapped_exceptions import ExceptionWrapper
from .collation import batch_of, mapped


class WorkerInfo:
    """What a worker knows of itself. A CuplugError is raised where an attribute is assigned."""

    id: int
    num_workers: int
    seed: int
    dataset: Any

    def __init__(self, number: int, num_workers: int, seed: int, dataset: Any) -> None:
        self.__dict__.update(id=number, num_workers=num_workers, seed=seed, dataset=dataset)

    def __setattr__(self, name: str, value: Any) -> None:
        raise CuplugError("Cannot assign attributes to WorkerInfo objects")

    def __repr__(self) -> str:
        return f"WorkerInfo({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


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
    batched: bool
    batch_size: int | None
    drop_last: bool
    number: int
    count: int
    seed: int
    init: Callable[[int], Any] | None
    blocks: str = ""
    """What names of this worker's blocks of shared memory begin with: see ``block_name``."""


class Finished:
    """A worker's answer: its part of an ``IterableDataset`` has ended."""


@dataclass
class _Shared:
    """A tensor in shared memory."""

    name: str
    kind: dtype
    shape: tuple[int, ...]


@dataclass
class _Sent:
    """A small tensor, whose bytes come through the pipe."""

    data: bytes
    kind: dtype
    shape: tuple[int, ...]


_SMALL = 1 << 13
"""Bytes of a tensor up to which the pipe is quicker than a block of shared memory."""


def load(task: Task, pipe: Connection, inherited: Sequence[Connection] = ()) -> None:
    """What a worker does: answer each list of numbers by a batch, until the pipe is closed.

    Args:
        task: what it is told.
        pipe: its end of the pipe.
        inherited: the program's ends of pipes, of all loaders, which a fork copied: while they are open here, no worker
            sees its pipe closed.
    """
    for end in inherited:
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program ends its workers
    _info[:] = [WorkerInfo(task.number, task.count, task.seed, task.dataset)]
    random.seed(task.seed)
    manual_seed(task.seed)
    np.random.seed(task.seed % 2**32)
    samples: Any = None
    failed: ExceptionWrapper | None = None
    where = f"in DataLoader worker process {task.number}"
    answered = 0
    try:
        if task.init is not None:
            task.init(task.number)
    except BaseException:
        failed = ExceptionWrapper(where=where)
    while True:
        try:
            asked = pipe.recv()
        except (EOFError, OSError):
            return
        if asked is None:  # a new epoch
            try:
                samples = iter(task.dataset) if task.iterable else None
            except BaseException:
                failed = ExceptionWrapper(where=where)
            continue
        answer: Any = failed
        made: list[_Shared] = []
        answered += 1
        if failed is None:
            try:
                answer = mapped(_batch(task, asked, samples), partial(_share, made, task.blocks, answered))
            except StopIteration:
                answer = Finished()
            except BaseException:
                answer = ExceptionWrapper(where=where)
        try:
            pipe.send(answer)
        except (BrokenPipeError, OSError):
            for each in made:
                remove(each.name)
            return


def _batch(task: Task, asked: Any, samples: Any) -> Any:
    if not task.iterable:
        if task.batched:
            return batch_of(task.dataset, asked, task.collate)
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


def block_name(blocks: str, answer: int, number: int) -> str:
    """The name of a block of shared memory: by the worker, the number of its answer, and of the tensor there. So the
    program finds a block also where it was interrupted before it saw the answer."""
    return f"{blocks}-{answer}-{number}"


def _share(made: list[_Shared], blocks: str, answer: int, each: Any) -> Any:
    if not isinstance(each, Tensor) or not each.is_cpu:
        return each
    source = contiguous(each.detach())
    if source.nbytes <= _SMALL:
        elements = np.ascontiguousarray(place_at(source._layout).read(source))
        return _Sent(elements.tobytes(), each.dtype, tuple(each.shape))
    block = SharedMemory(block_name(blocks, answer, len(made)), create=True, size=source.nbytes)
    shared = _Shared(block.name, each.dtype, tuple(each.shape))
    made.append(shared)
    elements = place_at(source._layout).read(source)
    memory: Any = block.buf
    memory[: source.nbytes] = np.ascontiguousarray(elements).reshape(-1).view(np.uint8).data
    block.close()
    return shared


def receive(answer: Any) -> Any:
    """A batch with tensors of the program's own. An interrupt meanwhile is raised when no shared memory is left."""
    return mapped(answer, _received)


def _received(each: Any) -> Any:
    if isinstance(each, _Sent):
        return _tensor(bytearray(each.data), each.kind, each.shape)
    if not isinstance(each, _Shared):
        return each
    taken: list[bytearray] = []

    def take() -> None:
        block = _opened(each.name)
        if block is None:
            return
        if not taken:
            memory: Any = block.buf
            taken.append(bytearray(memory[: int(np.prod(each.shape)) * each.kind.itemsize]))
            del memory
        block.close()
        block.unlink()

    to_its_end(take)
    return _tensor(taken[0], each.kind, each.shape)


def _tensor(data: bytearray, kind: dtype, shape: tuple[int, ...]) -> Tensor:
    return reshape(frombuffer(data, dtype=kind), shape) if data else empty(shape, dtype=kind)


def discard(blocks: str, answer: int) -> None:
    """Remove the shared memory of a worker's answer that nobody wants, if there is some. The worker has ended."""
    number = 0
    while remove(block_name(blocks, answer, number)):
        number += 1


def remove(name: str) -> bool:
    """Remove a block of shared memory. Returns whether there was one."""
    found = []

    def work() -> None:
        block = _opened(name)
        if block is not None:
            found.append(block)
            block.close()
            block.unlink()

    to_its_end(work)
    return bool(found)


def _opened(name: str) -> SharedMemory | None:
    """A block of shared memory; None if there is none any more. Then Python's resource tracker forgets it: whoever
    removed it may have been interrupted before telling so."""
    try:
        return SharedMemory(name)
    except FileNotFoundError:
        if os.name == "posix":  # the tracker complains of a name that it does not know
            resource_tracker.register(f"/{name}", "shared_memory")
            resource_tracker.unregister(f"/{name}", "shared_memory")
        return None


def to_its_end(work: Callable[[], None]) -> None:
    """Do what can be repeated as often as it is interrupted; then raise the interrupt."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            work()
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
