"""Python functions as kernels, launched in C++: every outcome is that of ``launch_host``, and signals break nothing."""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from cuplug.allocators.core_choice import is_available
from cuplug.allocators.errors import DriverError
from cuplug.runtime.drivers.base import LEGACY_STREAM, PER_THREAD_STREAM, driver_error
from cuplug.runtime.drivers.sim import SimDriver
from hypothesis import given, settings
from hypothesis import strategies as st

from ...timers import timers

pytestmark = pytest.mark.needs_sim

MakeSim = Callable[..., SimDriver]
Launch = Callable[..., None]


def forms(driver: SimDriver) -> list[Launch]:
    return [driver.launch_host, driver.quick_launch_host]


def outcome(call: Callable[[], object]) -> Any:
    """What a call did, to be compared: nothing, or what it raised with the cause."""
    try:
        call()
    except DriverError as error:
        return error.code, error.message, repr(error.__cause__)
    except BaseException as error:
        return repr(error)
    return None


def test_it_is_in_cpp_where_there_is_a_core_and_nothing_is_deferred(make_sim: MakeSim) -> None:
    eager, lazy = make_sim(), make_sim(schedule="lazy")
    assert (type(eager.quick_launch_host).__name__ == "HostLaunch") is is_available()
    assert type(lazy.quick_launch_host).__name__ == "function"


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
@pytest.mark.parametrize("repeatable", [False, True])
def test_the_function_is_called_with_what_stands_behind(make_sim: MakeSim, schedule: str, repeatable: bool) -> None:
    driver = make_sim(schedule=schedule)
    found: list[object] = []
    driver.quick_launch_host(lambda *given: found.extend(given), 0, (), (), "x", 0, 2.0, repeatable, 1, "2")
    driver.synchronize()
    assert found == [1, "2"]


def test_what_reads_what_it_writes_is_not_cut_short(make_sim: MakeSim) -> None:
    driver = make_sim()
    address = driver.mem_alloc(100)
    ran: list[int] = []

    def kernel() -> None:
        signal.raise_signal(signal.SIGINT)
        ran.append(1)

    for read, ends in (((address, 51), True), ((address + 99, 1), True), ((address, 50), False)):
        ran.clear()
        with pytest.raises(KeyboardInterrupt):
            driver.quick_launch_host(kernel, 0, (read,), ((address + 50, 50),), "x", 0, 2.0, True)
        assert ran == ([1] if ends else [])


@pytest.mark.parametrize("seed", range(6))
def test_any_launches_leave_the_same_log_clock_and_results(make_sim: MakeSim, seed: int) -> None:
    seen = []
    for form in (0, 1):
        chosen = random.Random(seed)
        driver = make_sim(devices=2)
        made = [driver.stream_create(), driver.stream_create(non_blocking=False)]
        streams = [LEGACY_STREAM, 1, PER_THREAD_STREAM, *made]
        start = driver.event_create(timing=True)
        driver.event_record(start, stream=LEGACY_STREAM)
        address, page = driver.mem_alloc(1000), driver.mem_alloc(3 << 20)
        ran: list[int] = []
        for number in range(200):
            some = range(chosen.randrange(3))
            reads = tuple((chosen.choice([address, page]), chosen.randrange(1, 1001)) for _ in some)
            launch = forms(driver)[form]
            device = chosen.choice([0, 0, 0, 1])
            stream = streams[0] if device else chosen.choice(streams)
            work = partial(ran.append, number)
            cost, repeatable = chosen.choice([0.5, 2.0, 40.0]), chosen.random() < 0.5
            launch(work, stream, () if device else reads, (), f"work {number}", device, cost, repeatable)
            if chosen.random() < 0.1:
                driver.memset(address, 1, 10, stream=chosen.choice(streams))
        clocks = []
        for stream in streams:
            event = driver.event_create(timing=True)
            driver.event_record(event, stream=stream)
            clocks.append(driver.event_elapsed_ms(start, event))
        seen.append((ran, driver.log, driver.operations_executed, clocks))
    assert seen[0] == seen[1]
    assert seen[0][0] == list(range(200))


class Own(Exception):
    """Of the work's own."""


