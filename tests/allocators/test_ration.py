"""The ration of what is costly: a burst at once, and then one for every so many occasions."""

from __future__ import annotations

from cuplug.allocators.caching import CachingAllocator, Ration
from cuplug.allocators.null import NullUpstream

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
    blocks = [allocator.allocate(40 * MIB, stream=0) for _ in range(100)]
    for block in blocks:
        allocator.free(block)
    allocator.allocate(4000 * MIB, stream=0)  # to stay below the peak, it would take all hundred
    statistics = allocator.statistics()
    assert statistics.num_device_free == 64
    assert statistics.all.reserved_bytes.current == (36 * 40 + 4000) * MIB
