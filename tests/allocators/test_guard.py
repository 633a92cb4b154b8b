"""Bytes behind each block that are nobody's: where blocks lie with them, and what is counted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from cuplug.allocators.bump import BumpAllocator
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.direct import DirectAllocator
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import is_available
from cuplug.allocators.upstreams.null import NullUpstream

FORMS: list[Any] = [CachingAllocator, ExpandableAllocator, DirectAllocator, BumpAllocator]
PAIRS: list[tuple[Any, Any]] = []
if is_available():
    from cuplug.allocators.native.strategies import NativeCaching, NativeExpandable

    FORMS += [NativeCaching, NativeExpandable]
    PAIRS += [(CachingAllocator, NativeCaching), (ExpandableAllocator, NativeExpandable)]


def blocks_of(form: Any, guard: int) -> tuple[Any, list[Any]]:
    allocator = form(NullUpstream(1 << 30))
    allocator.guard = guard
    sizes = (512, 1, 511, 512, 100_000, 1 << 20, 3 << 20)
    return allocator, [allocator.allocate(size, stream=0) for size in sizes]


@pytest.mark.parametrize("form", FORMS)
def test_at_least_so_many_bytes_behind_a_block_are_nobodys(form: Any) -> None:
    allocator, blocks = blocks_of(form, 512)
    ends = sorted((block.address, block.address + block.requested) for block in blocks)
    for (_, end), (start, _) in pairwise(ends):
        assert start - end >= 512
    assert all(block.nbytes >= block.requested + 512 for block in blocks)
    statistics = allocator.statistics()
    assert statistics.all.requested_bytes.current == sum(block.requested for block in blocks)
    assert statistics.all.allocated_bytes.current == sum(block.nbytes for block in blocks)
    for block in blocks:
        allocator.free(block)
    assert allocator.statistics().all.allocated_bytes.current == 0


@pytest.mark.parametrize("form", FORMS)
def test_without_it_blocks_lie_as_ever(form: Any) -> None:
    assert form(NullUpstream(1 << 30)).guard == 0
    _, blocks = blocks_of(form, 0)
    assert [block.nbytes for block in blocks[:3]] == [512, 512, 512] or form is DirectAllocator


@pytest.mark.parametrize(("python", "native"), PAIRS)
def test_both_forms_leave_the_same_room(python: Any, native: Any) -> None:
    one, other = blocks_of(python, 700), blocks_of(native, 700)
    assert [(b.address, b.nbytes) for b in one[1]] == [(b.address, b.nbytes) for b in other[1]]
    assert one[0].statistics() == other[0].statistics()


@pytest.mark.parametrize("form", [native for _, native in PAIRS])
def test_a_guard_is_a_number_of_bytes(form: Any) -> None:
    allocator = form(NullUpstream(1 << 30))
    with pytest.raises((ValueError, OverflowError)):
        allocator.guard = -1
    with pytest.raises(ValueError, match="leaves no room"):
        allocator.guard = 1 << 60
