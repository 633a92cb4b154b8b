"""Which queued work touches memory: what allocators must wait for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cuplug.runtime.drivers.base import LEGACY_STREAM
from cuplug.runtime.drivers.sim import PendingAccess, SimDriver

pytestmark = pytest.mark.needs_sim

MakeSim = Callable[..., SimDriver]


@pytest.fixture
def lazy(make_sim: MakeSim) -> SimDriver:
    return make_sim(schedule="lazy")


def test_queued_work_is_listed_until_it_has_run(lazy: SimDriver) -> None:
    stream = lazy.stream_create()
    source, target = lazy.mem_alloc(512), lazy.mem_alloc(512)
    lazy.memcpy_dtod(target, source, 100, stream=stream)
    assert lazy.pending_access(target, 512) == (PendingAccess("memcpy_dtod", 0, stream, target, 100, writes=True),)
    assert lazy.pending_access(source, 1) == (PendingAccess("memcpy_dtod", 0, stream, source, 100, writes=False),)
    assert lazy.pending_access(target + 100, 412) == ()
    lazy.stream_synchronize(stream)
    assert lazy.pending_access(target, 512) == ()


def test_eager_work_is_never_pending(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="eager")
    address = driver.mem_alloc(512)
    driver.memset(address, 1, 512, stream=driver.stream_create())
    assert driver.pending_access(address, 512) == ()


def test_work_of_a_stream_is_ordered_before_its_own_future_and_nobody_elses(lazy: SimDriver) -> None:
    one, two = lazy.stream_create(), lazy.stream_create()
    address = lazy.mem_alloc(512)
    lazy.memset(address, 1, 512, stream=one)
    assert lazy.pending_access(address, 512, before_stream=one) == ()
    assert len(lazy.pending_access(address, 512, before_stream=two)) == 1


def test_events_order_across_streams_and_transitively(lazy: SimDriver) -> None:
    one, two, three = (lazy.stream_create() for _ in range(3))
    address, event = lazy.mem_alloc(512), lazy.event_create()
    lazy.memset(address, 1, 512, stream=one)
    lazy.event_record(event, stream=one)
    lazy.memset(address, 1, 512, stream=one)
    lazy.stream_wait_event(two, event)
    assert len(lazy.pending_access(address, 512, before_stream=two)) == 1
    lazy.event_record(event, stream=one)
    lazy.stream_wait_event(two, event)
    assert lazy.pending_access(address, 512, before_stream=two) == ()
    lazy.event_record(event, stream=two)
    lazy.stream_wait_event(three, event)
    assert lazy.pending_access(address, 512, before_stream=three) == ()


def test_the_legacy_stream_orders_blocking_streams(lazy: SimDriver) -> None:
    blocking, other = (lazy.stream_create(non_blocking=False) for _ in range(2))
    free = lazy.stream_create()
    address = lazy.mem_alloc(512)
    lazy.memset(address, 1, 512, stream=blocking)
    assert lazy.pending_access(address, 512, before_stream=LEGACY_STREAM) == ()
    assert len(lazy.pending_access(address, 512, before_stream=other)) == 1
    lazy.memset(lazy.mem_alloc(1), 1, 1, stream=LEGACY_STREAM)
    assert lazy.pending_access(address, 512, before_stream=other) == ()
    assert len(lazy.pending_access(address, 512, before_stream=free)) == 1


def test_page_locked_memory_is_watched_too(lazy: SimDriver) -> None:
    stream = lazy.stream_create()
    address, pinned = lazy.mem_alloc(512), lazy.host_alloc(512)
    lazy.memcpy_htod(address, pinned, 512, stream=stream)
    assert [access.writes for access in lazy.pending_access(pinned, 512)] == [False]
    lazy.memcpy_dtoh(pinned, address, 512, stream=stream)
    assert [access.writes for access in lazy.pending_access(pinned, 512)] == [False, True]


def test_declared_ranges_of_functions_count(lazy: SimDriver) -> None:
    stream, address = lazy.stream_create(), lazy.mem_alloc(512)
    lazy.launch_host(lambda: None, stream=stream, reads=[(address, 8)], writes=[(address + 8, 8)], name="kernel")
    assert {(access.operation, access.address, access.writes) for access in lazy.pending_access(address, 512)} == {
        ("kernel", address, False),
        ("kernel", address + 8, True),
    }


def test_looking_moves_nothing(make_sim: MakeSim) -> None:
    for seed in range(10):
        driver = make_sim(schedule="random", seed=seed)
        address = driver.mem_alloc(512)
        stream = driver.stream_create()
        driver.memset(address, 1, 512, stream=stream)
        before = driver.operations_executed, driver.log, len(driver.pending_access(address, 512))
        for _ in range(50):
            assert len(driver.pending_access(address, 512)) == before[2]
            assert driver.view(address, 1)
            assert driver.live.streams == 1
        assert (driver.operations_executed, driver.log) == before[:2]
        driver.close()


def test_operations_may_look(lazy: SimDriver) -> None:
    source, target = lazy.mem_alloc(64), lazy.mem_alloc(64)

    def double() -> None:
        lazy.view(target, 64)[:] = bytes(2 * value for value in lazy.view(source, 64))

    lazy.memset(source, 21, 64, stream=LEGACY_STREAM)
    lazy.launch_host(double, stream=LEGACY_STREAM, reads=[(source, 64)], writes=[(target, 64)])
    lazy.synchronize()
    assert bytes(lazy.view(target, 64)) == bytes([42]) * 64


def test_what_a_closed_driver_left_over_can_be_told(lazy: SimDriver) -> None:
    lazy.mem_alloc(512)
    lazy.event_destroy(lazy.event_create())
    lazy.stream_create()
    lazy.close()
    live = lazy.live
    assert (live.allocations, live.streams, live.events) == (1, 1, 0)
