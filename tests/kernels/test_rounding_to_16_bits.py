"""How numbers of 16 bits come from others and become integers, and how they compare: as CUDA's headers describe it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytestmark = [pytest.mark.one_schedule, pytest.mark.needs_sim]

KINDS = {"half": ("half", np.float16), "bfloat16": ("__nv_bfloat16", ml_dtypes.bfloat16)}
DIRECTIONS = ("rn", "rz", "rd", "ru")
HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"


def numbers_of(kind: Any) -> Any:
    """All numbers of a type, in their order."""
    with np.errstate(invalid="ignore"):
        every = np.arange(65536, dtype=np.uint16).view(kind).astype(np.float64)
    return np.unique(every[~np.isnan(every)])


def neighbours(kind: Any, x: Any) -> tuple[Any, Any]:
    """The numbers of a type between which ``x`` lies."""
    every = numbers_of(kind)
    return every[np.searchsorted(every, x, side="right") - 1], every[np.searchsorted(every, x, side="left")]


def converted(machine: Any, name: str, source: str, x: Any) -> Any:
    """What the conversions in each direction make of ``x``, a column for each."""
    kind = KINDS[name]
    types = {"float": "float", "double": "double", "ll": "long long", "ull": "unsigned long long", "int": "int"}
    calls = " ".join(
        f"out[{len(DIRECTIONS)} * i + {k}] = __{source}2{name}_{direction}(x[i]);"
        for k, direction in enumerate(DIRECTIONS)
    )
    text = f"__global__ void k(const {types[source]} *x, {kind[0]} *out) {{ int i = threadIdx.x; {calls} }}"
    out = machine.empty((len(x), len(DIRECTIONS)), np.uint16)
    machine.module(HEADERS + text).get_function("k")(machine.up(x), out, grid=1, block=len(x))
    return machine.down(out, (len(x), len(DIRECTIONS)), np.uint16).view(kind[1]).astype(np.float64)


@pytest.mark.parametrize("name", KINDS)
def test_floats_are_rounded_in_the_direction_that_is_named(machine: Any, name: str) -> None:
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(0, scale, 200) for scale in (1, 1e5, 1e-7, 1e-30)])
    x = np.concatenate([x, [0, 65504, 65519, 65520, 1e30, -1e30, 3.4e38, -3.4e38, 1e-45, -1e-45, np.inf, -np.inf]])
    x = x.astype(np.float32)
    nearest, to_zero, down, up = converted(machine, name, "float", x).T
    below, above = neighbours(KINDS[name][1], x.astype(np.float64))
    with np.errstate(over="ignore"):
        assert np.array_equal(nearest, x.astype(KINDS[name][1]).astype(np.float64))
    assert np.array_equal(down, below)
    assert np.array_equal(up, above)
    assert np.array_equal(to_zero, np.where(x > 0, below, above))


@pytest.mark.parametrize("name", KINDS)
def test_integers_are_rounded_once(machine: Any, name: str) -> None:
    # Between two numbers of 16 bits, and more than a float can tell: a float on the way would round to the middle.
    x = np.array([257 * 2**40 + 1, 257 * 2**40 - 1, -257 * 2**40 - 1, 2**63 - 1, -(2**63), 2049, 7, 0], np.int64)
    nearest, to_zero, down, up = converted(machine, name, "ll", x).T
    every = numbers_of(KINDS[name][1]).tolist()  # of Python: compared exactly with integers
    for column, i in zip(zip(nearest, to_zero, down, up, strict=True), map(int, x), strict=True):
        below, above = max(y for y in every if y <= i), min(y for y in every if y >= i)
        assert column[2:] == (below, above)
        assert column[1] == (below if i > 0 else above)
        if np.isfinite([below, above]).all() and i - int(below) != int(above) - i:
            assert column[0] == (below if i - int(below) < int(above) - i else above), i


def test_doubles_are_rounded_once(machine: Any) -> None:
    x = np.array([1 + 2.0**-11 + 2.0**-40, -1 - 2.0**-11 - 2.0**-40, 1e-300, 1e300, 1 + 2.0**-8 + 2.0**-40])
    text = "__global__ void k(const double *x, half *h, __nv_bfloat16 *b) { int i = threadIdx.x; "
    text += "h[i] = __double2half(x[i]); b[i] = __double2bfloat16(x[i]); }"
    halves, brains = machine.empty(5, np.float16), machine.empty(5, ml_dtypes.bfloat16)
    machine.module(HEADERS + text).get_function("k")(machine.up(x), halves, brains, grid=1, block=5)
    with np.errstate(over="ignore"):
        assert np.array_equal(machine.down(halves, 5, np.float16), x.astype(np.float16))
    found = machine.down(brains, 5, np.uint16).view(ml_dtypes.bfloat16).astype(np.float64)
    assert found.tolist() == [1, -1, 0, np.inf, 1 + 2.0**-7]


@pytest.mark.parametrize("name", KINDS)
def test_integers_that_are_too_small_for_a_number_are_the_nearest_there_is(machine: Any, name: str) -> None:
    x = np.array([40000, -40000, np.inf, -np.inf, np.nan, -3.5, 300.5], np.float32)
    calls = {
        "short": ("rz", np.int16, [32767, -32768, 32767, -32768, 0, -3, 300]),
        "ushort": ("ru", np.uint16, [40000, 0, 65535, 0, 0, 0, 301]),
        "int": ("rd", np.int32, [40000, -40000, 2**31 - 1, -(2**31), 0, -4, 300]),
        "uint": ("rn", np.uint32, [40000, 0, 2**32 - 1, 0, 0, 0, 300]),
        "ll": ("rn", np.int64, [40000, -40000, 2**63 - 1, -(2**63), -(2**63), -4, 300]),
        "char": ("rz", np.int8, [127, -128, 127, -128, 0, -3, 127]),
        "uchar": ("rz", np.uint8, [255, 0, 255, 0, 0, 0, 255]),
    }
    if name == "bfloat16":  # 40000 and 300.5 are no numbers of this type
        x[[0, 1, 6]] = 39936, -39936, 300
        calls = {
            to: (direction, kind, [{40000: 39936, -40000: -39936, 301: 300}.get(y, y) for y in wanted])
            for to, (direction, kind, wanted) in calls.items()
        }
    for to, (direction, kind, wanted) in calls.items():
        types = {"ushort": "unsigned short", "uint": "unsigned", "ll": "long long", "char": "signed char"}
        types["uchar"] = "unsigned char"
        text = f"__global__ void k(const float *x, {types.get(to, to)} *out) {{ int i = threadIdx.x; "
        text += f"out[i] = __{name}2{to}_{direction}(__float2{name}_rn(x[i])); }}"
        out = machine.empty(len(x), kind)
        machine.module(HEADERS + text).get_function("k")(machine.up(x), out, grid=1, block=len(x))
        found = machine.down(out, len(x), kind)
        assert found.tolist() == wanted, to


@pytest.mark.parametrize("name", KINDS)
def test_comparisons_with_nan_are_false_unless_their_name_ends_in_u(machine: Any, name: str) -> None:
    kind = KINDS[name][0]
    names = ("eq", "ne", "lt", "le", "gt", "ge")
    body = " ".join(
        f"out[{3 * k}] = __h{op}(x, nan) | __h{op}u(x, nan) << 1 | __h{op}(x, y) << 2 | __h{op}u(x, y) << 3;"
        f"out[{3 * k + 1}] = __h{op}2_mask(pair, other); out[{3 * k + 2}] = __h{op}u2_mask(pair, other);"
        for k, op in enumerate(names)
    )
    text = f"""__global__ void k(unsigned *out) {{
        {kind} x = 1, y = 2, nan = __float2{name}_rn(NAN);
        {kind}2 pair(x, x), other(y, nan);
        {body}
    }}"""
    out = machine.empty((6, 3), np.uint32)
    machine.module(HEADERS + text).get_function("k")(out, grid=1, block=1)
    for op, (bits, mask, unordered) in zip(names, machine.down(out, (6, 3), np.uint32).tolist(), strict=True):
        true = op in ("ne", "lt", "le")
        assert bits == (0b1110 if true else 0b0010), op
        assert (mask, unordered) == ((0xFFFF, 0xFFFFFFFF) if true else (0, 0xFFFF0000)), op


@pytest.mark.parametrize("name", KINDS)
def test_greatest_least_and_complex_products(machine: Any, name: str) -> None:
    kind = KINDS[name][0]
    text = f"""__global__ void k(float *out) {{
        {kind} zero = 0.0f, minus = -0.0f, one = 1, nan = __float2{name}_rn(NAN);
        out[0] = 1 / (float)__hmax(minus, zero);
        out[1] = 1 / (float)__hmin(zero, minus);
        out[2] = __hmax(nan, one);
        out[3] = __hmax_nan(nan, one);
        out[4] = __hfma_relu(nan, one, one);
        out[5] = __hfma_relu(one, one, {kind}(-3));
        {kind}2 z = __hcmadd({kind}2(1, 2), {kind}2(3, 4), {kind}2(10, 20));
        out[6] = z.x, out[7] = z.y;
        out[8] = __low2float(h2tanh_approx({kind}2(zero, one))) + (float)htanh_approx(zero);
        out[9] = __high2float(__hmin2_nan({kind}2(one, one), {kind}2(one, nan)));
    }}"""
    out = machine.empty(10, np.float32)
    machine.module(HEADERS + text).get_function("k")(out, grid=1, block=1)
    wanted = [np.inf, -np.inf, 1, np.nan, np.nan, 0, 5, 30, 0, np.nan]
    np.testing.assert_array_equal(machine.down(out, 10, np.float32), wanted)


@pytest.mark.parametrize(("name", "digits", "little"), [("half", 10, 24), ("bfloat16", 7, 60)])
def test_fused_products_are_rounded_once(machine: Any, name: str, digits: int, little: int) -> None:
    # The product lies in the middle of two numbers, of which the greater one is even; the sum lies below.
    text = f"""__global__ void k(double *out) {{
        {KINDS[name][0]} a = 1.5f, b = 1 + exp2(-{digits}.0), c = -exp2(-{little}.0);
        out[0] = (float)__hfma(a, b, c);
        out[1] = (float)__hfma(a, -b, -c);
        out[2] = (float)__hfma(a, b, -c);
        out[3] = (float)__hfma(a, b, {KINDS[name][0]}(0));
        out[4] = (float)__hfma2({KINDS[name][0]}2(a, a), {KINDS[name][0]}2(b, b), {KINDS[name][0]}2(c, c)).y;
    }}"""
    out = machine.empty(5, np.float64)
    machine.module(HEADERS + text).get_function("k")(out, grid=1, block=1)
    below, above = 1.5 + 2.0**-digits, 1.5 + 2.0 ** (1 - digits)
    assert machine.down(out, 5, np.float64).tolist() == [below, -below, above, above, below]


@pytest.mark.parametrize("name", KINDS)
def test_greatest_and_least_of_all_pairs(machine: Any, name: str) -> None:
    """Every number, NaN with any bits among them, against a few."""
    kind = KINDS[name][1]
    every = np.arange(65536, dtype=np.uint16)
    text = f"""__global__ void k(const {KINDS[name][0]} *x, unsigned short bits, {KINDS[name][0]} *out) {{
        {KINDS[name][0]} y = __ushort_as_{name}(bits);
        int i = blockIdx.x * blockDim.x + threadIdx.x, n = 65536;
        out[i] = __hmax(x[i], y), out[n + i] = __hmin(y, x[i]);
        out[2 * n + i] = __hmax_nan(y, x[i]), out[3 * n + i] = __hmin_nan(x[i], y);
    }}"""
    function = machine.module(HEADERS + text).get_function("k")
    with np.errstate(invalid="ignore"):
        x = every.view(kind).astype(np.float64)
    for bits in (0, 0x8000, 0x3C00, 0xBC00, 0x7F80, 0xFF80, 0x7F81, 0xFC01):
        out = machine.empty((4, 65536), np.uint16)
        function(machine.up(every), bits, out, grid=256, block=256)
        with np.errstate(invalid="ignore"):
            found = machine.down(out, (4, 65536), np.uint16).view(kind).astype(np.float64)
        for row, wanted in zip(found, (np.fmax, np.fmin, np.maximum, np.minimum), strict=True):
            np.testing.assert_array_equal(row, wanted(x, x[bits]))
        if x[bits] == 0:  # -0 stands before 0
            assert not np.signbit(found[[0, 2], bits ^ 0x8000]).any()
            assert np.signbit(found[[1, 3], bits ^ 0x8000]).all()


def test_raw_halves_are_bits_and_constants(machine: Any) -> None:
    source = """
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    __constant__ half one = __half_raw{0x3c00};
    __constant__ __half2_raw two = {0x3c00, 0x4000};
    extern "C" __global__ void k(float *x) {
        __half_raw three = {0x4200}, of_float = __float2half(1.5f);
        __nv_bfloat16_raw b = {0x4040};
        half2 pair = two;
        x[0] = one; x[1] = __half(three); x[2] = of_float.x; x[3] = __nv_bfloat16(b); x[4] = pair.y;
    }
    """
    x = machine.zeros(5, np.float32)
    machine.module(source).get_function("k")(x, grid=1, block=1)
    assert machine.down(x, 5, np.float32).tolist() == [1, 3, 0x3E00, 3, 2]
