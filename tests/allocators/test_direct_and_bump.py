"""The two simple allocators: one driver allocation each, and an arena."""

from __future__ import annotations

import pytest
from cuplug.allocators.bump import BumpAllocator
from cuplug.allocators.direct import DirectAllocator
from cuplug.allocators.errors import CuplugError, OutOfMemoryError
from cuplug.allocators.upstreams.null import NullUpstream

MIB = 1 << 20


# --- direct


def test_direct_holds_what_is_live_and_nothing_else() -> None:
    upstream = NullUpstream()
    allocator = DirectAllocator(upstream)
    blocks = [allocator.allocate(nbytes, stream=0) for nbytes in (1, 1000, MIB)]
    assert upstream.used_bytes == 512 + 1024 + MIB
    for block in blocks:
        allocator.free(block)
    assert upstream.used_bytes == 0
    assert upstream.calls == {"cuMemAlloc": 3, "cuMemFree": 3}


def test_direct_rounds_to_what_upstream_gives_out() -> None:
    allocator = DirectAllocator(NullUpstream(granularity=4096))
    assert allocator.allocate(1, stream=0).nbytes == 4096


def test_direct_frees_nothing_under_queued_work(manual) -> None:
    allocator = DirectAllocator(manual)
    block = allocator.allocate(1000, stream=1)
    manual.queue(block, 1)
    allocator.free(block)
    assert manual.calls["cuMemFree"] == 0
    assert [info.state for segment in allocator.segments() for info in segment.blocks] == ["inactive"]
    manual.finish(1)
    allocator.segments()
    assert manual.calls["cuMemFree"] == 1
    assert manual.waits == 0


def test_direct_waits_for_what_was_freed_when_memory_is_short(make_manual) -> None:
    manual = make_manual(MIB)
    allocator = DirectAllocator(manual)
    block = allocator.allocate(MIB, stream=1)
    manual.queue(block, 1)
    allocator.free(block)
    allocator.allocate(MIB, stream=2)
    assert manual.waits == 1
    assert not manual.faults


# --- bump


def test_bump_places_blocks_one_after_another_and_chains_chunks() -> None:
    upstream = NullUpstream()
    allocator = BumpAllocator(upstream, chunk_size=4 * MIB)
    first, second = allocator.allocate(1000, stream=0), allocator.allocate(1000, stream=0)
    assert second.address == first.address + 1024
    allocator.allocate(3 * MIB, stream=0)
    allocator.allocate(3 * MIB, stream=0)
    allocator.allocate(9 * MIB, stream=0)
    assert [segment.nbytes // MIB for segment in sorted(allocator.segments(), key=lambda found: found.nbytes)] == [
        4,
        4,
        9,
    ]


def test_bump_reuses_everything_after_a_reset_and_nothing_before() -> None:
    upstream = NullUpstream()
    allocator = BumpAllocator(upstream, chunk_size=MIB)
    for _ in range(3):
        blocks = [allocator.allocate(300_000, stream=0) for _ in range(7)]
        assert len({block.address for block in blocks}) == 7
        for block in blocks:
            allocator.free(block)
        assert allocator.reset() == 7 * 300_032
    assert upstream.calls == {"cuMemAlloc": 3}


def test_bump_goes_back_to_a_mark_and_keeps_what_was_before() -> None:
    allocator = BumpAllocator(NullUpstream(), chunk_size=MIB)
    kept = allocator.allocate(1000, stream=0)
    mark = allocator.mark()
    inner = [allocator.allocate(600_000, stream=0) for _ in range(3)]
    for block in inner:
        allocator.free(block)
    allocator.reset(mark)
    assert allocator.allocate(1000, stream=0).address == kept.address + 1024
    assert kept.live


def test_bump_refuses_a_reset_under_live_blocks_unless_told_to() -> None:
    allocator = BumpAllocator(NullUpstream())
    block = allocator.allocate(1000, stream=0)
    with pytest.raises(CuplugError, match=r"1 blocks since the mark are live and hold 1\.00 KiB"):
        allocator.reset()
    assert allocator.statistics().all.allocation.current == 1
    allocator.reset(force=True)
    assert allocator.statistics().all.allocation.current == 0
    assert allocator.allocate(1000, stream=0).address == block.address
    with pytest.raises(CuplugError, match="not in the program's hands"):
        allocator.free(block)


def test_a_mark_that_a_reset_has_gone_back_past_is_refused() -> None:
    allocator = BumpAllocator(NullUpstream())
    allocator.free(allocator.allocate(1000, stream=0))
    mark = allocator.mark()
    allocator.reset()
    with pytest.raises(CuplugError, match="gone back past it"):
        allocator.reset(mark)
    kept = [allocator.allocate(2000, stream=0) for _ in range(2)]
    with pytest.raises(CuplugError, match="gone back past it"):
        allocator.reset(mark, force=True)
    assert all(block.live for block in kept)


def test_after_a_reset_bump_waits_for_other_streams_only(manual) -> None:
    allocator = BumpAllocator(manual)
    for stream in (1, 2):
        block = allocator.allocate(1000, stream=stream)
        manual.queue(block, stream)
        allocator.free(block)
    allocator.reset()
    assert manual.waits == 0
    block = allocator.allocate(1000, stream=1)
    assert manual.waits == 1
    assert manual.pending(block.address, block.nbytes) == [1]
    allocator.allocate(1000, stream=1)
    assert manual.waits == 1
    assert not [stream for stream in manual.pending(block.address + 1024, 1024) if stream == 2]


def test_bump_waits_for_recorded_streams_before_it_resets(manual) -> None:
    allocator = BumpAllocator(manual)
    block = allocator.allocate(1000, stream=1)
    allocator.record_stream(block, 2)
    manual.queue(block, 2)
    allocator.free(block)
    allocator.reset()
    assert manual.pending(block.address, block.nbytes) == []


def test_after_a_reset_bump_waits_for_streams_that_were_destroyed(manual) -> None:
    allocator = BumpAllocator(manual)
    block = allocator.allocate(1000, stream=1)
    manual.queue(block, 1)
    allocator.free(block)
    allocator.forget_stream(1)
    allocator.reset()
    again = allocator.allocate(1000, stream=1)  # a new stream of the same handle
    assert again.address == block.address
    assert manual.waits == 1


def test_bump_gives_unused_chunks_back() -> None:
    upstream = NullUpstream()
    allocator = BumpAllocator(upstream, chunk_size=MIB)
    kept = allocator.allocate(1000, stream=0)
    mark = allocator.mark()
    for _ in range(4):
        allocator.free(allocator.allocate(MIB, stream=0))
    assert allocator.release_cached() == 0  # a free gives nothing back
    allocator.reset(mark)
    assert allocator.release_cached() == 4 * MIB
    allocator.free(kept)
    allocator.reset()
    assert allocator.release_cached() == MIB
    assert upstream.used_bytes == 0


def test_bump_is_out_of_memory_when_its_chunks_are() -> None:
    allocator = BumpAllocator(NullUpstream(2 * MIB), chunk_size=MIB)
    for _ in range(2):
        allocator.free(allocator.allocate(MIB, stream=0))
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(1, stream=0)
    allocator.reset()
    allocator.allocate(2 * MIB, stream=0)


def test_a_chunk_has_at_least_a_byte() -> None:
    with pytest.raises(ValueError, match="chunk_size is 0"):
        BumpAllocator(NullUpstream(), chunk_size=0)
