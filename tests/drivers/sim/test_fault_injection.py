"""Calls that fail on request, so that partial failure can be tested."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cuplug.allocators.errors import DriverError, OutOfMemoryError
from cuplug.runtime.drivers.sim import SimDriver

pytestmark = pytest.mark.needs_sim

MakeSim = Callable[..., SimDriver]


def test_a_call_fails_once_and_changes_nothing(make_sim: MakeSim) -> None:
    driver = make_sim()
    driver.fail_next("mem_alloc", 2)
    before = driver.mem_info()
    with pytest.raises(OutOfMemoryError, match="mem_alloc was told to fail"):
        driver.mem_alloc(1 << 20)
    assert driver.mem_info() == before
    assert driver.live.allocations == 0
    driver.mem_alloc(1 << 20)


def test_a_call_fails_after_so_many_that_work(make_sim: MakeSim) -> None:
    driver = make_sim()
    driver.fail_next("event_create", 999, after=2)
    driver.fail_next("event_create", 1, after=3)
    driver.event_create()
    driver.event_create()
    for code in (999, 1):
        with pytest.raises(DriverError) as caught:
            driver.event_create()
        assert caught.value.code == code
    driver.event_create()
    assert driver.live.events == 3


def test_a_map_that_fails_halfway_can_be_unwound(make_sim: MakeSim) -> None:
    driver = make_sim()
    virtual = driver.virtual_memory(0)
    assert virtual is not None
    unit = virtual.granularity
    driver.fail_next("map", 2, after=1)
    base = virtual.reserve_range(2 * unit)
    first, second = virtual.create_page(unit), virtual.create_page(unit)
    virtual.map(base, unit, first)
    with pytest.raises(OutOfMemoryError):
        virtual.map(base + unit, unit, second)
    virtual.unmap(base, unit)
    virtual.release_page(first)
    virtual.release_page(second)
    virtual.free_range(base, 2 * unit)
    live = driver.live
    assert (live.ranges, live.pages, live.mappings) == (0, 0, 0)
    assert driver.mem_info()[0] == driver.mem_info()[1]


def test_light_calls_can_fail_too(make_sim: MakeSim) -> None:
    driver = make_sim(devices=2)
    driver.fail_next("set_device", 999)
    with pytest.raises(DriverError):
        driver.set_device(1)
    assert driver.current_device() == 0


def test_a_call_that_does_not_exist_is_refused(make_sim: MakeSim) -> None:
    with pytest.raises(ValueError, match=r"no call 'mem_aloc'.*mem_alloc"):
        make_sim().fail_next("mem_aloc", 2)