@pytest.mark.parametrize("repeatable", [False, True])
@pytest.mark.parametrize(
    "raised", [Own("x"), MemoryError(), KeyboardInterrupt(), SystemExit(3), driver_error(702, "why")]
)
def test_what_a_kernel_raises_has_the_same_consequences(
    make_sim: MakeSim, raised: BaseException, repeatable: bool
) -> None:
    seen = []
    for form in (0, 1):
        driver = make_sim()
        ran: list[int] = []

        def kernel() -> None:
            raise raised

        launch = forms(driver)[form]
        found = [outcome(lambda: launch(kernel, 0, (), (), "kernel", 0, 2.0, repeatable))]  # noqa: B023 - called here
        found.append(outcome(lambda: launch(lambda: ran.append(1), 0, (), (), "next", 0, 2.0, False)))  # noqa: B023
        found.append(outcome(driver.synchronize))
        seen.append((found, ran, driver.log))
    assert seen[0] == seen[1]
    assert seen[0][0] != [None, None, None] or repeatable


@pytest.mark.parametrize("wrong", [(0, 1001), (-1, 1), (2000, 1), (1 << 46, 8)])
@pytest.mark.parametrize("verb", ["reads", "writes"])
def test_an_address_that_is_not_the_devices_fails_as_by_launch_host(
    make_sim: MakeSim, wrong: tuple[int, int], verb: str
) -> None:
    for form in (0, 1):
        driver = make_sim()
        address = driver.mem_alloc(1000)
        fitting, beyond = (address, 1000), (address + wrong[0], wrong[1])
        ran: list[int] = []
        ranges = ((fitting, beyond), (fitting,)) if verb == "reads" else ((fitting,), (fitting, beyond))
        forms(driver)[form](lambda: ran.append(1), 0, *ranges, "kernel", 0, 2.0, True)  # noqa: B023 - called here
        code, message, _ = outcome(driver.synchronize)
        assert code == 700
        assert f"kernel on device 0, stream 0x0, {verb} {wrong[1]} bytes at {beyond[0]:#x}: " in message
        assert not ran


def test_memory_that_is_mapped_may_be_accessed_until_it_is_unmapped(make_sim: MakeSim) -> None:
    driver = make_sim()
    virtual = driver.virtual_memory(0)
    assert virtual is not None
    unit = virtual.granularity
    start, page = virtual.reserve_range(unit), virtual.create_page(unit)
    virtual.map(start, unit, page)
    virtual.set_access(start, unit)
    ran: list[int] = []
    driver.quick_launch_host(lambda: ran.append(1), 0, ((start, unit),), (), "kernel", 0, 2.0, True)
    driver.synchronize()
    assert ran == [1]
    virtual.unmap(start, unit)
    driver.quick_launch_host(lambda: ran.append(2), 0, ((start, unit),), (), "kernel", 0, 2.0, True)
    assert outcome(driver.synchronize)[0] == 700
    assert ran == [1]


def test_what_is_refused_is_refused_as_by_launch_host(make_sim: MakeSim) -> None:
    driver = make_sim(devices=2)
    other = driver.stream_create()
    driver.set_device(1)
    driver.set_device(0)
    inside: list[Any] = []
    for launch in forms(driver):
        assert outcome(lambda: launch(list, other, (), (), "x", 1, 2.0, True))[0] == 400  # noqa: B023 - called here
        assert outcome(lambda: launch(list, 77, (), (), "x", 0, 2.0, True))[0] == 400  # noqa: B023
        launch(
            lambda: inside.append(outcome(lambda: launch(list, 0, (), (), "x", 0, 2.0, True))),  # noqa: B023
            *(0, (), (), "x", 0, 2.0, True),
        )
        driver.fail_next("launch_host", 719)
        assert outcome(lambda: launch(list, 0, (), (), "x", 0, 2.0, True))[0] == 719  # noqa: B023
    assert [each[0] for each in inside] == [800, 800]
    driver.close()
    assert outcome(lambda: driver.quick_launch_host(list, 0, (), (), "x", 0, 2.0, True))[0] == 4


