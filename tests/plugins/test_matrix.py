"""The fixtures that give tests their drivers, schedules and allocators."""

from __future__ import annotations

import pytest
from cuplug.plugins.conformance import SCHEDULES, schedules_of


def test_the_simulator_comes_under_every_schedule():
    assert schedules_of("sim") == [f"sim:{schedule}" for schedule in SCHEDULES]
    assert schedules_of("sim:devices=2") == [f"sim:devices=2,{schedule}" for schedule in SCHEDULES]


def test_a_chosen_schedule_and_other_drivers_come_once():
    assert schedules_of("sim:schedule=lazy") == ["sim:schedule=lazy"]
    assert schedules_of("cuda") == ["cuda"]


def test_a_driver_comes_with_a_current_device(driver):
    assert driver.current_device() == 0


@pytest.mark.needs_sim
def test_the_schedule_of_a_driver_is_the_selected_one(driver, driver_selection):
    driver.memset(address := driver.mem_alloc(512), 7, 512, stream=0)
    queued = bool(driver.pending_access(address, 512))
    if "eager" in driver_selection:
        assert not queued
    elif "lazy" in driver_selection:
        assert queued


@pytest.mark.needs_sim
def test_a_test_may_ask_for_more_devices(make_driver):
    assert make_driver(devices=2, memory="64MiB").device_count() == 2


@pytest.mark.one_schedule
def test_one_schedule_is_enough_for_some(driver_selection, driver):
    assert driver_selection in ("sim:schedule=eager", driver_selection if driver.name != "sim" else "")


def test_every_allocator_comes_on_every_driver(allocator, allocator_selection):
    block = allocator.allocate(1, stream=0)
    assert block.nbytes >= 1
    allocator.free(block)


@pytest.mark.needs_gpu
@pytest.mark.one_schedule
def test_a_gpu_is_used_only_if_asked_for(driver):
    assert driver.name == "cuda"
