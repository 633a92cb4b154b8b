"""``DataLoader``: batches of a data set, made here or by other processes, and pinned by a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

from ....plugins.tracing.training_scope import DATA, in_phase, scope
from ...facade import accelerator
from ...tensor.core.tensor import Tensor
from ...tensor.core.tensor_errors import ArgumentError
from .collation import batch_of, default_collate, default_convert, mapped
from .datasets import IterableDataset
from .loader_process import Task
from .loader_workers import LoaderWorkers
from .samplers import BatchSampler, RandomSampler, SequentialSampler, fresh_seed

__all__ = ["DataLoader"]


class DataLoader:
    """Batches of a data set. Each iteration is one epoch.

    A worker that ends by itself, such as one that ran out of memory, is noticed when its next batch is asked for, and
    named in a CuplugError; an exception in a worker is raised again here, with the worker's traceback.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        """Say what is loaded, and how.

        Args:
            dataset: the data set.
            batch_size: samples of a batch; None gives samples as they are.
            shuffle: whether they come by chance.
            sampler: gives their numbers instead.
            batch_sampler: gives lists of numbers instead.
            num_workers: processes that load, on Linux forks of this one, in which no device can be used; 0 loads here.
            collate_fn: makes a batch of samples.
            pin_memory: whether batches are copied to page-locked memory, where there is a CUDA device: with workers by
                a thread, without them by the caller's own, as torch's loader does.
            drop_last: whether a last batch that is shorter is left out.
            timeout: how long a batch may take, in seconds; 0 for any time.
            worker_init_fn: called in each worker with its number.
            multiprocessing_context: makes the processes instead: ``spawn``, ``forkserver`` or a context.
            generator: whose numbers the order and the workers' seeds are taken from.
            prefetch_factor: how many batches each worker makes ahead; 2 if None.
            persistent_workers: whether workers stay for the next epoch.
            pin_memory_device: as torch's; makes no difference.
            in_order: as torch's; batches always come in order.

        Raises:
            ValueError: settings contradict each other.
        """
        del pin_memory_device, in_order
        iterable = isinstance(dataset, IterableDataset)
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ArgumentError("DataLoader: an IterableDataset has an order of its own; no shuffle and no sampler")
        if sampler is not None and shuffle:
            raise ArgumentError("DataLoader: give a sampler or shuffle, not both")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ArgumentError("DataLoader: a batch_sampler says all of batch_size, shuffle, sampler and drop_last")
        if num_workers < 0 or timeout < 0:
            raise ArgumentError(f"DataLoader: num_workers {num_workers} and timeout {timeout} must not be negative")
        if not num_workers and (prefetch_factor is not None or timeout or persistent_workers):
            raise ArgumentError("DataLoader: prefetch_factor, timeout and persistent_workers need num_workers")
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None and not iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None and not iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset, self.batch_size, self.sampler, self.batch_sampler = dataset, batch_size, sampler, batch_sampler
        self.num_workers, self.pin_memory, self.drop_last, self.timeout = num_workers, pin_memory, drop_last, timeout
        self.worker_init_fn, self.generator, self.persistent_workers = worker_init_fn, generator, persistent_workers
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        batched = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        self._batched = batched
        self._iterable = iterable
        self._workers: LoaderWorkers | None = None

    def _numbers(self) -> Iterator[Any]:
        """What each batch is made of: numbers of samples; of an ``IterableDataset`` nothing that says so."""
        if self._iterable:
            return repeat(0)
        return iter(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def __len__(self) -> int:
        if self._iterable:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        made = self._by_workers() if self.num_workers else self._here()
        made = _in_data_phase(made) if scope.watched else made
        if not (self.pin_memory and accelerator.is_available()):
            return made
        return _pinned(made) if self.num_workers else (_pinned_batch(batch) for batch in made)

    def task(self, number: int, seed: int, blocks: str) -> Task:
        """What worker ``number`` is told; ``blocks``: what names of its blocks of shared memory begin with."""
        return Task(
            self.dataset,
            self.collate_fn,
            self._iterable,
            self._batched,
            self.batch_size,
            self.drop_last,
            number,
            self.num_workers,
            seed + number,
            self.worker_init_fn,
            blocks,
        )

    def _here(self) -> Iterator[Any]:
        if not self._iterable:
            for asked in self._numbers():
                if self._batched:
                    yield batch_of(self.dataset, asked, self.collate_fn)
                else:
                    yield self.collate_fn(self.dataset[asked])
            return
        found: list[Any] = []
        for each in self.dataset:
            if self.batch_size is None:
                yield self.collate_fn(each)
                continue
            found.append(each)
            if len(found) == self.batch_size:
                yield self.collate_fn(found)
                found = []
        if found and not self.drop_last:
            yield self.collate_fn(found)

    def _by_workers(self) -> Iterator[Any]:
        seed = fresh_seed(self.generator)
        workers, self._workers = self._workers, None
        if workers is None:
            workers = LoaderWorkers(
                [partial(self.task, number, seed) for number in range(self.num_workers)],
                context=self.multiprocessing_context,
                timeout=self.timeout,
                ahead=self.prefetch_factor or 2,
            )
        kept = False
        try:
            yield from workers.epoch(self._numbers())
            kept = self.persistent_workers
        finally:
            if kept:
                self._workers = workers
            else:
                workers.close()


def _pinned(batches: Iterator[Any]) -> Iterator[Any]:
    """Batches copied to page-locked memory by a thread, one ahead."""
    ready: queue.Queue[Any] = queue.Queue(2)
    stop = threading.Event()

    def put(item: Any) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def pin() -> None:
        try:
            for batch in batches:
                if not put((_pinned_batch(batch), None)):
                    return
            put((None, StopIteration()))
        except BaseException as error:
            put((None, error))
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                close()

    thread = threading.Thread(target=pin, name="cuplug pins batches", daemon=True)
    thread.start()
    try:
        while True:
            batch, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield batch
    finally:
        stop.set()
        thread.join()


def _pinned_batch(batch: Any) -> Any:
    """A batch whose tensors are pinned; an object with a ``pin_memory`` of its own pins itself, as torch has it."""
    return mapped(batch, _pin, _pins_itself)


def _pins_itself(each: Any) -> bool:
    return callable(getattr(each, "pin_memory", None))


def _pin(each: Any) -> Any:
    if isinstance(each, Tensor):
        return each.pin_memory() if each.is_cpu else each
    return each.pin_memory() if _pins_itself(each) else each


def _in_data_phase(batches: Iterator[Any]) -> Iterator[Any]:
    """The batches; what is allocated while they are made belongs to the phase ``data`` of a training."""
    try:
        while True:
            with in_phase(DATA):
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            yield batch
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()
