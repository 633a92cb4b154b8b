"""Random operations on several streams against a model of what the program may rely on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from cuplug.allocators.base import Allocator
from cuplug.allocators.block import Block
from cuplug.allocators.bump import BumpAllocator
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.direct import DirectAllocator
from cuplug.allocators.errors import InvalidFreeError, OutOfMemoryError
from cuplug.allocators.request import Request
from cuplug.allocators.statistics import SMALL_BLOCK, Statistics
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

MIB = 1 << 20
PROGRAMS = 60 if "CUPLUG_THOROUGH" in os.environ else 20
FACTORIES: dict[str, Callable[..., Allocator]] = {
    "direct": DirectAllocator,
    "bump": lambda upstream: BumpAllocator(upstream, chunk_size=2 * MIB),
    "caching": CachingAllocator,
    "caching, limits": lambda upstream: CachingAllocator(
        upstream, memory_limit=64 * MIB, garbage_collection_threshold=0.5, roundup_power2_divisions=8
    ),
    "torch": lambda upstream: CachingAllocator(upstream, preset="torch"),
    "torch, oversize": lambda upstream: CachingAllocator(upstream, preset="torch", max_split_size=21 * MIB),
}
SIZES = (
    st.sampled_from([1, 511, 512, 513, 4096, MIB, MIB + 1, 2 * MIB, 12 * MIB, 24 * MIB])
    | st.integers(1, 8192)
    | st.integers(MIB, 24 * MIB)
)
STREAMS = st.integers(0, 3)
PICK = st.integers(0, 1 << 16)


class Books:
    """What the program has in its hands, and has had."""

    def __init__(self) -> None:
        self.figures = [[0, 0, 0, 0] for _ in range(9)]

    def count(self, block: Block, sign: int) -> None:
        pools = (0, 1 if block.nbytes <= SMALL_BLOCK else 2)
        for pool in pools:
            for place, amount in enumerate((1, block.nbytes, block.requested)):
                figure = self.figures[3 * pool + place]
                figure[0] += sign * amount
                figure[1] = max(figure[0], figure[1])
                figure[2 if sign > 0 else 3] += amount

    def of(self, allocator: Allocator) -> list[list[int]]:
        counted = allocator.statistics()
        return [
            [counter.current, counter.peak, counter.allocated, counter.freed]
            for pool in (counted.all, counted.small, counted.large)
            for counter in (pool.allocation, pool.allocated_bytes, pool.requested_bytes)
        ]


class Model(RuleBasedStateMachine):
    make_upstream: Callable[..., Any]
    make_allocator: Callable[..., Allocator]

    def __init__(self) -> None:
        super().__init__()
        self.upstream = type(self).make_upstream(96 * MIB)
        self.allocator = type(self).make_allocator(self.upstream)
        self.live: list[Block] = []
        self.books = Books()
        self.handles = [10, 11, 12, 13]

    def pick(self, number: int) -> Block:
        return self.live[number % len(self.live)]

    @rule(nbytes=SIZES, stream=STREAMS, used=st.booleans())
    def allocate(self, nbytes: int, stream: int, used: bool) -> None:
        handle = self.handles[stream]
        before = self.books.of(self.allocator)
        try:
            block = self.allocator.allocate(nbytes, stream=handle)
        except OutOfMemoryError:
            assert self.books.of(self.allocator) == before
            assert not any(
                info.state == "active_pending_free" for segment in self.allocator.segments() for info in segment.blocks
            )
            return
        assert block.address % 512 == block.nbytes % 512 == 0
        assert (block.requested, block.stream) == (nbytes, handle)
        assert block.nbytes >= nbytes
        assert set(self.upstream.pending(block.address, block.nbytes)) <= {handle}
        for other in self.live:
            assert other.address + other.nbytes <= block.address or block.address + block.nbytes <= other.address
        self.books.count(block, +1)
        self.live.append(block)
        if used:
            self.upstream.queue(block, handle)

    @precondition(lambda self: self.live)
    @rule(block=PICK, stream=STREAMS)
    def use(self, block: int, stream: int) -> None:
        handle = self.handles[stream]
        self.allocator.record_stream(self.pick(block), handle)
        self.upstream.queue(self.pick(block), handle)

    @precondition(lambda self: self.live)
    @rule(block=PICK)
    def free(self, block: int) -> None:
        chosen = self.live.pop(block % len(self.live))
        self.books.count(chosen, -1)
        self.allocator.free(chosen)
        with pytest.raises(InvalidFreeError):
            self.allocator.free(chosen)

    @precondition(lambda self: self.live)
    @rule(block=PICK, used=st.booleans())
    def replace(self, block: int, used: bool) -> None:
        """The case of a hit: as many bytes, at once, on the same stream."""
        chosen = self.pick(block)
        nbytes, stream = chosen.requested, chosen.stream
        self.free(block)
        if stream in self.handles:
            self.allocate(nbytes, self.handles.index(stream), used)

    @rule(stream=STREAMS)
    def finish(self, stream: int) -> None:
        self.upstream.finish(self.handles[stream])

    @rule(stream=STREAMS, reused=st.booleans())
    def destroy_stream(self, stream: int, reused: bool) -> None:
        """Its queued work goes on. Under a reused handle, a new stream knows nothing of it."""
        old = self.handles[stream]
        self.allocator.forget_stream(old)
        alias = 1000 + len(self.upstream.gone)
        self.upstream.queued[alias] = self.upstream.queued[old]
        self.upstream.finished[alias] = self.upstream.finished[old]
        self.upstream.uses = [
            (start, end, alias if used == old else used, number) for start, end, used, number in self.upstream.uses
        ]
        self.upstream.rename(old, alias)
        self.upstream.gone.add(alias)
        if reused:
            self.upstream.queued[old] = self.upstream.finished[old] = 0
        else:
            self.upstream.gone.add(old)
            self.handles[stream] = max(self.handles) + 1

    @rule()
    def release_cached(self) -> None:
        held = self.upstream.used_bytes
        assert self.allocator.release_cached() == held - self.upstream.used_bytes

    @precondition(lambda self: isinstance(self.allocator, BumpAllocator))
    @rule()
    def reset(self) -> None:
        while self.live:
            self.free(0)
        self.allocator.reset()  # type: ignore[attr-defined]

    @rule()
    def reset_peaks(self) -> None:
        self.allocator.reset_peaks()
        for figure in self.books.figures:
            figure[1] = figure[0]

    @rule(capacity=st.integers(0, 96))
    def change_capacity(self, capacity: int) -> None:
        self.upstream.total_bytes = max(capacity * MIB, self.upstream.used_bytes)

    @invariant()
    def books_agree(self) -> None:
        assert self.books.of(self.allocator) == self.books.figures
        assert not self.upstream.faults
        assert self.allocator.statistics().all.reserved_bytes.current == self.upstream.used_bytes
        limit = self.allocator.memory_limit
        assert limit is None or self.upstream.used_bytes <= limit
        assert self.allocator.live_blocks() == sorted(self.live, key=int)

    @rule()  # not after every step: to make the map, an allocator settles what it has left as it was
    def look_at_the_map(self) -> None:
        segments = self.allocator.segments()
        assert sum(segment.nbytes for segment in segments) == self.upstream.used_bytes
        blocks = [info for segment in segments for info in segment.blocks]
        active = {info.address for info in blocks if info.state == "active_allocated"}
        assert active == {block.address for block in self.live}

    def teardown(self) -> None:
        self.look_at_the_map()
        self.allocator.close()
        assert self.upstream.used_bytes == 0
        assert not self.upstream.faults
        for block in self.live:
            self.allocator.free(block)  # a late free does nothing


@pytest.mark.parametrize("name", FACTORIES)
def test_random_operations_keep_the_contract(name: str, make_manual: Callable[..., Any]) -> None:
    machine = type(f"{name} model", (Model,), {"make_upstream": make_manual, "make_allocator": FACTORIES[name]})
    run_state_machine_as_test(machine, settings=settings(max_examples=PROGRAMS, stateful_step_count=40, deadline=None))


class ReusesTooEarly(CachingAllocator):
    """A planted fault: streams share what was freed."""

    def allocate(self, nbytes: int, *, stream: int) -> Block:
        block = super().allocate(nbytes, stream=10)
        block.stream = stream
        return block


class IgnoresRecords(CachingAllocator):
    def record_stream(self, block: Block, stream: int) -> None:
        """A planted fault: forget it."""


class LosesAfterFailure(DirectAllocator):
    def _give_up(self, request: Request) -> None:
        """A planted fault: a failed allocation costs a counter."""
        self._ledger.allocated(512, 512)
        super()._give_up(request)


class MissesPeaks(CachingAllocator):
    def statistics(self) -> Statistics:
        """A planted fault: what is live now is taken for the most that ever was."""
        found = super().statistics()
        found.all.allocated_bytes.peak = found.all.allocated_bytes.current
        return found


class ForgetsNothing(CachingAllocator):
    def forget_stream(self, stream: int) -> None:
        """A planted fault: a new stream of the same handle gets the old one's blocks."""


@pytest.mark.parametrize("faulty", [ReusesTooEarly, IgnoresRecords, LosesAfterFailure, MissesPeaks, ForgetsNothing])
def test_the_model_catches_planted_faults(faulty: type[Allocator], make_manual: Callable[..., Any]) -> None:
    machine = type("faulty model", (Model,), {"make_upstream": make_manual, "make_allocator": faulty})
    quick = settings(
        max_examples=300, stateful_step_count=40, deadline=None, phases=settings().phases[:3], database=None
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=quick)
