"""What lies on the host is used like any other memory: by other streams and devices, and by what was recorded once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.drivers.sim import SimDriver
from cuplug.runtime.machine.device import device, enable_peer_access
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.copies import memcpy, memset
from cuplug.runtime.memory.memory_stats import empty_cache, memory_stats
from cuplug.runtime.streams.stream import Stream, current_stream

from .test_sleep import FORMS, Start, contents, fill, starting

pytestmark = [pytest.mark.needs_sim, pytest.mark.filterwarnings("ignore:device . has no room:RuntimeWarning")]

MIB = 1 << 20
NBYTES = 20 * MIB
SCHEDULES = 12


@pytest.fixture(params=sorted(FORMS))
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """The device has room for one block of ``NBYTES``, and the host for one."""
    with starting(request.param, memory=30 * MIB, host=NBYTES) as start:
        yield start


def on_host(runtime: Runtime, ordinal: int = 0) -> int:
    return int(memory_stats(ordinal, runtime=runtime)["host_bytes.all.current"])


def copied_by_another_stream(runtime: Runtime, *, told: bool) -> int:
    """What another stream finds in a block on the host which its own stream frees and takes again meanwhile."""
    found = fill(runtime, NBYTES, 1)
    block = fill(runtime, NBYTES, 2)
    assert on_host(runtime) == NBYTES
    reader = Stream(runtime=runtime)
    reader.wait_stream(0)
    memcpy(found, block, stream=reader, runtime=runtime)
    if told:
        block.record_stream(reader)
    address = block.address
    block.close()
    again = fill(runtime, NBYTES, 3)
    assert again.address == address, "the host has room for this one alone"
    current_stream(0, runtime=runtime).synchronize()  # the simulator does other streams' work once they are waited for
    reader.synchronize()
    assert (contents(runtime, again) == 3).all()
    return int(contents(runtime, found).max())


def test_a_block_on_the_host_waits_for_the_streams_that_were_recorded(start: Start) -> None:
    assert copied_by_another_stream(start(schedule="lazy"), told=False) == 3, "the program has to say who uses it"
    assert copied_by_another_stream(start(schedule="lazy"), told=True) == 2
    for seed in range(SCHEDULES):
        assert copied_by_another_stream(start(schedule="random", seed=seed), told=True) == 2


def test_blocks_on_the_host_are_copied_between_devices_and_each_device_has_its_own(start: Start) -> None:
    runtime = start(devices=2, schedule="random")
    held, blocks = [], []
    for ordinal in range(2):
        with device(ordinal, runtime=runtime):
            held.append(fill(runtime, NBYTES, 9))
            blocks.append(fill(runtime, NBYTES, 1 + ordinal))
        assert on_host(runtime, ordinal) == NBYTES
    first, second = blocks
    memcpy(second, first, runtime=runtime)
    memset(first, 7, runtime=runtime)
    with device(1, runtime=runtime):
        assert (contents(runtime, second) == 1).all()
    memcpy(first, held[1], runtime=runtime)
    assert (contents(runtime, first) == 9).all()


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_peers_stream_is_refused_virtual_memory_by_name_on_either_side(form: str, which: int) -> None:
    driver = SimDriver(devices=2, memory=30 * MIB)
    runtime = Runtime(partial(FORMS[form], host=NBYTES), driver)
    enable_peer_access(1, 0, runtime=runtime)
    block = [fill(runtime, NBYTES, 1), fill(runtime, NBYTES, 2)][which]
    assert on_host(runtime) == NBYTES
    queue = Stream(1, runtime=runtime)
    memset(block, 3, stream=queue, runtime=runtime)
    with pytest.raises(DriverError, match="peer access covers what mem_alloc returned, and not virtual memory"):
        queue.synchronize()
    with pytest.raises(DriverError):  # the device stays in this state
        runtime.close()
    driver.close()


def test_what_was_recorded_in_a_pool_runs_again_over_the_hosts_pages_whatever_came_meanwhile(start: Start) -> None:
    """As a captured graph does: its blocks are freed while it is recorded, and it writes at their addresses later."""
    runtime = start(schedule="random", host=4 * NBYTES)
    allocator = runtime.allocator(0)
    queue = Stream(runtime=runtime)
    pool = queue.cuda_stream | 3 << 48
    full = fill(runtime, NBYTES, 9)
    recorded: list[Callable[[int], Any]] = []
    addresses = []
    for number in range(2):
        block = allocator.allocate(NBYTES, stream=pool)
        addresses.append(block.address)
        recorded.append(
            lambda value, at=block.address: runtime.driver.memset(at, value, NBYTES, stream=queue.cuda_stream)
        )
        if number:
            allocator.free(block)
    assert on_host(runtime) == 2 * NBYTES
    for value in range(3):
        for work in recorded:
            work(value)
        other = fill(runtime, NBYTES, 100 + value)
        queue.synchronize()
        assert (contents(runtime, other) == 100 + value).all(), "the recorded work writes elsewhere"
        assert other.address not in addresses
        other.close()
        empty_cache(runtime=runtime)
        assert on_host(runtime) == 2 * NBYTES, "the pool's pages stay under its addresses"
    allocator.forget_stream(pool)
    assert (contents(runtime, full) == 9).all()
