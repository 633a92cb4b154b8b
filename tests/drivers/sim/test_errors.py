"""What goes wrong on a simulated device, and when the program hears of it."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable

import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.drivers.base import LEGACY_STREAM
from cuplug.runtime.drivers.sim import SimDriver

pytestmark = pytest.mark.needs_sim

MakeSim = Callable[..., SimDriver]
SCHEDULES = pytest.mark.parametrize("schedule", ["eager", "lazy", "random:1"])


def code_of(call: Callable[[], object]) -> int:
    with pytest.raises(DriverError) as caught:
        call()
    return caught.value.code


@SCHEDULES
def test_an_illegal_address_is_raised_by_the_next_call_that_waits_and_by_every_later_one(
    make_sim: MakeSim, schedule: str
) -> None:
    driver = make_sim(schedule=schedule)
    stream, event = driver.stream_create(), driver.event_create()
    address = driver.mem_alloc(1000)
    driver.memset(address, 1, 1001, stream=stream)  # one byte too far
    driver.event_record(event, stream=stream)
    driver.memset(address, 1, 1000, stream=stream)
    assert code_of(driver.synchronize) == 700
    calls: list[Callable[[], object]] = [
        driver.synchronize,
        lambda: driver.mem_alloc(512),
        lambda: driver.mem_free(address),
        lambda: driver.memset(address, 1, 1, stream=stream),
        lambda: driver.event_query(event),
        lambda: driver.stream_destroy(stream),
        driver.mem_info,
    ]
    for call in calls:
        assert code_of(call) == 700
    assert driver.current_device() == 0
    driver.close()


@pytest.mark.parametrize("wait", ["stream_synchronize", "stream_query", "event_synchronize", "mem_free", "memcpy_dtoh"])
def test_every_call_that_waits_raises_it(make_sim: MakeSim, wait: str) -> None:
    driver = make_sim(schedule="eager")
    address, event = driver.mem_alloc(512), driver.event_create()
    driver.memset(address + 512, 1, 1, stream=LEGACY_STREAM)
    driver.event_record(event, stream=LEGACY_STREAM)
    target = ctypes.create_string_buffer(1)
    calls: dict[str, Callable[[], object]] = {
        "stream_synchronize": lambda: driver.stream_synchronize(LEGACY_STREAM),
        "stream_query": lambda: driver.stream_query(LEGACY_STREAM),
        "event_synchronize": lambda: driver.event_synchronize(event),
        "mem_free": lambda: driver.mem_free(address),
        "memcpy_dtoh": lambda: driver.memcpy_dtoh(ctypes.addressof(target), address, 1, stream=driver.stream_create()),
    }
    assert code_of(calls[wait]) == 700


def test_the_message_says_what_did_it_and_where(make_sim: MakeSim) -> None:
    driver = make_sim()
    address = driver.mem_alloc(1000)
    driver.memset(address + 990, 1, 20, stream=LEGACY_STREAM)
    with pytest.raises(DriverError, match=f"memset on device 0.*20 bytes at {address + 990:#x}.*1000 bytes"):
        driver.synchronize()


def test_other_devices_go_on(make_sim: MakeSim) -> None:
    driver = make_sim(devices=2)
    driver.memset(12345, 1, 1, stream=LEGACY_STREAM)
    assert code_of(driver.synchronize) == 700
    driver.set_device(1)
    driver.mem_free(driver.mem_alloc(1 << 20))
    driver.synchronize()


def test_nothing_runs_after_a_failure(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="lazy")
    ran: list[int] = []
    driver.memset(12345, 1, 1, stream=LEGACY_STREAM)
    driver.launch_host(lambda: ran.append(1), stream=LEGACY_STREAM)
    assert code_of(driver.synchronize) == 700
    assert ran == []


def test_freed_memory_is_illegal_to_touch(make_sim: MakeSim) -> None:
    driver = make_sim()
    kept, address = driver.mem_alloc(512), driver.mem_alloc(512)
    driver.mem_free(address)
    driver.memcpy_dtod(kept, address, 512, stream=LEGACY_STREAM)
    assert code_of(driver.synchronize) == 700


@pytest.mark.parametrize("schedule", ["lazy", "eager"])
def test_unmapping_does_not_wait_for_queued_work_which_then_faults(make_sim: MakeSim, schedule: str) -> None:
    driver = make_sim(schedule=schedule)
    virtual = driver.virtual_memory(0)
    assert virtual is not None
    unit = virtual.granularity
    base, page = virtual.reserve_range(unit), virtual.create_page(unit)
    virtual.map(base, unit, page)
    virtual.set_access(base, unit)
    driver.memset(base, 1, unit, stream=driver.stream_create())
    virtual.unmap(base, unit)
    if schedule == "eager":
        driver.synchronize()
    else:
        assert code_of(driver.synchronize) == 700


def test_mapped_memory_needs_access(make_sim: MakeSim) -> None:
    driver = make_sim()
    virtual = driver.virtual_memory(0)
    assert virtual is not None
    unit = virtual.granularity
    base, page = virtual.reserve_range(2 * unit), virtual.create_page(unit)
    virtual.map(base, unit, page)
    driver.memset(base, 1, 1, stream=LEGACY_STREAM)
    with pytest.raises(DriverError, match="set_access"):
        driver.synchronize()


def test_a_mapped_range_ends_where_nothing_is_mapped(make_sim: MakeSim) -> None:
    driver = make_sim()
    virtual = driver.virtual_memory(0)
    assert virtual is not None
    unit = virtual.granularity
    base, page = virtual.reserve_range(2 * unit), virtual.create_page(unit)
    virtual.map(base, unit, page)
    virtual.set_access(base, unit)
    driver.memset(base, 1, unit, stream=LEGACY_STREAM)
    driver.synchronize()
    driver.memset(base, 1, unit + 1, stream=LEGACY_STREAM)
    with pytest.raises(DriverError, match=f"nothing is mapped at {base + unit:#x}"):
        driver.synchronize()


def test_peers_need_access_when_the_copy_runs(make_sim: MakeSim) -> None:
    driver = make_sim(devices=2, schedule="lazy")
    driver.set_device(1)
    there = driver.mem_alloc(512)
    driver.set_device(0)
    here = driver.mem_alloc(512)
    driver.memcpy_dtod(here, there, 512, stream=LEGACY_STREAM)
    driver.enable_peer_access(0, 1)
    driver.synchronize()
    driver.memcpy_dtod(here, there, 512, stream=LEGACY_STREAM)
    driver.disable_peer_access(0, 1)
    assert code_of(driver.synchronize) == 700


def test_access_goes_one_way(make_sim: MakeSim) -> None:
    driver = make_sim(devices=2)
    here = driver.mem_alloc(512)
    driver.enable_peer_access(0, 1)
    driver.set_device(1)
    there = driver.mem_alloc(512)
    driver.memcpy_dtod(there, here, 512, stream=LEGACY_STREAM)
    assert code_of(driver.synchronize) == 700


def test_virtual_memory_is_not_part_of_peer_access(make_sim: MakeSim) -> None:
    driver = make_sim(devices=2)
    virtual = driver.virtual_memory(1)
    assert virtual is not None
    unit = virtual.granularity
    base, page = virtual.reserve_range(unit), virtual.create_page(unit)
    virtual.map(base, unit, page)
    virtual.set_access(base, unit)
    driver.enable_peer_access(0, 1)
    here = driver.mem_alloc(512)
    driver.memcpy_peer(here, 0, base, 1, 512, stream=LEGACY_STREAM)
    driver.synchronize()
    driver.memcpy_dtod(here, base, 512, stream=LEGACY_STREAM)
    assert code_of(driver.synchronize) == 700


def test_peer_access_can_be_switched_off(make_sim: MakeSim) -> None:
    driver = make_sim(devices=2, peer_access=False)
    assert not driver.can_access_peer(0, 1)
    assert code_of(lambda: driver.enable_peer_access(0, 1)) == 217


def test_what_an_operation_raises_becomes_the_devices_failure(make_sim: MakeSim) -> None:
    driver = make_sim()
    driver.launch_host(lambda: 1 / 0, stream=LEGACY_STREAM, name="divide")
    with pytest.raises(DriverError, match="divide on device 0 raised ZeroDivisionError") as caught:
        driver.synchronize()
    assert caught.value.code == 719
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_drivers_error_from_an_operation_keeps_its_code(make_sim: MakeSim) -> None:
    driver = make_sim()

    def trap() -> None:
        raise DriverError(710, "CUDA_ERROR_ASSERT", "x > 0 does not hold")

    driver.launch_host(trap, stream=LEGACY_STREAM)
    assert code_of(driver.synchronize) == 710


@SCHEDULES
def test_an_interrupted_operation_has_failed(make_sim: MakeSim, schedule: str) -> None:
    driver = make_sim(schedule=schedule)
    ran: list[int] = []

    def interrupt() -> None:
        ran.append(1)
        raise KeyboardInterrupt

    def run() -> None:
        driver.launch_host(interrupt, stream=LEGACY_STREAM)
        driver.synchronize()

    with pytest.raises(KeyboardInterrupt):
        run()
    assert code_of(driver.synchronize) == 719
    assert ran == [1]


def test_queued_work_must_not_call_the_driver(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="lazy")
    codes: list[int] = []
    driver.launch_host(lambda: codes.append(code_of(driver.synchronize)), stream=LEGACY_STREAM)
    driver.synchronize()
    assert codes == [800]


def test_a_signal_handler_that_interrupts_queued_work_is_told_what_to_do_instead(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="lazy")
    told: list[str] = []

    def handler(*_: object) -> None:
        with pytest.raises(DriverError, match="let the handler set a flag") as caught:
            driver.synchronize()
        told.append(caught.value.message)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        driver.launch_host(lambda: signal.raise_signal(signal.SIGUSR1), stream=LEGACY_STREAM)
        driver.synchronize()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(told) == 1


def test_handles_are_checked_and_given_out_again(make_sim: MakeSim) -> None:
    driver = make_sim()
    stream, event = driver.stream_create(), driver.event_create()
    address = driver.mem_alloc(1)
    assert code_of(lambda: driver.stream_synchronize(event)) == 400
    assert code_of(lambda: driver.event_query(stream)) == 400
    driver.stream_destroy(stream)
    driver.event_destroy(event)
    assert code_of(lambda: driver.stream_destroy(stream)) == 400
    assert code_of(lambda: driver.memset(address, 0, 1, stream=stream)) == 400
    assert code_of(lambda: driver.event_record(event, stream=LEGACY_STREAM)) == 400
    assert code_of(lambda: driver.stream_destroy(LEGACY_STREAM)) == 400
    assert driver.stream_create() == stream
    assert driver.event_create() == event


def test_work_of_a_destroyed_stream_is_not_the_next_ones_with_its_handle(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="lazy")
    stream, ran = driver.stream_create(), list[int]()
    driver.launch_host(lambda: ran.append(1), stream=stream)
    driver.stream_destroy(stream)
    assert driver.stream_create() == stream
    driver.stream_synchronize(stream)
    assert ran == []
    driver.synchronize()
    assert ran == [1]


def test_a_closed_driver_refuses_everything(make_sim: MakeSim) -> None:
    driver = make_sim()
    driver.close()
    assert code_of(driver.synchronize) == 4
    assert code_of(driver.device_count) == 4


def test_device_addresses_are_no_host_addresses(make_sim: MakeSim) -> None:
    driver = make_sim()
    address = driver.mem_alloc(512)
    assert code_of(lambda: driver.memcpy_htod(address, address, 512, stream=LEGACY_STREAM)) == 1
    pinned = driver.host_alloc(100)
    driver.host_free(pinned)
    assert code_of(lambda: driver.memcpy_htod(address, pinned, 100, stream=LEGACY_STREAM)) == 1
    driver.synchronize()


def test_modules_are_not_supported_without_a_loader(make_sim: MakeSim) -> None:
    driver = make_sim()
    assert code_of(lambda: driver.module_load(b"")) == 801
    assert code_of(lambda: driver.launch(1, (1, 1, 1), (1, 1, 1), shared=0, stream=0, parameters=b"")) == 801
