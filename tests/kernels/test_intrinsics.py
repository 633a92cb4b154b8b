"""Intrinsics, mathematical functions and small types against exact arithmetic or NumPy."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.kernels.simulator import host_compiler
from cuplug.runtime.kernels.simulator.translate import translate

pytestmark = pytest.mark.one_schedule


@pytest.fixture
def intrinsics(machine: Any) -> Any:
    return machine.module("intrinsics.cu")


def test_arithmetic_is_rounded_as_its_name_says(machine: Any, intrinsics: Any) -> None:
    x, y, z = np.float32([1.1, 3.7, -0.3])
    dx, dy, dz = np.float64([1.1, 3.7, -0.3])
    f, d = machine.empty((4, 8), np.float32), machine.empty((4, 8), np.float64)
    intrinsics.get_function("directed")(
        machine.up(np.float32([x, y, z])), f, machine.up(np.float64([dx, dy, dz])), d, grid=1, block=1
    )
    for found, (a, b, c), last in (
        (machine.down(f, (4, 8), np.float32), (x, y, z), Fraction(float(dx))),
        (machine.down(d, (4, 8), np.float64), (dx, dy, dz), Fraction(0x7FFFFFFFFFFFFFFB)),
    ):
        fa, fb, fc = (Fraction(float(v)) for v in (a, b, c))
        exact = [fa + fb, fa - fb, fa * fb, fa / fb, 1 / fa, None, fa * fb + fc, last]
        nearest, up, down, zero = found
        assert np.array_equal(zero, np.where(nearest < 0, up, down))
        exactly = up == down
        assert np.array_equal(np.nextafter(down, np.inf, dtype=down.dtype)[~exactly], up[~exactly])
        for place, value in enumerate(exact):
            low, near, high = (Fraction(float(row[place])) for row in (down, nearest, up))
            if value is None:  # the square root
                assert low * low < fa < high * high
            else:
                assert low == value == high if exactly[place] else low < value < high
                assert abs(near - value) == min(value - low, high - value)


def test_words_of_several_integers(machine: Any, intrinsics: Any) -> None:
    a, b = 0x80FF017F, 0x7F02FF01
    out = machine.empty(24, np.uint32)
    intrinsics.get_function("words")(a, b, out, grid=1, block=1)
    ua, ub = (np.array([v], np.uint32).view(np.uint8).astype(int) for v in (a, b))
    sa, sb = (np.array([v], np.uint32).view(np.int8).astype(int) for v in (a, b))
    ha, hb = (np.array([v], np.uint32).view(np.int16).astype(int) for v in (a, b))
    uha, uhb = ha & 0xFFFF, hb & 0xFFFF

    def word(parts: Any, bits: int = 8) -> int:
        return sum((int(part) & ((1 << bits) - 1)) << bits * place for place, part in enumerate(parts))

    expected = [
        *(word(ua + ub), word(ua - ub), word(np.minimum(ua + ub, 255)), word(np.maximum(ua - ub, 0))),
        *(word(np.clip(sa + sb, -128, 127)), word(abs(ua - ub)), word((ua + ub + 1) >> 1), word(np.maximum(sa, sb))),
        *(word(np.minimum(ua, ub)), word(abs(sa)), word(-sa), word(-(ua > ub).astype(int)), word(sa <= sb)),
        *(int(abs(ua - ub).sum()), word(ha + hb, 16), word(np.clip(ha - hb, -32768, 32767), 16)),
        *(word(np.maximum(uha, uhb), 16), 0xFFFFFFFF, int(abs(ha - hb).sum())),
        (5 + int(ha @ sb[:2])) & 0xFFFFFFFF,
        5 + int(uha @ ub[2:]),
        *(2, 23, 1),
    ]
    assert [hex(value) for value in machine.down(out, 24, np.uint32).tolist()] == [hex(value) for value in expected]


def test_special_functions(machine: Any, intrinsics: Any) -> None:
    x = np.array([1.0, 2.5, 30.0, 0.5])
    out = machine.empty(6, np.float64)
    intrinsics.get_function("functions")(machine.up(x), out, grid=1, block=1)
    i1 = sum((1.25) ** (2 * k + 1) / (math.factorial(k) * math.factorial(k + 1)) for k in range(30))
    expected = [
        *(float(np.i0(1.0)), -i1, 0.018795888861416751, math.hypot(*x[:3]), 1 / math.hypot(*x), float(np.i0(2.5))),
    ]
    found = machine.down(out, 6, np.float64)
    assert np.allclose(found[:5], expected[:5], rtol=1e-13)
    assert np.isclose(found[5], expected[5], rtol=1e-6)


def test_pairs_of_halves(machine: Any) -> None:
    module = machine.module("small.cu")
    a, b = np.float16([-1.5, 0.3]), np.float16([2.0, 0.25])
    out = machine.empty((11, 2), np.float16)
    module.get_function("half_pairs")(machine.up(np.stack([a, b])), out, grid=1, block=1)
    x = b[1] + np.float16(1)
    expected = [(a + b) * b, -a, np.maximum(a, b), a > b, np.sqrt(b), abs(a), a - b, a]
    expected += [np.float16([a[0], b[0]]), np.clip(a + b, 0, 1), np.float16([x, int(x)])]
    assert np.array_equal(machine.down(out, (11, 2), np.float16), np.stack(expected).astype(np.float16))


def test_pairs_of_bfloats(machine: Any) -> None:
    module = machine.module("small.cu")
    a, b = np.float32([-1.5, 0.3125]), np.float32([2.0, 0.25])  # these and what is made of them fit into eight bits
    out = machine.empty((10, 2), np.uint16)
    bits = (np.stack([a, b]).view(np.uint32) >> 16).astype(np.uint16)
    module.get_function("bfloat_pairs")(machine.up(bits), out, grid=1, block=1)
    found = (machine.down(out, (10, 2), np.uint16).astype(np.uint32) << 16).view(np.float32)
    expected = [(a + b) * b, -a, np.maximum(a, b), a > b, np.sqrt(b), abs(a), a - b, a, a[[1, 1]], b]
    assert np.allclose(found, np.stack(expected), rtol=2**-8)
    assert np.array_equal(found[[0, 1, 2, 3, 5, 6, 7, 8, 9]], np.stack(expected)[[0, 1, 2, 3, 5, 6, 7, 8, 9]])


def test_largest_and_smallest_of_sums_and_of_three(machine: Any, intrinsics: Any) -> None:
    words = a, b, c = 0x80017FF0, 0xFFF00020, 0x0005FFFF
    out, first = machine.empty(16, np.uint32), machine.empty(6, np.bool_)
    intrinsics.get_function("extremes")(a, b, c, out, first, grid=1, block=1)
    sa, sb, sc = (np.array([word], np.uint32).view(np.int16) for word in words)
    ua, ub, uc = (np.array([word], np.uint32).view(np.uint16) for word in words)
    ia, ib, ic = (np.array([word], np.uint32).view(np.int32) for word in words)
    wa, wb, wc = (np.array([word], np.uint32) for word in words)
    most, least = np.maximum, np.minimum
    expected = [
        *(most(sa + sb, sc), most(most(sa + sb, sc), 0), least(ua + ub, uc)),
        *(most(ia + ib, ic), most(least(ia + ib, ic), 0), least(wa + wb, wc)),
        *(most(most(sa, sb), sc), least(least(ua, ub), uc), most(most(most(ia, ib), ic), 0)),
        *(least(least(wa, wb), wc), most(most(sa, sb), 0), most(least(ia, ib), 0)),
        *(most(sa, sb), least(ua, ub), most(ia, ib), wa),
    ]
    assert machine.down(out, 16, np.uint32).tolist() == [int(value.view(np.uint32)[0]) for value in expected]
    was_first = [*(sa >= sb)[::-1], *(ua <= ub)[::-1], (ia >= ib)[0], True]
    assert machine.down(first, 6, np.bool_).tolist() == was_first


def test_atomic_functions_with_an_order_and_a_scope(machine: Any) -> None:
    module = machine.module("intrinsics.cu")
    values = np.random.default_rng(3).random(192).astype(np.float32)
    sums, largest = machine.up(np.int32([0, 0, 0, 0, 5])), machine.zeros(1, np.float32)
    bits = machine.zeros(1, np.uint64)
    try:
        kernel = module.get_function("ordered")
    except DriverError:
        pytest.skip("the compiler is older than CUDA 12.8")
    kernel(sums, largest, bits, machine.up(values), grid=3, block=64)
    assert machine.down(sums, 5, np.int32).tolist() == [192 * 191 // 2, 191, 42, 5, 7]
    assert machine.down(largest, 1, np.float32)[0] == values.max()
    assert machine.down(bits, 1, np.uint64)[0] == 2**64 - 1


NARROWED = """
extern "C" __global__ void narrowed(const float *x, int *i, unsigned *u, long long *l, unsigned long long *m, int *d) {
    int t = threadIdx.x;
    i[t] = __float2int_rd(x[t]);
    u[t] = __float2uint_rn(x[t]);
    l[t] = __float2ll_rz(x[t]);
    m[t] = __float2ull_ru(x[t]);
    d[t] = __double2int_rz(x[t]);
}
"""


def test_what_is_beyond_an_integers_range_becomes_its_nearest_and_nan_as_ptx_says(machine: Any) -> None:
    x = np.array([-2.5, 1e30, -1e30, np.inf, np.nan], np.float32)
    kinds = (np.int32, np.uint32, np.int64, np.uint64, np.int32)
    out = [machine.empty(5, kind) for kind in kinds]
    machine.module(NARROWED).get_function("narrowed")(machine.up(x), *out, grid=1, block=5)
    i, u, ll, ull, of_double = (machine.down(part, 5, kind).tolist() for part, kind in zip(out, kinds, strict=True))
    assert i == [-3, 2**31 - 1, -(2**31), 2**31 - 1, 0]
    assert u == [0, 2**32 - 1, 0, 2**32 - 1, 0]
    assert ll == [-2, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63)]
    assert ull == [0, 2**64 - 1, 0, 2**64 - 1, 2**63]
    assert of_double == [-2, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31)]


@pytest.mark.usefixtures("needs_compiler")
@pytest.mark.parametrize(
    ("header", "functions"), [("rounding.h", 3 * 21), ("simd.h", 2 * 41), ("dpx.h", 4 * 2 * 2 + 2 * 2 * 3 + 4 * 2)]
)
def test_a_header_that_few_sources_use_comes_with_each_of_its_functions(
    tmp_path: Path, header: str, functions: int
) -> None:
    compiler = host_compiler.find_compiler()
    defined = compiler.run(["-E", "-x", "c++", str(host_compiler.HEADERS / header)], str(tmp_path))
    own = "".join(re.findall(rf'^# \d+ ".*/{header}".*\n((?:[^#].*\n|\n)*)', defined.stdout, re.MULTILINE))
    names = re.findall(r"\binline [a-z ]+ (__\w+)\(", own)
    assert len(names) == functions
    for name in names:
        text = translate(f"__global__ void use() {{ {name}; }}", [], checked=False).text
        assert f"#include <{header}>\n" in text
    assert header not in translate("__global__ void use() { __float2int_rn; __vote; }", [], checked=False).text
