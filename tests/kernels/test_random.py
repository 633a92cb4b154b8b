"""cuRAND's functions for kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import CompileError

pytestmark = pytest.mark.one_schedule


@pytest.fixture
def random(machine: Any) -> Any:
    try:
        return machine.module("random.cu")
    except CompileError as error:
        if machine.runtime.driver.name == "cuda" and "curand_kernel.h" in error.log:
            pytest.skip("cuRAND's headers are not installed")
        raise


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("xorwow", [789125713, 3156383114, 1106748476, 1206440693, 1848486135, 2197977385, 3453102343, 3292206891]),
        ("philox", [1158483830, 1944096801, 1539648582, 3984221340, 2705505170, 2212252339, 877556956, 3007238880]),
    ],
)
def test_sequences_are_those_of_curand(machine: Any, random: Any, name: str, numbers: list[int]) -> None:
    out = machine.empty(8, np.uint32)
    random.get_function(name)(out, grid=1, block=1)
    assert machine.down(out, 8, np.uint32).tolist() == numbers


def test_every_thread_has_a_sequence_of_its_own(machine: Any, random: Any) -> None:
    threads, count = 256, 40
    states = machine.empty(threads, "V48")
    uniform, normal = machine.empty((count, threads), np.float32), machine.empty((count, threads), np.float32)
    random.get_function("start")(states, 42, grid=2, block=128)
    random.get_function("draw")(states, uniform, normal, count, grid=2, block=128)
    u, n = machine.down(uniform, (count, threads), np.float32), machine.down(normal, (count, threads), np.float32)
    assert len(np.unique(u)) > 0.99 * u.size
    assert 0 < u.min() < u.max() <= 1
    assert abs(u.mean() - 0.5) < 0.02
    assert abs(n.mean()) < 0.05
    assert abs(n.std() - 1) < 0.05
    assert abs(np.corrcoef(u[:, ::2].ravel(), u[:, 1::2].ravel())[0, 1]) < 0.06
