"""Every driver: copies in every direction, and memset."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import pytest
from cuplug.runtime.drivers.base import LEGACY_STREAM, Driver

DATA = bytes(range(256)) * 16
LARGE = 3 << 20


def test_what_was_written_is_read_back(driver: Driver, host: Any) -> None:
    address = driver.mem_alloc(len(DATA))
    host.write(address, DATA)
    assert host.read(address, len(DATA)) == DATA
    assert host.read(address + 100, 50) == DATA[100:150]
    driver.mem_free(address)


def test_copies_on_one_stream_follow_each_other(driver: Driver, host: Any) -> None:
    stream = driver.stream_create()
    first, second = driver.mem_alloc(LARGE), driver.mem_alloc(LARGE)
    driver.memset(first, 1, LARGE, stream=stream)
    driver.memcpy_dtod(second, first, LARGE, stream=stream)
    driver.memset(first, 2, LARGE, stream=stream)
    driver.memcpy_dtod(second + LARGE // 2, first, LARGE // 2, stream=stream)
    assert host.read(second, LARGE, stream=stream) == bytes([1]) * (LARGE // 2) + bytes([2]) * (LARGE // 2)


@pytest.mark.parametrize(("width", "value"), [(1, 0xAB), (2, 0xABCD), (4, 0xABCD1234)])
def test_memset_writes_whole_elements(driver: Driver, host: Any, width: int, value: int) -> None:
    address = driver.mem_alloc(1024)
    driver.memset(address, 0, 1024, stream=LEGACY_STREAM)
    driver.memset(address + 8, value, 100, width=width, stream=LEGACY_STREAM)
    pattern = struct.pack({1: "<B", 2: "<H", 4: "<I"}[width], value) * 100
    assert host.read(address, 1024) == (bytes(8) + pattern).ljust(1024, b"\0")


def test_zero_bytes_copy_nothing(driver: Driver, host: Any) -> None:
    address = driver.mem_alloc(512)
    driver.memset(address, 5, 512, stream=LEGACY_STREAM)
    driver.memcpy_htod(address, host.pageable(b"x"), 0, stream=LEGACY_STREAM)
    driver.memcpy_dtod(address, address + 256, 0, stream=LEGACY_STREAM)
    driver.memset(address, 9, 0, stream=LEGACY_STREAM)
    driver.memcpy_dtoh(host.pageable(b"x"), address, 0, stream=LEGACY_STREAM)
    assert host.read(address, 512) == bytes([5]) * 512


def test_a_pageable_source_may_be_overwritten_once_the_call_returns(driver: Driver, host: Any) -> None:
    stream = driver.stream_create()
    address, source = driver.mem_alloc(len(DATA)), host.pageable(DATA)
    driver.memcpy_htod(address, source, len(DATA), stream=stream)
    ctypes.memset(source, 0, len(DATA))
    assert host.read(address, len(DATA), stream=stream) == DATA


def test_a_copy_to_pageable_memory_is_done_when_the_call_returns(driver: Driver, host: Any) -> None:
    stream = driver.stream_create()
    address = driver.mem_alloc(LARGE)
    driver.memset(address, 3, LARGE, stream=stream)
    target = host.pageable(bytes(LARGE))
    driver.memcpy_dtoh(target, address, LARGE, stream=stream)
    assert host.at(target, LARGE) == bytes([3]) * LARGE
    assert driver.stream_query(stream)


def test_pinned_memory_is_copied_by_the_time_the_stream_is_done(driver: Driver, host: Any) -> None:
    stream = driver.stream_create()
    address = driver.mem_alloc(len(DATA))
    source, target = host.pinned(DATA), host.pinned(bytes(len(DATA)))
    driver.memcpy_htod(address, source, len(DATA), stream=stream)
    driver.memcpy_dtoh(target, address, len(DATA), stream=stream)
    driver.stream_synchronize(stream)
    assert host.at(target, len(DATA)) == DATA
    driver.host_free(source)
    driver.host_free(target)


def test_freeing_waits_for_what_is_queued(driver: Driver, host: Any) -> None:
    stream = driver.stream_create()
    first, second = driver.mem_alloc(LARGE), driver.mem_alloc(LARGE)
    driver.memset(first, 6, LARGE, stream=stream)
    driver.memcpy_dtod(second, first, LARGE, stream=stream)
    driver.mem_free(first)
    assert driver.stream_query(stream)
    assert host.read(second, LARGE, stream=stream) == bytes([6]) * LARGE


def test_copies_between_devices_need_no_peer_access(make_driver: Any, host_of: Callable[[Driver], Any]) -> None:
    driver: Driver = make_driver(devices=2)
    driver.set_device(1)
    there = driver.mem_alloc(len(DATA))
    driver.set_device(0)
    here, back = driver.mem_alloc(len(DATA)), driver.mem_alloc(len(DATA))
    host_of(driver).write(here, DATA)
    stream = driver.stream_create()
    driver.memcpy_peer(there, 1, here, 0, len(DATA), stream=stream)
    driver.memcpy_peer(back, 0, there, 1, len(DATA), stream=stream)
    assert host_of(driver).read(back, len(DATA), stream=stream) == DATA


def test_peers_with_access_are_copied_like_own_memory(make_driver: Any, host_of: Callable[[Driver], Any]) -> None:
    driver: Driver = make_driver(devices=2)
    if not driver.can_access_peer(0, 1):
        pytest.skip("these devices cannot access each other")
    driver.set_device(1)
    there = driver.mem_alloc(len(DATA))
    driver.set_device(0)
    here = driver.mem_alloc(len(DATA))
    driver.enable_peer_access(0, 1)
    stream = driver.stream_create()
    host_of(driver).write(here, DATA)
    driver.memcpy_dtod(there, here, len(DATA), stream=stream)
    driver.memset(here, 0, len(DATA), stream=stream)
    driver.memcpy_dtod(here, there, len(DATA), stream=stream)
    assert host_of(driver).read(here, len(DATA), stream=stream) == DATA
