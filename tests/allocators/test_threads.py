"""Threads, finalisers and forks: nothing is lost, nothing is counted twice, nothing waits for ever."""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from cuplug.allocators.base import Allocator
from cuplug.allocators.block import Block
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.direct import DirectAllocator
from cuplug.allocators.errors import CuplugError, OutOfMemoryError
from cuplug.allocators.upstreams.null import NullUpstream

MIB = 1 << 20
PATIENCE_S = 300.0
SIZES = [1, 512, 4000, 4000, 4000, 70_000, MIB, 3 * MIB, 12 * MIB]


@contextmanager
def eager_garbage_collection() -> Iterator[None]:
    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(20, 2, 2)
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        sys.setswitchinterval(interval)


class Garbage:
    """A cycle that holds a block, and frees it when the collector finds it, wherever that is."""

    def __init__(self, worker: Worker, block: Block) -> None:
        self.worker, self.block, self.itself = worker, block, self

    def __del__(self) -> None:
        self.worker.give(self.block)


class Worker:
    """One thread's random operations, and its own account of them."""

    def __init__(self, allocator: Allocator, seed: int, turns: int, owners: dict[int, object], shared: list) -> None:
        self.allocator, self.turns, self.owners, self.shared = allocator, turns, owners, shared
        self.choose = random.Random(seed)
        self.taken = [0, 0, 0]
        self.given: list[tuple[int, int, int]] = []
        self.failures = 0
        self.problem: BaseException | None = None
        self.live: list[Block] = []

    def run(self) -> None:
        try:
            for _ in range(self.turns):
                self.turn()
            while self.live:
                self.give(self.live.pop())
        except BaseException as error:
            self.problem = error

    def turn(self) -> None:
        choose, action = self.choose, self.choose.random()
        if action < 0.5 or not self.live:
            self.take(choose.choice(SIZES), choose.randrange(4))
        elif action < 0.80:
            self.give(self.live.pop(choose.randrange(len(self.live))))
        elif action < 0.88:
            Garbage(self, self.live.pop())
        elif action < 0.93:
            self.shared.append(self.live.pop())  # another thread frees it
        elif action < 0.96 and self.shared:
            with suppress(IndexError):
                self.give(self.shared.pop())
        elif action < 0.98:
            self.allocator.record_stream(self.live[-1], choose.randrange(4))
        elif action < 0.9995:
            self.allocator.statistics()
        else:
            self.allocator.release_cached()

    def take(self, nbytes: int, stream: int) -> None:
        try:
            block = self.allocator.allocate(nbytes, stream=stream)
        except OutOfMemoryError:
            self.failures += 1
            return
        if self.owners.setdefault(block.address, block) is not block:
            raise AssertionError(f"{block!r} has two owners")
        self.taken[0] += 1
        self.taken[1] += block.nbytes
        self.taken[2] += block.requested
        self.live.append(block)

    def give(self, block: Block) -> None:
        if self.owners.pop(block.address, None) is not block:
            raise AssertionError(f"{block!r} has lost its owner")
        self.given.append((1, block.nbytes, block.requested))
        self.allocator.free(block)


def run(allocator: Allocator, threads: int, turns: int) -> list[Worker]:
    owners: dict[int, object] = {}
    shared: list[Block] = []
    workers = [Worker(allocator, seed, turns, owners, shared) for seed in range(threads)]
    started = [threading.Thread(target=worker.run, daemon=True) for worker in workers]
    with eager_garbage_collection():
        for thread in started:
            thread.start()
        for thread in started:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a deadlock"
        gc.collect()
    for worker in workers:
        if worker.problem is not None:
            raise worker.problem
    while shared:
        workers[0].give(shared.pop())
    assert owners == {}
    return workers


def check_books(allocator: Allocator, upstream: NullUpstream, workers: list[Worker]) -> None:
    counted = allocator.statistics()
    for place, name in enumerate(("allocation", "allocated_bytes", "requested_bytes")):
        counter = getattr(counted.all, name)
        taken = sum(worker.taken[place] for worker in workers)
        given = sum(entry[place] for worker in workers for entry in worker.given)
        assert (counter.allocated, counter.freed, counter.current) == (taken, given, 0)
    assert counted.all.active.current == counted.all.active_bytes.current == 0
    assert counted.num_ooms == sum(worker.failures for worker in workers)
    assert counted.all.reserved_bytes.current == upstream.used_bytes
    allocator.close()
    assert upstream.used_bytes == 0


def test_two_threads_on_four_streams_do_a_hundred_thousand_operations_under_an_eager_collector() -> None:
    upstream = NullUpstream()
    allocator = CachingAllocator(upstream)
    check_books(allocator, upstream, run(allocator, threads=2, turns=50_000))


def test_threads_on_every_allocator(make_allocator: Callable[..., Allocator]) -> None:
    upstream = NullUpstream(1 << 44)
    allocator = make_allocator(upstream)
    if hasattr(allocator, "reset"):  # an arena: its memory is never reused, and its books are the same
        allocator.chunk_size = 1 << 30
    check_books(allocator, upstream, run(allocator, threads=3, turns=1500))


