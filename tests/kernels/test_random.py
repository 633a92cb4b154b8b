"""cuRAND's functions for kernels."""

from __future__ import annotations

import re
from statistics import NormalDist
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
        # Not any error inside of it, which would be cuplug's fault.
        if re.search(r'cannot open source file "curand_kernel\.h"|curand_kernel\.h: No such file', error.log):
            pytest.skip("cuRAND's headers are not installed")
        raise


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("xorwow", [789125713, 3156383114, 1106748476, 1206440693, 1848486135, 2197977385, 3453102343, 3292206891]),
        ("philox", [1158483830, 1944096801, 1539648582, 3984221340, 2705505170, 2212252339, 877556956, 3007238880]),
        ("mrg32k3a", [3427455869, 968809015, 1572042437, 3169569114, 3077252686, 3706953646, 3608291797, 3661042403]),
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


def test_mrg32k3a_is_its_recurrence_and_skips_whole_sequences(machine: Any, random: Any) -> None:
    count, moduli = 20, (4294967087, 4294944443)
    types = (np.float32, np.float64, np.float32, np.float64)
    buffers = [machine.empty(count, kind) for kind in types]
    random.get_function("mrg_numbers")(*buffers, count, grid=1, block=1)
    found = [machine.down(buffer, count, kind) for buffer, kind in zip(buffers, types, strict=True)]
    steps = [
        np.array([[0, 1, 0], [0, 0, 1], last], dtype=object) for last in ([-810728, 1403580, 0], [-1370589, 0, 527612])
    ]
    states = []
    for step, modulus in zip(steps, moduli, strict=True):
        power, state = step % modulus, np.array([12345] * 3, dtype=object)
        for _ in range(127):
            power = power @ power % modulus
        states.append(power @ power % modulus @ power % modulus @ state % modulus)

    def uniform() -> float:
        for place, (step, modulus) in enumerate(zip(steps, moduli, strict=True)):
            states[place] = step @ states[place] % modulus
        difference = (states[0][2] - states[1][2]) % moduli[0] or moduli[0]
        return difference * 2.3283065498378288e-10

    for place in range(0, count, 2):  # of a pair of normal numbers the second is kept for the next call
        assert found[0][place] == np.float32(uniform())
        assert found[1][place] == uniform()
        for column in (2, 3):
            size, angle = np.sqrt(-2 * np.log(uniform())), 2 * np.pi * uniform()
            pair = size * np.sin(angle), size * np.cos(angle)
            assert np.allclose(found[column][place : place + 2], pair, rtol=1e-5, atol=1e-6)
        assert found[0][place + 1] == np.float32(uniform())
        assert found[1][place + 1] == uniform()


def test_sobol_combines_direction_vectors_by_a_gray_code(machine: Any, random: Any) -> None:
    count = 8
    vectors = np.array([(1 << 31 - bit) | (5 * bit % 32 << 31 - bit & 0xFFFFFFFF) for bit in range(32)], np.uint32)
    out, scrambled = machine.empty(count, np.uint32), machine.empty(count, np.uint32)
    normal, uniform = machine.empty(count, np.float32), machine.empty(count, np.float64)
    random.get_function("sobol")(machine.up(vectors), out, scrambled, normal, uniform, count, grid=1, block=1)

    def number(place: int) -> int:
        gray, result = place ^ place >> 1, 0
        for bit in range(32):
            result ^= int(vectors[bit]) if gray >> bit & 1 else 0
        return result

    expected = np.array([number(place) for place in range(5, 5 + 3 * count)], np.uint32)
    assert np.array_equal(machine.down(out, count, np.uint32), expected[:count])
    assert np.array_equal(machine.down(scrambled, count, np.uint32), expected[:count] ^ np.uint32(0xDEADBEEF))
    shares = (expected[count : 2 * count].astype(np.float64) + 0.5) / 2**32
    expected_normal = [NormalDist().inv_cdf(share) for share in shares]
    assert np.allclose(machine.down(normal, count, np.float32), expected_normal, rtol=1e-4, atol=1e-5)
    assert np.allclose(machine.down(uniform, count, np.float64), (expected[2 * count :].astype(float) + 1) / 2**32)
