"""Every driver: device memory and page-locked memory."""

from __future__ import annotations

import itertools

import pytest
from cuplug.allocators.errors import DriverError, OutOfMemoryError
from cuplug.runtime.drivers.base import Driver

pytestmark = pytest.mark.one_schedule


@pytest.mark.parametrize("nbytes", [1, 511, 513, 1 << 20, (1 << 20) + 1, 5 << 20])
def test_allocations_are_aligned_and_apart(driver: Driver, nbytes: int) -> None:
    addresses = sorted(driver.mem_alloc(nbytes) for _ in range(8))
    assert all(address % 512 == 0 for address in addresses)
    assert all(later - earlier >= nbytes for earlier, later in itertools.pairwise(addresses))
    for address in addresses:
        driver.mem_free(address)


@pytest.mark.needs_device_alone
def test_memory_is_used_up_and_comes_back(driver: Driver) -> None:
    free, total = driver.mem_info()
    assert 0 < free <= total
    address = driver.mem_alloc(64 << 20)
    assert driver.mem_info()[0] <= free - (64 << 20)
    assert driver.mem_info()[1] == total
    driver.mem_free(address)
    assert driver.mem_info()[0] >= free


def test_more_than_there_is_cannot_be_had_and_nothing_breaks(driver: Driver) -> None:
    total = driver.mem_info()[1]
    with pytest.raises(OutOfMemoryError):
        driver.mem_alloc(total + (1 << 30))
    driver.mem_free(driver.mem_alloc(1 << 20))
    driver.synchronize()


def refusal(call: object, *arguments: int) -> int:
    with pytest.raises(DriverError) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.code


def test_zero_bytes_are_refused(driver: Driver) -> None:
    assert refusal(driver.mem_alloc, 0) == 1


def test_only_what_was_allocated_can_be_freed_and_only_once(driver: Driver) -> None:
    address = driver.mem_alloc(4 << 20)
    assert refusal(driver.mem_free, address + 512) == 1
    driver.mem_free(address)
    assert refusal(driver.mem_free, address) == 1
    assert refusal(driver.mem_free, 12345) == 1


def test_page_locked_memory_can_be_written_by_the_host(driver: Driver, host: object) -> None:
    address = driver.host_alloc(10_000)
    again = driver.host_alloc(10_000)
    assert abs(address - again) >= 10_000
    driver.host_free(address)
    driver.host_free(again)
    assert refusal(driver.host_free, address) == 1


def test_peers_are_other_devices(make_driver: object) -> None:
    driver: Driver = make_driver(devices=2)  # type: ignore[operator]
    driver.set_device(0)
    assert not driver.can_access_peer(0, 0)
    assert driver.can_access_peer(0, 1) == driver.can_access_peer(1, 0)
    with pytest.raises(DriverError) as caught:
        driver.can_access_peer(0, 1000)
    assert caught.value.code == 101
    if not driver.can_access_peer(0, 1):
        assert refusal(driver.enable_peer_access, 0, 1) == 217
        return
    if driver.simulator is None:  # CUDA's context is the process's: a copy between devices enables access for good
        driver.enable_peer_access(0, 1)
        driver.disable_peer_access(0, 1)
    assert refusal(driver.disable_peer_access, 0, 1) == 705
    driver.enable_peer_access(0, 1)
    driver.enable_peer_access(0, 1)
    driver.disable_peer_access(0, 1)
    assert refusal(driver.disable_peer_access, 0, 1) == 705
