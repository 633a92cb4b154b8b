"""Streams that name a private pool: what it holds stays where it is until the pool ends."""

from collections.abc import Iterator
from typing import Any

import pytest
from cuplug.allocators.base import Allocator
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import is_available
from cuplug.allocators.private_streams import STREAM_BITS, names_pool, without_pool
from cuplug.allocators.upstreams.null import NullUpstream

MIB = 1 << 20
POOL = 7 | 3 << STREAM_BITS


def _forms() -> Iterator[Any]:
    yield CachingAllocator
    yield ExpandableAllocator
    if is_available():
        from cuplug.allocators.native.strategies import NativeCaching, NativeExpandable

        yield NativeCaching
        yield NativeExpandable


@pytest.fixture(params=list(_forms()), ids=lambda form: form.__name__)
def allocator(request: pytest.FixtureRequest) -> Iterator[Allocator]:
    made = request.param(NullUpstream(64 * MIB))
    yield made
    made.close()
    assert made.statistics().all.reserved_bytes.current == 0


def reserved(allocator: Allocator) -> int:
    return allocator.statistics().all.reserved_bytes.current


def test_a_streams_number_tells_its_pool() -> None:
    assert names_pool(POOL)
    assert without_pool(POOL) == 7
    assert not names_pool(1 << 63 | 11)


def test_what_a_private_pool_holds_is_given_back_only_when_it_ends(allocator: Allocator) -> None:
    block = allocator.allocate(8 * MIB, stream=POOL)
    allocator.free(block)
    allocator.release_cached()
    assert reserved(allocator) >= 8 * MIB
    allocator.forget_stream(POOL)
    allocator.release_cached()
    assert reserved(allocator) == 0


def test_a_pool_that_ended_gives_back_its_own_memory_and_nothing_else(allocator: Allocator) -> None:
    cached = [allocator.allocate(8 * MIB, stream=7) for _ in range(2)]
    for block in cached:
        allocator.free(block)
    before = reserved(allocator)
    in_pool, kept = (allocator.allocate(8 * MIB, stream=POOL) for _ in range(2))
    allocator.free(in_pool)
    with_pool = reserved(allocator)
    assert allocator.release_forgotten(POOL) == 0  # it has not ended
    allocator.forget_stream(POOL)
    released = allocator.release_forgotten(POOL)
    assert released == with_pool - reserved(allocator) == 8 * MIB
    allocator.free(kept)
    assert allocator.release_forgotten(POOL) == 8 * MIB
    assert reserved(allocator) == before


def test_a_pool_that_ended_waits_for_streams_that_use_its_memory(allocator: Allocator) -> None:
    block = allocator.allocate(8 * MIB, stream=POOL)
    allocator.record_stream(block, 9)
    allocator.free(block)
    allocator.forget_stream(POOL)
    assert allocator.release_forgotten(POOL) == 8 * MIB


def test_a_freed_block_of_a_private_pool_serves_the_pool_and_nobody_else(allocator: Allocator) -> None:
    block = allocator.allocate(8 * MIB, stream=POOL)
    address = block.address
    allocator.free(block)
    other = allocator.allocate(8 * MIB, stream=7)
    assert other.address != address
    again = allocator.allocate(8 * MIB, stream=POOL)
    assert again.address == address


def test_memory_short_elsewhere_takes_nothing_from_a_private_pool(allocator: Allocator) -> None:
    blocks = [allocator.allocate(10 * MIB, stream=POOL) for _ in range(3)]
    places = sorted(block.address for block in blocks)
    for block in blocks:
        allocator.free(block)
    with pytest.raises(MemoryError):
        allocator.allocate(50 * MIB, stream=7)
    kept = [segment for segment in allocator.segments() if segment.stream == POOL]
    assert all(any(each.address <= place < each.address + each.nbytes for each in kept) for place in places)


def test_a_live_block_of_an_ended_pool_belongs_to_the_stream_itself(allocator: Allocator) -> None:
    block = allocator.allocate(8 * MIB, stream=POOL)
    allocator.forget_stream(POOL)
    other = allocator.allocate(8 * MIB, stream=POOL)  # of another pool of this name
    assert other.address != block.address
    allocator.free(block)
    allocator.free(other)
    allocator.forget_stream(POOL)
    allocator.release_cached()
    assert reserved(allocator) == 0
