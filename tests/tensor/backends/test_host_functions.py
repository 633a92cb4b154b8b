"""What NumPy does not have or is slow at and the CPU computes with it: the error function, selections from rows, long
products, exponential units, the largest elements of windows, and copies in order."""

from __future__ import annotations

import math
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.places.error_function import erf, erfc
from cuplug.runtime.tensor.places.numpy_forms import clamp_both
from cuplug.runtime.tensor.places.row_selection import first_of_rows, ranked_in_rows, sorted_rows
from cuplug.runtime.tensor.places.tables_with_gradients.fused_table import FUSED
from cuplug.runtime.tensor.places.tables_with_gradients.network_table import NETWORK_TABLE
from cuplug.runtime.tensor.places.tables_with_gradients.reduction_table import REDUCTIONS

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


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(("function", "known"), [(erf, math.erf), (erfc, math.erfc)])
def test_of_a_few_elements_the_functions_are_as_exact_as_their_type(function: Any, known: Any, kind: str) -> None:
    x = np.linspace(-3, 3, 12).astype(kind).reshape(4, 3).T[:, ::2]
    made = function(x)
    assert made.dtype == x.dtype
    np.testing.assert_array_equal(made, np.array([[known(each) for each in row] for row in x.tolist()], kind))
    ends = np.array([math.inf, -math.inf, math.nan, -0.0], kind)
    np.testing.assert_array_equal(function(ends), np.array([known(each) for each in ends.tolist()], kind))


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize(
    "shape", [(4096,), (4097,), (20_001,), (3, 5_000), (40, 257), (2, 3, 9_000), (300, 16), (5_000, 0)]
)
def test_long_products_are_those_of_one_element_after_the_other(kind: str, shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(3)
    if kind.startswith("f"):
        a = np.exp(draw.uniform(-0.02, 0.02, shape)).astype(kind)
    else:
        a = draw.integers(-9, 9, shape).astype(kind) | 1
    product = REDUCTIONS["prod"].numpy
    for laid in (a, a.T, a[..., ::-1], a[..., ::2], np.broadcast_to(a, (2, *a.shape))):
        every = tuple(range(laid.ndim))
        for axes in {every, every[-1:], every[:1]}:
            made = product(laid, axes, None)
            wide = laid.astype(np.float64) if kind.startswith("f") else laid
            expected = np.multiply.reduce(wide, axis=axes, dtype=wide.dtype, keepdims=True)
            assert made.dtype == a.dtype
            assert made.shape == expected.shape
            np.testing.assert_allclose(made, expected, rtol={"float32": 1e-4, "float64": 1e-11}.get(kind, 0))


def test_a_long_product_with_nan_is_nan_and_with_zero_zero() -> None:
    product = REDUCTIONS["prod"].numpy
    for place in (0, 6_000, 9_999):  # in the columns and in what remains of them
        a = np.ones(10_000, np.float32)
        a[place] = 0
        assert product(a, (0,), None) == 0
        a[place] = math.nan
        assert np.isnan(product(a, (0,), None))
        a[place] = -math.inf
        assert product(a, (0,), None) == -math.inf


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("alpha", [1.0, 2.5, -1.5])
@pytest.mark.parametrize("count", [10, 5_000])
def test_exponential_units_are_chosen_by_the_sign(count: int, alpha: float, kind: str) -> None:
    elu: Any = next(line.numpy for line in NETWORK_TABLE if line.name == "elu")
    a = (np.random.default_rng(5).standard_normal(count) * 40).astype(kind)
    a[:6] = 0.0, math.nan, -math.nan, math.inf, -math.inf, 1e4
    with np.errstate(over="ignore"):
        expected = np.where(a > 0, a, np.expm1(a) * np.array(alpha, kind))
    for laid, wanted in ((a, expected), (a[::-1], expected[::-1]), (a.reshape(2, -1).T, expected.reshape(2, -1).T)):
        before = laid.copy()
        made = elu(laid, laid.dtype.type(alpha))
        assert made.dtype == a.dtype
        assert not np.shares_memory(made, laid)
        np.testing.assert_array_equal(made, wanted)
        np.testing.assert_array_equal(laid, before)
        assert elu(before, laid.dtype.type(alpha), out=before) is before  # what it reads is what it writes
        np.testing.assert_array_equal(before, wanted)


@pytest.mark.parametrize("count", [7, 3_000])
def test_elements_kept_within_bounds_are_numpys_however_many_there_are(count: int) -> None:
    a = np.random.default_rng(6).standard_normal(count).astype(np.float32)
    a[:3] = math.nan, math.inf, -math.inf
    for low, high in ((-0.5, 0.5), (0.5, -0.5), (math.nan, 1), (0, math.nan)):
        bounds = np.float32(low), np.float32(high)
        made = clamp_both(a, *bounds)
        assert not np.shares_memory(made, a)
        np.testing.assert_array_equal(made, np.clip(a, *bounds))
        out = a.copy()
        np.testing.assert_array_equal(clamp_both(out, *bounds, out=out), made)


@pytest.mark.parametrize("kind", ["float32", "float16", "int64", "bool"])
@pytest.mark.parametrize("shape", [(3, 4), (5, 1, 2), (0, 3)])
def test_a_copy_in_order_is_the_tensors_own(shape: tuple[int, ...], kind: str) -> None:
    x = cuplug.tensor(np.arange(math.prod(shape)).reshape(shape).astype(kind))
    for view in (x.transpose(0, -1), x[..., ::2], x[None].expand(2, *x.shape)):
        made = view.contiguous()
        assert made.is_contiguous()
        assert made.dtype is x.dtype
        assert made.tolist() == view.tolist()
        if made is not view:
            assert not np.shares_memory(made.numpy(), x.numpy())


def test_the_largest_of_windows_that_reach_beyond_the_edges_are_those_of_each_window_alone() -> None:
    draw = np.random.default_rng(8)
    values = np.array([-np.inf, np.inf, np.nan, 0, 1, 2, -1], np.float32)
    largest = FUSED["window_largest"].numpy
    for _ in range(150):
        size, step, apart = draw.integers(1, 5, 2), draw.integers(1, 4, 2), draw.integers(1, 4, 2)
        before = [int(draw.integers(0, each // 2 + 1)) for each in size]
        lengths, counts = draw.integers(1, 9, 2), draw.integers(1, 6, 2)  # some windows lie beside the image
        image = draw.choice(values, (1, *lengths), p=[0.4, 0.02, 0.04, 0.2, 0.14, 0.1, 0.1])
        given = [int(each) for each in (*size, *step, *before, *apart, *counts)]
        found, places = largest(image, *given)
        for row, column in np.ndindex(*counts):
            best, place = -np.inf, 255
            for number, (r, c) in enumerate(np.ndindex(*size)):
                y, x = row * step[0] + r * apart[0] - before[0], column * step[1] + c * apart[1] - before[1]
                inside = 0 <= y < lengths[0] and 0 <= x < lengths[1]
                if inside and (place == 255 or image[0, y, x] > best or np.isnan(image[0, y, x])):
                    best, place = image[0, y, x], number
            np.testing.assert_array_equal((found[0, row, column], places[0, row, column]), (best, place))


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
