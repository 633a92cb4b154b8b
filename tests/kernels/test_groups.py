"""Cooperative groups, and libcu++'s atomics, barriers and pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.one_schedule


@pytest.fixture
def groups(machine: Any) -> Any:
    return machine.module("groups.cu")


def test_partitions_of_a_warp(machine: Any, groups: Any) -> None:
    values = np.random.default_rng(8).integers(0, 100, 64).astype(np.int32)
    sizes, ranks, sums, largest = (machine.empty(64, np.int32) for _ in range(4))
    groups.get_function("partitions")(machine.up(values), sizes, ranks, sums, largest, grid=1, block=64)
    expected = np.zeros((4, 64), np.int64)
    for i, value in enumerate(values):
        warp = values[i // 32 * 32 : i // 32 * 32 + 32]
        before = values[i // 32 * 32 : i]
        same = warp % 5 == value % 5
        place = int((before % 3 == 0).sum())
        rest = 1000 * place + 100000 * (place % 4) if value % 3 == 0 else 0
        half = warp[warp % 2 == value % 2]
        expected[:, i] = same.sum(), (before % 5 == value % 5).sum(), warp[same].sum() + rest, half.max()
    found = [machine.down(buffer, 64, np.int32) for buffer in (sizes, ranks, sums, largest)]
    assert np.array_equal(found, expected)


def test_copies_into_shared_memory(machine: Any, groups: Any) -> None:
    values = np.arange(64, dtype=np.int32)
    out = machine.empty(64, np.int32)
    groups.get_function("copies")(machine.up(values), out, grid=1, block=64)
    assert np.array_equal(machine.down(out, 64, np.int32), values[::-1] * 1010101)


def test_a_pipeline_between_the_halves_of_a_block(machine: Any, groups: Any) -> None:
    values = np.random.default_rng(9).integers(0, 1000, (10, 32)).astype(np.int32)
    out = machine.empty(32, np.int32)
    groups.get_function("staged")(machine.up(values), out, 10, grid=1, block=64)
    assert np.array_equal(machine.down(out, 32, np.int32), values.sum(0)[::-1])


def test_atomic_variables(machine: Any, groups: Any) -> None:
    values = np.random.default_rng(10).integers(0, 1 << 30, 1000).astype(np.int32)
    counts, out = machine.zeros(7, np.int32), machine.zeros(1, np.int32)
    groups.get_function("atomics")(counts, machine.up(values), 1000, grid=8, block=128)
    expected = [*np.bincount(values % 4), 1000, values.max(), np.iinfo(np.int32).max]
    assert machine.down(counts, 7, np.int32).tolist() == expected
    groups.get_function("signalled")(out, grid=1, block=64)
    assert machine.down(out, 1, np.int32)[0] == 7
