"""``expandable``: what holds between operations, what a failed call leaves behind, and what goes back."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from cuplug.allocators.base import Allocator
from cuplug.allocators.block import Block
from cuplug.allocators.errors import DriverError, OutOfMemoryError
from cuplug.allocators.events import EventKind
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.runtime.drivers.device_upstream import DeviceUpstream
from cuplug.runtime.drivers.sim import SimDriver
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

MIB = 1 << 20
PAGE = 2 * MIB


class Maps:
    """Passes calls of virtual memory on, knows what is mapped where, and refuses the calls that it is told to."""

    def __init__(self, upstream: Any, most_aliases: int) -> None:
        self.upstream = upstream
        self.most_aliases = most_aliases
        self.inner = upstream.virtual
        self.granularity = self.inner.granularity
        self.mapped: dict[int, tuple[int, int]] = {}
        self.accessible: dict[int, int] = {}
        self.pages: dict[int, int] = {}
        self.refuse: list[bool] = []
        self.calls = 0
        self.unmapped_in_use: list[int] = []

    def ask(self) -> None:
        self.calls += 1
        if self.refuse and self.refuse.pop(0):
            raise DriverError(999, "CUDA_ERROR_UNKNOWN", "it was told to fail")

    def reserve_range(self, nbytes: int) -> int:
        self.ask()
        return self.inner.reserve_range(nbytes)

    def free_range(self, address: int, nbytes: int) -> None:
        self.ask()
        self.inner.free_range(address, nbytes)

    def create_page(self, nbytes: int) -> int:
        self.ask()
        handle = self.inner.create_page(nbytes)
        self.pages[handle] = nbytes
        return handle

    def release_page(self, handle: int) -> None:
        self.ask()
        self.inner.release_page(handle)
        del self.pages[handle]

    def map(self, address: int, nbytes: int, handle: int) -> None:
        self.ask()
        places = sum(page == handle for _, page in self.mapped.values())
        assert places <= (self.most_aliases and self.most_aliases + 1), f"a page is mapped at {places + 1} places"
        self.inner.map(address, nbytes, handle)
        self.mapped[address] = nbytes, handle

    def set_access(self, address: int, nbytes: int) -> None:
        self.ask()
        self.inner.set_access(address, nbytes)
        self.accessible.update({at: size for at, (size, _) in self.mapped.items() if address <= at < address + nbytes})

    def unmap(self, address: int, nbytes: int) -> None:
        self.ask()
        if hasattr(self.upstream, "pending") and self.upstream.pending(address, nbytes):
            self.unmapped_in_use.append(address)
        self.inner.unmap(address, nbytes)
        for at in [at for at in self.mapped if address <= at < address + nbytes]:
            del self.mapped[at]
            self.accessible.pop(at, None)

    def behind(self, block: Block) -> list[tuple[int, int, int]]:
        """The physical memory of a block: handles, each with the first offset in its page and the end."""
        found = []
        for address, (nbytes, handle) in self.mapped.items():
            start, end = max(address, block.address), min(address + nbytes, block.address + block.nbytes)
            if start < end:
                found.append((handle, start - address, end - address))
        return found

    def covers(self, block: Block) -> bool:
        at, end = block.address, block.address + block.nbytes
        for start in sorted(self.accessible):
            if start <= at < start + self.accessible[start]:
                at = start + self.accessible[start]
        return at >= end


Make = Callable[..., tuple[ExpandableAllocator, Maps]]


@pytest.fixture
def make() -> Make:
    return functools.partial(make_with, 0)


@pytest.fixture(params=[0, 1, 4], ids="aliases={}".format)
def make_either(request: pytest.FixtureRequest) -> Make:
    """The same with and without aliases of pages that have moved."""
    return functools.partial(make_with, request.param)


def make_with(aliases: int, upstream: Any = None, **options: Any) -> tuple[ExpandableAllocator, Maps]:
    upstream = upstream or NullUpstream()
    maps = upstream.virtual = Maps(upstream, aliases)
    return ExpandableAllocator(upstream, aliases=aliases, **options), maps


def check(allocator: Allocator, maps: Maps) -> None:
    """What the module's docstring says holds between any two operations."""
    live = allocator.live_blocks()
    segments = allocator.segments()
    assert all(maps.covers(block) for block in live)
    assert sorted(handle for _, handle in serving(allocator, maps).values()) == sorted(maps.pages)
    places = Counter(handle for _, handle in maps.mapped.values())
    assert places.keys() == maps.pages.keys()
    assert max(places.values(), default=1) <= maps.most_aliases + 1
    memory = sorted(part for block in live for part in maps.behind(block))
    assert all(one[0] != other[0] or one[2] <= other[1] for one, other in pairwise(memory)), "two blocks share memory"
    assert maps.accessible.keys() == maps.mapped.keys()
    counted = allocator.statistics().all
    assert counted.reserved_bytes.current == sum(maps.pages.values()) == sum(segment.nbytes for segment in segments)
    assert counted.segment.current == len(segments)
    split = [
        info.nbytes
        for segment in segments
        if len(segment.blocks) > 1
        for info in segment.blocks
        if info.state == "inactive"
    ]
    assert (counted.inactive_split.current, counted.inactive_split_bytes.current) == (len(split), sum(split))
    for segment in segments:
        states = [info.state for info in segment.blocks]
        assert ("inactive", "inactive") not in pairwise(states)
        assert segment.address % PAGE == segment.nbytes % PAGE == 0
    assert not maps.unmapped_in_use


