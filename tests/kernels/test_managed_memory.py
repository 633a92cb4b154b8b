"""Managed memory: program and kernels use one address, and the program waits for the kernels."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import CuplugError, DriverError
from cuplug.runtime.kernels import SourceModule
from cuplug.runtime.memory.managed import ManagedBuffer, alloc_managed

ADD = """
__managed__ int launches;
extern "C" __global__ void add(float *x, float by) { x[threadIdx.x] += by; if (threadIdx.x == 0) launches += 1; }
extern "C" __global__ void nothing(float *x) {}
"""


def managed(machine: Any, count: int = 8) -> tuple[ManagedBuffer, Any]:
    buffer = alloc_managed(4 * count, runtime=machine.runtime)
    values = buffer.array.view(np.float32)
    values[:] = np.arange(count)
    return buffer, values


def test_program_and_kernels_use_one_address(machine: Any) -> None:
    module = machine.module(ADD)
    buffer, values = managed(machine)
    for _ in range(2):
        module.get_function("add")(buffer, 2.0, grid=1, block=8)
    machine.synchronize()
    assert values.tolist() == list(range(4, 12))
    values[0] = -1
    module.get_function("add")(buffer, 1.0, grid=1, block=8)
    machine.synchronize()
    assert values[0] == 0
    assert buffer.address == values.ctypes.data
    assert machine.down(module.get_global("launches"), 1, np.int32)[0] == 3


@pytest.mark.needs_sim
@pytest.mark.parametrize("reads", [True, False])
def test_an_access_before_the_program_has_waited_is_told_by_the_next_call_that_waits(machine: Any, reads: bool) -> None:
    add = machine.module(ADD).get_function("add")
    buffer, values = managed(machine)
    add(buffer, 2.0, grid=1, block=8)
    if reads:
        float(values[3])
    else:
        values[3] = 7
    with pytest.raises(DriverError, match=r"byte 12 of the 32 bytes .* while kernel add worked with it"):
        machine.synchronize()
    add(buffer, 2.0, grid=1, block=8)  # the device goes on, and nothing is told twice
    machine.synchronize()
    assert values[5] == 9


@pytest.mark.needs_sim
def test_who_waits_or_uses_other_memory_is_not_accused(machine: Any) -> None:
    module = machine.module(ADD)
    add, driver = module.get_function("add"), machine.runtime.driver
    (first, values), (second, others) = managed(machine), managed(machine)
    add(first, 1.0, grid=1, block=8)
    others[:] = 5  # no kernel was given it
    with machine.runtime.on_device(0):
        event, stream = driver.event_create(), driver.stream_create()
        driver.event_record(event, stream=0)
        driver.event_synchronize(event)
        assert values[0] == 1
        add(second, 1.0, grid=1, block=8)
        driver.stream_synchronize(0)
        assert others[0] == 6
        # Copies that are queued behind the kernel are the device's own.
        add(first, 1.0, grid=1, block=8)
        driver.memcpy_dtod(second.address, first.address, 32, stream=0)
        found = np.empty(8, np.float32)
        driver.memcpy_dtoh(found.ctypes.data, second.address, 32, stream=0)  # waits
        assert found.tolist() == values.tolist() == others.tolist() == list(range(2, 10))
        add(second, 1.0, grid=1, block=8)
        while not driver.stream_query(0):
            pass
        assert others[0] == 3
        driver.stream_destroy(stream)
        driver.event_destroy(event)
    machine.synchronize()


def test_memory_goes_back_with_its_last_array_or_when_it_is_closed(machine: Any) -> None:
    freed: list[int] = []
    driver = machine.runtime.driver
    free = driver.managed_free

    def counted(address: int, *, device: int | None = None) -> None:
        freed.append(address)
        free(address, device=device)

    driver.managed_free = counted
    try:
        buffer, values = managed(machine)
        address = buffer.address
        del buffer
        gc.collect()
        assert not freed
        del values
        gc.collect()
        assert freed == [address]
        other = alloc_managed(100, runtime=machine.runtime)
        other.close()
        other.close()
        assert len(freed) == 2
        with pytest.raises(CuplugError, match="was closed"):
            other.array  # noqa: B018
        with pytest.raises(DriverError, match=r"managed_free|cuMemFree"):
            free(address, device=0)
    finally:
        del driver.managed_free


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "8"])
def test_a_size_that_is_none_is_refused(machine: Any, wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="nbytes"):
        alloc_managed(wrong, runtime=machine.runtime)


@pytest.mark.needs_sim
def test_kernels_that_outlive_their_buffer_are_waited_for(make_machine: Any) -> None:
    machine = make_machine(schedule="lazy")
    module = SourceModule(ADD, runtime=machine.runtime)
    buffer, values = managed(machine)
    module.get_function("add")(buffer, 2.0, grid=1, block=8)
    del buffer, values
    gc.collect()
    machine.synchronize()
    assert machine.down(module.get_global("launches"), 1, np.int32)[0] == 1
