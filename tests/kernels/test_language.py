"""Corners of CUDA C++ that kernels use."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from cuplug.runtime.kernels.simulator import lockstep

pytestmark = pytest.mark.one_schedule


@pytest.fixture
def language(machine: Any) -> Any:
    return machine.module("language.cu")


@pytest.fixture
def library(machine: Any) -> Any:
    return machine.module("library.cu")


def test_structures_are_passed_by_value(machine: Any, language: Any) -> None:
    settings = np.zeros((), np.dtype([("a", "f8"), ("tag", "i1"), ("values", "i2", 3)], align=True))
    settings["a"], settings["tag"], settings["values"] = 0.5, 7, (1, 2, 3)
    quad = np.float32([10, 20, 30, 40])
    out = machine.empty(2, "V20")
    language.get_function("structures")(out, settings, quad, True, 5, 9 << 32, 100, grid=1, block=2)
    particle = np.dtype([("position", "f4", 3), ("mass", "f4"), ("id", "i4")])
    for found in machine.down(out, 2, particle):
        assert found["position"].tolist() == [11, 22, 33]
        assert found["mass"] == 66 + 0.5 + 3
        assert found["id"] == 1000 + 5 + 7 + 9 + 100


def test_grids_and_blocks_have_three_dimensions(machine: Any, language: Any) -> None:
    grid, block = (2, 3, 2), (4, 2, 3)
    x, y, z = (g * b for g, b in zip(grid, block, strict=True))
    out = machine.empty(x * y * z, np.int32)
    language.get_function("dimensions")(out, grid=grid, block=block)
    expected = np.arange(x) + 100 * np.arange(y)[:, None] + 10000 * np.arange(z)[:, None, None]
    assert np.array_equal(machine.down(out, (z, y, x), np.int32), expected)


def test_device_functions_see_the_built_in_variables(machine: Any, language: Any) -> None:
    out, rows = machine.empty(32, np.int32), machine.empty(8, np.float32)
    language.get_function("devices")(out, rows, grid=(2, 2), block=8)
    primes = [2, 3, 5, 7, 11, 13, 17, 19]
    expected = [primes[i % 8] * math.factorial(i % 6) for i in range(32)]
    assert machine.down(out, 32, np.int32).tolist() == expected
    assert machine.down(rows, 8, np.float32).tolist() == [i + 1.5 for i in range(8)]
    assert language.get_global("counter").copy_to(np.empty(1, np.uint64))[0] == sum(range(32))


def test_atomics(machine: Any, language: Any) -> None:
    n = 96
    i, u = machine.up(np.int32([0, 0, 0, 0, -1, 0, 0, 0])), machine.up(np.uint32([0, 0, 0, 0]))
    long, f, d = machine.up(np.uint64([0, 0, 5])), machine.zeros(2, np.float32), machine.zeros(1, np.float64)
    language.get_function("atomics")(i, u, long, f, d, grid=3, block=32)
    flips = 0
    for t in range(n):
        flips ^= 1 << (t % 3)
    expected = [sum(range(n)), -n, 1 - n, n - 1, ~0xFF, (1 << 30) - 1, flips, 77]
    assert machine.down(i, 8, np.int32).tolist() == expected
    down = 0
    for _ in range(n):
        down = 6 if down == 0 or down > 6 else down - 1
    assert machine.down(u, 4, np.uint32).tolist() == [n % 10, down, 2 * n, n - 1]
    assert machine.down(long, 3, np.uint64).tolist() == [n << 33, (n - 1) << 40, 6]
    assert machine.down(f, 2, np.float32).tolist() == [n / 2, 2.5]
    assert machine.down(d, 1, np.float64)[0] == n / 4


def test_intrinsics_and_mathematics(machine: Any, language: Any) -> None:
    out, f = machine.empty(14, np.uint32), machine.empty(13, np.float32)
    language.get_function("intrinsics")(out, f, grid=1, block=1)
    x = 0x00F0A001
    reversed_ = int(f"{x:032b}"[::-1], 2)
    expected = [x.bit_count(), 8, 1, reversed_, 32, 3, 0x77552200, 0x18, 0x3F800000, 13, 1000000, 32, 32, 6304]
    assert machine.down(out, 14, np.uint32).tolist() == expected
    floats = machine.down(f, 13, np.float32)
    assert np.allclose(floats[:3], [0.5, 0.125, math.sin(0.5)], rtol=1e-5)
    assert floats[3:5].tolist() == [1.0, 1.0]
    assert np.allclose(floats[5:8], [8 + 2**0.5 + 3, math.pi, 1.5 - 3 - 1], rtol=1e-6)
    assert np.isclose(floats[8], 2**0.5 + math.erf(0.5) + math.atan2(1, 2), rtol=1e-6)
    assert floats[9] == 2.0
    assert np.allclose(floats[10:12], [math.sin(0.75), math.cos(0.75)], rtol=1e-6)
    assert floats[12] == 5 + 1 + 3 - 1


def test_shuffles_votes_and_barriers_with_values(machine: Any, language: Any) -> None:
    out, votes, f = machine.empty(256, np.int32), machine.zeros(24, np.uint32), machine.empty(64, np.float32)
    language.get_function("warps")(out, votes, f, grid=1, block=64)
    t = np.arange(64)
    lane = t % 32
    found = machine.down(out, (4, 64), np.int32)
    assert np.array_equal(found[0], (t - lane + 3) * 10)
    assert np.array_equal(found[1], np.where(lane < 2, lane, lane - 2))
    assert np.array_equal(found[2], np.where(lane % 8 + 4 < 8, lane + 4, lane))
    assert np.array_equal(found[3], lane ^ 1)
    assert np.array_equal(machine.down(f, 64, np.float32), 0.5 * (t - t % 16 + (lane + 1) % 16))
    for warp in machine.down(votes, (3, 8), np.uint32)[:2].tolist():
        assert warp[:6] == [0xAAAAAAAA, 0, 1, 0xFF00, 0xFFF, sum(range(12))]
    assert machine.down(votes, 24, np.uint32)[16:19].tolist() == [22, 1, 0]


def test_blocks_may_wait_for_earlier_blocks(machine: Any, language: Any) -> None:
    order, turn = machine.empty(20, np.int32), machine.zeros(1, np.int32)
    language.get_function("in_turn")(order, turn, grid=20, block=32)
    assert machine.down(order, 20, np.int32).tolist() == list(range(20))


def test_shared_variables_of_all_kinds(machine: Any, language: Any) -> None:
    out = machine.empty(16, np.float32)
    language.get_function("shared_structures")(out, grid=1, block=8)
    found = machine.down(out, 16, np.float32)
    t = np.arange(8)
    assert np.array_equal(found[:8], 7 - t + 2 * ((t + 1) % 8) + 3 * ((t + 2) % 8) + 800)
    assert found[8:].tolist() == [0, 0, 0, 1, 1, 0, 0, 1]


def test_dynamic_shared_memory_holds_several_arrays(machine: Any, language: Any) -> None:
    out = machine.empty(48, np.float32)
    language.get_function("carved")(out, 48, grid=1, block=48, shared=48 * 8)
    assert np.array_equal(machine.down(out, 48, np.float32), 0.5 * ((np.arange(48) + 1) % 48))


def test_shared_variables_outside_functions(machine: Any, language: Any) -> None:
    values = np.random.default_rng(5).random(32, dtype=np.float32)
    out = machine.empty(32, np.float32)
    language.get_function("shared_by_functions")(machine.up(values), out, grid=1, block=32, shared=32 * 4)
    expected = np.roll(values, -1) + 100 * np.arange(32) + values[0] + sum(range(32)) + 31
    assert np.allclose(machine.down(out, 32, np.float32), expected, rtol=1e-6)


def test_the_clock_runs(machine: Any, language: Any) -> None:
    out = machine.empty(1, np.int64)
    language.get_function("clocks")(out, grid=1, block=1)
    assert machine.down(out, 1, np.int64)[0] >= 0


def test_inline_assembly(machine: Any, language: Any) -> None:
    out = machine.empty((40, 4), np.uint32)
    a, b = 0x12345678, 0x21349900
    language.get_function("assembly")(out, a, b, grid=1, block=40)
    differences = sum(abs((a >> s & 255) - (b >> s & 255)) for s in (0, 8, 16, 24))
    expected = [
        [i % 32 + (((1 << i % 32) - 1) << 8 & 0xFFFFFFFF), a >> 4 & 127, differences + 9, i + 1000] for i in range(40)
    ]
    assert machine.down(out, (40, 4), np.uint32).tolist() == [[v & 0xFFFFFFFF for v in row] for row in expected]


def test_mathematics_of_integers_and_of_mixed_numbers(machine: Any) -> None:
    source = """
    __global__ void mixed(double *out, float f, double d, int i, unsigned u) {
        double all[] = {sqrt(i),     pow(f, 2.0), pow(i, 3),    exp(-f * d), atan2(i, u), fmod(d, f), ceil(i / 2.0),
                        fmax(f, d),  log(u),      pow(f, 2),    hypot(i, f), fabs(-i),    max(f, d),  floor(u)};
        for (int k = 0; k < 14; ++k) out[k] = all[k];
    }
    """
    out = machine.empty(14, np.float64)
    machine.module(source).get_function("mixed")(out, 1.5, 5.25, 7, 9, grid=1, block=1)
    expected = [math.sqrt(7), 2.25, 343, math.exp(-1.5 * 5.25), math.atan2(7, 9), math.fmod(5.25, 1.5), 4, 5.25]
    expected += [math.log(9), 2.25, math.hypot(7, 1.5), 7, 5.25, 9]
    assert np.allclose(machine.down(out, 14, np.float64), expected, rtol=1e-12)


def test_names_of_the_host_s_headers_are_known_without_them(machine: Any) -> None:
    source = """
    __global__ void limits(int64_t *out, const uint8_t *in) {
        out[0] = INT_MAX + (int64_t)in[0];
        out[1] = (int64_t)(FLT_MAX / 1e30f);
    }
    """
    _need_nvrtc_on_a_gpu(machine)
    out = machine.empty(2, np.int64)
    machine.module(source).get_function("limits")(out, machine.up(np.uint8([200])), grid=1, block=1)
    assert machine.down(out, 2, np.int64).tolist() == [2**31 + 199, int(np.finfo(np.float32).max / np.float32(1e30))]


def test_what_says_nothing_of_devices_is_for_kernels_too(machine: Any) -> None:
    source = """
    const float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    static int quotient(int a, int b) { return (a + b - 1) / b; }
    __global__ void look_up(float *out) { out[threadIdx.x] = table[threadIdx.x % 4] * quotient(threadIdx.x, 2); }
    """
    _need_nvrtc_on_a_gpu(machine)
    out = machine.empty(8, np.float32)
    machine.module(source).get_function("look_up")(out, grid=1, block=8)
    assert machine.down(out, 8, np.float32).tolist() == [(i % 4 + 1) * ((i + 1) // 2) for i in range(8)]


def test_complex_numbers_of_pycuda(machine: Any) -> None:
    source = """
    #include <pycuda-complex.hpp>
    typedef pycuda::complex<float> number;
    __global__ void evaluate(const number *in, number *out, float scale) {
        number z = in[threadIdx.x];
        z = scale * z / number(1.0f, 2.0f) - 1.0f;
        z *= conj(z) + exp(z);
        out[threadIdx.x] = sqrt(z) + pow(z, 2) + number(abs(z), real(z) + z.imag());
    }
    """
    rng = np.random.default_rng(14)
    values = (rng.random(32) + 1j * rng.random(32)).astype(np.complex64)
    out = machine.empty(32, np.complex64)
    machine.module(source).get_function("evaluate")(machine.up(values), out, 1.5, grid=1, block=32)
    z = 1.5 * values.astype(complex) / (1 + 2j) - 1
    z = z * (z.conj() + np.exp(z))
    expected = np.sqrt(z) + z**2 + abs(z) + 1j * (z.real + z.imag)
    assert np.allclose(machine.down(out, 32, np.complex64), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.needs_sim  # CUDA has not promised it since version 9, although it mostly works
def test_a_warp_works_in_lockstep_by_volatile_pointers(machine: Any) -> None:
    module = machine.module("lockstep.cu")
    values = np.random.default_rng(11).integers(0, 1000, (3, 128)).astype(np.int32)
    sums, before, most = machine.empty(3, np.int32), machine.empty(128, np.int32), machine.empty(2, np.float32)
    module.get_function("total")(machine.up(values), sums, grid=3, block=128, shared=512)
    assert machine.down(sums, 3, np.int32).tolist() == values.sum(1).tolist()
    module.get_function("scan")(machine.up(values[0]), before, grid=1, block=128)
    warps = values[0].reshape(4, 32)
    assert np.array_equal(machine.down(before, (4, 32), np.int32), warps.cumsum(1) - warps)
    floats = values[1, :32].astype(np.float32)
    module.get_function("largest")(machine.up(floats), most, grid=1, block=32)
    assert machine.down(most, 2, np.float32).tolist() == [floats.max(), -floats.min()]


def test_headers_of_the_host_may_be_included(machine: Any) -> None:
    f, i = machine.up(np.float32([0, 0, 5, 6, 7, 0, 0, 0])), machine.zeros(3, np.int64)
    machine.module("headers.cu").get_function("standard")(f, i, grid=1, block=1)
    z = (1 + 2j) / (3 - 1j)
    expected = [math.sqrt(2) + 9, 5, np.finfo(np.float32).min, 7, 6, z.real, z.imag, abs(z) ** 2]
    assert np.allclose(machine.down(f, 8, np.float32), expected, rtol=1e-6)
    found = machine.down(i, 3, np.int64)
    assert found[:2].tolist() == [(1 << 31) - 1 + 2 + 7, -1]
    assert found[2:].view(np.float32)[0] == 7


def test_half_precision(machine: Any, library: Any) -> None:
    a, b = np.linspace(-3, 3, 32).astype(np.float16), np.linspace(0.1, 7, 32).astype(np.float16)
    total, wide, pairs = machine.empty(32, np.float16), machine.empty(32, np.float32), machine.empty(32, np.float16)
    library.get_function("halves")(machine.up(a), machine.up(b), total, wide, pairs, 0.5, grid=1, block=32)
    assert np.array_equal(machine.down(total, 32, np.float16), (a + b) + np.float16(0.5))
    assert np.array_equal(machine.down(wide, 32, np.float32), (a * b).astype(np.float32))
    assert np.array_equal(machine.down(pairs, 32, np.float16), (2.0 * a.astype(np.float32) + 0.5).astype(np.float16))


def test_functions_without_a_name_have_shared_variables(machine: Any, language: Any) -> None:
    out = machine.empty(32, np.float32)
    row = machine.up(np.arange(32, dtype=np.float32))
    language.get_function("shared_by_lambdas")(row, out, grid=1, block=32, shared=128)
    assert machine.down(out, 32, np.float32).tolist() == [*range(30, -1, -1), 31]


@pytest.mark.needs_sim
def test_the_largest_and_smallest_of_a_list(machine: Any) -> None:
    """As nvcc takes them; NVRTC has no such header. GNU's library has them in one that kernels cannot include."""
    source = """#include <algorithm>
    __global__ void k(int *out, int a, int b) {
        out[0] = std::max({a, b, 5});
        out[1] = std::min({a, b, 5});
        out[2] = std::max({a, b, 5}, [](int x, int y) { return x % 5 < y % 5; });
        out[3] = std::min({a, b, 5}, [](int x, int y) { return x % 5 < y % 5; });
    }"""
    out = machine.empty(4, np.int32)
    machine.module(source).get_function("k")(out, 7, 3, grid=1, block=1)
    assert machine.down(out, 4, np.int32).tolist() == [7, 3, 3, 5]