def serving(allocator: Allocator, maps: Maps) -> dict[int, tuple[int, int]]:
    """What is mapped, but for aliases: those lie outside of all segments."""
    segments = allocator.segments()
    return {
        address: mapped
        for address, mapped in maps.mapped.items()
        if any(segment.address <= address < segment.address + segment.nbytes for segment in segments)
    }


def scatter(allocator: Allocator, count: int, nbytes: int, stream: int = 1) -> list[Block]:
    """Every second of ``count`` blocks, when the others have been freed."""
    blocks = [allocator.allocate(nbytes, stream=stream) for _ in range(count)]
    for block in blocks[::2]:
        allocator.free(block)
    return blocks[1::2]


def state(allocator: Allocator, maps: Maps) -> object:
    return serving(allocator, maps), dict(maps.pages), allocator.segments()


def test_pages_of_scattered_free_memory_serve_a_block_that_fits_nowhere(make_either: Make) -> None:
    allocator, maps = make_either()
    kept = scatter(allocator, 200, 8 * MIB)
    before = allocator.statistics().all.reserved_bytes.peak
    big = allocator.allocate(600 * MIB, stream=1)
    after = allocator.statistics().all.reserved_bytes.peak
    assert after - before <= before // 100 + 48 * MIB
    check(allocator, maps)
    assert big.nbytes == 600 * MIB
    for block in (*kept, big):
        allocator.free(block)
    allocator.close()
    assert maps.upstream.used_bytes == 0


def test_pages_move_from_one_stream_to_another_and_from_large_to_small(make_either: Make) -> None:
    allocator, maps = make_either(memory_limit=64 * MIB)
    big = allocator.allocate(64 * MIB, stream=1)
    allocator.free(big)
    small = [allocator.allocate(MIB, stream=2) for _ in range(64)]
    check(allocator, maps)
    assert allocator.statistics().num_ooms == 0
    for block in small:
        allocator.free(block)
    allocator.allocate(64 * MIB, stream=3)
    check(allocator, maps)


def test_a_page_moves_only_when_the_work_behind_its_last_use_has_passed(make: Make, make_manual: Any) -> None:
    upstream = make_manual(64 * MIB)
    allocator, maps = make(upstream)
    blocks = [allocator.allocate(16 * MIB, stream=7) for _ in range(4)]
    for block in blocks[::2]:
        upstream.queue(block, 7)
        allocator.free(block)
    upstream.waits = 0
    block = allocator.allocate(24 * MIB, stream=7)
    assert upstream.waits > 0
    check(allocator, maps)
    upstream.queue(block, 7)
    upstream.finish(7)
    allocator.free(block)
    allocator.statistics()
    upstream.waits = 0
    allocator.allocate(16 * MIB, stream=8)
    assert upstream.waits <= 1
    check(allocator, maps)


