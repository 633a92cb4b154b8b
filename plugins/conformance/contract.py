"""The contract as tests: every check, for every allocator, on every driver and schedule."""

from __future__ import annotations

import pytest
from hypothesis import settings

from ...allocators.base import Allocator
from ...allocators.errors import DriverError
from ...allocators.upstream import Upstream
from ...runtime.drivers.base import Driver
from ..manager import default_manager
from ..selection import parse_selection
from .bench import Drivers, Factory
from .checks import CHECKS, SIMULATOR_ONLY, Check
from .concurrency import check_free_at_any_moment, check_threads
from .machine import check_random_operations

__all__ = [
    "allocator_factory",
    "driver_factory",
    "test_an_allocator_keeps_its_contract",
    "test_an_allocator_keeps_its_contract_under_random_operations",
    "test_an_allocator_may_be_interrupted_at_any_moment",
]

_NOT_SUPPORTED = 801


@pytest.fixture
def allocator_factory(allocator_selection: str) -> Factory:
    """Makes the allocator under test."""

    def make(upstream: Upstream) -> Allocator:
        try:
            return default_manager().make_allocator(allocator_selection, upstream)
        except DriverError as error:
            if error.code == _NOT_SUPPORTED:
                pytest.skip(f"{allocator_selection} needs what this driver lacks: {error}")
            raise

    return make


@pytest.fixture
def driver_factory(driver_selection: str, held_device: None) -> Drivers:  # noqa: ARG001
    """Makes the driver under test, with a device."""

    def make() -> Driver:
        driver = default_manager().make_driver(driver_selection)
        if not driver.device_count():
            driver.close()
            pytest.fail(f"the driver {driver_selection} has no device")
        return driver

    return make


@pytest.mark.parametrize("check", [*CHECKS, check_threads], ids=lambda check: check.__name__.removeprefix("check_"))
def test_an_allocator_keeps_its_contract(
    check: Check, allocator_factory: Factory, driver_factory: Drivers, driver_selection: str
) -> None:
    if check in SIMULATOR_ONLY and parse_selection(driver_selection).name != "sim":
        pytest.skip("it would take the GPU's context along: run it on the simulator")
    check(allocator_factory, driver_factory)


@pytest.mark.one_schedule("schedule=lazy")
def test_an_allocator_may_be_interrupted_at_any_moment(allocator_factory: Factory, driver_factory: Drivers) -> None:
    check_free_at_any_moment(allocator_factory, driver_factory)


def test_an_allocator_keeps_its_contract_under_random_operations(
    allocator_factory: Factory, driver_factory: Drivers
) -> None:
    cheap = settings(max_examples=3 * settings().max_examples)  # a program takes milliseconds
    check_random_operations(allocator_factory, driver_factory, profile=cheap)
