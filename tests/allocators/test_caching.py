"""The caching allocator: segments, splitting, options, pressure, and streams that come and go."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import OutOfMemoryError
from cuplug.allocators.upstreams.null import NullUpstream

from .conftest import CACHING, FACTORIES

MIB = 1 << 20


def reserved(allocator: CachingAllocator) -> int:
    return allocator.statistics().all.reserved_bytes.current


# --- segments


def test_the_documented_sequence_gives_pytorchs_figures(make_caching: Callable[..., CachingAllocator]) -> None:
    allocator = make_caching(NullUpstream())
    allocator.allocate(300 * 300 * 300 * 4, stream=0)
    counted = allocator.statistics().all
    assert counted.allocated_bytes.current == counted.allocated_bytes.peak == 108_000_256
    assert counted.reserved_bytes.current == 109_051_904
    allocator.free(allocator.allocate(1, stream=0))
    assert reserved(allocator) == 111_149_056


def test_small_and_large_blocks_lie_in_segments_of_their_own(make_caching: Callable[..., CachingAllocator]) -> None:
    allocator = make_caching(NullUpstream())
    for nbytes in (1, MIB, MIB + 1, 512, 5 * MIB):
        allocator.allocate(nbytes, stream=0)
    for segment in allocator.segments():
        assert {info.nbytes <= MIB for info in segment.blocks if info.state != "inactive"} == {segment.pool == "small"}
    statistics = allocator.statistics()
    assert statistics.small.allocation.current == 3
    assert statistics.large.allocation.current == 2


@pytest.mark.parametrize(
    ("nbytes", "segment"), [(1, 2), (MIB, 2), (MIB + 1, 20), (10 * MIB - 512, 20), (10 * MIB, 10), (11 * MIB + 1, 12)]
)
def test_the_torch_preset_has_pytorchs_segment_sizes(nbytes: int, segment: int) -> None:
    allocator = CachingAllocator(NullUpstream(), preset="torch")
    allocator.allocate(nbytes, stream=0)
    assert reserved(allocator) == segment * MIB


def test_the_torch_preset_leaves_up_to_a_mebibyte_with_a_large_block() -> None:
    allocator = CachingAllocator(NullUpstream(), preset="torch")
    assert allocator.allocate(19 * MIB, stream=0).nbytes == 20 * MIB
    assert allocator.allocate(19 * MIB - 512, stream=0).nbytes == 19 * MIB - 512


def test_free_neighbours_become_one(make_caching: Callable[..., CachingAllocator]) -> None:
    allocator = make_caching(NullUpstream())
    blocks = [allocator.allocate(2 * MIB, stream=0) for _ in range(4)]
    for index in (0, 2, 3, 1):
        allocator.free(blocks[index])
    assert all(len(segment.blocks) == 1 for segment in allocator.segments())
    held = reserved(allocator)
    assert held == sum(segment.nbytes for segment in allocator.segments())
    assert allocator.release_cached() == held
    assert reserved(allocator) == 0


def test_the_smallest_piece_that_fits_serves(make_caching: Callable[..., CachingAllocator]) -> None:
    allocator = make_caching(NullUpstream())
    sizes = [300 * 1024, 512, 100 * 1024, 512, 200 * 1024, 512]
    blocks = [allocator.allocate(nbytes, stream=0) for nbytes in sizes]
    for index in (0, 2, 4):
        allocator.free(blocks[index])
    allocator.segments()  # by now all that came back is settled
    assert allocator.allocate(150 * 1024, stream=0).address == blocks[4].address


def test_split_blocks_are_counted(make_caching: Callable[..., CachingAllocator]) -> None:
    allocator = make_caching(NullUpstream())
    first, second = (allocator.allocate(512, stream=0) for _ in range(2))
    assert allocator.statistics().small.inactive_split_bytes.current == 2 * MIB - 1024
    allocator.free(first)
    allocator.segments()
    counted = allocator.statistics().all
    assert (counted.inactive_split.current, counted.inactive_split_bytes.current) == (2, 2 * MIB - 512)
    allocator.free(second)
    allocator.segments()
    counted = allocator.statistics().all
    assert (counted.inactive_split.current, counted.inactive_split_bytes.current) == (0, 0)
    assert counted.inactive_split_bytes.peak == 2 * MIB - 512


def test_the_default_breaks_an_idle_segment_only_when_nothing_else_fits() -> None:
    allocator = CachingAllocator(NullUpstream())
    kept, idle = allocator.allocate(100 * MIB, stream=0), allocator.allocate(40 * MIB, stream=0)
    part = allocator.allocate(30 * MIB, stream=0)
    allocator.free(kept)
    allocator.free(idle)
    rest = allocator.allocate(60 * MIB, stream=0)  # cut from the larger segment, whose end is larger than `idle`
    assert rest.address == kept.address
    assert allocator.allocate(38 * MIB, stream=0).address == kept.address + 60 * MIB
    assert part.live


def test_before_it_grows_past_its_peak_the_default_gives_idle_segments_back() -> None:
    upstream = NullUpstream()
    allocator = CachingAllocator(upstream)
    for mebibytes in range(10, 100, 10):
        allocator.free(allocator.allocate(mebibytes * MIB, stream=0))
    assert allocator.statistics().all.reserved_bytes.peak == 90 * MIB
    torch = CachingAllocator(NullUpstream(), preset="torch")
    for mebibytes in range(10, 100, 10):
        torch.free(torch.allocate(mebibytes * MIB, stream=0))
    assert torch.statistics().all.reserved_bytes.peak == 450 * MIB


def test_a_segment_is_taken_for_an_allocation_and_goes_back_once() -> None:
    upstream = NullUpstream()
    allocator = CachingAllocator(upstream)
    for index in range(300):  # a program that never settles: every request is larger than all before it
        allocator.free(allocator.allocate(32 * MIB + index * 2 * MIB, stream=0))
    assert (upstream.calls["cuMemAlloc"], upstream.calls["cuMemFree"]) == (300, 299)
    assert allocator.statistics().all.reserved_bytes.peak == 32 * MIB + 299 * 2 * MIB


def test_a_program_whose_sizes_repeat_soon_calls_the_driver_no_more(
    make_caching: Callable[..., CachingAllocator],
) -> None:
    upstream = NullUpstream()
    allocator = make_caching(upstream)
    sizes = [MIB * (7 * index % 97 + 1) for index in range(60)]
    for turn in range(6):
        if turn == 4:
            calls = upstream.calls.total() if hasattr(upstream.calls, "total") else sum(upstream.calls.values())
        blocks = [allocator.allocate(nbytes, stream=0) for nbytes in sizes]
        for block in blocks[::2] + blocks[1::2]:
            allocator.free(block)
    assert sum(upstream.calls.values()) == calls


# --- options


def test_the_memory_limit_counts_as_out_of_memory(make_caching: Callable[..., CachingAllocator]) -> None:
    allocator = make_caching(NullUpstream(), memory_limit=50 * MIB)
    block = allocator.allocate(40 * MIB, stream=0)
    with pytest.raises(OutOfMemoryError, match=r"limit is 50\.00 MiB"):
        allocator.allocate(20 * MIB, stream=0)
    assert allocator.statistics().num_ooms == 1
    allocator.free(block)
    allocator.allocate(20 * MIB, stream=0)  # the cache is given back for it
    assert reserved(allocator) <= 50 * MIB


def test_the_limit_may_be_a_fraction_of_the_device(make_caching: Callable[..., CachingAllocator]) -> None:
    assert make_caching(NullUpstream(100 * MIB), memory_fraction=0.25).memory_limit == 25 * MIB
    assert make_caching(NullUpstream(100 * MIB), memory_fraction=0.25, memory_limit=MIB).memory_limit == MIB


@pytest.mark.parametrize(
    "options",
    [
        {"memory_fraction": 0.0},
        {"memory_fraction": 1.5},
        {"garbage_collection_threshold": 1.0},
        {"garbage_collection_threshold": -0.1},
        {"max_split_size": 20 * MIB},
        {"roundup_power2_divisions": 3},
        {"roundup_power2_divisions": -1},
    ],
)
def test_an_option_out_of_range_is_refused_by_name(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} is .*; it must be"):
        CachingAllocator(NullUpstream(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("requested", "expected"), [(1200, 1536), (5000, 5120), (5121, 6144), (1 << 20, 1 << 20), ((1 << 20) + 1, 5 << 18)]
)
def test_sizes_are_rounded_up_to_divisions_of_powers_of_two(requested: int, expected: int) -> None:
    # torch.cuda's documentation: with 4 divisions, 1200 lies between 1024 and 2048 and becomes 1280, then 512s are
    # what blocks are made of; roundup_power2_next_division is used from 512 * divisions on.
    allocator = CachingAllocator(NullUpstream(), roundup_power2_divisions=4)
    assert allocator.allocate(requested, stream=0).nbytes == expected


def test_oversize_pieces_are_never_cut_and_serve_only_oversize_requests() -> None:
    allocator = CachingAllocator(NullUpstream(), preset="torch", max_split_size=32 * MIB)
    oversize = allocator.allocate(60 * MIB, stream=0)
    allocator.free(oversize)
    assert allocator.allocate(24 * MIB, stream=0).address != oversize.address
    again = allocator.allocate(50 * MIB, stream=0)
    assert (again.address, again.nbytes) == (oversize.address, 60 * MIB)
    allocator.free(again)
    assert allocator.allocate(34 * MIB, stream=0).address != oversize.address  # more than 20 MiB would be lost


def test_under_pressure_oversize_segments_make_room_for_an_oversize_request() -> None:
    upstream = NullUpstream(200 * MIB)
    allocator = CachingAllocator(upstream, preset="torch", max_split_size=32 * MIB)
    for block in [allocator.allocate(nbytes * MIB, stream=0) for nbytes in (60, 60, 60)]:
        allocator.free(block)
    kept = allocator.allocate(2 * MIB, stream=0)
    allocator.allocate(100 * MIB, stream=0)
    assert upstream.calls["cuMemFree"] == 2
    assert allocator.statistics().num_alloc_retries == 0
    assert kept.live


@pytest.mark.parametrize("form", [name for name in CACHING if "torch" not in name])
def test_garbage_collection_gives_back_what_has_been_idle_for_longest(form: str) -> None:
    upstream = NullUpstream(1000 * MIB)
    allocator = FACTORIES[form](upstream, preset="torch", garbage_collection_threshold=0.5, memory_limit=400 * MIB)
    old = allocator.allocate(90 * MIB, stream=0)
    allocator.allocate(12 * MIB, stream=0)
    allocator.free(old)
    young = allocator.allocate(120 * MIB, stream=0)
    for _ in range(20):
        allocator.free(young)
        young = allocator.allocate(120 * MIB, stream=0)
    allocator.free(young)
    assert upstream.calls["cuMemFree"] == 0
    allocator.allocate(130 * MIB, stream=0)  # more than half of the limit is held: the oldest goes first
    assert old.address not in {segment.address for segment in allocator.segments()}
    assert young.address in {segment.address for segment in allocator.segments()}


@pytest.mark.parametrize("form", [name for name in CACHING if "torch" not in name])
@pytest.mark.parametrize(("limit", "given_back"), [(None, 0), (400 * MIB, 1)])
def test_as_pytorchs_garbage_collection_waits_for_a_limit(form: str, limit: int | None, given_back: int) -> None:
    upstream = NullUpstream(400 * MIB)
    allocator = FACTORIES[form](upstream, preset="torch", garbage_collection_threshold=0.5, memory_limit=limit)
    allocator.free(allocator.allocate(220 * MIB, stream=0))
    allocator.allocate(100 * MIB, stream=1)
    assert upstream.calls["cuMemFree"] == given_back


# --- pressure


def test_out_of_memory_names_what_was_asked_and_what_was_found(make_caching: Callable[..., CachingAllocator]) -> None:
    allocator = make_caching(NullUpstream(64 * MIB))
    allocator.allocate(40 * MIB, stream=0)
    with pytest.raises(OutOfMemoryError) as caught:
        allocator.allocate(30 * MIB, stream=7)
    message = str(caught.value)
    for part in ("30.00 MiB (31457280 bytes)", "stream 0x7", "64.00 MiB", "40.00 MiB", "reserved", "Free something"):
        assert part in message
    assert caught.value.__context__ is None


def test_before_giving_up_small_blocks_go_among_large_ones() -> None:
    allocator = CachingAllocator(NullUpstream(32 * MIB))
    blocks = [allocator.allocate(2 * MIB, stream=0) for _ in range(16)]
    allocator.free(blocks.pop())
    allocator.free(blocks.pop(7))
    small = allocator.allocate(1000, stream=0)
    allocator.free(small)
    allocator.allocate(2 * MIB, stream=0)
    allocator.allocate(2 * MIB, stream=0)


def test_an_allocation_that_needed_the_cache_given_back_is_a_retry() -> None:
    allocator = CachingAllocator(NullUpstream(64 * MIB), preset="torch")
    for stream in range(2):
        allocator.free(allocator.allocate(30 * MIB, stream=stream))
    allocator.allocate(30 * MIB, stream=2)
    statistics = allocator.statistics()
    assert (statistics.num_alloc_retries, statistics.num_ooms) == (1, 0)


# --- streams


def test_a_block_is_reused_on_its_stream_at_once_and_on_no_other(
    manual, make_caching: Callable[..., CachingAllocator]
) -> None:
    allocator = make_caching(manual)
    allocator.allocate(1000, stream=1)
    block = allocator.allocate(1000, stream=1)
    manual.queue(block, 1)
    allocator.free(block)
    assert allocator.allocate(1000, stream=2).address != block.address
    assert allocator.allocate(1000, stream=1).address == block.address
    assert manual.waits == 0


def test_a_segment_changes_streams_only_after_its_work_is_done(manual) -> None:
    allocator = CachingAllocator(manual)
    block = allocator.allocate(1000, stream=1)
    manual.queue(block, 1)
    allocator.free(block)
    other = allocator.allocate(1000, stream=2)  # the idle segment is given back first, to stay below the peak
    assert (manual.calls["cuMemFree"], manual.waits) == (1, 1)
    assert manual.pending(other.address, other.nbytes) == []
    assert not manual.faults


def test_a_recorded_stream_is_waited_for(manual, make_caching: Callable[..., CachingAllocator]) -> None:
    allocator = make_caching(manual)
    block = allocator.allocate(1000, stream=1)
    manual.queue(block, 2)
    allocator.record_stream(block, 2)
    address = block.address
    allocator.free(block)
    assert allocator.statistics().all.active.current == 1
    assert allocator.allocate(1000, stream=1).address != address
    manual.finish(2)
    assert allocator.allocate(1000, stream=1).address == address
    assert manual.waits == 0


def test_what_a_destroyed_stream_has_left_serves_others_once_it_is_done(
    manual, make_caching: Callable[..., CachingAllocator]
) -> None:
    allocator = make_caching(manual)
    freed, live = allocator.allocate(1000, stream=1), allocator.allocate(1000, stream=1)
    manual.queue(freed, 1)
    allocator.free(freed)
    allocator.forget_stream(1)
    manual.queued[1] += 1  # the handle is another stream's now, and that one is busy
    first = allocator.allocate(1000, stream=1)
    assert first.address != freed.address
    manual.finish(1)
    second = allocator.allocate(1000, stream=3)
    assert second.address == freed.address
    allocator.free(live)
    allocator.segments()
    assert allocator.allocate(1000, stream=3).address == live.address


def test_a_live_block_outlives_its_stream(manual, make_caching: Callable[..., CachingAllocator]) -> None:
    allocator = make_caching(manual)
    block = allocator.allocate(30 * MIB, stream=1)
    manual.queue(block, 1)
    allocator.forget_stream(1)
    manual.gone.add(1)
    allocator.free(block)
    assert allocator.statistics().all.active.current == 1
    assert allocator.release_cached() == reserved(allocator) + 30 * MIB
    assert not manual.faults
    allocator.close()
    assert manual.used_bytes == 0


def test_the_hits_and_misses_of_an_observed_allocator_are_those_of_an_unobserved_one() -> None:
    def run(observed: bool) -> list[int]:
        allocator = CachingAllocator(NullUpstream())
        if observed:
            allocator.attach(lambda *_: None)
        live, addresses = [], []
        for index in range(600):
            live.append(allocator.allocate((index * 7919) % 37 * 4096 + 1, stream=index % 2))
            addresses.append(live[-1].address)
            if index % 3:
                allocator.free(live.pop(index * 31 % len(live)))
        return addresses

    assert run(True) == run(False)


# --- where memory is tight


def filled(memory_mib: int, *blocks_mib: float) -> CachingAllocator:
    allocator = CachingAllocator(NullUpstream(memory_mib * MIB))
    for size in blocks_mib:
        allocator.allocate(int(size * MIB), stream=0)
    return allocator


def sizes(allocator: CachingAllocator) -> list[int]:
    return sorted(segment.nbytes // MIB for segment in allocator.segments())


def test_where_memory_is_tight_a_large_block_has_a_segment_of_its_own() -> None:
    allocator = filled(1024, 600, 8, 12, 5)
    assert sizes(allocator) == [8, 12, 64, 600]  # blocks of less than eight share
    assert sizes(filled(1024, 600, 8, 12, 8.5)) == [8, 12, 64, 600]  # as do those that would waste too much
    assert sizes(filled(4096, 600, 8, 12, 5)) == [8, 8, 12, 600]


def test_where_memory_is_tight_a_piece_much_too_large_is_not_cut_while_idle_segments_can_be_exchanged() -> None:
    allocator = filled(1024, 600)
    large, small = (allocator.allocate(size * MIB, stream=0) for size in (100, 30))
    allocator.free(large)
    allocator.allocate(80 * MIB, stream=0)
    assert sizes(allocator) == [30, 80, 600]
    allocator.free(small)
    assert allocator.allocate(28 * MIB, stream=0).address == small.address  # a twelfth may be left over


@pytest.mark.parametrize(("block_mib", "segment"), [(10.125, 12), (5, 18)])
def test_where_memory_is_tight_an_idle_segment_is_broken_only_for_two_of_its_kind(
    block_mib: float, segment: int
) -> None:
    allocator = filled(1024, 600)
    allocator.free(allocator.allocate(18 * MIB, stream=0))
    allocator.allocate(int(block_mib * MIB), stream=0)
    assert sizes(allocator) == [segment, 600]


def test_where_memory_is_tight_idle_segments_of_other_streams_go_first_and_as_few_as_will_do() -> None:
    upstream = NullUpstream(1024 * MIB)
    allocator = CachingAllocator(upstream)
    allocator.allocate(600 * MIB, stream=0)
    for block in [allocator.allocate(size * MIB, stream=7) for size in (40, 100, 200)]:
        allocator.free(block)
    allocator.allocate(84 * MIB, stream=0)
    assert sizes(allocator) == [40, 84, 200, 600]
    assert upstream.calls["cuMemFree"] == 1


def test_where_memory_is_tight_a_piece_is_cut_when_idle_segments_do_not_suffice() -> None:
    allocator = filled(1024, 600)
    large = allocator.allocate(300 * MIB, stream=0)
    allocator.allocate(100 * MIB, stream=0)
    allocator.free(large)
    allocator.allocate(200 * MIB, stream=0)
    allocator.allocate(100 * MIB, stream=0)
    assert sum(sizes(allocator)) <= 1024
    assert allocator.statistics().num_ooms == 0


def test_memory_is_tight_within_the_limit_too() -> None:
    allocator = CachingAllocator(NullUpstream(), memory_limit=1024 * MIB)
    for size in (600, 8, 12):
        allocator.allocate(size * MIB, stream=0)
    assert sizes(allocator) == [8, 12, 600]


@pytest.mark.parametrize("form", ["caching", "native"])
def test_as_few_segments_as_will_do_leave_below_a_limit_that_was_lowered(form: str) -> None:
    if form not in FACTORIES:
        pytest.skip("the native allocators are not built")
    upstream = NullUpstream()
    allocator = FACTORIES[form](upstream)
    for block in [allocator.allocate(74 * MIB, stream=0) for _ in range(5)]:
        allocator.free(block)
    allocator.memory_limit = 200 * MIB
    allocator.allocate(100 * MIB, stream=0)
    assert upstream.calls["cuMemFree"] == 4
    assert allocator.statistics().num_alloc_retries == 0


def test_the_allocator_has_so_few_attributes_that_python_calls_its_methods_fast() -> None:
    allocator = CachingAllocator(NullUpstream())
    allocator.on_out_of_memory = lambda nbytes, stream: False
    assert len(vars(allocator)) < 30  # CPython 3.11 to 3.13 share the keys of no more, and find methods the slow way
