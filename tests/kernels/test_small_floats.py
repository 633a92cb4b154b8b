"""Floating-point numbers of 8 bits (cuda_fp8.h), beside those of ml_dtypes."""

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


SMALL, WIDE = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
