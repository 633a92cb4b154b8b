"""What NumPy does not have and the CPU computes with it: the error function, and selections from rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from cuplug.runtime.tensor.places.error_function import erf, erfc
from cuplug.runtime.tensor.places.row_selection import first_of_rows, ranked_in_rows, sorted_rows

pytestmark = pytest.mark.one_schedule

ENDS = [0.0, -0.0, 1.0, -1.0, 3.85, -3.85, 8.0, 26.5, -40.0, 1e-30, -1e-300, math.inf, -math.inf]


@pytest.mark.parametrize(("kind", "units"), [("float32", 8), ("float64", 4)])
def test_the_error_function_is_that_of_the_standard_library(kind: str, units: int) -> None:
    x = np.concatenate([np.linspace(-6, 6, 20_001), ENDS]).astype(kind)
    expected = np.array([math.erf(each) for each in x.tolist()])
    made = erf(x)
    assert made.dtype == x.dtype
    assert (np.abs(made - expected) <= units * np.spacing(np.abs(expected).astype(kind))).all()
    assert (np.signbit(made) == np.signbit(x)).all()
    assert (np.abs(made[np.abs(x) >= 6]) == 1).all()


@pytest.mark.parametrize(("kind", "near"), [("float32", 2e-7), ("float64", 4e-15)])
def test_its_complement_is_exact_where_it_is_small(kind: str, near: float) -> None:
    x = np.linspace(-6, 9, 20_001).astype(kind)
    np.testing.assert_allclose(erfc(x), [math.erfc(each) for each in x.tolist()], rtol=near)
    np.testing.assert_array_equal(erfc(np.array([math.inf, -math.inf, 40.0], kind)), [0, 2, 0])


def test_no_dimensions_no_elements_and_nan_are_taken() -> None:
    for function in (erf, erfc):
        assert function(np.array(0.5)).shape == ()
        assert function(np.zeros((0, 3), np.float32)).shape == (0, 3)
        assert np.isnan(function(np.array([math.nan, 1], np.float32))).tolist() == [True, False]


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int8", "uint8", "bool"])
def test_what_is_selected_is_what_a_stable_sort_puts_first(kind: str) -> None:
    draw = np.random.default_rng(7)

    def same(found: tuple[Any, Any], values: Any, order: Any) -> None:
        np.testing.assert_array_equal(found[0], values)
        np.testing.assert_array_equal(found[1], order)

    for _ in range(300):
        a = draw.integers(0, 4, (draw.integers(0, 5), draw.integers(1, 12))).astype(kind)
        if a.dtype.kind == "f":
            for value in (math.nan, math.inf, -math.inf):
                a[draw.random(a.shape) < 0.15] = value
        for descending in (0, 1):
            values, order = sorted_rows(a, descending)
            wanted = int(draw.integers(0, a.shape[1] + 1))
            same(first_of_rows(a, descending, wanted), values[:, :wanted], order[:, :wanted])
        values, order = sorted_rows(a, 0)
        rank = int(draw.integers(1, a.shape[1] + 1))
        same(ranked_in_rows(a, rank), values[:, rank - 1 : rank], order[:, rank - 1 : rank])