def test_the_same_stream_gets_memory_back_at_the_same_address_without_a_fence(make: Make, make_manual: Any) -> None:
    upstream = make_manual()
    allocator, _ = make(upstream)
    first = allocator.allocate(16 * MIB, stream=7)
    address = first.address
    upstream.queue(first, 7)
    allocator.free(first)
    assert allocator.allocate(15 * MIB, stream=7).address == address
    assert upstream.waits == 0


@pytest.mark.parametrize("refused", range(40))
def test_a_call_that_fails_leaves_the_maps_as_they_were(make_either: Make, refused: int) -> None:
    allocator, maps = make_either(memory_limit=88 * MIB)
    scatter(allocator, 10, 8 * MIB)
    allocator.allocate(512, stream=1)
    before = state(allocator, maps)
    maps.refuse = [False] * refused + [True]
    try:
        allocator.allocate(20 * MIB, stream=1)
    except DriverError:
        assert state(allocator, maps) == before
    check(allocator, maps)
    maps.refuse = []
    allocator.allocate(20 * MIB, stream=1)
    check(allocator, maps)
    allocator.close()
    assert (maps.pages, maps.upstream.used_bytes) == ({}, 0)


@pytest.mark.parametrize("refused", range(12))
def test_a_failing_release_leaves_everything_accounted_for(make_either: Make, refused: int) -> None:
    allocator, maps = make_either()
    scatter(allocator, 8, 8 * MIB)
    maps.refuse = [False] * refused + [True]
    try:
        allocator.release_cached()
    except DriverError:
        check(allocator, maps)
    maps.refuse = []
    allocator.release_cached()
    check(allocator, maps)
    allocator.close()
    assert (maps.pages, maps.upstream.used_bytes) == ({}, 0)


def test_a_page_that_can_neither_be_mapped_back_nor_released_is_released_later(make: Make) -> None:
    allocator, maps = make(memory_limit=80 * MIB)
    scatter(allocator, 10, 8 * MIB)
    calls = maps.calls
    # The first page is unmapped; mapping it fails, so does mapping it back, and so does its release.
    maps.refuse = [False] * 200
    allocator.release_cached()
    unmapped_first = maps.calls - calls
    assert unmapped_first > 0
    kept = allocator.allocate(8 * MIB, stream=1)
    allocator.free(kept)
    allocator.statistics()
    maps.refuse = [False, True, True, True]  # unmap, release, map back, release again
    with pytest.raises(DriverError):
        allocator.release_cached()
    maps.refuse = []
    allocator.release_cached()
    check(allocator, maps)
    allocator.close()
    assert (maps.pages, maps.upstream.used_bytes) == ({}, 0)


@pytest.mark.needs_sim
@pytest.mark.parametrize("call", ["create_page", "map", "set_access", "unmap"])
@pytest.mark.parametrize("after", range(3))
def test_handles_do_not_leak_when_a_call_of_the_driver_fails(call: str, after: int) -> None:
    driver = SimDriver(schedule="lazy", memory=64 * MIB)
    driver.set_device(0)
    allocator = ExpandableAllocator(DeviceUpstream(driver, 0), aliases=0)
    kept = scatter(allocator, 8, 7 * MIB, stream=0)
    before = driver.live
    driver.fail_next(call, 999, after=after)
    try:
        allocator.allocate(12 * MIB, stream=0)
    except DriverError:
        after_it = driver.live
        assert (after_it.pages, after_it.mappings) == (before.pages, before.mappings)
    for block in kept:
        driver.memset(block.address, 1, block.nbytes, stream=0)
    driver.synchronize()
    allocator.close()
    assert (driver.live.pages, driver.live.mappings, driver.live.ranges) == (0, 0, 0)
    driver.close()


def test_release_cached_returns_every_free_page(make_either: Make) -> None:
    allocator, maps = make_either()
    kept = scatter(allocator, 100, 6 * MIB)
    small = [allocator.allocate(4096, stream=2) for _ in range(3000)]
    for block in small[1:]:
        allocator.free(block)
    before = maps.upstream.used_bytes
    released = allocator.release_cached()
    assert before - maps.upstream.used_bytes == released > 0
    for address, (nbytes, _) in serving(allocator, maps).items():
        assert any(block.address < address + nbytes and address < block.address + block.nbytes for block in kept) or (
            address <= small[0].address < address + nbytes
        )
    check(allocator, maps)
    assert allocator.release_cached() == 0