def test_the_collector_rests_within_and_goes_on_afterwards(make_sim: MakeSim) -> None:
    driver, another = make_sim(), make_sim()
    seen: list[bool] = []

    def kernel() -> None:
        seen.append(gc.isenabled())
        another.quick_launch_host(lambda: seen.append(gc.isenabled()), 0, (), (), "other", 0, 2.0, True)
        seen.append(gc.isenabled())

    assert gc.isenabled()
    driver.quick_launch_host(kernel, 0, (), (), "kernel", 0, 2.0, True)
    assert seen == [False, False, False]
    assert gc.isenabled()
    gc.disable()
    try:
        driver.quick_launch_host(list, 0, (), (), "kernel", 0, 2.0, True)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_threads_take_turns(make_sim: MakeSim) -> None:
    driver = make_sim()
    address = driver.mem_alloc(512)
    busy: list[int] = []
    overlaps: list[int] = []

    def kernel() -> None:
        busy.append(1)
        if len(busy) > 1:
            overlaps.append(1)
        sum(range(100))
        busy.pop()

    def launches() -> None:
        for _ in range(300):
            driver.quick_launch_host(kernel, 0, ((address, 512),), (), "kernel", 0, 2.0, True)
            driver.mem_info(device=0)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=launches) for _ in range(4)]
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.join(300)
    finally:
        sys.setswitchinterval(before)
    assert driver.operations_executed == 1200
    assert not overlaps
    assert gc.isenabled()


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_signal_within_a_kernel_waits_unless_it_may_run_again(make_sim: MakeSim, repeatable: bool) -> None:
    driver = make_sim()
    ran: list[str] = []

    def kernel() -> None:
        signal.raise_signal(signal.SIGINT)
        ran.append("to its end")

    with pytest.raises(KeyboardInterrupt):
        driver.quick_launch_host(kernel, 0, (), (), "kernel", 0, 2.0, repeatable)
    assert ran == ([] if repeatable else ["to its end"])
    driver.quick_launch_host(lambda: ran.append("next"), 0, (), (), "kernel", 0, 2.0, repeatable)
    driver.synchronize()
    assert ran[-1] == "next"
    assert gc.isenabled()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 300), min_size=3, max_size=3))
def test_timers_that_strike_anywhere_leave_a_machine_that_works(delays: list[int]) -> None:
    driver = SimDriver()
    driver.set_device(0)
    address = driver.mem_alloc(512)

    def launches() -> None:
        for _ in range(10_000):
            driver.quick_launch_host(list, 0, ((address, 8),), (), "kernel", 0, 2.0, True)
            driver.quick_launch_host(list, 0, ((address, 8),), (), "kernel", 0, 2.0, False)

    try:
        with timers() as cut:
            for delay in delays:
                ran: list[int] = []
                assert cut(launches, delay * 1e-6)
                driver.quick_launch_host(lambda: ran.append(1), 0, ((address, 8),), (), "kernel", 0, 2.0, True)  # noqa: B023
                driver.synchronize()
                assert ran == [1]
                assert gc.isenabled()
    finally:
        driver.close()


class Late(Exception):
    """What a signal's handler raises."""


def launch_and_wait(driver: SimDriver, launch: Launch, work: Callable[[], object], repeatable: bool) -> None:
    launch(work, LEGACY_STREAM, (), (), "k", 0, 2.0, repeatable)
    driver.synchronize()


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
@pytest.mark.parametrize("repeatable", [True, False])
def test_what_a_signals_handler_raises_is_no_failure_of_the_kernel(
    make_sim: MakeSim, schedule: str, repeatable: bool
) -> None:
    driver = make_sim(schedule=schedule)
    driver.set_device(0)
    ran: list[int] = []

    def work() -> None:
        if not ran:
            ran.append(0)
            signal.raise_signal(signal.SIGALRM)

    def interrupt(*_: object) -> None:
        raise Late("after the time limit")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for launch in forms(driver):
            ran.clear()
            with pytest.raises(Late, match="after the time limit"):
                launch_and_wait(driver, launch, work, repeatable)
            driver.synchronize()
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("repeatable", [True, False])
def test_what_a_kernel_raises_each_time_is_its_own_failure(make_sim: MakeSim, repeatable: bool) -> None:
    for number in range(2):
        driver = make_sim()
        driver.set_device(0)

        def divide() -> None:
            raise ZeroDivisionError("by nothing")

        forms(driver)[number](divide, LEGACY_STREAM, (), (), "k", 0, 2.0, repeatable)
        with pytest.raises(DriverError, match="k on device 0 raised ZeroDivisionError"):
            driver.synchronize()
