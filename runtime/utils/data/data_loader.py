"""``DataLoader``: batches of a data set, made here or by other processes, and pinned by a thread."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, repeat
from typing import Any, Generic, TypeVar

from ....plugins.tracing.training_scope import DATA, in_phase, scope
from ...facade import accelerator
from ...machine.callers import warn_program
from ...tensor.core.tensor_errors import ArgumentError, ElementTypeError
from ..wrapped_exceptions import ExceptionWrapper
from .collation import batch_of, default_collate, default_convert
from .datasets import IterableDataset
from .loader_process import Finished, Task
from .loader_workers import LoaderWorkers
from .pinned_batches import ChangedBatches, Pinned, PinnedByThread
from .samplers import BatchSampler, RandomSampler, SequentialSampler, fresh_seed

Loaded = TypeVar("Loaded", covariant=True)


class DataLoader(Generic[Loaded]):
    """Batches of a data set. Each iteration is one epoch.

    A worker that ends by itself, such as one that ran out of memory, is noticed when its next batch is asked for, and
    named in a CuplugError; an exception in a worker is raised again here, with the worker's traceback.
    """

    def __init__(
        self: DataLoader[Any],  # what a loader of a list, or of a data set of anything, is taken for
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
            in_order: whether batches come in the order of the sampler; otherwise as workers have made them.

        Raises:
            ValueError: settings contradict each other.
            TypeError: ``multiprocessing_context`` is none.
        """
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        iterable = isinstance(dataset, IterableDataset)
        if iterable:
            for name, given in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                if given is not None:
                    raise ArgumentError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={given}"
                    )
        if sampler is not None and shuffle:
            raise ArgumentError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ArgumentError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
        if batch_size is None and batch_sampler is None and drop_last:
            raise ArgumentError(
                "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
            )
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None and not iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None and not iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset, self.batch_size, self.sampler, self.batch_sampler = dataset, batch_size, sampler, batch_sampler
        self.num_workers, self.pin_memory, self.drop_last, self.timeout = num_workers, pin_memory, drop_last, timeout
        self.worker_init_fn, self.generator, self.persistent_workers = worker_init_fn, generator, persistent_workers
        self.multiprocessing_context, self.in_order = multiprocessing_context, in_order
        self.pin_memory_device = pin_memory_device
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self._auto_collation = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self._iterable = iterable
        self._told_length: int | None = None
        """How many batches ``len`` said of an ``IterableDataset``, which may give more."""
        self._workers: LoaderWorkers | None = None
        self._made = True

    _SETTLED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._SETTLED and "_made" in self.__dict__:
            raise ArgumentError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        if name == "multiprocessing_context" and value is not None:
            value = _context(value, self.num_workers)
        super().__setattr__(name, value)

    def _numbers(self) -> Iterator[Any]:
        """What each batch is made of: numbers of samples; of an ``IterableDataset`` nothing that says so."""
        if self._iterable:
            return repeat(0)
        return iter(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def __len__(self) -> int:
        if self._iterable:
            count = self._told_length = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def __iter__(self) -> Iterator[Loaded]:
        made: Any = _ByWorkers(self) if self.num_workers else _Here(self)
        made = _InDataPhase(made) if scope.watched else made
        if not (self.pin_memory and accelerator.is_available()):
            return made  # type: ignore[no-any-return]
        return PinnedByThread(made) if self.num_workers else Pinned(made)

    def task(self, number: int, seed: int, blocks: str) -> Task:
        """What worker ``number`` is told; ``blocks``: what names of its blocks of shared memory begin with."""
        return Task(
            self.dataset,
            self.collate_fn,
            self._iterable,
            self._auto_collation,
            self.batch_size,
            self.drop_last,
            number,
            self.num_workers,
            seed + number,
            self.worker_init_fn,
            blocks,
        )


def _check_workers(count: int, timeout: float, prefetch_factor: int | None, persistent: bool) -> None:
    if count < 0:
        raise ArgumentError(
            f"num_workers option should be non-negative; use num_workers=0 to disable multiprocessing. It is {count}"
        )
    if timeout < 0:
        raise ArgumentError(f"timeout option should be non-negative, and is {timeout}")
    if prefetch_factor is not None and not count:
        raise ArgumentError(
            "prefetch_factor option could only be specified in multiprocessing. "
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ArgumentError(f"prefetch_factor option should be non-negative, and is {prefetch_factor}")
    if persistent and not count:
        raise ArgumentError("persistent_workers option needs num_workers > 0")
    if timeout and not count:
        raise ArgumentError("timeout option needs num_workers > 0")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count > available:
        warn_program(
            f"This DataLoader will create {count} worker processes in total. Our suggested max number of worker in "
            f"current system is {available}, which is smaller than what this DataLoader is going to create. Please be "
            "aware that excessive worker creation might get DataLoader running slow or even freeze, lower the worker "
            "number to avoid potential slowness/freeze if necessary.",
        )


def _context(given: Any, workers: int) -> Any:
    """What makes processes.

    Raises:
        ArgumentError: there are no workers, or no such way to start them.
        ElementTypeError: it is neither a context nor the name of one.
    """
    if not workers:
        raise ArgumentError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={workers}"
        )
    if isinstance(given, str):
        known = multiprocessing.get_all_start_methods()
        if given not in known:
            raise ArgumentError(
                f"multiprocessing_context option should specify a valid start method in {known!r}, but got "
                f"multiprocessing_context={given!r}"
            )
        return multiprocessing.get_context(given)
    if not isinstance(given, multiprocessing.context.BaseContext):
        raise ElementTypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start "
            f"method, but got multiprocessing_context={given}"
        )
    return given