def test_cooperative_groups_of_a_block(machine: Any, library: Any) -> None:
    values = np.random.default_rng(3).integers(0, 100, 64).astype(np.int32)
    out, counts = machine.empty(64, np.int32), machine.zeros(3, np.uint32)
    library.get_function("groups")(machine.up(values), out, counts, grid=1, block=64)
    sums = np.repeat(values.reshape(2, 32).sum(1), 32)
    largest = np.repeat(values.reshape(8, 8).max(1), 8)
    assert np.array_equal(machine.down(out, 64, np.int32), sums * 1000 + largest)
    odd = [sum(1 << i for i, v in enumerate(half) if v & 1) for half in values.reshape(2, 32).tolist()]
    assert machine.down(counts, 3, np.uint32).tolist() == [22, *odd]


def _need_nvrtc_on_a_gpu(machine: Any) -> None:
    if machine.runtime.driver.name != "sim" and find_spec("cuda") is None:
        pytest.skip("nvcc takes this only as NVRTC is told to: needs cuda-bindings")


@pytest.mark.parametrize(
    ("names", "may"),
    [
        ({"volatile"}, True), ({"volatile", "__shfl"}, True), ({"volatile", "__shfl_sync"}, False),
        ({"volatile", "__ballot_sync"}, False), ({"volatile", "__syncwarp"}, False), ({"__shfl"}, False),
    ],
)  # fmt: skip
def test_a_source_that_knows_of_masks_of_lanes_does_not_work_in_lockstep(names: set[str], may: bool) -> None:
    assert lockstep.used(names) is may
