"""Owning buffers: what is counted, what observers hear, and owners that let go late."""

from __future__ import annotations

import gc
import random
import threading
from typing import Any

import cuplug
import pytest
from cuplug import Buffer, Runtime
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.events import EventKind
from cuplug.runtime.drivers.sim import SimDriver
from cuplug.runtime.machine.default_runtime import default_runtime
from cuplug.runtime.memory.arena import arena
from cuplug.runtime.streams.stream import Stream
from hypothesis import given
from hypothesis import strategies as st

pytestmark = [pytest.mark.one_schedule, pytest.mark.needs_sim]
NBYTES = 1 << 20


@pytest.fixture(autouse=True)
def _no_default_left() -> Any:
    yield
    cuplug.shutdown()


def test_every_allocation_and_free_is_counted_also_on_the_short_path() -> None:
    cuplug.init(driver="sim")
    for _ in range(1000):
        cuplug.cuda.alloc(NBYTES)
    held = [cuplug.cuda.alloc(NBYTES) for _ in range(3)]
    figures = cuplug.cuda.memory_stats()
    assert figures["allocation.all.allocated"] == 1003
    assert figures["allocation.all.freed"] == 1000
    assert figures["allocation.all.current"] == 3
    assert figures["allocated_bytes.all.peak"] == 3 * NBYTES
    assert figures["requested_bytes.all.allocated"] == 1003 * NBYTES
    assert len(default_runtime().allocator(0).live_blocks()) == 3
    held[0].close()
    assert len(default_runtime().allocator(0).live_blocks()) == 2
    assert cuplug.cuda.memory_allocated() == 2 * NBYTES


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([100, 512, 5000]), st.integers(0, 1)), max_size=60))
def test_owned_blocks_and_others_are_counted_alike_and_not_mixed_up(steps: Any) -> None:
    with Runtime(driver="sim") as runtime:
        allocator = runtime.allocator(0)
        queues = [Stream(runtime=runtime), Stream(runtime=runtime)]
        buffers: list[Buffer] = []
        blocks: list[Any] = []
        made = 0
        for kind, nbytes, queue in steps:
            if kind == 0:
                buffers.append(runtime.alloc(nbytes, stream=queues[queue]))
                made += 1
            elif kind == 1:
                blocks.append(allocator.allocate(nbytes, stream=queues[queue].cuda_stream))
                made += 1
            elif kind == 2 and buffers:
                buffers.pop(nbytes % len(buffers))
            elif kind == 3 and blocks:
                allocator.free(blocks.pop(nbytes % len(blocks)))
            counted = allocator.statistics().all
            live = {buffer.address for buffer in buffers} | {block.address for block in blocks}
            assert len(live) == len(buffers) + len(blocks) == counted.allocation.current
            assert counted.allocation.allocated == made
            assert counted.allocation.freed == made - len(live)
            requested = sum(buffer.nbytes for buffer in buffers) + sum(block.requested for block in blocks)
            assert counted.requested_bytes.current == requested
            assert [block.address for block in allocator.live_blocks()] == sorted(live)
        for block in blocks:
            allocator.free(block)
        buffers.clear()
        assert allocator.statistics().all.active_bytes.current == 0
        allocator.release_cached()
        assert allocator.statistics().all.reserved_bytes.current == 0


# --- observers that come and go


def _attached(runtime: Runtime, events: list[Any]) -> Any:
    def observer(kind: EventKind, _time: int, _thread: int, _stream: int, address: int, *_rest: int) -> None:
        if kind in (EventKind.ALLOCATE, EventKind.FREE):
            events.append((kind.name, address))

    runtime.allocator(0).attach(observer)
    return observer


def test_observers_hear_of_each_allocation_and_free_once_whenever_they_come_and_go() -> None:
    with Runtime(driver="sim") as runtime:
        allocator = runtime.allocator(0)
        early = runtime.alloc(NBYTES)
        lying = runtime.alloc(NBYTES)
        lying.close()
        events: list[Any] = []
        observer = _attached(runtime, events)
        address = early.address
        early.close()
        seen = runtime.alloc(NBYTES)
        allocator.statistics()
        assert events.count(("FREE", address)) == 1
        assert events.count(("ALLOCATE", seen.address)) == 1
        allocator.detach(observer)
        events.clear()
        runtime.alloc(NBYTES)
        observer = _attached(runtime, events)
        address = seen.address
        seen.close()
        runtime.alloc(NBYTES).close()
        allocator.release_cached()
        assert events.count(("FREE", address)) - events.count(("ALLOCATE", address)) == 1
        allocator.detach(observer)