def test_growing_anew_after_all_was_given_back_takes_no_more_pages_than_growing_to_twice_the_size(
    make_either: Make,
) -> None:
    allocator, maps = make_either()
    counts = []
    for _ in range(3):
        blocks = [allocator.allocate(32 * MIB, stream=1) for _ in range(300)]
        counts.append(len(maps.pages))
        for block in blocks:
            allocator.free(block)
        allocator.release_cached()
    assert counts[0] > 400
    assert counts[1:] == [300, 300]


def test_address_space_is_recycled(make_either: Make) -> None:
    allocator, maps = make_either()
    rng = random.Random(1)
    for turn in range(300):
        stream = turn + 1
        blocks = [allocator.allocate(rng.randint(1, 64 * MIB), stream=stream) for _ in range(3)]
        for block in blocks:
            allocator.free(block)
        allocator.forget_stream(stream)
    assert len(maps.inner._ranges) <= 8
    check(allocator, maps)
    allocator.close()
    assert not maps.inner._ranges


def test_where_virtual_memory_is_missing_it_says_what_to_install() -> None:
    with pytest.raises(DriverError, match=r"pip install 'cuplug\[cuda\]'") as caught:
        ExpandableAllocator(NullUpstream(virtual=False))
    assert (caught.value.code, caught.value.name) == (801, "CUDA_ERROR_NOT_SUPPORTED")


def test_a_failed_allocation_asks_for_little_before_it_gives_up(make_either: Make) -> None:
    allocator, maps = make_either(NullUpstream(1 << 30))
    calls = maps.calls
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(1 << 40, stream=0)
    assert maps.calls - calls < 20
    check(allocator, maps)


def test_page_events_tell_what_is_mapped(make_either: Make) -> None:
    allocator, maps = make_either()
    seen: Counter[tuple[int, int]] = Counter()
    pages: Counter[int] = Counter()

    def observe(kind: int, _t: int, _th: int, _s: int, address: int, nbytes: int, requested: int, _c: int) -> None:
        if kind == EventKind.PAGE_MAP:
            seen[address, requested] += 1
        elif kind == EventKind.PAGE_UNMAP:
            seen[address, requested] -= 1
        elif kind == EventKind.PAGE_CREATE:
            pages[address] += nbytes
        elif kind == EventKind.PAGE_RELEASE:
            pages[address] -= nbytes

    allocator.attach(observe)
    scatter(allocator, 40, 9 * MIB)
    allocator.allocate(150 * MIB, stream=1)
    allocator.release_cached()
    assert +seen == Counter({(address, handle): 1 for address, (_, handle) in serving(allocator, maps).items()})
    assert +pages == Counter(maps.pages)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["allocate"] * 5 + ["free"] * 4 + ["touch", "finish", "release", "forget", "refuse"]),
        st.integers(0, 1 << 16),
        st.sampled_from([512, 70_000, MIB, MIB + 1, 3 * MIB, 7 * MIB, 20 * MIB]) | st.integers(1, 30 * MIB),
    ),
    max_size=60,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=OPERATIONS, total=st.sampled_from([32 * MIB, 128 * MIB, 1 << 34]))
