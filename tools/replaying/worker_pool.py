"""Runs one function over many items in parallel, in processes or threads, with one progress bar for all."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from ..console import UsageError, progress
from .work_on_dask import on_dask

UNITS = 100
"""What one item counts for on the progress bar."""

T = TypeVar("T")
R = TypeVar("R")

_report: Callable[[float], None] = lambda _fraction: None  # noqa: E731 - replaced in each worker


def default_jobs() -> int:
    """As many processes as there are processors for this one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def report_progress(fraction: float) -> None:
    """Called by the function at work: this further fraction of its item is done."""
    _report(fraction)


def in_parallel(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    jobs: int,
    description: str,
    threads: bool = False,
    scheduler: str | None = None,
) -> list[R]:
    """``function`` of every item, in order. With one job or one item it runs in this process, unless Dask is asked for.

    Args:
        function: a module's function, since other processes import it.
        items: what to give it. They and the results are pickled.
        jobs: how many processes at most.
        description: what the progress bar says.
        threads: use threads of this process instead, for work that hardly needs the interpreter's lock and shares
            what it reads.
        scheduler: give the work to Dask instead: the address of its scheduler, or ``local`` for ``jobs`` workers here.

    Raises:
        UsageError: a process died, for example because memory ran out; or Dask is not to be had.
        Exception: whatever ``function`` raises.
    """
    global _report
    items = list(items)
    counter = _Counter()
    with progress(description, UNITS * len(items)) as counter.done:
        if scheduler is not None:
            return on_dask(function, items, scheduler, jobs, lambda: counter.done(UNITS))
        if min(jobs, len(items)) > 1:
            return (_in_threads if threads else _elsewhere)(function, items, min(jobs, len(items)), counter)
        before, _report = _report, counter.add
        try:
            return list(map(function, items))
        finally:
            _report = before


class _StoppedError(Exception):
    """Ends a thread's work that nobody waits for any more."""


def _in_threads(function: Callable[[T], R], items: list[T], jobs: int, counter: _Counter) -> list[R]:
    global _report
    before, lock, stopped = _report, threading.Lock(), threading.Event()

    def add(fraction: float) -> None:
        if stopped.is_set():
            raise _StoppedError
        with lock:
            counter.add(fraction)

    _report = add
    pool = ThreadPoolExecutor(jobs)
    try:
        return list(pool.map(function, items))
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)
        _report = before


def _elsewhere(function: Callable[[T], R], items: list[T], jobs: int, counter: _Counter) -> list[R]:
    # A new interpreter for each process: a CUDA context does not survive a fork, nor do the threads of progress bars.
    context = multiprocessing.get_context("spawn")
    shared = context.Value("d", 0.0)
    pool = ProcessPoolExecutor(jobs, context, _set_up, (shared,))
    try:
        futures = [pool.submit(function, item) for item in items]
        waiting = set(futures)
        while waiting:
            finished, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            counter.reach(shared.value)
            for future in finished:
                future.result()
        return [future.result() for future in futures]
    except BrokenProcessPool:
        raise UsageError("a process at work died; if memory ran out, try again with --jobs 1") from None
    except BaseException:  # Ctrl-C, say: nobody waits for what is still at work
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


class _Counter:
    """Turns fractions into whole units of the progress bar."""

    def __init__(self) -> None:
        self.done: Callable[[int], None] = lambda _units: None
        """Takes how many more units are done."""
        self._told = 0
        self._sum = 0.0

    def add(self, fraction: float) -> None:
        self.reach(self._sum + fraction)

    def reach(self, total: float) -> None:
        self._sum = total
        more = int(total * UNITS) - self._told
        if more > 0:
            self._told += more
            self.done(more)


def _set_up(shared: Any) -> None:
    global _report
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which ends this one

    def add(fraction: float) -> None:
        with shared.get_lock():
            shared.value += fraction

    _report = add
