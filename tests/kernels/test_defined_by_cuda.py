"""What CUDA's hardware defines and C++ does not, or this machine does otherwise."""

from __future__ import annotations

import math
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


CASTS = """
#include <cuda_fp16.h>
#include <stdint.h>
struct Point { float x; float *row; __device__ float get() const { return x; } };
__device__ int twice(int);
__device__ int twice(int x) { return 2 * x; }
enum { SIZE = (int)sizeof(int) + (int)2.5f };
extern "C" __global__ void casts(const float *f, const double *d, int *i, unsigned *u, long long *l, unsigned char *b,
                                 short *h, float *back) {
    int t = threadIdx.x;
    Point point = {f[t], const_cast<float *>(f)};
    int (*function)(int) = twice, room[SIZE];
    const float *next = f + t;
    room[0] = function(1);
    i[4 * t] = (int)f[t] + 0 * room[0];
    i[4 * t + 1] = static_cast<int>(d[t]);
    i[4 * t + 2] = int(point.row[t] * 1.0f);
    i[4 * t + 3] = (int)point.get() - (int)-point.x;
    u[2 * t] = (unsigned int)*next++;
    u[2 * t + 1] = (unsigned)next[-1] & (uint32_t)(double)f[t];
    l[t] = (long long)f[t];
    b[t] = (unsigned char)f[t];
    h[2 * t] = (short)f[t];
    h[2 * t + 1] = (short)__float2half(f[t]);
    back[t] = (float)(int)f[t] + (float)(int)room[0] - 2;
}
"""


def as_cast(value: float, bits: int, *, signed: bool, double: bool = False) -> int:
    """As PTX ISA has it of ``cvt``, and an H200 does."""
    lowest, highest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    if math.isnan(value):
        return 0 if bits == 32 and not double else lowest or 2 ** (bits - 1)
    return int(min(max(value, lowest), highest))


@pytest.mark.parametrize("checked", [True, False])
def test_casts_of_numbers_that_an_integer_cannot_hold_give_the_nearest(machine: Any, checked: bool) -> None:
    values = [0.0, -1.5, 2.75, 255.5, 300.0, -300.0, 40000.0, 2.0**31, -(2.0**31), 3e9, 1e20, -1e20]
    f = np.float32([*values, np.inf, -np.inf, np.nan])
    n = len(f)
    outputs = [("i4", 4 * n), ("u4", 2 * n), ("i8", n), ("u1", n), ("i2", 2 * n), ("f4", n)]
    out = [machine.zeros(size, kind) for kind, size in outputs]
    module = machine.module(CASTS, check=checked) if machine.runtime.driver.name == "sim" else machine.module(CASTS)
    module.get_function("casts")(machine.up(f), machine.up(f.astype(np.float64)), *out, grid=1, block=n)
    i, u, wide, byte, short, back = (
        machine.down(x, size, kind).tolist() for x, (kind, size) in zip(out, outputs, strict=True)
    )
    for place, value in enumerate(f.tolist()):
        whole, positive = as_cast(value, 32, signed=True), as_cast(value, 32, signed=False)
        assert i[4 * place] == i[4 * place + 2] == whole, value
        assert i[4 * place + 1] == as_cast(value, 32, signed=True, double=True), value
        difference = whole - as_cast(-value, 32, signed=True)
        assert i[4 * place + 3] == (difference + 2**31) % 2**32 - 2**31, value
        assert u[2 * place] == positive, value
        assert u[2 * place + 1] == positive & as_cast(value, 32, signed=False, double=True), value
        assert wide[place] == as_cast(value, 64, signed=True), value
        assert byte[place] == positive % 256, value
        assert short[2 * place] == (whole + 2**15) % 2**16 - 2**15, value
        assert back[place] == np.float32(whole), value
    assert short[1::2] == [0, -1, 2, 255, 300, -300, 32767, *[32767, -32768, 32767, 32767, -32768, 32767, -32768, 0]]


def test_inverse_error_functions_of_what_is_near_their_ends(machine: Any) -> None:
    """What an H200 gives, to the last digits but a few."""
    source = """__global__ void k(double *x) {
        x[0] = erfcinv(2.2250738585072014e-308); x[1] = normcdfinv(5e-324); x[2] = erfcinv(x[2]); x[3] = erfcinv(0.0);
        x[4] = erfinv(0.99999988079071045); x[5] = normcdfinv(1.0); x[6] = erfcinv(-0.5); x[7] = erfinv(-2.0);
        x[8] = erfcinvf(1.1754944e-38f); x[9] = -erfcinv(2.0 - 0.001); x[10] = erfcinv(0.001);
    }"""
    x = machine.zeros(11, np.float64)
    machine.module(source).get_function("k")(x, grid=1, block=1)
    found = machine.down(x, 11, np.float64)
    near = [26.543258454250978, -38.46740561714435, math.inf, math.inf, 3.7439211627768, math.inf]
    assert found[:6] == pytest.approx(near, rel=1e-14)
    assert np.isnan(found[6:8]).all()
    assert found[8] == pytest.approx(9.194549560546875, rel=3e-7)
    assert math.erfc(found[9]) == pytest.approx(0.001, rel=1e-13)
    assert found[10] == pytest.approx(found[9], rel=1e-13)


def test_bit_fields_are_cast(machine: Any) -> None:
    source = """
    struct Bits { unsigned low : 5, high : 27; };
    __global__ void k(int *out) { Bits bits = {9, 1}; out[0] = (int)bits.low; }"""
    out = machine.empty(1, np.int32)
    machine.module(source).get_function("k")(out, grid=1, block=1)
    assert machine.down(out, 1, np.int32).tolist() == [9]


