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
from .contract_checks import CHECKS, SIMULATOR_ONLY, Check
from .every_size import check_freed_blocks_of_every_size_go_back
from .failing_calls import check_failing_calls_lose_nothing
from .finalisers import check_free_at_any_moment
from .interrupts import INTERRUPTS, PatientCheck
from .random_operations import check_random_operations
from .scaling import check_work_grows_no_faster_than_the_pieces_held
from .threads import check_threads, check_threads_that_meet_at_any_line
from .workbench import Drivers, Factory

__all__ = [
    "allocator_factory",
    "driver_factory",
    "test_an_allocator_keeps_its_contract",
    "test_an_allocator_keeps_its_contract_under_random_operations",
    "test_an_allocator_serves_many_threads",
    "test_an_interrupted_allocator_is_consistent_or_says_that_it_was_interrupted",
    "test_finalisers_may_free_at_any_moment",
    "test_freed_blocks_of_every_size_go_back",
    "test_nothing_is_lost_where_a_call_upstream_fails",
    "test_the_work_of_a_call_grows_no_faster_than_the_pieces_held",
    "test_threads_may_meet_in_an_allocator_at_any_line",
]

_NOT_SUPPORTED = 801
_ONE_SCHEDULE = (check_failing_calls_lose_nothing, check_freed_blocks_of_every_size_go_back)
_EACH_SCHEDULE = [check for check in CHECKS if check not in _ONE_SCHEDULE]


@pytest.fixture
def allocator_factory(allocator_selection: str) -> Factory:
    """Makes the allocator under test."""

    def make(upstream: Upstream, **options: object) -> Allocator:
        selection = parse_selection(allocator_selection)
        selection.options.update({name: str(value) for name, value in options.items()})
        try:
            return default_manager().make_allocator(str(selection), upstream)
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


@pytest.mark.parametrize("check", _EACH_SCHEDULE, ids=lambda check: check.__name__.removeprefix("check_"))
def test_an_allocator_keeps_its_contract(
    check: Check, allocator_factory: Factory, driver_factory: Drivers, driver_selection: str
) -> None:
    if check in SIMULATOR_ONLY and parse_selection(driver_selection).name != "sim":
        pytest.skip("it would take the GPU's context along: run it on the simulator")
    check(allocator_factory, driver_factory)


def test_an_allocator_serves_many_threads(
    allocator_factory: Factory, driver_factory: Drivers, patience_s: float
) -> None:
    check_threads(allocator_factory, driver_factory, patience_s=patience_s)


@pytest.mark.one_schedule("schedule=lazy")
def test_threads_may_meet_in_an_allocator_at_any_line(
    allocator_factory: Factory, driver_factory: Drivers, patience_s: float
) -> None:
    check_threads_that_meet_at_any_line(allocator_factory, driver_factory, patience_s=patience_s)


@pytest.mark.one_schedule("schedule=lazy")
def test_nothing_is_lost_where_a_call_upstream_fails(allocator_factory: Factory, driver_factory: Drivers) -> None:
    check_failing_calls_lose_nothing(allocator_factory, driver_factory)


@pytest.mark.one_schedule("schedule=lazy")
def test_freed_blocks_of_every_size_go_back(allocator_factory: Factory, driver_factory: Drivers) -> None:
    check_freed_blocks_of_every_size_go_back(allocator_factory, driver_factory)


@pytest.mark.one_schedule("schedule=lazy")
def test_finalisers_may_free_at_any_moment(
    allocator_factory: Factory, driver_factory: Drivers, patience_s: float
) -> None:
    check_free_at_any_moment(allocator_factory, driver_factory, patience_s=patience_s)


@pytest.mark.skipif(not hasattr(Allocator, "_recover"), reason="the base class cannot be interrupted yet")
@pytest.mark.one_schedule("schedule=lazy")
@pytest.mark.parametrize("check", INTERRUPTS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_an_interrupted_allocator_is_consistent_or_says_that_it_was_interrupted(
    check: PatientCheck,
    allocator_factory: Factory,
    driver_factory: Drivers,
    patience_s: float,
    request: pytest.FixtureRequest,
) -> None:
    check(allocator_factory, driver_factory, patience_s=patience_s, thorough=request.config.getoption("--thorough"))


@pytest.mark.one_schedule("schedule=eager")
def test_the_work_of_a_call_grows_no_faster_than_the_pieces_held(
    allocator_factory: Factory, driver_factory: Drivers, driver_selection: str
) -> None:
    if parse_selection(driver_selection).name != "sim":
        pytest.skip("the simulator shows it as well, in less time")
    check_work_grows_no_faster_than_the_pieces_held(allocator_factory, driver_factory)


def test_an_allocator_keeps_its_contract_under_random_operations(
    allocator_factory: Factory, driver_factory: Drivers
) -> None:
    cheap = settings(max_examples=3 * settings().max_examples)  # a program takes milliseconds
    check_random_operations(allocator_factory, driver_factory, profile=cheap)
