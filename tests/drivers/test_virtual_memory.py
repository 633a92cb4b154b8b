"""Every driver that has virtual memory: ranges, pages, mappings."""

from __future__ import annotations

from typing import Any

import pytest
from cuplug.allocators.errors import DriverError, OutOfMemoryError
from cuplug.allocators.upstream import VirtualMemory
from cuplug.runtime.drivers.base import LEGACY_STREAM, Driver


@pytest.fixture
def virtual(driver: Driver) -> VirtualMemory:
    found = driver.virtual_memory(0)
    if found is None:
        pytest.skip("this device or installation has no virtual memory")
    return found


def test_pages_make_one_piece_of_memory(driver: Driver, virtual: VirtualMemory, host: Any) -> None:
    unit = virtual.granularity
    base = virtual.reserve_range(4 * unit)
    pages = [virtual.create_page(unit) for _ in range(3)]
    for position, page in enumerate(pages):
        virtual.map(base + position * unit, unit, page)
    virtual.set_access(base, 3 * unit)
    driver.memset(base, 0, 3 * unit, stream=LEGACY_STREAM)
    host.write(base + unit - 2, b"four")
    assert host.read(base + unit - 3, 6) == b"\0four\0"
    virtual.unmap(base, 3 * unit)
    for page in pages:
        virtual.release_page(page)
    virtual.free_range(base, 4 * unit)


def test_a_page_keeps_its_contents_wherever_it_is_mapped(driver: Driver, virtual: VirtualMemory, host: Any) -> None:
    unit = virtual.granularity
    base = virtual.reserve_range(2 * unit)
    page = virtual.create_page(unit)
    virtual.map(base, unit, page)
    virtual.set_access(base, unit)
    host.write(base, b"hello")
    driver.synchronize()
    virtual.unmap(base, unit)
    virtual.map(base + unit, unit, page)
    virtual.set_access(base + unit, unit)
    assert host.read(base + unit, 5) == b"hello"
    virtual.unmap(base + unit, unit)
    virtual.release_page(page)
    virtual.free_range(base, 2 * unit)


def test_a_driver_may_be_closed_while_work_on_its_pages_is_queued(driver: Driver, virtual: VirtualMemory) -> None:
    pages, times = (64, 200) if driver.name == "cuda" else (1, 3)  # some 10 ms of a large GPU
    nbytes = pages * virtual.granularity
    base = virtual.reserve_range(nbytes)
    virtual.map(base, nbytes, virtual.create_page(nbytes))
    virtual.set_access(base, nbytes)
    stream = driver.stream_create()
    for value in range(times):
        driver.memset(base, value, nbytes, stream=stream)
    driver.close()
    following = type(driver)()
    following.set_device(0)
    address = following.mem_alloc(4096)
    following.memset(address, 1, 4096, stream=LEGACY_STREAM)
    following.synchronize()
    following.close()


def test_a_page_can_be_mapped_twice(driver: Driver, virtual: VirtualMemory, host: Any) -> None:
    unit = virtual.granularity
    base = virtual.reserve_range(2 * unit)
    page = virtual.create_page(unit)
    for address in (base, base + unit):
        virtual.map(address, unit, page)
        virtual.set_access(address, unit)
    host.write(base, b"hello")
    driver.synchronize()
    assert host.read(base + unit, 5) == b"hello"
    driver.synchronize()
    virtual.unmap(base, 2 * unit)
    virtual.release_page(page)
    virtual.free_range(base, 2 * unit)


def test_what_is_written_through_one_address_later_work_reads_through_another(
    driver: Driver, virtual: VirtualMemory, host: Any
) -> None:
    """In the order of a stream, without waiting between: what ``expandable`` with ``aliases`` builds on."""
    unit = virtual.granularity
    base = virtual.reserve_range(3 * unit)
    page, seen = virtual.create_page(unit), virtual.create_page(unit)
    for address, handle in ((base, page), (base + unit, page), (base + 2 * unit, seen)):
        virtual.map(address, unit, handle)
        virtual.set_access(address, unit)
    stream, turns = driver.stream_create(), 64
    driver.memset(base + 2 * unit, 0, unit, stream=stream)
    part = unit // turns
    for turn in range(turns):
        written, read = (base, base + unit) if turn % 2 else (base + unit, base)
        driver.memset(written, turn + 1, unit, stream=stream)
        driver.memcpy_dtod(base + 2 * unit + turn * part, read + unit - part, part, stream=stream)
    driver.stream_synchronize(stream)
    for turn in range(turns):
        assert host.read(base + 2 * unit + turn * part, 4) == bytes([turn + 1]) * 4
    driver.synchronize()
    driver.stream_destroy(stream)
    virtual.unmap(base, 3 * unit)
    for handle in (page, seen):
        virtual.release_page(handle)
    virtual.free_range(base, 3 * unit)


@pytest.mark.one_schedule
def test_pages_use_up_memory_until_released_and_unmapped(driver: Driver, virtual: VirtualMemory) -> None:
    size = 32 * virtual.granularity
    before = driver.mem_info()[0]
    base = virtual.reserve_range(size)
    assert driver.mem_info()[0] == before
    page = virtual.create_page(size)
    assert driver.mem_info()[0] <= before - size
    virtual.map(base, size, page)
    virtual.release_page(page)
    assert driver.mem_info()[0] <= before - size
    virtual.unmap(base, size)
    assert driver.mem_info()[0] > before - size
    virtual.free_range(base, size)


@pytest.mark.one_schedule
def test_pages_run_out(driver: Driver, virtual: VirtualMemory) -> None:
    total = driver.mem_info()[1]
    with pytest.raises(OutOfMemoryError):
        virtual.create_page((total // virtual.granularity + 512) * virtual.granularity)
    virtual.release_page(virtual.create_page(virtual.granularity))


@pytest.mark.one_schedule
def test_what_is_not_aligned_or_not_there_is_refused(driver: Driver, virtual: VirtualMemory) -> None:
    unit = virtual.granularity
    base = virtual.reserve_range(2 * unit)
    page = virtual.create_page(unit)

    def refused(call: Any, *arguments: int) -> bool:
        with pytest.raises(DriverError):
            call(*arguments)
        return True

    assert refused(virtual.reserve_range, unit // 2)
    assert refused(virtual.create_page, unit // 2)
    assert refused(virtual.map, base + 512, unit, page)
    assert refused(virtual.unmap, base, unit)
    virtual.map(base, unit, page)
    assert refused(virtual.map, base, unit, page)
    virtual.unmap(base, unit)
    virtual.release_page(page)
    virtual.free_range(base, 2 * unit)
