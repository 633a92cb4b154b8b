"""``nvcuda::wmma``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.one_schedule


@pytest.fixture
def matrices(machine: Any) -> Any:
    return machine.module("matrices.cu")


def test_a_product_of_halves(machine: Any, matrices: Any) -> None:
    n = 48
    rng = np.random.default_rng(12)
    a, b = rng.random((2, n, n)).astype(np.float16)
    c = rng.random((n, n), dtype=np.float32)
    out = machine.empty((n, n), np.float32)
    grid = (n // 16, n // 16)
    matrices.get_function("product")(machine.up(a), machine.up(b.T), machine.up(c), out, n, grid=grid, block=32)
    expected = a.astype(np.float64) @ b.astype(np.float64) + 0.5 * c
    assert np.allclose(machine.down(out, (n, n), np.float32), expected, rtol=1e-4)


def test_a_product_of_small_integers(machine: Any, matrices: Any) -> None:
    a, b = np.random.default_rng(13).integers(-128, 128, (2, 16, 16)).astype(np.int8)
    out = machine.empty((16, 16), np.int32)
    matrices.get_function("integers")(machine.up(a), machine.up(b), out, grid=1, block=32)
    expected = a.astype(int) @ b.astype(int) + 1
    assert np.array_equal(machine.down(out, (16, 16), np.int32).T, expected)