# --- threads on other devices and streams


def test_threads_on_other_streams_never_take_the_default_streams_memory() -> None:
    cuplug.init(driver="sim:devices=2")
    cuda = cuplug.cuda
    errors: list[str] = []
    go = threading.Barrier(3)

    def check(expected: tuple[int, int]) -> None:
        buffer = cuda.alloc(NBYTES)
        if (buffer.device, buffer.stream) != expected:
            errors.append(f"{(buffer.device, buffer.stream)} instead of {expected}")

    def work(seed: int) -> None:
        choose = random.Random(seed)
        queues = [cuda.Stream(), cuda.Stream(1)]
        go.wait()
        for _ in range(300):
            check((0, 0))
            if choose.random() < 0.5:
                with cuda.device(1):
                    check((1, 0))
                    with cuda.stream(queues[0]):
                        check((0, queues[0].cuda_stream))
                    check((1, 0))
            else:
                with cuda.stream(queues[1]):
                    check((1, queues[1].cuda_stream))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    check((0, 0))
    assert not errors


def test_a_thread_elsewhere_allocates_there_whatever_others_do() -> None:
    cuplug.init(driver="sim:devices=2")
    cuda = cuplug.cuda
    cuda.alloc(NBYTES)
    there, moved, seen = threading.Event(), threading.Event(), []

    def work() -> None:
        with cuda.device(1):
            there.set()
            moved.wait()
            seen.append(cuda.alloc(NBYTES).device)

    thread = threading.Thread(target=work)
    thread.start()
    there.wait()
    with cuda.stream(cuda.Stream()):
        pass
    assert cuda.alloc(NBYTES).device == 0
    moved.set()
    thread.join()
    assert seen == [1]


# --- owners that let go late


@pytest.mark.parametrize("allocator", ["direct", "bump", "caching"])
def test_an_owner_that_lets_go_after_the_allocator_was_closed_changes_nothing(allocator: str) -> None:
    driver = SimDriver()
    first = Runtime(driver=driver, allocator=allocator)
    held = [first.alloc(NBYTES), first.alloc(NBYTES)]
    held[0].record_stream(Stream(runtime=first))
    first.close()
    figures = first.find_allocator(0).statistics()  # type: ignore[union-attr]
    assert figures.all.allocation.current == 0
    held[0].close()
    held.clear()
    assert driver.live.allocations == 0
    driver.close()


def test_an_owner_whose_arena_was_reset_under_it_is_counted_out_once() -> None:
    with Runtime(driver="sim", allocator="bump") as runtime:
        with arena(force=True, runtime=runtime):
            held = [runtime.alloc(NBYTES), runtime.alloc(NBYTES)]
        held.pop().close()
        held.clear()
        counted = runtime.allocator(0).statistics().all
        assert (counted.allocation.current, counted.allocation.freed) == (0, 2)
        assert counted.allocated_bytes.current == 0


def test_a_buffer_that_another_stream_uses_is_not_handed_out_before_that_stream_is_done() -> None:
    with Runtime(driver="sim:schedule=lazy") as runtime:
        other = Stream(runtime=runtime)
        buffer = runtime.alloc(NBYTES)
        address = buffer.address
        runtime.driver.memset(address, 0, NBYTES, stream=other.cuda_stream)
        buffer.record_stream(other)
        buffer.close()
        assert runtime.alloc(NBYTES).address != address
        other.synchronize()
        assert runtime.alloc(NBYTES).address == address


def test_buffers_may_be_dropped_at_any_moment_of_an_operation() -> None:
    """Finalisers run wherever the garbage collector does: here at every allocation of a tracked object."""
    threshold = gc.get_threshold()
    with Runtime(driver="sim", allocator=lambda upstream: CachingAllocator(upstream)) as runtime:
        allocator = runtime.allocator(0)
        gc.set_threshold(1)
        try:
            for step in range(300):
                cycle: list[Any] = [runtime.alloc(100 * (step % 7 + 1)), runtime.alloc(NBYTES)]
                cycle.append(cycle)
                if step % 50 == 0:
                    allocator.release_cached()
                    allocator.statistics()
            del cycle
        finally:
            gc.set_threshold(*threshold)
        gc.collect()
        counted = allocator.statistics().all
        assert counted.allocation.current == 0
        assert counted.allocation.allocated == counted.allocation.freed == 600
