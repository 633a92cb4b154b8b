"""What a kernel did wrong is reported with the line, what stands there, and what is beside it, in every mode."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.kernels import SourceModule
from cuplug.runtime.kernels.simulator.host_compiler import compile_for_host

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]

SOURCE = """
__device__ float picked(const float *from, int at) {
    return from[at];
}
__global__ void reads(float *out, const float *in, int n) {
    out[threadIdx.x] = picked(in, n);
}
__global__ void writes(float *out, const float *in, int n) {
    out[threadIdx.x + n] = in[0];
}
__global__ void adds(float *out, const float *in, int n) {
    atomicAdd(&out[n], in[0]);
}
__global__ void shared_below(float *out, const float *in, int n) {
    __shared__ float first[32], tile[64];
    first[threadIdx.x % 32] = tile[threadIdx.x % 64] = 1;
    __syncthreads();
    int at = -n;
    out[threadIdx.x] = first[at];
}
__global__ void shared_above(float *out, const float *in, int n) {
    __shared__ float tile[64];
    tile[threadIdx.x % 64] = in[0];
    __syncthreads();
    tile[64 + n % 8] = 2;
    out[threadIdx.x] = tile[threadIdx.x % 64];
}
__global__ void local_above(float *out, const float *in, int n) {
    float kept[8], other[8];
    for (int i = 0; i < 8; ++i) other[i] = in[0];
    for (int i = 0; i < 8; ++i) kept[i] = i;
    kept[n % 16] = 1;
    out[threadIdx.x] = kept[threadIdx.x % 8] + other[threadIdx.x % 8];
}
__global__ void divides(int *out, const int *in, int n) {
    out[threadIdx.x] = n / (in[0] - in[1]);
}
"""


def failure(machine: Any, kernel: str, n: int, check: Any, nbytes: int = 400) -> str:
    module = machine.module(SOURCE, check=check)
    out, given = machine.up(np.zeros(nbytes // 4, np.float32)), machine.up(np.ones(50, np.float32))
    module.get_function(kernel)(out.address, given.address, n, grid=1, block=1)
    with pytest.raises(DriverError) as raised:
        machine.synchronize()
    return raised.value.message


@pytest.mark.parametrize("check", [True, "races"])
@pytest.mark.parametrize(
    ("kernel", "n", "told"),
    [
        (
            "reads",
            50,
            r"reads 4 bytes at 0x\w+ in line 3, `return from\[at\];`: .*end of the 200 bytes .* that 'in' points to",
        ),
        (
            "writes",
            101,
            r"writes 4 .* in line 9, `out\[.*`: .*\(4 bytes behind the end of the 400 bytes .* 'out' points to",
        ),
        ("adds", -1, r"in line 12, `atomicAdd.*4 bytes before the 400 bytes at 0x\w+ that 'out' points to"),
    ],
)
def test_global_memory_is_named_by_line_parameter_and_size(
    machine: Any, kernel: str, n: int, told: str, check: Any
) -> None:
    message = failure(machine, kernel, n, check)
    assert re.search(told, message), message


@pytest.mark.parametrize("check", [True, "races"])
@pytest.mark.parametrize("n", [1, 1000, 16000])
def test_an_index_below_the_first_shared_variable_is_found(machine: Any, n: int, check: Any) -> None:
    message = failure(machine, "shared_below", n, check)
    assert re.search(r"reads? .*shared memory|a read before the beginning of first", message), message
    assert "in line 19" in message
    assert f"before the beginning of first (128 bytes): first[-{n}]" in message or n > 100


@pytest.mark.parametrize("check", [True, "races"])
def test_shared_memory_is_named_by_line_and_variable(machine: Any, check: Any) -> None:
    message = failure(machine, "shared_above", 3, check)
    assert re.search(r"writes? .*behind the end of tile \(256 bytes\): tile\[67\] in line 25", message), message


@pytest.mark.parametrize("check", [True, "races"])
def test_arrays_of_functions_are_named_by_line_and_variable(machine: Any, check: Any) -> None:
    message = failure(machine, "local_above", 9, check)
    assert re.search(r"(4 bytes behind|behind) the end of kept \(32 bytes\)", message), message
    assert "in line 32" in message


@pytest.mark.parametrize("check", [True, False])
def test_a_wild_access_names_its_line(machine: Any, check: Any) -> None:
    assert "in line 3, `return from[at];`" in failure(machine, "reads", 1 << 30, check)


@pytest.mark.parametrize("check", [True, False])
def test_a_division_by_zero_names_its_line(machine: Any, check: Any) -> None:
    assert "in line 36, `out[threadIdx.x] = n / " in failure(machine, "divides", 7, check)


def test_what_stands_after_a_fault_in_the_middle_of_a_function_is_checked_as_before(
    machine: Any, make_machine: Any
) -> None:
    failure(machine, "local_above", 9, True)
    fresh = make_machine()
    out, given = fresh.up(np.zeros(100, np.float32)), fresh.up(np.ones(50, np.float32))
    fresh.module(SOURCE).get_function("local_above")(out, given, 7, grid=8, block=64)
    fresh.synchronize()


SHAPES = """
struct Pair { float first, second; };
__global__ void shapes(float *out, int at) {
    __shared__ float before, grid[4][3];
    __shared__ Pair pairs[2];
    before = 0;
    grid[0][threadIdx.x] = 1;
    pairs[0].first = 1;
    __syncthreads();
    if (at < 0) out[0] = (&pairs[0].first)[-at];
    else out[0] = grid[0][at];
}
"""


@pytest.mark.parametrize("check", [True, "races"])
@pytest.mark.parametrize(
    ("at", "told"),
    [
        (13, "behind the end of grid (48 bytes): grid[4][1]"),
        (20, "behind the end of grid (48 bytes): grid[6][2]"),
        (-5, "behind the end of pairs (16 bytes): pairs[2] + 4 bytes"),
    ],
)
def test_elements_are_told_by_their_indices(machine: Any, at: int, told: str, check: Any) -> None:
    machine.module(SHAPES, check=check).get_function("shapes")(machine.up(np.zeros(9, np.float32)), at, grid=1, block=1)
    with pytest.raises(DriverError) as raised:
        machine.synchronize()
    assert told in raised.value.message
    assert "0x7f" not in raised.value.message


PROGRAM = """import sys
SIZE = 4
whole = '''
__global__ void kernel(int *x) {
    x[1 << 20] = 1;
}
'''
put_together = '''
__global__ void kernel(int *x) {
    x[2 << 20] = 1;
    x[%d << 20] = 1;
}
'''
module = Module(whole if made == "whole" else put_together %% SIZE)
"""


@pytest.mark.parametrize(
    ("made", "told"),
    [("whole", "line 3 of the kernel's source (part.py:5)"), ("part", "line 3 of the kernel's source (part.py:10)")],
)
def test_the_programs_own_line_is_told_where_it_can_be_found(
    machine: Any, tmp_path: Path, made: str, told: str
) -> None:
    program = tmp_path / "part.py"
    program.write_text(PROGRAM.replace("%%", "%"))
    known = {"Module": partial(SourceModule, runtime=machine.runtime), "made": made, "__name__": "__main__"}
    exec(compile(program.read_text(), str(program), "exec"), known)
    known["module"].get_function("kernel")(machine.up(np.zeros(4, np.int32)), grid=1, block=1)
    with pytest.raises(DriverError) as raised:
        machine.synchronize()
    assert told in raised.value.message


def test_a_stack_that_overflows_is_reported_in_the_functions_line(machine: Any) -> None:
    source = """
    __device__ int deep(int n) {
        volatile int room[64];
        room[n % 64] = n;
        return n == 0 ? 0 : deep(n - 1) + room[n % 64];
    }
    __global__ void k(int *x) { *x = deep(1000000); }
    """
    machine.module(source).get_function("k")(machine.zeros(1, np.int32), grid=1, block=1)
    with pytest.raises(DriverError, match=r"the thread's stack overflowed.* in line [245]\b"):
        machine.synchronize()


@pytest.mark.usefixtures("needs_compiler")
def test_libraries_know_lines_and_nothing_of_variables() -> None:
    """What debuggers want beside lines takes the compiler a quarter of its time."""
    source = "__global__ void k(int *x, int n) { for (int i = 0; i < n; ++i) { int y = x[i] * i; x[i] = y * y; } }"
    payload = compile_for_host(source).payload
    assert b".debug_line\0" in payload
    assert b".debug_loc" not in payload
