"""The kit accepts a small correct allocator, and random operations find planted faults by themselves."""

from __future__ import annotations

from functools import partial

import pytest
from cuplug.allocators.errors import DriverError
from cuplug.plugins.conformance.contract_checks import CHECKS
from cuplug.plugins.conformance.finalisers import check_free_at_any_moment
from cuplug.plugins.conformance.metered import MeteredUpstream
from cuplug.plugins.conformance.random_operations import check_random_operations
from cuplug.plugins.conformance.rules import ContractBrokenError, Rule
from cuplug.plugins.conformance.scaling import check_work_grows_no_faster_than_the_pieces_held
from cuplug.plugins.conformance.threads import check_threads, check_threads_that_meet_at_any_line
from cuplug.plugins.conformance.workbench import Bench
from cuplug.plugins.manager import default_manager
from cuplug.runtime.drivers.device_upstream import DeviceUpstream
from cuplug.runtime.drivers.sim import SimDriver

from .example import ExampleAllocator


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("check", [*CHECKS, check_threads], ids=lambda check: check.__name__)
def test_the_kit_accepts_a_correct_allocator(check, schedule, drivers):
    check(ExampleAllocator, drivers[schedule])


@pytest.mark.parametrize(
    "check",
    [
        check_free_at_any_moment,
        check_threads_that_meet_at_any_line,
        check_work_grows_no_faster_than_the_pieces_held,
    ],
    ids=lambda check: check.__name__,
)
def test_the_kit_accepts_a_correct_allocator_step_by_step(check, drivers):
    check(ExampleAllocator, drivers["lazy"])


def test_the_kit_accepts_a_correct_allocator_under_random_operations(driver_selection, few_programs):
    make = partial(default_manager().make_driver, driver_selection)
    check_random_operations(ExampleAllocator, make, profile=few_programs)


class RoundsToPowersOfTwo(ExampleAllocator):
    def _rounded(self, nbytes):
        return 1 << max(9, (nbytes - 1).bit_length())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_kit_accepts_an_allocator_that_rounds_to_powers_of_two(check, drivers):
    check(RoundsToPowersOfTwo, drivers["lazy"])


def test_the_kit_accepts_that_memory_is_given_back_again_where_the_driver_itself_was_interrupted():
    driver = SimDriver()
    driver.set_device(0)
    meter = MeteredUpstream(DeviceUpstream(driver, 0), 1 << 30, lambda _address, _nbytes: None)
    address = meter.reserve(4096)
    driver.fail_next("mem_free", 999)
    with pytest.raises(DriverError):
        meter.release(address)
    meter.release(address)
    assert (meter.held, meter.reserved, meter.faults) == (0, {}, [])
    driver.close()


class Opaque:
    """A driver that is not the simulator, as far as the kit can tell: one whose queues it cannot look into."""

    def __init__(self):
        self._driver = SimDriver(schedule="lazy")

    def __getattr__(self, name):
        return getattr(self._driver, name)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_kit_runs_on_a_driver_that_is_not_the_simulator(check, monkeypatch):
    monkeypatch.setattr(Bench, "keep_busy", lambda bench, lane: None)
    check(ExampleAllocator, Opaque)


class MixesStreams(ExampleAllocator):
    """Reuses across streams without a fence."""

    def _piece_for(self, nbytes, stream):
        fitting = (addresses for (_, size), addresses in self._cached.items() if size == nbytes and addresses)
        found = next(fitting, None)
        return found.pop() if found else None


class Overlaps(ExampleAllocator):
    """Hands a live block out again when it has no other of the size."""

    def _piece_for(self, nbytes, stream):
        found = super()._piece_for(nbytes, stream)
        return found or next((block.address for block in self._live.values() if block.nbytes == nbytes), None)


class IgnoresRecordStream(ExampleAllocator):
    def record_stream(self, block, stream):
        if block not in self.live_blocks():
            super().record_stream(block, stream)


class LeaksAtClose(ExampleAllocator):
    def _release_all(self):
        """Leaves everything where it is."""


class Miscounts(ExampleAllocator):
    """Gives memory back without counting it."""

    def _release(self, address, nbytes, *, small, stream):
        self.upstream.release(address)


class StrandsBlocks(ExampleAllocator):
    """Leaves what a destroyed stream has cached to the next stream of its handle."""

    def _forget_stream(self, stream):
        pass


RANDOM_FAULTS = [
    (MixesStreams, {Rule.STREAM_ORDER, Rule.FORGET_STREAM}),
    (IgnoresRecordStream, {Rule.RECORD_STREAM, Rule.RELEASE}),
    (Overlaps, {Rule.NO_OVERLAP, Rule.STREAM_ORDER, Rule.RECORD_STREAM}),
    (LeaksAtClose, {Rule.CLOSE}),
    (Miscounts, {Rule.ACCOUNTING, Rule.NOTHING_LOST}),
    (StrandsBlocks, {Rule.FORGET_STREAM, Rule.RELEASE}),
]


@pytest.mark.parametrize(("broken", "rules"), RANDOM_FAULTS, ids=[fault[0].__name__ for fault in RANDOM_FAULTS])
def test_random_operations_find_the_fault_by_themselves(broken, rules, drivers, until_found):
    with pytest.raises(ContractBrokenError) as caught:
        check_random_operations(broken, drivers["random"], profile=until_found)
    assert caught.value.rule in rules
