"""Conversion of float16 by the core and by NumPy gives the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuplug.runtime.tensor.backends.on_host import half_conversion
from cuplug.runtime.tensor.backends.on_host.half_conversion import converted, store

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.fixture(params=["the core", "NumPy"], autouse=True)
def converting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who converts."""
    if request.param == "NumPy":
        monkeypatch.setattr(half_conversion, "_convert", None)
    elif half_conversion._convert is None:
        pytest.skip("the core is not used here")
    return str(request.param)


def _bits(array: Any) -> Any:
    """The bits of an array, with those of one NaN for all."""
    return np.where(np.isnan(array), array.dtype.type(np.nan), array).tobytes()


def test_every_float16_is_widened_and_narrowed_back() -> None:
    wide = converted(ALL, SINGLE)
    assert wide.dtype == SINGLE
    with np.errstate(invalid="ignore"):
        assert _bits(wide) == _bits(ALL.astype(np.float32))
    assert _bits(converted(wide, HALF)) == _bits(ALL)


@pytest.mark.parametrize("count", [1, 7, 300, 4099])
def test_what_lies_between_goes_to_the_nearest(count: int) -> None:
    rng = np.random.default_rng(count)
    exponents = rng.integers(-30, 20, count).astype(np.float32)
    numbers = (rng.standard_normal(count) * 2.0**exponents).astype(np.float32)
    numbers[: count // 2] = ((ALL[1 : count // 2 + 1].astype(np.float32) + ALL[: count // 2]) / 2)[: count // 2]  # ties
    with np.errstate(over="ignore"):
        expected = numbers.astype(np.float16)
    out = np.empty(count, HALF)
    with np.errstate(over="ignore"):
        store(out, numbers)
    assert out.tobytes() == expected.tobytes()


def test_what_does_not_lie_side_by_side_is_converted_as_well() -> None:
    numbers = (np.arange(4000, dtype=np.float32) / 2).reshape(40, 100)
    out = np.empty((100, 40), HALF)
    store(out, numbers.T)
    assert np.array_equal(out, numbers.T.astype(HALF))
    out[...] = 0
    store(out.T, numbers)
    assert np.array_equal(out.T, numbers.astype(HALF))
    assert np.array_equal(converted(numbers[::2, ::3], HALF), numbers[::2, ::3].astype(HALF))
    store(out, np.float32(3))
    assert (out == 3).all()
