"""Threads, finalisers and garbage collection in and around the simulator."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import pytest
from cuplug.runtime.drivers.base import LEGACY_STREAM, PER_THREAD_STREAM
from cuplug.runtime.drivers.sim import SimDriver

pytestmark = pytest.mark.needs_sim

MakeSim = Callable[..., SimDriver]


@pytest.fixture
def frequent_collection() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    yield
    gc.set_threshold(*thresholds)


class Owner:
    """Device memory that its finaliser frees, in a cycle so that only the garbage collector runs it."""

    def __init__(self, driver: SimDriver, nbytes: int, errors: list[BaseException]) -> None:
        self.driver = driver
        self.address = driver.mem_alloc(nbytes)
        self.errors = errors
        self.cycle: Owner | None = self

    def __del__(self) -> None:
        try:
            before = self.driver.current_device()
            self.driver.set_device(0)
            self.driver.mem_free(self.address)
            self.driver.set_device(before)
        except BaseException as error:
            self.errors.append(error)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random:1"])
@pytest.mark.usefixtures("frequent_collection")
def test_finalisers_that_call_the_driver_run_between_calls_and_never_within(make_sim: MakeSim, schedule: str) -> None:
    driver = make_sim(schedule=schedule)
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            driver.set_device(0)
            stream, event = driver.stream_create(), driver.event_create()
            for turn in range(150):
                owner = Owner(driver, 512 + (turn * seed * 7919) % (3 << 20), errors)
                driver.memset(owner.address, turn, 512, stream=stream)
                driver.event_record(event, stream=stream)
                driver.launch_host(lambda owner=owner: [owner] * 10, stream=stream)
                driver.event_query(event)
                del owner
            driver.stream_synchronize(stream)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    driver.synchronize()
    gc.collect()
    assert errors == []
    assert driver.live.allocations == 0
    assert driver.mem_info()[0] == driver.mem_info()[1]
    assert gc.isenabled()


def test_garbage_made_by_queued_work_is_collected_after_the_call(make_sim: MakeSim) -> None:
    """A collection within the call would let the finaliser call the driver from there, which is refused."""
    driver = make_sim(schedule="lazy")
    errors: list[BaseException] = []
    kept = [Owner(driver, 512, errors) for _ in range(10)]

    def make_garbage() -> None:
        kept.clear()
        _ = [[number] for number in range(100_000)]

    driver.launch_host(make_garbage, stream=LEGACY_STREAM)
    driver.synchronize()
    gc.collect()
    assert errors == []
    assert driver.live.allocations == 0


def test_what_queued_work_alone_holds_is_dropped_after_the_call(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="lazy")
    errors: list[BaseException] = []
    owner = Owner(driver, 512, errors)
    owner.cycle = None
    driver.launch_host(lambda owner=owner: owner.address, stream=LEGACY_STREAM)
    del owner
    assert driver.live.allocations == 1
    driver.synchronize()
    assert errors == []
    assert driver.live.allocations == 0


def test_collection_that_the_program_switched_off_stays_off(make_sim: MakeSim) -> None:
    driver = make_sim()
    gc.disable()
    try:
        driver.synchronize()
        assert not gc.isenabled()
    finally:
        gc.enable()
    driver.synchronize()
    assert gc.isenabled()


def test_a_thread_that_waits_runs_what_another_queued(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="lazy")
    stream, ran = driver.stream_create(), list[int]()
    driver.launch_host(lambda: ran.append(threading.get_ident()), stream=stream)

    def wait() -> None:
        driver.set_device(0)
        driver.stream_synchronize(stream)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert ran
    assert ran[0] != threading.get_ident()


def test_every_thread_has_its_own_per_thread_stream(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="lazy")
    ran: list[str] = []
    driver.launch_host(lambda: ran.append("here"), stream=PER_THREAD_STREAM)

    def work() -> None:
        driver.set_device(0)
        driver.launch_host(lambda: ran.append("there"), stream=PER_THREAD_STREAM)
        driver.stream_synchronize(PER_THREAD_STREAM)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ran == ["there"]
    driver.stream_synchronize(PER_THREAD_STREAM)
    assert ran == ["there", "here"]


FORK_WHILE_BUSY = """
import os, threading
from cuplug.allocators.errors import DriverError
from cuplug.runtime.drivers.base import LEGACY_STREAM, PER_THREAD_STREAM
from cuplug.runtime.drivers.sim import SimDriver
driver, unused = SimDriver(), SimDriver()
driver.set_device(0)
entered, leave = threading.Event(), threading.Event()
def work():
    driver.set_device(0)
    driver.launch_host(lambda: (entered.set(), leave.wait()), stream=0)
thread = threading.Thread(target=work)
thread.start()
entered.wait()
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads, which is what this is about
    child = os.fork()
if not child:
    import gc
    try:
        driver.mem_alloc(512)
    except DriverError as error:
        for other in (unused, SimDriver()):
            other.set_device(0)
            other.mem_free(other.mem_alloc(3 << 20))
            other.close()
        os._exit(0 if error.code == 3 and gc.isenabled() else 1)
    os._exit(2)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
leave.set()
thread.join()
driver.synchronize()
print(status)
"""


def test_a_fork_while_another_thread_is_in_a_call_leaves_no_lock_behind(run_python: Callable[..., str]) -> None:
    assert run_python(FORK_WHILE_BUSY) == "0\n"
