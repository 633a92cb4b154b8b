"""The checks of what happens at the same time: finalisers at any moment, and threads."""

from __future__ import annotations

import gc
import random
import sys
import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from ...allocators.base import Allocator
from ...allocators.block import Block
from ...allocators.statistics import Statistics
from ...runtime.drivers.sim import SimDriver
from ...runtime.drivers.upstream import on_device
from .bench import Bench, Drivers, Factory, Live
from .rules import ContractBrokenError, Rule, require

__all__ = ["check_free_at_any_moment", "check_threads"]

_MOMENTS = 1000
_PATIENCE_S = 120.0
_THREADS, _TURNS = 4, 400


def check_free_at_any_moment(
    factory: Factory, drivers: Drivers = SimDriver, *, patience_s: float = _PATIENCE_S
) -> None:
    """A finaliser may free a block between any two lines of the allocator, in the middle of every operation."""
    with Bench(factory, drivers) as bench:
        _run_threads([lambda: _free_everywhere(bench)], Rule.FINALISERS, patience_s)


def _free_everywhere(bench: Bench) -> None:
    bench.driver.set_device(0)
    lane, other = bench.lanes[1], bench.lanes[2]
    operations: list[Callable[[Live], object]] = [
        lambda _: bench.allocate(512, lane),
        lambda _: bench.allocate(3 << 20, other),
        bench.free,
        lambda block: bench.touch(block, other),
        lambda _: bench.allocator.statistics(),
        lambda _: bench.allocator.segments(),
        lambda _: bench.allocator.release_cached(),
    ]
    for nbytes in (512, 3 << 20):  # peaks that are not reached again: a free in the middle of an allocation
        for _ in range(8):  # may come before or after it is counted
            bench.allocate(nbytes, lane)
    bench.start_over()
    for operation in operations:
        for recorded in (False, True):
            for moment in range(_MOMENTS):
                if not _free_in_the_middle(bench, operation, moment, recorded):
                    break


def _free_in_the_middle(bench: Bench, operation: Callable[[Live], object], moment: int, recorded: bool) -> bool:
    """Free a block at the ``moment``-th line that runs in ``operation``; whether there was one."""
    kept, victim = bench.allocate(512, bench.lanes[1]), bench.allocate(512, bench.lanes[1])
    if recorded:
        bench.touch(victim, bench.lanes[2])
    packages = _packages(bench.allocator)
    reached = _interrupt(packages, lambda: operation(kept), moment, lambda: bench.free(victim))
    bench.start_over()
    bench.synchronize()  # each moment finds the same state, or the operation might grow as fast as they come
    bench.verify()
    return reached


def _interrupt(
    packages: tuple[str, ...], operation: Callable[[], object], moment: int, interruption: Callable[[], None]
) -> bool:
    """Run ``interruption`` in the middle of ``operation``, as a finaliser would; whether it got so far."""
    lines = 0
    where = ""
    problem: Exception | None = None

    def every_line(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines, where, problem
        if event == "line":
            if lines == moment:
                where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                try:
                    interruption()
                except Exception as error:
                    problem = error
            lines += 1
        return every_line

    def every_call(frame: FrameType, _: str, __: object) -> Any:
        module = frame.f_globals.get("__name__", "")
        return every_line if module.startswith(packages) and module != Statistics.__module__ else None

    before = sys.gettrace()
    sys.settrace(every_call)
    try:
        operation()
    except ContractBrokenError:
        raise
    except Exception as error:
        problem = problem or error
    finally:
        sys.settrace(before)
    if problem is not None:
        raise ContractBrokenError(Rule.FINALISERS, f"a block was freed at {where}: {problem!r}") from problem
    return lines > moment


def _packages(allocator: Allocator) -> tuple[str, ...]:
    """Where the code of an allocator lives, its bases' included."""
    modules = [cls.__module__ for cls in type(allocator).__mro__ if issubclass(cls, Allocator)]
    return tuple({module.rpartition(".")[0] or module for module in modules})


def check_threads(factory: Factory, drivers: Drivers = SimDriver, *, patience_s: float = _PATIENCE_S) -> None:
    """Four threads on four streams, blocks freed by hand, by other threads and by the garbage collector."""
    with Bench(factory, drivers, capacity=4 << 30) as bench:  # an arena keeps everything
        crowd = _Crowd(bench)
        with _eager_garbage_collection():
            _run_threads([partial(crowd.work, index) for index in range(_THREADS)], Rule.THREADS, patience_s)
        crowd.finish()


def _run_threads(targets: list[Callable[[], None]], rule: Rule, patience_s: float) -> None:
    """Run each in a thread of its own; a deadlock, or what they raise, breaks ``rule``."""
    problems: list[Exception] = []

    def run(target: Callable[[], None]) -> None:
        try:
            target()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(target,), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience_s)
        require(not thread.is_alive() or bool(problems), rule, f"a deadlock, or more than {patience_s} s of work")
    for problem in problems:
        if isinstance(problem, ContractBrokenError):
            raise problem
        raise ContractBrokenError(rule, f"{problem!r}") from problem


