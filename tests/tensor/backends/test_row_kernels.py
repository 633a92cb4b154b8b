"""Kernels that sort, select, scan and reduce rows, run by the simulator with its check for races, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.backends.cuda_place import CudaPlace
from cuplug.runtime.tensor.places.tables_with_gradients.scan_and_sort_table import ROWS

pytestmark = [pytest.mark.one_schedule, pytest.mark.needs_sim]


@pytest.fixture(scope="module", autouse=True)
def _kernels(quick_compiler: None) -> Iterator[None]:
    """A simulated device of one multiprocessor whose tensors run generated kernels instead of NumPy."""
    runtime = cuplug.init(driver="sim:check=races")
    runtime.device(0).objects["tensor.place"] = CudaPlace(runtime, 0)
    small = replace(runtime.properties(0), multi_processor_count=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "properties", lambda _: small)
        yield
    cuplug.shutdown()


def _numbers(kind: str, *shape: int) -> Any:
    """Many ties; of floats both zeros, infinities and NaN of both signs; of integers the extremes."""
    generator = np.random.default_rng(3)
    if not kind.startswith("float"):
        info = np.iinfo(kind)
        array = generator.integers(max(info.min, -300), min(info.max, 300), shape).astype(kind)
        if info.bits < 64:  # and of the widest digits that are all the same
            array.flat[:2] = info.max, info.min
        return array
    array = generator.integers(-40, 40, shape).astype(kind) / np.asarray(3, kind)
    array.flat[:6] = np.nan, -0.0, np.inf, -np.inf, 0.0, -np.nan
    array.flat[-1] = np.nan
    return array


def _check(array: Any, descending: bool) -> None:
    values, places = cuplug.tensor(array, device="cuda").sort(-1, descending)
    expected, order = ROWS["sort"].numpy(array, int(descending))
    np.testing.assert_array_equal(places.cpu().numpy(), order)
    bits = f"u{array.dtype.itemsize}"
    np.testing.assert_array_equal(values.cpu().numpy().view(bits), expected.view(bits))


@pytest.mark.parametrize("descending", [False, True])
def test_rows_that_a_block_holds_are_sorted_in_it(descending: bool) -> None:
    _check(_numbers("float32", 2, 300), descending)


@pytest.mark.parametrize(("kind", "rows", "length"), [("float16", 2, 20600), ("int64", 1, 2300)])
def test_longer_rows_are_sorted_digit_by_digit(kind: str, rows: int, length: int) -> None:
    """The first by chunks of several tiles, the second by those digits alone that differ."""
    _check(_numbers(kind, rows, length), rows == 2)


def test_equal_elements_stay_as_they_are() -> None:
    _check(np.full((1, 2100), 7), descending=True)


@pytest.mark.parametrize(("kind", "rows", "length", "wanted"), [("float64", 2, 9000, 70)])
@pytest.mark.parametrize("largest", [False, True])
def test_the_first_of_long_rows_are_selected(kind: str, rows: int, length: int, wanted: int, largest: bool) -> None:
    """Of many equal elements those that come first."""
    array = _numbers(kind, rows, length)
    found = cuplug.tensor(array, device="cuda").topk(wanted, 1, largest)
    values, order = ROWS["sort"].numpy(array, int(largest))
    np.testing.assert_array_equal(found.indices.cpu().numpy(), order[:, :wanted])
    bits = f"u{array.dtype.itemsize}"
    np.testing.assert_array_equal(found.values.cpu().numpy().view(bits), values[:, :wanted].view(bits))
    if not largest:
        middle = cuplug.tensor(array, device="cuda").kthvalue(length // 2, 1)
        np.testing.assert_array_equal(middle.indices.cpu().numpy(), order[:, length // 2 - 1])
        np.testing.assert_array_equal(middle.values.cpu().numpy(), values[:, length // 2 - 1])


def test_the_first_of_rows_that_a_block_holds() -> None:
    array = _numbers("float32", 3, 300)
    found = cuplug.tensor(array, device="cuda").topk(7, 1)
    values, order = ROWS["sort"].numpy(array, 1)
    np.testing.assert_array_equal(found.indices.cpu().numpy(), order[:, :7])
    np.testing.assert_array_equal(found.values.cpu().numpy(), values[:, :7])


@pytest.mark.parametrize(("kind", "length"), [("float32", 300), ("float64", 900), ("int64", 255)])
def test_the_middle_of_rows_that_a_block_holds(kind: str, length: int) -> None:
    """The first NaN, unless they are not counted; of rows that are all NaN the first."""
    array = _numbers(kind, 4, length)
    if array.dtype.kind == "f":
        array[2] = np.nan
        array[1][np.isnan(array[1])] = 1
    x = cuplug.tensor(array, device="cuda")
    for rank, found in ((0, x.median(1)), (-1, x.nanmedian(1)), (0, x.T.median(0, keepdim=True))):
        values, order = ROWS["median"].numpy(array, rank)
        np.testing.assert_array_equal(found.indices.cpu().numpy().reshape(-1, 1), order)
        np.testing.assert_array_equal(found.values.cpu().numpy().reshape(-1, 1), values)
    found = x.kthvalue(17, 1)
    values, order = ROWS["kthvalue"].numpy(array, 17)
    np.testing.assert_array_equal(found.indices.cpu().numpy()[:, None], order)
    np.testing.assert_array_equal(found.values.cpu().numpy()[:, None], values)


@pytest.mark.parametrize(("kind", "length"), [("float32", 1100), ("int64", 300), ("float16", 7), ("uint8", 1)])
def test_few_distinct_elements_are_found_in_one_launch(kind: str, length: int) -> None:
    """Zeros of both signs are equal, and each NaN is one of its own."""
    array = _numbers(kind, max(length, 7))[:length]
    found = cuplug.unique(cuplug.tensor(array, device="cuda")).cpu().numpy()
    np.testing.assert_array_equal(found, np.unique(array, equal_nan=False))


@pytest.mark.parametrize("kind", ["float32", "float16", "int32"])
def test_few_elements_are_counted_by_one_block(kind: str) -> None:
    array = np.random.default_rng(8).integers(-3, 12, 1024).astype(kind)
    found = cuplug.histc(cuplug.tensor(array, device="cuda"), 300, 0, 10).cpu().numpy()
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, np.histogram(array.astype(float), 300, (0, 10))[0])


def test_long_rows_are_scanned_by_chunks_of_several_tiles() -> None:
    array = np.random.default_rng(4).integers(-9, 9, (1, 40_000))
    x = cuplug.tensor(array, device="cuda")
    np.testing.assert_array_equal(x.cumsum(1).cpu().numpy(), array.cumsum(1))


def test_many_short_rows_are_reduced_by_a_warp_each() -> None:
    array = _numbers("float32", 35, 1030)  # rows that do not all begin at multiples of 16 bytes
    values, places = cuplug.tensor(array, device="cuda").max(1)
    np.testing.assert_array_equal(values.cpu().numpy(), array.max(1))
    np.testing.assert_array_equal(places.cpu().numpy(), array.argmax(1))


def test_two_results_of_a_reduction_come_of_one_reading() -> None:
    array = np.random.default_rng(5).normal(3, 2, (3, 9000)).astype(np.float32)
    array[1, 70] = np.inf
    x = cuplug.tensor(array, device="cuda")
    low, high = cuplug.aminmax(x, dim=1)
    np.testing.assert_array_equal(low.cpu().numpy(), array.min(1))
    np.testing.assert_array_equal(high.cpu().numpy(), array.max(1))
    spread, middle = cuplug.var_mean(x, 1)
    np.testing.assert_allclose(spread.cpu().numpy()[[0, 2]], array[[0, 2]].astype(float).var(1, ddof=1), 1e-5)
    np.testing.assert_allclose(middle.cpu().numpy(), array.mean(1), 1e-5)  # an infinity's, too
    assert np.isnan(spread.cpu().numpy()[1])
    array[2, ::3] = np.nan
    means = cuplug.nanmean(cuplug.tensor(array, device="cuda"), 1)
    np.testing.assert_allclose(means.cpu().numpy(), np.nanmean(array, 1), 1e-5)


def test_logarithms_of_sums_of_exponentials_take_any_number() -> None:
    array = np.random.default_rng(6).normal(0, 30, (2, 5000)).astype(np.float32)
    array[0, :3] = -np.inf
    array[0, 4000], array[1, 3000] = np.inf, np.nan
    made = cuplug.logcumsumexp(cuplug.tensor(array, device="cuda"), 1).cpu().numpy()
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp.accumulate(array.astype(float), 1)
    np.testing.assert_allclose(made, expected, 1e-5, 1e-5)


@pytest.mark.parametrize("length", [128, 100])
def test_rows_become_probabilities_with_infinities_and_without_numbers(length: int) -> None:
    array = np.random.default_rng(7).normal(0, 5, (5, length)).astype(np.float32)
    array[1, 7], array[2, 9], array[3] = np.nan, -np.inf, -np.inf
    for name in ("softmax", "log_softmax"):
        made = getattr(cuplug, name)(cuplug.tensor(array, device="cuda"), 1).cpu().numpy()
        with np.errstate(invalid="ignore"):
            expected = ROWS[name].numpy(array.astype(float))
        np.testing.assert_allclose(made, expected, 1e-5, 1e-6)
        assert np.isnan(made[[1, 3]]).all()
