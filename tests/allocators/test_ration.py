"""The ration of what is costly: a burst at once, and then one for every so many occasions."""

from __future__ import annotations

from cuplug.allocators.caching import CachingAllocator, Ration
from cuplug.allocators.upstreams.null import NullUpstream

MIB = 1 << 20


def test_a_full_ration_allows_its_burst_at_once_and_no_more() -> None:
    ration = Ration(burst=3, every=10)
    assert ration.left(0) == 3
    ration.spend(3)
    assert ration.left(0) == 0


def test_a_spent_ration_grows_by_one_for_every_so_many_occasions() -> None:
    ration = Ration(burst=3, every=10)
    ration.spend(3)
    assert [ration.left(occasions) for occasions in (9, 10, 19, 20)] == [0, 1, 1, 2]


def test_a_ration_never_saves_more_than_its_burst() -> None:
    ration = Ration(burst=3, every=10)
    assert ration.left(10_000) == 3
    ration.spend(1)
    assert ration.left(20_000) == 3


def test_at_most_64_idle_segments_are_given_back_at_once() -> None:
    allocator = CachingAllocator(NullUpstream())
    blocks = [allocator.allocate(48 * MIB, stream=0) for _ in range(100)]
    for block in blocks:
        allocator.free(block)
    allocator.allocate(4800 * MIB, stream=0)  # to stay below the peak, it would take all hundred
    statistics = allocator.statistics()
    assert statistics.num_device_free == 64
    assert statistics.all.reserved_bytes.current == (36 * 48 + 4800) * MIB


def test_segments_grow_with_what_is_reserved_and_large_blocks_have_their_own() -> None:
    allocator = CachingAllocator(NullUpstream())

    def grows_by(nbytes: int) -> int:
        before = allocator.statistics().all.reserved_bytes.current
        allocator.allocate(nbytes, stream=0)
        return allocator.statistics().all.reserved_bytes.current - before

    assert grows_by(4 * MIB) == 8 * MIB
    assert grows_by(6 * MIB) == 6 * MIB  # more than two thirds of a segment
    assert grows_by(2000 * MIB) == 2000 * MIB
    assert grows_by(5 * MIB) == 32 * MIB  # 1/48 of 2014 MiB is 42
    assert grows_by(22 * MIB) == 0
    assert grows_by(8000 * MIB) == 8000 * MIB
    assert grows_by(40 * MIB) == 64 * MIB


def test_a_huge_idle_segment_is_not_broken_for_a_small_block_while_the_ration_lasts() -> None:
    allocator = CachingAllocator(NullUpstream())
    huge = allocator.allocate(1000 * MIB, stream=0)
    allocator.free(huge)
    allocator.allocate(124 * MIB, stream=0)  # less than an eighth: the huge one goes, one of its size comes
    assert [segment.nbytes for segment in allocator.segments()] == [124 * MIB]
    assert allocator.statistics().num_device_free == 1


def test_a_huge_idle_segment_is_broken_when_there_is_no_memory_for_another() -> None:
    allocator = CachingAllocator(NullUpstream(total_bytes=1000 * MIB), memory_limit=1000 * MIB)
    kept = allocator.allocate(400 * MIB, stream=0)
    allocator.free(allocator.allocate(600 * MIB, stream=0))
    block = allocator.allocate(10 * MIB, stream=0)
    assert kept.live
    assert block.live
    assert allocator.statistics().num_ooms == 0


def test_an_idle_segment_is_broken_for_a_block_of_an_eighth_or_more() -> None:
    allocator = CachingAllocator(NullUpstream())
    allocator.free(allocator.allocate(1000 * MIB, stream=0))
    allocator.allocate(125 * MIB, stream=0)
    assert [segment.nbytes for segment in allocator.segments()] == [1000 * MIB]
