"""The checks of what several threads do at the same time."""

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

from ...allocators.block import Block
from ...runtime.drivers.device_upstream import on_device
from ...runtime.drivers.sim import SimDriver
from .rules import ContractBrokenError, Rule, require
from .stepping import PATIENCE_S, Code, Worker, chosen_lines, run_at_line, run_threads
from .workbench import MIB, Bench, Drivers, Factory, Live

_THREADS, _TURNS = 4, 400
_GLANCE_S = 0.0005
_STANDSTILL = 3


def check_threads(factory: Factory, drivers: Drivers = SimDriver, *, patience_s: float = PATIENCE_S) -> None:
    """Four threads, on streams of their own and on one, free by hand, for each other and by garbage collection."""
    with Bench(factory, drivers, capacity=8 << 30) as bench:  # an arena keeps everything
        crowd = _Crowd(bench)
        own = [partial(crowd.work, index, bench.lanes[index].handle) for index in range(_THREADS)]
        shared = [partial(crowd.work, index, bench.lanes[1].handle) for index in range(_THREADS)]
        with _eager_garbage_collection():
            run_threads([*own], Rule.THREADS, patience_s)
            run_threads([*shared], Rule.THREADS, patience_s)
        crowd.finish()


def check_threads_that_meet_at_any_line(
    factory: Factory, drivers: Drivers = SimDriver, *, patience_s: float = PATIENCE_S
) -> None:
    """While one thread stands between any two lines of an operation, another one carries out a whole operation.

    What a pause of a thread may bring once in a million runs is tried here line by line.
    """
    with Bench(factory, drivers, capacity=1 << 30) as bench:
        run_threads([_Meeting(bench).everywhere], Rule.THREADS, patience_s)


class _Meeting:
    """Two operations of two threads on one stream, for whose sake one freed block of each size lies ready."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._allocator = bench.allocator
        self._lane = bench.lanes[1]
        self._taken: list[tuple[Block, int]] = []
        self._to_give: list[Live] = []

    def everywhere(self) -> None:
        """Try all pairs of operations, at each line of the first."""
        self._bench.driver.set_device(0)
        for nbytes in (512, 3 * MIB):  # peaks that are not reached again, whichever operation comes first
            for _ in range(8):
                self._bench.allocate(nbytes, self._lane)
        self._bench.start_over()
        self._allocator.release_cached()
        code = Code(self._allocator)
        small, large = partial(self._take, 512), partial(self._take, 3 * MIB)
        for first, second in (
            (small, small),
            (large, large),
            (small, self._give),
            (self._give, small),
            (self._give, self._give),
            (small, self._clear),
            (self._clear, small),
            (self._allocator.segments, small),
        ):
            self._set_up()
            moments = chosen_lines(code, first)
            self._settle_up()
            for moment in moments:
                self._set_up()
                self._meet(code, first, second, moment)
                self._settle_up()

    def _set_up(self) -> None:
        self._to_give = [self._bench.allocate(512, self._lane) for _ in range(2)]
        for nbytes in (512, 3 * MIB):
            self._bench.free(self._bench.allocate(nbytes, self._lane))
        self._allocator.statistics()

    def _meet(self, code: Code, first: Callable[[], object], second: Callable[[], object], moment: int) -> None:
        where = ""

        def work() -> None:
            self._bench.driver.set_device(0)
            second()

        other = Worker(work)

        def let_the_other_in(frame: FrameType) -> None:
            nonlocal where
            where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            other.start()
            standing, before = 0, 0.0
            while other.is_alive() and standing < _STANDSTILL:  # it may wait for a lock that this thread holds
                other.join(_GLANCE_S)
                used = other.used()
                standing, before = (standing + 1 if used == before else 0), used

        try:
            run_at_line(code, first, moment, let_the_other_in)
            if other.ident is not None:
                other.join()
            for block, nbytes in self._taken:
                self._bench.took(block, nbytes, self._lane)
            self._taken.clear()
            _raise(other.problem)
            self._bench.verify()
        except Exception as error:
            detail = error.detail if isinstance(error, ContractBrokenError) else repr(error)
            rule = error.rule if isinstance(error, ContractBrokenError) else Rule.THREADS
            raise ContractBrokenError(
                rule, f"while one thread stood at {where}, another one came in between: {detail}"
            ) from error

    def _settle_up(self) -> None:
        for block, nbytes in self._taken:
            self._bench.took(block, nbytes, self._lane)
        self._taken.clear()
        self._bench.start_over()
        self._bench.synchronize()
        self._bench.verify()

    def _take(self, nbytes: int) -> None:
        self._taken.append((self._allocator.allocate(nbytes, stream=self._lane.handle), nbytes))

    def _give(self) -> None:
        live = self._to_give.pop()
        self._bench.gave_up(live)
        self._allocator.free(live.block)

    def _clear(self) -> None:
        self._allocator.release_cached()


def _raise(problem: BaseException | None) -> None:
    if problem is not None:
        raise problem


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

    def work(self, index: int, stream: int) -> None:
        """What one thread does."""
        choose = random.Random(index)
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
