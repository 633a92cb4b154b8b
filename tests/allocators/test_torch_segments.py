"""``expandable:preset=torch`` reserves what PyTorch does with ``expandable_segments:True``.

The expected figures follow from the rules in PyTorch's ``CUDACachingAllocator.cpp``; those of recorded runs are what
PyTorch itself reserved on the same workload and seed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cuplug.allocators.block import Block
from cuplug.allocators.errors import OutOfMemoryError
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import is_available
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.tools.replaying.replayer import ReplayResult

MIB = 1 << 20
FORMS: dict[str, Callable[..., ExpandableAllocator]] = {"Python": ExpandableAllocator}
if is_available():
    from cuplug.allocators.native.strategies import NativeExpandable

    FORMS["native"] = NativeExpandable  # type: ignore[assignment]


@pytest.fixture(params=FORMS)
def make(request: pytest.FixtureRequest) -> Callable[..., ExpandableAllocator]:
    form = FORMS[request.param]

    def made(total: int = 1 << 34, **options: int) -> ExpandableAllocator:
        return form(NullUpstream(total), preset="torch", **options)  # type: ignore[arg-type]

    return made


def take(allocator: ExpandableAllocator, *sizes: int) -> list[Block]:
    return [allocator.allocate(size, stream=1) for size in sizes]


def reserved(allocator: ExpandableAllocator) -> int:
    return allocator.statistics().all.reserved_bytes.current


@pytest.mark.parametrize(
    ("name", "expandable"),
    [
        ("resnet_multiscale", 6_117_392_384),
        ("gpt2_varlen", 14_050_918_400),
        ("llm_decode", 1_388_314_624),
        ("stream_prefetch", 2_527_068_160),
        ("serving", 843_055_104),
    ],
)
def test_it_reserves_exactly_what_pytorch_did(
    name: str, expandable: int, replayed: Callable[..., ReplayResult]
) -> None:
    result = replayed(name, "expandable torch", memory=141 << 30)
    assert (result.failure, result.peak_reserved_bytes) == ("", expandable)


@pytest.mark.parametrize(
    ("nbytes", "mapped"),
    [(1, 2), (MIB, 2), (MIB + 1, 20), (20 * MIB, 20), (20 * MIB + 1, 40), (55 * MIB, 60)],
)
def test_pages_are_of_2_mib_for_small_blocks_and_of_20_for_large_ones(
    make: Callable[..., ExpandableAllocator], nbytes: int, mapped: int
) -> None:
    allocator = make()
    take(allocator, nbytes)
    assert reserved(allocator) == mapped * MIB
    allocator.close()


def test_a_segment_grows_behind_what_is_free_at_its_end(make: Callable[..., ExpandableAllocator]) -> None:
    allocator = make()
    first, second = take(allocator, 15 * MIB, 25 * MIB)
    assert second.address == first.address + first.nbytes
    assert reserved(allocator) == 40 * MIB
    allocator.close()


def test_what_can_grow_is_chosen_last(make: Callable[..., ExpandableAllocator]) -> None:
    """Behind the last block 8 MiB are free, and 12 in a gap: the smaller one could grow, so the gap serves."""
    allocator = make()
    _, gap, _, _ = take(allocator, 5 * MIB, 12 * MIB, 5 * MIB, 10 * MIB)
    address = gap.address
    allocator.free(gap)
    (found,) = take(allocator, 6 * MIB)
    assert found.address == address
    assert reserved(allocator) == 40 * MIB
    allocator.close()


def test_released_pages_are_mapped_again_from_the_lowest_place_on(make: Callable[..., ExpandableAllocator]) -> None:
    allocator = make()
    low, *_ = take(allocator, 40 * MIB, 40 * MIB)
    address = low.address
    allocator.free(low)
    assert allocator.release_cached() == 40 * MIB
    (found,) = take(allocator, 30 * MIB)
    assert found.address == address
    assert reserved(allocator) == 80 * MIB
    allocator.close()


def test_pages_that_blocks_share_stay(make: Callable[..., ExpandableAllocator]) -> None:
    allocator = make()
    first, _ = take(allocator, 30 * MIB, 10 * MIB)
    allocator.free(first)
    assert allocator.release_cached() == 20 * MIB  # the second page of 20 MiB holds 10 of the other block
    allocator.close()


def test_sizes_are_rounded_as_pytorch_is_told_to(make: Callable[..., ExpandableAllocator]) -> None:
    allocator = make(roundup_power2_divisions=4)
    (block,) = take(allocator, 33 * MIB)
    assert block.nbytes == 40 * MIB
    allocator.close()


def test_no_page_is_mapped_beyond_the_limit(make: Callable[..., ExpandableAllocator]) -> None:
    allocator = make(memory_limit=50 * MIB)
    take(allocator, 30 * MIB)
    with pytest.raises(OutOfMemoryError):
        take(allocator, 20 * MIB)
    assert reserved(allocator) == 40 * MIB
    allocator.close()


def test_a_device_that_is_full_gets_its_pages_back_from_the_other_kind(
    make: Callable[..., ExpandableAllocator],
) -> None:
    allocator = make(40 * MIB)
    small = take(allocator, *[MIB] * 30)
    for block in small:
        allocator.free(block)
    take(allocator, 35 * MIB)
    assert reserved(allocator) == 40 * MIB
    allocator.close()


def test_a_wrong_preset_is_refused(make: Callable[..., ExpandableAllocator]) -> None:
    with pytest.raises(ValueError, match="roundup_power2_divisions is 3; it must be 0 or a power of two"):
        make(roundup_power2_divisions=3)