@pytest.mark.parametrize("factory", [CachingAllocator, DirectAllocator])
def test_four_threads_that_run_out_of_memory_neither_deadlock_nor_corrupt(factory: Callable[..., Allocator]) -> None:
    upstream = NullUpstream(64 * MIB)
    allocator = factory(upstream)
    workers = run(allocator, threads=4, turns=1000)
    assert sum(worker.failures for worker in workers) > 0
    check_books(allocator, upstream, workers)


def test_threads_share_one_bin_without_losing_a_block() -> None:
    upstream = NullUpstream()
    allocator = CachingAllocator(upstream)
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20_000):
                allocator.free(allocator.allocate(4000, stream=0))
        except BaseException as error:
            problems.append(error)

    with eager_garbage_collection():
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert problems == []
    counted = allocator.statistics().all
    assert (counted.allocation.allocated, counted.allocation.freed) == (60_000, 60_000)
    assert counted.allocation.peak <= 3


def test_a_finaliser_may_free_in_the_middle_of_an_operation_and_nothing_else() -> None:
    class Upstream(NullUpstream):
        during: Callable[[], None] | None = None

        def reserve(self, nbytes: int) -> int:
            if self.during is not None:
                self.during()
            return super().reserve(nbytes)

    upstream = Upstream()
    allocator = CachingAllocator(upstream)
    block, recorded = allocator.allocate(1000, stream=0), allocator.allocate(1000, stream=0)
    allocator.record_stream(recorded, 1)
    refused: list[str] = []

    def finaliser() -> None:
        upstream.during = None
        allocator.free(block)
        allocator.free(recorded)
        try:
            allocator.statistics()
        except CuplugError as error:
            refused.append(str(error))

    upstream.during = finaliser
    allocator.allocate(5 * MIB, stream=0)
    assert len(refused) == 1
    assert "only free() may be called" in refused[0]
    assert allocator.statistics().all.allocation.current == 1


def test_a_hook_runs_outside_the_lock_and_outside_any_exception() -> None:
    allocator = CachingAllocator(NullUpstream(8 * MIB))
    held = [allocator.allocate(6 * MIB, stream=0)]
    seen: list[object] = []
    before = sys.exc_info()[1]  # tests that raise from a trace function leave the thread handling for ever (CPython)

    def hook(nbytes: int, stream: int) -> bool:
        seen.append((nbytes, stream, sys.exc_info()[1] is before))
        thread = threading.Thread(target=lambda: seen.append(allocator.statistics().num_ooms))
        thread.start()
        thread.join(PATIENCE_S)
        allocator.free(held.pop())
        return True

    allocator.on_out_of_memory = hook
    allocator.allocate(7 * MIB, stream=3)
    assert seen == [(7 * MIB, 3, True), 0]


def test_a_hook_that_promises_and_frees_nothing_is_asked_once_more_at_most() -> None:
    allocator = CachingAllocator(NullUpstream(8 * MIB))
    allocator.allocate(6 * MIB, stream=0)
    asked: list[int] = []
    allocator.on_out_of_memory = lambda nbytes, stream: not asked.append(nbytes)  # type: ignore[func-returns-value]
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(7 * MIB, stream=0)
    assert len(asked) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_can_abandon_an_allocator_that_another_thread_was_inside(
    make_allocator: Callable[..., Allocator],
) -> None:
    upstream = NullUpstream()
    allocator = make_allocator(upstream)
    block = allocator.allocate(1000, stream=0)
    inside, leave = threading.Event(), threading.Event()

    reserve = upstream.reserve

    def stay_inside(nbytes: int) -> int:
        inside.set()
        leave.wait(PATIENCE_S)
        return reserve(nbytes)

    upstream.reserve = stay_inside  # type: ignore[method-assign]
    thread = threading.Thread(target=allocator.allocate, args=(256 * MIB,), kwargs={"stream": 0})
    thread.start()
    inside.wait(PATIENCE_S)
    calls = dict(upstream.calls)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            allocator.abandon("the process was forked")
            allocator.free(block)
            allocator.close()
            try:
                allocator.allocate(1000, stream=0)
            except CuplugError as error:
                code = 0 if "the process was forked" in str(error) and dict(upstream.calls) == calls else 2
        finally:
            os._exit(code)
    leave.set()
    thread.join(PATIENCE_S)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    allocator.free(block)
    allocator.close()
    assert upstream.used_bytes == 0


def test_once_the_device_is_lost_nothing_is_called_and_nothing_is_raised_by_free(manual) -> None:
    allocator = CachingAllocator(manual)
    block = allocator.allocate(1000, stream=0)
    allocator.abandon("the device is lost")
    calls = dict(manual.calls)
    allocator.free(block)
    allocator.close()
    with pytest.raises(CuplugError, match="cannot be used: the device is lost"):
        allocator.allocate(1000, stream=0)
    assert dict(manual.calls) == calls