def test_the_invariants_hold_after_any_operation(
    make_either: Make, make_manual: Any, operations: list[tuple[str, int, int]], total: int
) -> None:
    upstream = make_manual(total)
    allocator, maps = make_either(upstream)
    live: list[Block] = []
    uses: list[tuple[tuple[int, int, int], int, int]] = []  # memory, stream, the number of the work there

    def queue(block: Block, stream: int) -> None:
        upstream.queue(block, stream)
        uses.extend((part, stream, upstream.queued[stream]) for part in maps.behind(block))

    def is_anothers(block: Block) -> bool:
        """Whether work of another stream on the block's memory, whatever it lay behind then, is still queued."""
        pending = [(part, stream) for part, stream, number in uses if number > upstream.finished[stream]]
        return any(
            stream != block.stream and part[0] == used[0] and part[1] < used[2] and used[1] < part[2]
            for part in maps.behind(block)
            for used, stream in pending
        )

    for what, number, nbytes in operations:
        stream = number % 3 + 1
        try:
            if what == "allocate":
                live.append(allocator.allocate(nbytes, stream=stream))
                assert not is_anothers(live[-1])
                queue(live[-1], stream)
            elif what == "refuse":
                maps.refuse = [False] * (number % 7) + [True]
            elif what == "finish":
                upstream.finish(stream)
            elif what == "release":
                allocator.release_cached()
            elif what == "forget":
                if not any(block.stream == stream for block in live):
                    upstream.finish(stream)
                    allocator.forget_stream(stream)
            elif live and what == "free":
                allocator.free(live.pop(number % len(live)))
            elif live:
                allocator.record_stream(live[number % len(live)], stream)
                queue(live[number % len(live)], stream)
        except (DriverError, OutOfMemoryError):
            pass
        maps_refuse, maps.refuse = maps.refuse, []
        check(allocator, maps)
        maps.refuse = maps_refuse
    maps.refuse = []
    allocator.close()
    assert (maps.pages, maps.mapped, upstream.used_bytes, maps.unmapped_in_use) == ({}, {}, 0, [])


def test_a_negative_slack_is_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="slack is -1"):
        make(slack=-1)


def test_a_negative_number_of_aliases_is_refused() -> None:
    with pytest.raises(ValueError, match="aliases is -1"):
        make_with(-1)


def test_where_a_page_stays_mapped_the_stream_that_gets_it_elsewhere_is_not_waited_for(make_manual: Any) -> None:
    upstream = make_manual(64 * MIB)
    allocator, maps = make_with(4, upstream)
    blocks = [allocator.allocate(16 * MIB, stream=7) for _ in range(4)]
    for block in blocks[::2]:
        upstream.queue(block, 7)
        allocator.free(block)
    block = allocator.allocate(24 * MIB, stream=7)
    assert upstream.waits == 0
    check(allocator, maps)
    upstream.queue(block, 7)
    allocator.free(block)
    allocator.allocate(16 * MIB, stream=8)
    assert upstream.waits > 0
    check(allocator, maps)


def test_a_page_comes_back_to_where_it_stood_without_a_call() -> None:
    allocator, maps = make_with(4, memory_limit=80 * MIB)
    scatter(allocator, 10, 8 * MIB)
    for turn in range(4):
        calls = maps.calls
        big = allocator.allocate(32 * MIB, stream=1)
        check(allocator, maps)
        allocator.free(big)
        small = [allocator.allocate(8 * MIB, stream=1) for _ in range(5)]
        check(allocator, maps)
        assert maps.calls == calls or turn == 0
        for block in small:
            allocator.free(block)


def test_less_slack_reserves_less(make: Make) -> None:
    def reserved(slack: int) -> int:
        allocator, _ = make(slack=slack)
        scatter(allocator, 60, 9 * MIB)
        for nbytes in (30, 50, 70):
            allocator.allocate(nbytes * MIB, stream=1)
        return allocator.statistics().all.reserved_bytes.peak

    assert reserved(0) < reserved(32 * MIB)


def test_a_page_in_the_midst_of_a_block_to_be_does_not_leave_it_for_an_alias_there() -> None:
    allocator, maps = make_with(4, slack=0)
    kept, moved, beside = (allocator.allocate(2 * MIB, stream=1) for _ in range(3))
    allocator.free(moved)
    behind = allocator.allocate(4 * MIB, stream=1)
    assert behind.address > beside.address > kept.address
    assert len(maps.mapped) > len(serving(allocator, maps)), "a page has moved, and is still mapped between the blocks"
    allocator.free(allocator.allocate(2 * MIB, stream=2))
    allocator.free(behind)
    allocator.free(beside)
    block = allocator.allocate(8 * MIB, stream=1)
    assert block.address == kept.address + 2 * MIB
    check(allocator, maps)
