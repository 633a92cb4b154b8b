"""``check="races"``: what threads do to one another's memory is reported, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import DriverError, PluginError

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]

ITEMS = 128


def message_of(machine: Any, kernel: str, blocks: int = 1, number: int = 1, **options: Any) -> str:
    """What launching a kernel of 64 threads on ones reports; nothing if it ends well."""
    module = machine.module("races.cu", check="races")
    ones = np.zeros if kernel in ("chained", "guarded_sum") else np.ones
    values = machine.up(ones(ITEMS, np.int32 if kernel in ("plain_and_atomic", "histogram") else np.float32))
    second = machine.empty(ITEMS, np.float32) if kernel == "copy" else number
    module.get_function(kernel)(int(values), second, grid=blocks, block=64, **options)
    try:
        machine.synchronize()
    except DriverError as error:
        return error.message
    return ""


FAULTS = {
    "no_barrier": r"race on tile\[32\]: a write by .*thread \(32, 0, 0\) in line 7, `.*`, and a read by .*"
    r"thread \(31, 0, 0\) in line 8, `.*`, with no __syncthreads\(\) between them: a barrier is missing$",
    "one_sum": r"race on x\[0\]: .*thread \(1, 0, 0\) in line 10, `.*`, and a write by .*thread \(0, 0, 0\) "
    r"in the same line, with no __syncthreads\(\) between them: a barrier or an atomic operation is missing",
    "plain_and_atomic": r"race on x\[.*a write by .*thread \(40, 0, 0\) in line 15, `.*`, "
    r"and an atomic operation by .*line 16",
    "half_written": r"a read of shared memory not written yet by any thread \(a barrier may be missing\): "
    r"a\[\d+\] in line 22",
    "local_unwritten": r"a read of local memory that was never written: a\[.*in line 28",
    "mask_of_absent": r"warp function in line 33, `.*`, mask 0xffffffff: its mask names a lane that does not take "
    r"part, lane 16",
    "mask_without_self": r"line 35, `.*`, mask 0xffff: its mask does not name the lane that calls it, lane 16",
    "half_a_ballot": r"warp function in line 37.*names a lane that does not take part",
    "half_a_warp": r"warp function in line 40.*names a lane that does not take part",
    "from_the_returned": r"line 45.*reads from a lane that its mask names and that has returned, lane 20",
    "part_of_a_warp": r"divergent barrier.*line 48.*have come to the end of the kernel without it",
    "write_constant": r"a write to __constant__ memory, which kernels only read: table\[\+4 bytes of 16\] in line 51",
    "beyond_shared": r"a read behind the end of a \(256 bytes\): a\[\d+\] in line 57",
    "beyond_local": r"a write behind the end of a \(32 bytes\): a\[8\] in line 62",
    "warp_without_sync": r"race on s\[.*in line 71",
}


@pytest.mark.parametrize("kernel", FAULTS)
def test_a_planted_fault_is_found_with_threads_lines_and_variable(machine: Any, kernel: str) -> None:
    message = message_of(machine, kernel, number=40 if kernel == "beyond_shared" else 1)
    assert re.search(FAULTS[kernel], message), message


def test_blocks_that_touch_the_same_memory_are_a_race(machine: Any) -> None:
    message = message_of(machine, "neighbours", blocks=8)
    assert re.search(
        r"race on x\[.*block \(1, 0, 0\).* in line 12, `.*`, and a write by block \(0, 0, 0\).* nothing between",
        message,
    ), message


def test_a_last_block_without_a_fence_is_a_race(machine: Any) -> None:
    message = message_of(machine, "no_fence", blocks=32)
    assert re.search(r"race on x\[.*in line 81, `.*`, and a write by .* in line 77", message), message


@pytest.mark.parametrize(
    ("kernel", "blocks"),
    [
        *(
            ("same_value", 1),
            ("warp_sum", 1),
            ("histogram", 8),
            ("last_block", 32),
            ("last_block_begins_again", 2),
            ("chained", 32),
        ),
        *(("guarded_sum", 16), ("returns_early", 1), ("bytes", 1), ("turned_halves", 1)),
    ],
)
def test_kernels_that_are_right_are_not_reported(machine: Any, kernel: str, blocks: int) -> None:
    assert message_of(machine, kernel, blocks=blocks) == ""


BARRIERS = """
__global__ void part(float *x, int many) {
    __shared__ float s[32];
    int i = threadIdx.x;
    s[i] = x[i];
    if (i < many) __syncthreads();
    x[i] = s[31 - i];
}
__global__ void all(float *x, int many) {
    __shared__ float s[32][2];
    int i = threadIdx.x;
    s[i][1] = x[i];
    x[i] = s[i / 2 * 2][1];
    __syncthreads();
}
__global__ void two(float *x, int many) {
    if (threadIdx.x % 32 < many) __syncthreads();
    else
        __syncthreads();
}
"""


def told(machine: Any, kernel: str, many: int, check: Any = "races", block: int = 32) -> str:
    machine.module(BARRIERS, check=check).get_function(kernel)(machine.up(np.ones(64, "f4")), many, grid=1, block=block)
    with pytest.raises(DriverError) as raised:
        machine.synchronize()
    return raised.value.message


@pytest.mark.parametrize("check", ["races", True])
def test_a_divergent_barrier_is_told_before_the_races_that_come_of_it(machine: Any, check: Any) -> None:
    message = told(machine, "part", 16, check)
    assert "divergent barrier" in message
    assert re.search(r"16 of 32 threads, the first \(0, 0, 0\), wait at the barrier in line 6, `if \(i < many", message)
    assert re.search(r"16 of 32 threads, the first \(16, 0, 0\), have come to the end of the kernel", message)


def test_a_race_before_a_barrier_that_all_come_to_is_told(machine: Any) -> None:
    message = told(machine, "all", 0)
    assert "race on s[0][1]: a read by block (0, 0, 0), thread (1, 0, 0) in line 13" in message


def test_a_race_where_nobody_comes_to_the_barrier_is_told(machine: Any) -> None:
    assert "race on s[" in told(machine, "part", 0)


@pytest.mark.parametrize("check", ["races", True])
def test_all_that_wait_are_counted_at_each_barrier(machine: Any, check: Any) -> None:
    message = told(machine, "two", 1, check, block=64)
    assert re.search(r"; 2 of 64 threads, the first \(0, 0, 0\), wait at the barrier in line 17, ", message)
    assert re.search(r"; 62 of 64 threads, the first \(1, 0, 0\), wait at the barrier in line 19, ", message)


BEFORE_CUDA_9 = """
__global__ void handed_on(float *x, volatile int *ready) {
    if (threadIdx.x) return;
    if (blockIdx.x) {
        while (!ready[blockIdx.x - 1]) {}
        FENCE
    }
    x[blockIdx.x] = blockIdx.x ? x[blockIdx.x - 1] + 1 : 1;
    FENCE
    ready[blockIdx.x] = 1;
}
"""


@pytest.mark.parametrize(("fence", "told"), [("__threadfence();", ""), ("", "race on x[0]")])
def test_volatile_global_memory_is_no_race_in_a_source_that_may_work_in_lockstep(
    machine: Any, fence: str, told: str
) -> None:
    """Which none is that names a function of CUDA 9, as ``races.cu`` does."""
    x, ready = machine.zeros(8, np.float32), machine.zeros(8, np.int32)
    module = machine.module(BEFORE_CUDA_9.replace("FENCE", fence), check="races")
    module.get_function("handed_on")(x, ready, grid=8, block=32)
    if told:
        with pytest.raises(DriverError, match=re.escape(told)):
            machine.synchronize()
    else:
        assert machine.down(x, 8, np.float32).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_dynamic_shared_memory_behind_a_barrier_is_right(machine: Any) -> None:
    assert message_of(machine, "reversed", shared=256) == ""


def test_without_a_race_check_the_same_kernels_run(machine: Any) -> None:
    module = machine.module("races.cu")
    values = machine.up(np.zeros(ITEMS, np.float32))
    module.get_function("one_sum")(values, 1, grid=1, block=64)
    machine.synchronize()
    assert machine.down(values, ITEMS, np.float32)[0] == 64


def test_the_driver_can_say_what_modules_are_checked_for(make_machine: Any) -> None:
    machine = make_machine(check="races")
    values = machine.up(np.zeros(ITEMS, np.float32))
    machine.module("races.cu").get_function("one_sum")(values, 1, grid=1, block=64)
    with pytest.raises(DriverError, match="race on x"):
        machine.synchronize()


def test_a_check_of_another_name_is_refused(machine: Any, make_driver: Any) -> None:
    with pytest.raises(ValueError, match="say True, False or 'races'"):
        machine.module("races.cu", check="everything")
    with pytest.raises(PluginError, match="say accesses, races, nothing"):
        make_driver(check="everything")


def test_a_sum_in_shared_memory_may_lack_an_atomic_operation_as_well_as_a_barrier(machine: Any) -> None:
    source = "__global__ void k(int *x) { __shared__ int s; s = 0; __syncthreads(); s += 1; x[0] = s; }"
    kernel = machine.module(source, check="races").get_function("k")
    kernel(machine.zeros(1, np.int32), grid=1, block=2)
    with pytest.raises(DriverError, match=r"in the same line, .*: a barrier or an atomic operation is missing"):
        machine.synchronize()
