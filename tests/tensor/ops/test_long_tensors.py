"""Tensors long enough for vectors, several blocks and partial results, at addresses that vectors must not begin at."""

from __future__ import annotations

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.backends.on_host.numpy_kernels import take
from cuplug.runtime.tensor.core.dtypes import ALL, dtype

pytestmark = pytest.mark.one_schedule

KINDS = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)


def _elements(kind: dtype, *shape: int) -> np.ndarray:
    generator = np.random.default_rng(5)
    low = 0 if kind.kind in "bu" else -3
    return generator.integers(low, 2 if kind.kind == "b" else 4, shape).astype(kind.numpy)


@KINDS
@pytest.mark.parametrize("start", [0, 1, 3, 7])
def test_long_rows_reduce_as_in_numpy_wherever_they_begin(device: str, kind: dtype, start: int) -> None:
    array = _elements(kind, 150_001)
    array[140_000] = 1 if kind.kind == "b" else 5
    array[141_000] = 1 if kind.kind == "b" else 5
    x = cuplug.tensor(array, device=device)[start:]
    wide = array[start:].astype(np.float64)
    assert x.count_nonzero().item() == np.count_nonzero(wide)
    assert x.amax().item() == wide.max()
    assert x.max(0).indices.item() == wide.argmax()
    assert x.min(0).indices.item() == wide.argmin()
    if not kind.is_half:  # whose results are rounded
        assert x.sum().item() == wide.sum()


@KINDS
@pytest.mark.parametrize("shape", [(3, 20_011), (20_011, 70), (700, 33)])
@pytest.mark.parametrize("axis", [0, 1])
def test_large_matrices_reduce_as_in_numpy(device: str, kind: dtype, shape: tuple[int, int], axis: int) -> None:
    array = _elements(kind, *shape)
    x = cuplug.tensor(array, device=device)
    found = x.to(cuplug.float32).sum(axis) if kind.is_half else x.sum(axis)
    np.testing.assert_array_equal(found.cpu().numpy(), array.sum(axis, dtype=np.float64))
    np.testing.assert_array_equal(x.min(axis).indices.cpu().numpy(), array.astype(np.float64).argmin(axis))
    np.testing.assert_array_equal(x.t().any(axis).cpu().numpy(), array.T.any(axis))


@KINDS
@pytest.mark.parametrize("start", [0, 1])
def test_long_operands_add_up_as_in_numpy_wherever_they_begin(device: str, kind: dtype, start: int) -> None:
    array = _elements(kind, 100_003)
    x = cuplug.tensor(array, device=device)
    expected = array[start:] + array[: len(array) - start]
    np.testing.assert_array_equal((x[start:] + x[: len(array) - start]).cpu().numpy(), expected)
    np.testing.assert_array_equal((x[start:] + 1).to(cuplug.float64).cpu().numpy(), array[start:].astype(float) + 1)


@KINDS
def test_long_operands_are_chosen_and_combined_as_in_numpy_strided_or_not(device: str, kind: dtype) -> None:
    array = _elements(kind, 2, 150_001)
    x, y = cuplug.tensor(array, device=device)
    a, b = array
    mask = a > b
    there = x > y
    np.testing.assert_array_equal(cuplug.where(there, x, y).cpu().numpy(), np.where(mask, a, b))
    np.testing.assert_array_equal(cuplug.where(there, x, x[:1]).cpu().numpy(), np.where(mask, a, a[:1]))
    np.testing.assert_array_equal(
        cuplug.where(there[::2], x[::2], y[1::2].new_zeros(75_001)).cpu().numpy(),
        np.where(mask[::2], a[::2], a.dtype.type(0)),
    )
    np.testing.assert_array_equal(x.masked_fill(there, 1).cpu().numpy(), np.where(mask, np.ones((), a.dtype), a))
    np.testing.assert_array_equal((x * y).cpu().numpy(), a * b)
    np.testing.assert_array_equal(x[there].cpu().numpy(), a[mask])
    np.testing.assert_array_equal(x[there.nonzero()[:, 0]].cpu().numpy(), a[mask])


@pytest.mark.parametrize("wrong", [140_000, -140_001])
@pytest.mark.parametrize("count", [3, 200_000])
def test_an_index_out_of_range_is_seen_among_however_many(wrong: int, count: int) -> None:
    index = np.arange(count) % 7 - 3
    source, out = np.arange(140_000.0), np.empty(count)
    take(0)(out, source, index)
    np.testing.assert_array_equal(out, source[index])
    index[count // 2] = wrong
    with pytest.raises(IndexError):
        take(0)(out, source, index)
