"""Every driver: streams, events, and the order that they promise."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.drivers.base import LEGACY_STREAM, PER_THREAD_STREAM, Driver

LARGE = 3 << 20


def code_of(call: Callable[[], object]) -> int:
    with pytest.raises(DriverError) as caught:
        call()
    return caught.value.code


def test_a_new_stream_has_nothing_to_do(driver: Driver) -> None:
    for non_blocking in (True, False):
        stream = driver.stream_create(non_blocking=non_blocking)
        assert driver.stream_query(stream)
        driver.stream_synchronize(stream)
        driver.stream_destroy(stream)


def test_polling_a_stream_comes_to_an_end(driver: Driver) -> None:
    stream = driver.stream_create()
    address = driver.mem_alloc(LARGE)
    for _ in range(5):
        driver.memset(address, 1, LARGE, stream=stream)
    while not driver.stream_query(stream):
        pass
    driver.mem_free(address)


def test_polling_an_event_comes_to_an_end(driver: Driver) -> None:
    stream, event = driver.stream_create(), driver.event_create()
    address = driver.mem_alloc(LARGE)
    driver.memset(address, 1, LARGE, stream=stream)
    driver.event_record(event, stream=stream)
    while not driver.event_query(event):
        pass
    assert driver.event_query(event)


def test_priorities_are_a_range_and_any_number_is_accepted(driver: Driver) -> None:
    least, greatest = driver.stream_priority_range()
    assert greatest <= least
    for priority in (least, greatest, greatest - 100, least + 100):
        driver.stream_destroy(driver.stream_create(priority=priority))


def test_an_unrecorded_event_has_passed_and_nobody_waits_for_it(driver: Driver) -> None:
    event, stream = driver.event_create(), driver.stream_create()
    assert driver.event_query(event)
    driver.event_synchronize(event)
    driver.stream_wait_event(stream, event)
    driver.stream_synchronize(stream)
    driver.event_destroy(event)


def test_a_stream_waits_for_an_event_of_another(driver: Driver, host: Any) -> None:
    writer, reader, event = driver.stream_create(), driver.stream_create(), driver.event_create()
    source, target = driver.mem_alloc(LARGE), driver.mem_alloc(LARGE)
    driver.memset(source, 0, LARGE, stream=writer)
    driver.synchronize()
    for value in range(1, 8):
        driver.memset(source, value, LARGE, stream=writer)
        driver.event_record(event, stream=writer)
        driver.stream_wait_event(reader, event)
        driver.memcpy_dtod(target, source, LARGE, stream=reader)
        driver.event_record(event, stream=reader)
        driver.stream_wait_event(writer, event)
    driver.memset(source, 0, LARGE, stream=writer)
    assert host.read(target, LARGE, stream=reader) == bytes([7]) * LARGE


def test_a_wait_keeps_to_the_recording_it_saw(driver: Driver, host: Any) -> None:
    first, second, event = driver.stream_create(), driver.stream_create(), driver.event_create()
    address, copy = driver.mem_alloc(LARGE), driver.mem_alloc(LARGE)
    driver.memset(address, 4, LARGE, stream=first)
    driver.event_record(event, stream=first)
    driver.stream_wait_event(second, event)
    driver.event_record(event, stream=second)
    driver.event_destroy(event)
    driver.memcpy_dtod(copy, address, LARGE, stream=second)
    assert host.read(copy, LARGE, stream=second) == bytes([4]) * LARGE


def test_synchronising_an_event_leaves_later_work_alone(driver: Driver, host: Any) -> None:
    stream, event = driver.stream_create(), driver.event_create()
    address, target = driver.mem_alloc(512), host.pinned(bytes(512))
    driver.memset(address, 8, 512, stream=stream)
    driver.memcpy_dtoh(target, address, 512, stream=stream)
    driver.event_record(event, stream=stream)
    driver.memset(address, 9, 512, stream=stream)
    driver.event_synchronize(event)
    assert host.at(target, 512) == bytes([8]) * 512
    driver.stream_synchronize(stream)
    assert host.read(address, 512, stream=stream) == bytes([9]) * 512


def test_the_legacy_stream_and_blocking_streams_wait_for_each_other(driver: Driver, host: Any) -> None:
    blocking, other = (driver.stream_create(non_blocking=False) for _ in range(2))
    source, target, barrier = (driver.mem_alloc(LARGE) for _ in range(3))
    for value in range(1, 8):
        driver.memset(source, value, LARGE, stream=blocking)
        driver.memcpy_dtod(target, source, LARGE, stream=LEGACY_STREAM)
        driver.memset(source, 0, LARGE, stream=other)
        driver.memset(barrier, value, 1, stream=LEGACY_STREAM)
    assert host.read(target, LARGE) == bytes([7]) * LARGE
    driver.synchronize()
    assert host.read(source, LARGE) == bytes(LARGE)


def test_the_per_thread_stream_is_blocking_too(driver: Driver, host: Any) -> None:
    source, target = driver.mem_alloc(LARGE), driver.mem_alloc(LARGE)
    for value in range(1, 8):
        driver.memset(source, value, LARGE, stream=PER_THREAD_STREAM)
        driver.memcpy_dtod(target, source, LARGE, stream=LEGACY_STREAM)
        driver.memset(source, 0, LARGE, stream=PER_THREAD_STREAM)
    assert host.read(target, LARGE) == bytes([7]) * LARGE
    driver.stream_synchronize(PER_THREAD_STREAM)
    assert driver.stream_query(PER_THREAD_STREAM)


def test_threads_work_on_their_per_thread_streams(driver: Driver, host: Any) -> None:
    failures: list[object] = []

    def work(value: int) -> None:
        try:
            driver.set_device(0)
            source, target = driver.mem_alloc(LARGE), driver.mem_alloc(LARGE)
            for _ in range(10):
                driver.memset(source, value, LARGE, stream=PER_THREAD_STREAM)
                driver.memcpy_dtod(target, source, LARGE, stream=PER_THREAD_STREAM)
                driver.memset(source, 0, LARGE, stream=PER_THREAD_STREAM)
            assert host.read(target, LARGE, stream=PER_THREAD_STREAM) == bytes([value]) * LARGE
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(value,)) for value in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_destroyed_stream_still_does_its_work(driver: Driver, host: Any) -> None:
    stream, event = driver.stream_create(), driver.event_create()
    address = driver.mem_alloc(LARGE)
    driver.memset(address, 5, LARGE, stream=stream)
    driver.event_record(event, stream=stream)
    driver.stream_destroy(stream)
    later = driver.stream_create()
    driver.stream_wait_event(later, event)
    assert host.read(address, LARGE, stream=later) == bytes([5]) * LARGE


def test_elapsed_time_is_positive_and_adds_up(driver: Driver) -> None:
    stream = driver.stream_create()
    address = driver.mem_alloc(64 << 20)
    events = [driver.event_create(timing=True) for _ in range(3)]
    for event in events:
        driver.event_record(event, stream=stream)
        driver.memset(address, 1, 64 << 20, stream=stream)
    driver.stream_synchronize(stream)
    first, second = (driver.event_elapsed_ms(*pair) for pair in (events[:2], events[1:]))
    assert first > 0
    assert second > 0
    assert driver.event_elapsed_ms(events[0], events[2]) == pytest.approx(first + second, abs=0.005)


def test_elapsed_time_needs_recorded_events_with_timing(driver: Driver) -> None:
    timed, other, untimed = (driver.event_create(timing=timing) for timing in (True, True, False))
    for event in (timed, untimed):
        driver.event_record(event, stream=LEGACY_STREAM)
    driver.synchronize()
    assert code_of(lambda: driver.event_elapsed_ms(timed, untimed)) == 400
    assert code_of(lambda: driver.event_elapsed_ms(timed, other)) == 400


def test_events_and_streams_of_two_devices_do_not_mix_but_wait(make_driver: Any, host_of: Any) -> None:
    driver: Driver = make_driver(devices=2)
    driver.set_device(0)
    here, event, source = driver.stream_create(), driver.event_create(), driver.mem_alloc(LARGE)
    driver.memset(source, 3, LARGE, stream=here)
    driver.set_device(1)
    there, target = driver.stream_create(), driver.mem_alloc(LARGE)
    assert code_of(lambda: driver.event_record(event, stream=there)) == 400
    driver.event_record(event, stream=here)
    driver.stream_wait_event(there, event)
    driver.memcpy_peer(target, 1, source, 0, LARGE, stream=there)
    assert host_of(driver).read(target, LARGE, stream=there) == bytes([3]) * LARGE
    assert driver.event_query(event)
