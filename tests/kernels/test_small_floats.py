"""Floating-point numbers of 8 bits (cuda_fp8.h) and of 4 (cuda_fp4.h), beside those of ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytestmark = pytest.mark.one_schedule


@pytest.fixture
def floats(machine: Any) -> Any:
    return machine.module("small_floats.cu")


def test_numbers_are_rounded_to_nearest_even_and_saturate_where_asked(machine: Any, floats: Any) -> None:
    codes = np.arange(256, dtype=np.uint8)
    every = np.concatenate([codes.view(kind).astype(np.float32) for kind in (SMALL, WIDE)])
    every = np.unique(every[np.isfinite(every)])
    between = (every[1:] + every[:-1]) / 2  # where two are equally near
    others = np.random.default_rng(5).normal(0, 100, 1000)
    x = np.concatenate(
        [every, between, np.nextafter(between, np.float32(np.inf)), others, [464, 465, 61439, 61440, 1e9]]
    )
    x = np.concatenate([x, -x, [np.inf, -np.inf, 0.0, -0.0]]).astype(np.float32)
    out = machine.empty((len(x), 4), np.uint8)
    floats.get_function("encode")(machine.up(x), out, len(x), grid=-(-len(x) // 128), block=128)
    found = machine.down(out, (len(x), 4), np.uint8)
    for column, (kind, most) in enumerate([(SMALL, None), (SMALL, 448), (WIDE, None), (WIDE, 57344)]):
        with np.errstate(over="ignore", invalid="ignore"):
            expected = (x if most is None else np.clip(x, -most, most)).astype(kind)
        assert np.array_equal(found[:, column], expected.view(np.uint8)), column


def test_every_code_is_read_as_its_number(machine: Any, floats: Any) -> None:
    out = machine.empty((256, 2), np.float32)
    floats.get_function("decode")(out, grid=1, block=256)
    codes, found = np.arange(256, dtype=np.uint8), machine.down(out, (256, 2), np.float32)
    for column, kind in enumerate((SMALL, WIDE)):
        assert np.array_equal(found[:, column], codes.view(kind).astype(np.float32), equal_nan=True)


def test_pairs_fours_and_integers(machine: Any, floats: Any) -> None:
    x = np.float32([1.3, -300.0, 0.01, 17.0])
    out, integers = machine.empty((2, 4), np.float32), machine.empty(3, np.int32)
    floats.get_function("several")(machine.up(x), out, integers, grid=1, block=1)
    small, wide = (x.astype(kind).astype(np.float32) for kind in (SMALL, WIDE))
    assert np.array_equal(machine.down(out, (2, 4), np.float32), [small, [*wide[:2], *small[2:]]])
    assert machine.down(integers, 3, np.int32).tolist() == [-3, 255, 0]


@pytest.mark.needs_sim
def test_numbers_of_4_bits_are_rounded_and_read_as_ml_dtypes_does(machine: Any) -> None:
    source = """
    #include <cuda_fp4.h>
    extern "C" __global__ void k(const float *x, unsigned char (*out)[4], float *read) {
        int i = threadIdx.x;
        out[i][0] = __nv_cvt_float_to_fp4(x[i], __NV_E2M1, cudaRoundNearest);
        out[i][1] = __nv_fp4x2_e2m1(make_float2(-x[i], x[i])).__x;
        out[i][2] = __nv_cvt_double_to_fp4(x[i], __NV_E2M1, cudaRoundZero);
        out[i][3] = __nv_cvt_float_to_e8m0(x[i], __NV_SATFINITE, cudaRoundPosInf);
        read[i] = __half2float(__nv_cvt_fp4_to_halfraw(out[i][0], __NV_E2M1));
        read[32 + i] = __bfloat162float(__nv_cvt_e8m0_to_bf16raw(out[i][3]));
    }
    """
    sizes = np.float32([0, 0.25, 0.26, 0.5, 0.75, 1, 1.25, 1.3, 1.75, 2.5, 3.5, 4.9, 5, 5.1, 100, np.inf])
    x = np.concatenate([sizes, -sizes])
    out, read = machine.empty((32, 4), np.uint8), machine.empty(64, np.float32)
    machine.module(source).get_function("k")(machine.up(x), out, read, grid=1, block=32)
    found, numbers = machine.down(out, (32, 4), np.uint8), machine.down(read, 64, np.float32)
    expected = x.astype(ml_dtypes.float4_e2m1fn)
    codes = expected.view(np.uint8)
    assert np.array_equal(found[:, 0], codes)
    assert np.array_equal(found[:, 1], codes << 4 | (codes ^ 8))
    every = np.arange(8, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    assert np.array_equal(found[:, 2] & 7, np.searchsorted(every, np.abs(x), side="right") - 1)
    assert np.array_equal(numbers[:32], expected.astype(np.float32))
    finite = np.isfinite(x) & (x != 0)
    assert np.array_equal(numbers[32:][finite], np.exp2(np.ceil(np.log2(np.abs(x[finite])))))


SMALL, WIDE = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
