"""The null upstream: it gives addresses, keeps books, and refuses what a driver would refuse."""

from __future__ import annotations

from itertools import pairwise

import pytest
from cuplug.allocators.errors import DriverError, OutOfMemoryError
from cuplug.allocators.upstreams.costs import call_us
from cuplug.allocators.upstreams.null import NullUpstream
from hypothesis import given
from hypothesis import strategies as st

MIB = 1 << 20


def test_two_upstreams_give_the_same_addresses() -> None:
    sizes = [2 * MIB, 20 * MIB, 512, 54 * MIB, 8 * MIB]
    first, second = NullUpstream(), NullUpstream()
    assert [first.reserve(size) for size in sizes] == [second.reserve(size) for size in sizes]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 100 * MIB)), max_size=60))
def test_what_is_reserved_never_overlaps(steps: list[tuple[bool, int]]) -> None:
    upstream = NullUpstream()
    held: dict[int, int] = {}
    for release, nbytes in steps:
        if release and held:
            address = sorted(held)[nbytes % len(held)]
            del held[address]
            upstream.release(address)
        else:
            held[upstream.reserve(nbytes)] = nbytes
        ends = sorted((address, address + size) for address, size in held.items())
        assert all(end <= start for (_, end), (start, _) in pairwise(ends))
        assert upstream.used_bytes == sum(-(-size // 512) * 512 for size in held.values())
        assert all(address % 512 == 0 for address in held)


def test_large_requests_follow_the_driver_from_the_top_down_and_fill_gaps() -> None:
    upstream = NullUpstream()
    first, second = upstream.reserve(44 * MIB), upstream.reserve(44 * MIB)
    assert second == first - 64 * MIB  # address space is taken in multiples of 32 MiB
    assert upstream.reserve(20 * MIB) == second + 44 * MIB  # in the lowest gap that fits
    upstream.release(first)
    assert upstream.reserve(60 * MIB) == first  # what came back is one gap with what was left over


def test_capacity_is_a_limit_and_a_refusal_changes_nothing() -> None:
    upstream = NullUpstream(10 * MIB)
    address = upstream.reserve(8 * MIB)
    with pytest.raises(OutOfMemoryError, match="3145728 bytes"):
        upstream.reserve(3 * MIB)
    assert upstream.memory_info() == (2 * MIB, 10 * MIB)
    upstream.release(address)
    assert upstream.memory_info() == (10 * MIB, 10 * MIB)


@pytest.mark.parametrize("nbytes", [0, -512])
def test_nothing_cannot_be_reserved(nbytes: int) -> None:
    with pytest.raises(DriverError, match="INVALID_VALUE"):
        NullUpstream().reserve(nbytes)


def test_what_was_not_reserved_cannot_be_released() -> None:
    upstream = NullUpstream()
    address = upstream.reserve(512)
    upstream.release(address)
    for wrong in (address, address + 512, 0):
        with pytest.raises(DriverError, match="not reserved"):
            upstream.release(wrong)


def test_calls_are_counted_and_their_time_is_estimated_from_the_measured_costs() -> None:
    upstream = NullUpstream()
    upstream.release(upstream.reserve(20 * MIB))
    upstream.reserve(256 * MIB)
    assert upstream.calls == {"cuMemAlloc": 2, "cuMemFree": 1}
    assert upstream.driver_time_us == pytest.approx(39 + 37 + 55)


@pytest.mark.parametrize(
    ("call", "nbytes", "expected"),
    [
        ("cuMemAlloc", 512, 33),
        ("cuMemAlloc", 11 * MIB, 36),
        ("cuMemFree", 1024 * MIB, 322),
        ("cuMemFree", 1792 * MIB, 544),
        ("cuMemMap", 64 * MIB, 1.3),
    ],
)
def test_costs_are_interpolated_between_the_measured_sizes_and_extended_beyond(
    call: str, nbytes: int, expected: float
) -> None:
    assert call_us(call, nbytes) == pytest.approx(expected)


def test_pages_are_mapped_and_counted_until_released_and_mapped_nowhere() -> None:
    upstream = NullUpstream(8 * MIB)
    virtual = upstream.virtual
    assert virtual is not None
    at = virtual.reserve_range(8 * MIB)
    page = virtual.create_page(4 * MIB)
    virtual.map(at, 4 * MIB, page)
    virtual.map(at + 4 * MIB, 4 * MIB, page)  # one page may stand at two places
    virtual.set_access(at, 8 * MIB)
    virtual.release_page(page)
    assert (upstream.used_bytes, virtual.pages) == (4 * MIB, 0)
    virtual.unmap(at, 4 * MIB)
    assert upstream.used_bytes == 4 * MIB
    virtual.unmap(at + 4 * MIB, 4 * MIB)
    assert upstream.used_bytes == 0
    virtual.free_range(at, 8 * MIB)
    assert upstream.calls["cuMemUnmap"] == 2


def test_a_page_needs_room() -> None:
    upstream = NullUpstream(3 * MIB)
    assert upstream.virtual is not None
    with pytest.raises(OutOfMemoryError):
        upstream.virtual.create_page(4 * MIB)
    assert upstream.used_bytes == 0


def test_wrong_use_of_virtual_memory_is_refused_and_changes_nothing() -> None:
    upstream = NullUpstream()
    virtual = upstream.virtual
    assert virtual is not None
    at, page = virtual.reserve_range(8 * MIB), virtual.create_page(4 * MIB)
    virtual.map(at, 4 * MIB, page)
    wrong = [
        lambda: virtual.map(at, 4 * MIB, page),  # something is there
        lambda: virtual.map(at + 6 * MIB, 4 * MIB, page),  # beyond the range
        lambda: virtual.map(at + 4 * MIB, 2 * MIB, page),  # a part of a page
        lambda: virtual.unmap(at, 2 * MIB),
        lambda: virtual.unmap(at + 4 * MIB, 4 * MIB),
        lambda: virtual.set_access(at, 8 * MIB),
        lambda: virtual.free_range(at, 8 * MIB),  # something is mapped
        lambda: virtual.free_range(at, 4 * MIB),
        lambda: virtual.create_page(MIB),
        lambda: virtual.reserve_range(MIB),
        lambda: virtual.release_page(page + 1),
    ]
    for call in wrong:
        with pytest.raises(DriverError, match="INVALID_VALUE"):
            call()
    virtual.unmap(at, 4 * MIB)
    virtual.release_page(page)
    virtual.free_range(at, 8 * MIB)
    assert upstream.used_bytes == 0


def test_virtual_memory_can_be_left_out() -> None:
    assert NullUpstream(virtual=False).virtual is None
