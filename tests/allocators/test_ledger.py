"""The ledger against counting everything at every step, and the gatekeeper of freed blocks."""

from __future__ import annotations

import os

import pytest
from cuplug.allocators.block import Block
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import DriverError
from cuplug.allocators.statistics import SMALL_BLOCK, Counter, Counters, Ledger, Statistics
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.allocators.waiting import Waiting, fence_or_later
from hypothesis import given, settings
from hypothesis import strategies as st


def change(counter: Counter, amount: int) -> None:
    counter.allocated += max(amount, 0)
    counter.current += amount
    counter.peak = max(counter.peak, counter.current)


class Plain:
    """Counts in the plain way: every counter at every step."""

    def __init__(self) -> None:
        self.statistics = Statistics()

    def pools(self, nbytes: int) -> tuple[Counters, Counters]:
        small = nbytes <= SMALL_BLOCK
        return self.statistics.all, self.statistics.small if small else self.statistics.large

    def allocated(self, nbytes: int, requested: int) -> None:
        for pool in self.pools(nbytes):
            change(pool.allocation, 1)
            change(pool.allocated_bytes, nbytes)
            change(pool.requested_bytes, requested)
            change(pool.active, 1)
            change(pool.active_bytes, nbytes)

    def freed(self, nbytes: int, requested: int, waits: bool) -> None:
        for pool in self.pools(nbytes):
            change(pool.allocation, -1)
            change(pool.allocated_bytes, -nbytes)
            change(pool.requested_bytes, -requested)
        if not waits:
            self.passed(nbytes)

    def passed(self, nbytes: int) -> None:
        for pool in self.pools(nbytes):
            change(pool.active, -1)
            change(pool.active_bytes, -nbytes)

    def reset(self, what: str) -> None:
        for _, pool in self.statistics.pools():
            for _, counter in pool.named():
                if what == "peak":
                    counter.peak = counter.current
                else:
                    counter.reset_accumulated()


# Few sizes, so that figures often come close to their peaks.
SIZES = st.sampled_from([1, 512, 513, 1024, SMALL_BLOCK + 1, SMALL_BLOCK + 512])


@settings(max_examples=1500 if "CUPLUG_THOROUGH" in os.environ else 300)
@given(st.lists(st.tuples(st.sampled_from("aaaafffffwwpPA"), SIZES, st.integers(0, 99)), max_size=40))
def test_the_ledger_counts_what_counting_at_every_step_counts(steps: list[tuple[str, int, int]]) -> None:
    ledger, plain = Ledger(), Plain()
    live: list[tuple[int, int]] = []
    waiting: list[int] = []
    for step, requested, pick in steps:
        nbytes = -(-requested // 512) * 512
        if step == "a":
            ledger.allocated(nbytes, requested)
            plain.allocated(nbytes, requested)
            live.append((nbytes, requested))
        elif step in "fw" and live:
            nbytes, requested = live.pop(pick % len(live))
            ledger.freed(nbytes, requested, waits=step == "w")
            plain.freed(nbytes, requested, step == "w")
            if step == "w":
                waiting.append(nbytes)
        elif step == "p" and waiting:
            nbytes = waiting.pop(pick % len(waiting))
            ledger.passed(nbytes)
            plain.passed(nbytes)
        elif step == "P":
            ledger.reset_peaks()
            plain.reset("peak")
        elif step == "A":
            ledger.reset_accumulated()
            plain.reset("sums")
        if pick % 4 == 0:
            assert ledger.statistics() == plain.statistics
    assert ledger.statistics() == plain.statistics


def test_a_hit_counts_as_coming_and_going_below_the_peak() -> None:
    allocator = CachingAllocator(NullUpstream())
    for _ in range(5):
        allocator.free(allocator.allocate(1000, stream=0))
    block = allocator.allocate(1000, stream=0)
    counted = allocator.statistics().small
    assert counted.allocation == Counter(current=1, peak=1, allocated=6, freed=5)
    assert counted.requested_bytes == Counter(current=1000, peak=1000, allocated=6000, freed=5000)
    assert counted.active_bytes == Counter(current=1024, peak=1024, allocated=6144, freed=5120)
    allocator.free(block)
    assert allocator.statistics().small.allocation == Counter(current=0, peak=1, allocated=6, freed=6)


def test_resetting_the_sums_keeps_what_is_current() -> None:
    allocator = CachingAllocator(NullUpstream())
    kept = allocator.allocate(1000, stream=0)
    allocator.free(allocator.allocate(5000, stream=0))
    allocator.reset_accumulated()
    allocator.free(allocator.allocate(3000, stream=0))
    counted = allocator.statistics().all.requested_bytes
    assert counted == Counter(current=1000, peak=6000, allocated=3000, freed=3000)
    allocator.free(kept)


def test_a_block_waits_for_all_its_fences(manual) -> None:
    passed: list[Block] = []
    waiting = Waiting(passed.append)
    block = Block(CachingAllocator(manual), 512, 512, 1, 0)
    manual.queue(block, 1)
    manual.queue(block, 2)
    waiting.add(block, [(1, manual.fence(1)), (2, manual.fence(2))])
    waiting.poll()
    manual.finish(2)
    waiting.poll()
    assert (passed, bool(waiting.queues)) == ([], True)
    manual.finish(1)
    waiting.poll()
    assert (passed, bool(waiting.queues)) == ([block], False)


def test_one_question_tells_that_none_of_a_streams_fences_has_passed(manual) -> None:
    asked: list[int] = []

    class Fence:
        def __init__(self, number: int) -> None:
            self.number = number

        def done(self) -> bool:
            asked.append(self.number)
            return False

        def wait(self) -> None:
            raise AssertionError

    waiting = Waiting(lambda block: None)
    allocator = CachingAllocator(manual)
    for number in range(5):
        waiting.add(Block(allocator, 512, 512, 1, 0), [(7, Fence(number))])
    waiting.poll()
    assert asked == [0]


def test_a_fence_that_the_driver_refuses_surfaces_where_somebody_waits_and_loses_nothing(manual) -> None:
    manual.gone.add(9)
    fence = fence_or_later(manual, 9)
    assert not fence.done()
    passed: list[Block] = []
    waiting = Waiting(passed.append)
    waiting.add(Block(CachingAllocator(manual), 512, 512, 1, 0), [(9, fence)])
    for _ in range(2):
        with pytest.raises(DriverError, match="INVALID_HANDLE"):
            waiting.wait()
        assert waiting.queues
    assert passed == []
    manual.gone.discard(9)
    waiting.wait()
    assert len(passed) == 1


def test_free_stays_silent_when_a_recorded_stream_is_gone(manual) -> None:
    allocator = CachingAllocator(manual)
    block = allocator.allocate(1000, stream=0)
    allocator.record_stream(block, 9)
    manual.gone.add(9)
    allocator.free(block)
    with pytest.raises(DriverError, match="stream 9 was destroyed"):
        allocator.release_cached()
    assert allocator.statistics().all.active.current == 1
