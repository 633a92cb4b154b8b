"""What the bench measures of recording does what it says. No time is asserted."""

from __future__ import annotations

from cuplug.allocators import native
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.tools.benchmarks.recording_cost import RECORDED, contenders


def test_each_form_is_measured_unrecorded_and_in_each_kind_of_recording() -> None:
    found = contenders()
    for repeat in found.values():
        repeat(3)
    assert len(found) == (1 + len(RECORDED)) * (2 if native.is_available() else 1)


def test_each_allocation_of_the_program_is_recorded_in_its_turn() -> None:
    seen: list[int] = []
    allocator = CachingAllocator(NullUpstream())
    for name, repeat in contenders(allocator).items():
        before = allocator.statistics().all.allocation.allocated
        repeat(5)
        seen.append(allocator.statistics().all.allocation.allocated - before)
        assert not allocator._observation.observers, name
    assert seen == [5, 5, 5]
