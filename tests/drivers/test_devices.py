"""Every driver: devices, contexts, processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.drivers.base import Driver
from cuplug.runtime.drivers.device_upstream import on_device

pytestmark = pytest.mark.one_schedule


def test_a_driver_says_what_it_is(driver: Driver, driver_selection: str) -> None:
    assert driver.name == driver_selection.partition(":")[0]
    assert driver.device_count() >= 1
    assert driver.driver_version() >= (11, 0)


def test_device_properties_are_plausible(driver: Driver) -> None:
    properties = driver.device_properties(0)
    assert properties.name
    assert properties.major >= 1
    assert properties.total_memory >= 2 << 20
    assert properties.warp_size == 32
    assert properties.multi_processor_count >= 1
    assert properties.max_threads_per_block >= 512
    assert properties.shared_memory_per_block_optin >= properties.shared_memory_per_block
    assert properties.virtual_memory == (driver.virtual_memory(0) is not None)


def test_device_properties_need_no_current_device(driver: Driver) -> None:
    driver.set_device(None)
    assert driver.device_properties(0).uuid


@pytest.mark.parametrize("ordinal", [-1, 1000])
def test_a_device_that_is_not_there_is_refused(driver: Driver, ordinal: int) -> None:
    for ask in (driver.device_properties, driver.set_device):
        with pytest.raises(DriverError) as caught:
            ask(ordinal)
        assert caught.value.code == 101
        assert caught.value.name == "CUDA_ERROR_INVALID_DEVICE"
    assert driver.current_device() == 0


def test_the_current_device_is_the_threads_own(driver: Driver) -> None:
    seen: list[int | None] = []
    thread = threading.Thread(target=lambda: seen.append(driver.current_device()))
    thread.start()
    thread.join()
    assert seen == [None]
    assert driver.current_device() == 0


def test_without_a_current_device_calls_are_refused(driver: Driver) -> None:
    address = driver.mem_alloc(512)
    event = driver.event_create()
    driver.set_device(None)
    assert driver.current_device() is None
    calls: list[Callable[[], object]] = [
        lambda: driver.mem_alloc(512),
        lambda: driver.mem_free(address),
        driver.mem_info,
        driver.synchronize,
        driver.stream_create,
        driver.event_create,
        lambda: driver.event_record(event, stream=0),
        lambda: driver.memset(address, 0, 1, stream=0),
        lambda: driver.host_alloc(512),
    ]
    for call in calls:
        with pytest.raises(DriverError) as caught:
            call()
        assert caught.value.code == 201
    driver.set_device(0)
    driver.mem_free(address)


def test_each_thread_works_on_its_device(make_driver: Any) -> None:
    driver: Driver = make_driver(devices=2)
    driver.set_device(0)
    with on_device(driver, 1):
        assert driver.current_device() == 1
        free_there = driver.mem_info()[0]
        address = driver.mem_alloc(64 << 20)
        assert driver.mem_info()[0] <= free_there - (64 << 20)
    assert driver.current_device() == 0
    with on_device(driver, 1):
        driver.mem_free(address)


def test_closing_twice_is_fine(driver: Driver) -> None:
    driver.mem_alloc(1 << 20)
    driver.stream_create()
    driver.close()
    driver.close()


VISIBLE = """
import sys
from cuplug.plugins.manager import default_manager
driver = default_manager().make_driver(sys.argv[1])
print(driver.device_count())
"""


def test_cuda_visible_devices_can_hide_everything(driver_selection: str, run_python: Callable[..., str]) -> None:
    assert run_python(VISIBLE, driver_selection, CUDA_VISIBLE_DEVICES="-1") == "0\n"
    assert run_python(VISIBLE, driver_selection, CUDA_VISIBLE_DEVICES="0") == "1\n"


FORK = """
import os, sys
from cuplug.allocators.errors import DriverError
from cuplug.plugins.manager import default_manager
driver = default_manager().make_driver(sys.argv[1])
driver.set_device(0)
address = driver.mem_alloc(1 << 20)
driver.memset(address, 7, 1 << 20, stream=0)
child = os.fork()
if not child:
    codes = []
    for call in (driver.device_count, driver.mem_info, lambda: driver.mem_alloc(512), lambda: driver.set_device(0),
                 lambda: driver.mem_free(address), driver.synchronize, driver.current_device):
        try:
            call()
        except DriverError as error:
            codes.append(error.code)
    driver.close()
    os._exit(0 if codes == [3] * 7 else 1)
_, status = os.waitpid(child, 0)
driver.synchronize()
driver.mem_free(address)
driver.mem_free(driver.mem_alloc(1 << 20))
driver.close()
print(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_is_refused_and_the_parent_unharmed(
    driver_selection: str, run_python: Callable[..., str]
) -> None:
    assert run_python(FORK, driver_selection) == "0\n"