class _Crowd:
    """What the threads share: which memory is in somebody's hands, and what went wrong."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.allocator = bench.allocator
        self.allocated = 0
        self._taken: list[tuple[int, int]] = []
        self._left: list[Block] = []
        self._lock = threading.RLock()  # a finaliser may come while this thread holds it
        self._problem: Exception | None = None

    def work(self, index: int) -> None:
        """What one thread does."""
        choose, stream = random.Random(index), self.bench.lanes[index].handle
        mine: list[Block] = []
        driver = self.bench.driver
        for turn in range(_TURNS):
            mine.append(self._take(choose.choice((512, 4096, 4096, 70_000, 3 << 20)), stream))
            if turn % 7 == 0:
                other = choose.choice(self.bench.lanes).handle
                self.allocator.record_stream(mine[-1], other)
                with on_device(driver, 0):
                    driver.memset(mine[-1].address, 1, 64, stream=other)
            if len(mine) > choose.randrange(12):
                block = mine.pop(choose.randrange(len(mine)))
                choose.choice((self._give, self._leave, self._drop))(block)
            if turn % 60 == 0:
                choose.choice((self.allocator.statistics, self.allocator.segments, self.allocator.release_cached))()
        for block in mine:
            self._give(block)

    def finish(self) -> None:
        """Free what is left, and compare."""
        gc.collect()
        for block in self._left:
            self._give(block)
        if self._problem is not None:
            raise ContractBrokenError(Rule.THREADS, f"in a finaliser: {self._problem!r}") from self._problem
        self.bench.synchronize()
        self.allocator.segments()
        counted = self.allocator.statistics().all
        require(
            counted.allocation.allocated == counted.allocation.freed == self.allocated,
            Rule.THREADS,
            f"{self.allocated} blocks were allocated and freed, and {counted.allocation} was counted",
        )
        for name in ("allocation", "allocated_bytes", "requested_bytes", "active", "active_bytes"):
            counter = getattr(counted, name)
            require(not counter.current, Rule.THREADS, f"{name} is {counter} after everything was freed")

    def _take(self, nbytes: int, stream: int) -> Block:
        block = self.allocator.allocate(nbytes, stream=stream)
        start, end = block.address, block.address + block.nbytes
        with self._lock:
            self.allocated += 1
            place = bisect_left(self._taken, (start, end))
            near = self._taken[max(0, place - 1) : place + 1]
            for other in near:
                require(other[1] <= start or other[0] >= end, Rule.NO_OVERLAP, f"{block!r} overlaps {other}")
            insort(self._taken, (start, end))
        return block

    def _give(self, block: Block) -> None:
        """Free it. It is off the list before anybody else can get it."""
        with self._lock:
            self._taken.remove((block.address, block.address + block.nbytes))
        self.allocator.free(block)

    def _leave(self, block: Block) -> None:
        """Leave it to another thread."""
        with self._lock:
            self._left.append(block)
            other = self._left.pop(0) if len(self._left) > 4 else None
        if other is not None:
            self._give(other)

    def _drop(self, block: Block) -> None:
        """Leave it to the garbage collector."""
        _Garbage(self, block)

    def give_in_finaliser(self, block: Block) -> None:
        """Free it; what goes wrong is kept."""
        try:
            self._give(block)
        except Exception as error:
            self._problem = self._problem or error


class _Garbage:
    """A cycle that frees its block when it is collected."""

    def __init__(self, crowd: _Crowd, block: Block) -> None:
        self.crowd = crowd
        self.block = block
        self.cycle = self

    def __del__(self) -> None:
        self.crowd.give_in_finaliser(self.block)


@contextmanager
def _eager_garbage_collection() -> Iterator[None]:
    """Collect at almost every chance, and switch threads often."""
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(20, 2, 2)
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
