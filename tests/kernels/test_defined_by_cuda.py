"""What CUDA's hardware defines and C++ does not, or this machine does otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.kernels.simulator.translate import translate

pytestmark = pytest.mark.one_schedule

SHIFTS = """
template <class T> struct Box { T value; };
template <class T> struct Nested { Box<Box<T>> inside; };
enum { BITS = 3, MANY = 1 << BITS };
struct Fields { unsigned low : 5, high : 27; };
extern "C" __global__ void shifts(const int *counts, unsigned *u, int *s, unsigned long long *l, long long *m) {
    int n = counts[threadIdx.x];
    Nested<int> nested;
    nested.inside.value.value = 1 << n;
    u[threadIdx.x] = 0xdeadbeefu << n | 0x12345678u >> n;
    s[threadIdx.x] = (-5 >> n) + nested.inside.value.value;
    l[threadIdx.x] = 0x0123456789abcdefull << n ^ 0xfedcba9876543210ull >> n;
    m[threadIdx.x] = -7ll >> n;
    unsigned kept = 0xffffffffu;
    kept <<= n;
    kept >>= counts[0];
    u[threadIdx.x] ^= kept + MANY + (1u << 3);
    __shared__ int room[1 << BITS];
    room[0] = sizeof room;
    s[threadIdx.x] += room[0] & 0;
}
"""


def shifted(value: int, count: int, width: int, *, left: bool, signed: bool = False) -> int:
    if left:
        return (value << count) % (1 << width) if count < width else 0
    if count >= width:
        return -1 if signed and value < 0 else 0
    return value >> count


@pytest.mark.parametrize("checked", [True, False])
def test_shifts_by_as_many_bits_as_there_are_and_more_leave_nothing(machine: Any, checked: bool) -> None:
    counts = np.int32([0, 1, 5, 31, 32, 33, 63, 64, 100, -1])
    n = len(counts)
    u, s = machine.zeros(n, np.uint32), machine.zeros(n, np.int32)
    long, m = machine.zeros(n, np.uint64), machine.zeros(n, np.int64)
    module = machine.module(SHIFTS, check=checked) if machine.runtime.driver.name == "sim" else machine.module(SHIFTS)
    module.get_function("shifts")(machine.up(counts), u, s, long, m, grid=1, block=n)
    got = [machine.down(x, n, kind).tolist() for x, kind in ((u, "u4"), (s, "i4"), (long, "u8"), (m, "i8"))]
    for place, signed_count in enumerate(counts.tolist()):
        count = signed_count % (1 << 32)
        narrow = shifted(0xDEADBEEF, count, 32, left=True) | shifted(0x12345678, count, 32, left=False)
        narrow ^= (shifted(0xFFFFFFFF, count, 32, left=True) + 16) % (1 << 32)
        assert got[0][place] == narrow, signed_count
        one = np.uint32(shifted(1, count, 32, left=True)).view(np.int32)
        total = shifted(-5, count, 32, left=False, signed=True) + int(one)
        assert (got[1][place] - total) % (1 << 32) == 0, signed_count
        wide = shifted(0x0123456789ABCDEF, count, 64, left=True) ^ shifted(0xFEDCBA9876543210, count, 64, left=False)
        assert got[2][place] == wide, signed_count
        assert got[3][place] == shifted(-7, count, 64, left=False, signed=True), signed_count


@pytest.mark.needs_sim
def test_classes_keep_shifts_of_their_own_and_bit_fields_shift(machine: Any) -> None:
    source = """
    struct Log { int sum; __device__ Log &operator<<(int x) { sum += x; return *this; } };
    struct Fields { unsigned low : 5, high : 27; };
    extern "C" __global__ void k(int *x, int n) {
        Log log{0};
        log << x[0] << n << 1;
        Fields fields{3, 5};
        fields.low <<= n;
        x[0] = log.sum + fields.low;
    }
    """
    x = machine.up(np.int32([10]))
    machine.module(source).get_function("k")(x, 2, grid=1, block=1)
    assert machine.down(x, 1, np.int32)[0] == 13 + 12


def test_angles_are_told_from_shifts() -> None:
    source = """
    template <class T> struct A { T x; };
    __global__ void k(int *p, int n) { A<A<int>> a; A<A<A<int>>> *b; p[0] = p[1] >> n; if (n < p[0] >> n) p[n] >>= n; }
    """
    text = translate(source, [], checked=True).text
    assert text.count("__cuplug::shift") == 3
    assert "A<A<int>> a" in text
    assert "A<A<A<int>>> *b" in text


@pytest.mark.needs_sim
@pytest.mark.parametrize("kernel", ["add", "exchange", "compare", "floats", "minimum"])
def test_atomic_operations_need_addresses_that_are_multiples_of_their_size(machine: Any, kernel: str) -> None:
    source = """
    extern "C" {
    __global__ void add(char *x) { atomicAdd((int *)(x + 2), 1); }
    __global__ void exchange(char *x) { atomicExch((unsigned long long *)(x + 4), 1ull); }
    __global__ void compare(char *x) { atomicCAS((int *)(x + 1), 1, 2); }
    __global__ void floats(char *x) { atomicAdd((float *)(x + 2), 1.0f); }
    __global__ void minimum(char *x) { atomicMin((unsigned *)(x + 3), 1u); }
    }
    """
    function = machine.module(source).get_function(kernel)
    x = machine.zeros(16, np.uint8)
    with pytest.raises(DriverError, match=r"MISALIGNED_ADDRESS.*an atomic operation needs an address"):
        launch_and_wait(machine, function, x)


def launch_and_wait(machine: Any, function: Any, x: Any) -> None:
    function(x, grid=1, block=1)
    machine.synchronize()


@pytest.mark.needs_sim
def test_instructions_of_three_operands_and_of_the_highest_bit_compute(machine: Any) -> None:
    source = """
    __device__ unsigned long long __globaltimer() { return 7; }  // which CUDA leaves to programs
    extern "C" __global__ void k(unsigned *x) {
        asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(x[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]));
        asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(x[4]) : "r"(x[0]), "r"(x[1]), "r"(x[2]));
        asm("bfind.u32 %0, %1;" : "=r"(x[5]) : "r"(x[0]));
        asm("bfind.u32 %0, %1;" : "=r"(x[6]) : "r"(0));
        x[7] = (unsigned)__globaltimer();
    }
    """
    a, b, c = 0x12345678, 0x9ABCDEF0, 0x0F0F3355
    x = machine.up(np.uint32([a, b, c, 0, 0, 0, 0, 0]))
    machine.module(source).get_function("k")(x, grid=1, block=1)
    expected = [a ^ b ^ c, a & b | a & c | b & c, 28, 0xFFFFFFFF, 7]
    assert machine.down(x, 8, np.uint32)[3:].tolist() == expected


@pytest.mark.needs_sim
def test_what_overlapping_launches_call_does_nothing_where_launches_do_not_overlap(machine: Any) -> None:
    source = """
    extern "C" __global__ void k(int *x) {
        cudaGridDependencySynchronize();
        x[0] += 1;
        cudaTriggerProgrammaticLaunchCompletion();
    }
    """
    x = machine.up(np.int32([1]))
    function = machine.module(source).get_function("k")
    function(x, grid=1, block=1)
    function(x, grid=1, block=1)
    assert machine.down(x, 1, np.int32)[0] == 3