class _Loading(Iterator[Any]):
    """The batches of an epoch. What making one of them raises is raised for that one: the next is made all the same."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader, self._count = loader, 0

    def __next__(self) -> Any:
        batch = self._batch()
        self._count += 1
        loader = self._loader
        if loader._told_length is not None and self._count > loader._told_length:
            why = (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker."
                if loader.num_workers
                else ""
            )
            warn_program(
                f"Length of IterableDataset {loader.dataset} was reported to be {loader._told_length} (when accessing "
                f"len(dataloader)), but {self._count} samples have been fetched. {why}",
            )
        return batch

    def _batch(self) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """Make no more."""


class _Here(_Loading):
    """Batches made by the caller."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._numbers = loader._numbers()
        self._samples = iter(loader.dataset) if loader._iterable else None

    def _batch(self) -> Any:
        loader = self._loader
        asked = next(self._numbers)
        if self._samples is None:
            if loader._auto_collation:
                return batch_of(loader.dataset, asked, loader.collate_fn)
            return loader.collate_fn(loader.dataset[asked])
        if loader.batch_size is None:
            return loader.collate_fn(next(self._samples))
        found = list(islice(self._samples, loader.batch_size))
        if not found or (loader.drop_last and len(found) < loader.batch_size):
            raise StopIteration
        return loader.collate_fn(found)


class _ByWorkers(_Loading):
    """Batches made by other processes: in order, unless the loader is told otherwise."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._running: LoaderWorkers | None = None
        seed = fresh_seed(loader.generator)
        running, loader._workers = loader._workers, None
        if running is None:
            running = LoaderWorkers(
                [partial(loader.task, number, seed) for number in range(loader.num_workers)],
                context=loader.multiprocessing_context,
                timeout=loader.timeout,
            )
        self._running, self._workers = running, running.processes
        self._numbers: Iterator[Any] | None = loader._numbers()
        self._active = list(range(loader.num_workers))
        self._order: list[int] = []
        """The workers that batches are to come from."""
        self._turn = 0
        running.begin()
        self._ask(running)

    def _ask(self, running: LoaderWorkers) -> None:
        """Ask for batches, as many ahead as the loader is told."""
        loader = self._loader
        while self._numbers and self._active and len(self._order) < (loader.prefetch_factor or 2) * loader.num_workers:
            try:
                asked = next(self._numbers)
            except StopIteration:
                self._numbers = None
                return
            worker = self._active[self._turn % len(self._active)]
            if not loader.in_order:
                worker = min(self._active, key=self._order.count)
            self._turn += 1
            running.send(worker, asked)
            self._order.append(worker)

    def _batch(self) -> Any:
        running = self._running
        if running is None:
            raise StopIteration
        try:
            found = self._answer(running)
        except BaseException:  # a worker is lost, or the caller interrupts
            self.close()
            raise
        if found is None:
            self._end(self._loader.persistent_workers)
            raise StopIteration
        _, made = found
        if isinstance(made, ExceptionWrapper):
            made.reraise()
        return made

    def _answer(self, running: LoaderWorkers) -> tuple[int, Any] | None:
        """A worker, and the batch that it has made, or what it raised; None where there are no more."""
        while self._order:
            worker = self._order[0] if self._loader.in_order else running.first_of(self._order)
            answer = running.answer(worker)
            self._order.remove(worker)
            if isinstance(answer, Finished) and worker in self._active:
                self._active.remove(worker)
            self._ask(running)
            if isinstance(answer, ExceptionWrapper):
                return worker, answer
            if not isinstance(answer, Finished):
                return worker, running.receive(worker, answer)
        return None

    def _end(self, kept: bool) -> None:
        running, self._running = self._running, None
        if running is not None and kept:
            self._loader._workers = running
        elif running is not None:
            running.close()

    def close(self) -> None:
        """End the workers."""
        self._end(False)

    def __del__(self) -> None:
        self.close()


class _InDataPhase(ChangedBatches):
    """The batches; what is allocated while they are made belongs to the phase ``data`` of a training."""

    def __next__(self) -> Any:
        with in_phase(DATA):
            return next(self._batches)
