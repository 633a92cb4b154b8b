"""Adaptors of upstreams."""

from __future__ import annotations

import pytest
from cuplug.allocators.errors import DriverError, OutOfMemoryError
from cuplug.allocators.upstreams import LimitedUpstream, TimedUpstream, UpstreamAdaptor
from cuplug.allocators.upstreams.null import NullUpstream

MIB = 1 << 20


def test_an_adaptor_passes_everything_on() -> None:
    null = NullUpstream()
    adaptor = UpstreamAdaptor(null)
    address = adaptor.reserve(1000)
    assert adaptor.memory_info() == null.memory_info() == (null.total_bytes - 1024, null.total_bytes)
    assert adaptor.fence(0).done()
    adaptor.release(address)
    assert null.used_bytes == 0
    assert adaptor.virtual is null.virtual
    assert UpstreamAdaptor(NullUpstream(virtual=False)).virtual is None


def test_a_limit_holds_for_reservations_and_pages_together() -> None:
    limited = LimitedUpstream(NullUpstream(), 8 * MIB)
    virtual = limited.virtual
    assert virtual is not None
    address, page = limited.reserve(3 * MIB), virtual.create_page(4 * MIB)
    assert limited.memory_info() == (MIB, 8 * MIB)
    with pytest.raises(OutOfMemoryError, match=f"asked for {2 * MIB} bytes; {MIB} of {8 * MIB} are free"):
        limited.reserve(2 * MIB)
    with pytest.raises(OutOfMemoryError):
        virtual.create_page(2 * MIB)
    limited.release(address)
    virtual.release_page(page)
    assert limited.memory_info() == (8 * MIB, 8 * MIB)


def test_a_limit_is_not_changed_by_calls_that_the_upstream_refuses() -> None:
    limited = LimitedUpstream(NullUpstream(4 * MIB), 8 * MIB)
    virtual = limited.virtual
    assert virtual is not None
    for call in (
        lambda: limited.reserve(5 * MIB),
        lambda: limited.release(0x1000),
        lambda: virtual.create_page(6 * MIB),
        lambda: virtual.release_page(77),
    ):
        with pytest.raises((DriverError, OutOfMemoryError)):
            call()
    assert limited.used_bytes == 0


def test_adaptors_compose() -> None:
    timed = TimedUpstream(LimitedUpstream(NullUpstream(), 8 * MIB))
    virtual = timed.virtual
    assert virtual is not None
    with pytest.raises(OutOfMemoryError):
        timed.reserve(9 * MIB)
    timed.release(timed.reserve(MIB))
    base, page = virtual.reserve_range(2 * MIB), virtual.create_page(2 * MIB)
    virtual.map(base, 2 * MIB, page)
    virtual.set_access(base, 2 * MIB)
    virtual.unmap(base, 2 * MIB)
    virtual.release_page(page)
    virtual.free_range(base, 2 * MIB)
    assert timed.calls == {
        "cuMemAlloc": 2,
        "cuMemFree": 1,
        **dict.fromkeys(
            (
                "cuMemAddressReserve",
                "cuMemCreate",
                "cuMemMap",
                "cuMemSetAccess",
                "cuMemUnmap",
                "cuMemRelease",
                "cuMemAddressFree",
            ),
            1,
        ),
    }
    assert timed.driver_time_us > 0