def test_types_in_brackets_that_are_no_casts_stay(machine: Any) -> None:
    """What casts look like where functions, templates and sizes are named; of which nothing may be changed."""
    source = """
    template <class T> struct Of; template <class R, class A> struct Of<R (A)> { typedef R result; };
    __device__ int plain(int), (*chosen)(int) = nullptr;
    __device__ int plain(int x) { return x; }
    struct Callable {
        __device__ int operator()(int x) const { return x + 1; }
        __device__ operator int() { return 7; }
    };
    template <int N> __device__ int times(int x) { return N * x; }
    __global__ void k(int *out, float x) {
        int n = 3;
        Of<int(int)>::result a = sizeof(int) + alignof(short) + sizeof (long);
        auto lambda = [](int) { return 5; };
        auto other = [=](unsigned) -> int { return (int)x; };
        int (&row)[2] = *(int (*)[2])out;
        out[0] = a + lambda(1) + other(2u) + plain(2) + Callable()(3);
        out[1] = (int)Callable() + (int)n++;
        out[1] += (int)(n) - (int)-n;
        out[2] = (int)times<2>(n) + (int)(x < 4) + (int)x * 10 + ((int)x > 2);
        switch (n) { case (int)4u: row[1] += (int)'a'; }
    }"""
    out = machine.empty(3, np.int32)
    machine.module(source).get_function("k")(out, 3.5, grid=1, block=1)
    assert machine.down(out, 3, np.int32).tolist() == [14 + 5 + 3 + 2 + 4, 7 + 3 + 4 + 4 + 97, 8 + 1 + 30 + 1]


def test_casts_end_where_what_is_cast_is_compared(machine: Any) -> None:
    source = """
    #define HALF(x) ((int)(x) / 2)
    struct Row { int first; template <int N> __device__ int get() const { return first + N; } };
    template <int N> __device__ int plus(float x) { return (int)x + N; }
    __global__ void k(int *out, float x, int n, int m) {
        Row row = {4};
        int r;
        asm("add.s32 %0, %1, %2;" : "=r"(r) : "r"((int)x), "r"((int)n));
        out[0] = 10 * ((int)n < m && m > (n + 1)) + ((int)n < m || m > (n));
        out[1] = ((int)x < (int)n && n > (int)m) + 2 * ((int)x < (int)n && m > (int)n);
        out[2] = (int)row.template get<3>() + (int)plus<2>(x) * 10 + HALF(2 * x) * 100;
        out[3] = r;
    }"""
    out = machine.empty(4, np.int32)
    machine.module(source).get_function("k")(out, 2.5, 3, 5, grid=1, block=1)
    assert machine.down(out, 4, np.int32).tolist() == [11, 2, 7 + 40 + 200, 5]


@pytest.mark.needs_sim  # NVRTC has no names of std
def test_casts_take_casts_templates_and_lists_in_braces(machine: Any) -> None:
    source = """
    template <class T> constexpr float half_of = 2.5f;
    template <int N> __device__ float plus(float x) { return x + N; }
    struct Row { float first; template <int N> __device__ float get() const { return first + N; } };
    template <class A, class B> struct Pair { typedef A type; static const int value = 3; };
    template <class T, int N> __device__ void fill(int *out, const float *p, float x) {
        Row row = {4.5f};
        out[0] = (int)(float)-x + 10 * (int)(float)*p + 100 * (int)(T)-x + 1000 * (int)(unsigned char)*p;
        out[1] = ((size_t)(const float *)p == (size_t)(void *)p) + (int)(std::size_t)x * 10;
        out[2] = (int)plus<N - 1>(x) + 10 * (int)plus<(N > 1)>(x) + 100 * (int)half_of<T> + 1000 * (int)row.get<2>();
        out[3] = (int)Pair<T, float&>::value + 10 * (int)(typename Pair<T, int>::type)x + 100 * (int)float{x};
        out[4] = (int)reinterpret_cast<const float4&>(*p).y + 10 * (int)not x + 100 * (x > 0 ? 1 : int(x));
    }
    template <class T, class F = int(T)> struct Takes { F *function; };
    __device__ float doubled(float (x)) { return 2 * x; }
    __device__ int whole(int (x), int (*f)(int)) { return x; }
    __device__ int same(int x) { return x; }
    __global__ void k(int *out, const float *p, float x) {
        fill<float, 3>(out, p, x);
        Takes<int> takes = {same};
        out[5] = (int)doubled(x) + whole(3, takes.function) + std::size_t(x);
    }"""
    out = machine.empty(6, np.int32)
    machine.module(source).get_function("k")(out, machine.up(np.float32([7.5, 8.5, 0, 0])), 2.75, grid=1, block=1)
    expected = [-2 + 70 - 200 + 7000, 1 + 20, 4 + 30 + 200 + 6000, 3 + 20 + 200, 8 + 100, 5 + 3 + 2]
    assert machine.down(out, 6, np.int32).tolist() == expected


@pytest.mark.needs_sim  # NVRTC has no names of std
def test_a_negative_result_of_a_choice_is_cast_to_the_nearest(machine: Any) -> None:
    source = """
    __global__ void k(unsigned *out, float x) {
        out[0] = x > 0 ? 7u : uint(x);
        out[1] = static_cast<std::uint32_t>(x) + (std::uint32_t)x + std::uint32_t(x);
        out[2] = (unsigned)(float)x;
    }"""
    out = machine.up(np.uint32([1, 1, 1]))
    machine.module(source).get_function("k")(out, -3.0, grid=1, block=1)
    assert machine.down(out, 3, np.uint32).tolist() == [0, 0, 0]


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
