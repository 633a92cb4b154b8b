"""Random numbers: the same on every device and driver, from a counter-based generator."""

from __future__ import annotations

import statistics
from typing import Any

import cuplug
import hypothesis.strategies as st
import numpy as np
import pytest
from cuplug.runtime.tensor.core import generator
from cuplug.runtime.tensor.places.distributions import words
from cuplug.runtime.tensor.places.normal_distribution import normal_of_words, normal_quantile
from hypothesis import given

pytestmark = pytest.mark.one_schedule

FLOATS = ["float16", "bfloat16", "float32", "float64"]


def _philox(seed: int, counter: int) -> list[int]:
    """One block of Philox4x64-10, after the paper."""
    mask = 2**64 - 1
    c = [counter >> 64 * i & mask for i in range(4)]
    k = [seed & mask, seed >> 64]
    for turn in range(10):
        if turn:
            k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
        first, second = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(second >> 64) ^ c[1] ^ k[0], second & mask, (first >> 64) ^ c[3] ^ k[1], first & mask]
    return c


@given(seed=st.integers(0, 2**64 - 1), counter=st.integers(0, 2**64))
def test_the_words_are_philoxs(seed: int, counter: int) -> None:
    assert list(map(int, words(seed, counter, 4, wide=True))) == _philox(seed, counter)
    halves = [half for word in _philox(seed, counter) for half in (word & 0xFFFFFFFF, word >> 32)]
    assert list(map(int, words(seed, counter, 7, wide=False))) == halves[:7]


def test_normal_quantiles_are_the_standard_librarys() -> None:
    p = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 2001), [2.0**-53, 2.0**-33, 1e-12, 0.075, 0.925]])
    expected = np.array([statistics.NormalDist().inv_cdf(each) for each in p])
    np.testing.assert_allclose(normal_quantile(p), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("wide", [False, True])
def test_words_stand_for_the_quantiles_of_their_magnitudes(wide: bool) -> None:
    drawn = words(3, 5, 4096, wide=wide)
    width, bits = (64, 52) if wide else (32, 31)
    narrowed = drawn >> drawn.dtype.type(1) * np.arange(4096, dtype=drawn.dtype) % drawn.dtype.type(width)
    edges = [0, 1, 2, 3, 2**bits - 1, 2**bits, 2 ** (width - 1), 2**width - 1]
    every = np.concatenate([drawn, narrowed, np.array(edges, drawn.dtype)])
    expected = [
        (-1 if word >> (width - 1) else 1) * -statistics.NormalDist().inv_cdf((word % 2**bits + 0.5) / 2 ** (bits + 1))
        for word in map(int, every)
    ]
    np.testing.assert_allclose(normal_of_words(every), expected, rtol=0, atol=2e-14 if wide else 1e-9)


@pytest.mark.parametrize("kind", FLOATS)
def test_a_seed_gives_the_same_numbers_on_the_cpu_and_on_a_device(kind: str, running: str) -> None:
    def numbers(device: str) -> list[Any]:
        cuplug.manual_seed(7)
        dtype = getattr(cuplug, kind)
        return [
            cuplug.rand(1001, dtype=dtype, device=device),
            cuplug.randn(40, 27, dtype=dtype, device=device),
            cuplug.randint(-5, 9, (33,), device=device),
            cuplug.randint(-5, 2**40, (33,), device=device),
            cuplug.empty(33, dtype=dtype, device=device).random_(7),
            cuplug.randperm(70, device=device),
            cuplug.rand(20_000, dtype=dtype, device=device),
            cuplug.randn(20_001, dtype=dtype, device=device),
            cuplug.empty(50, dtype=dtype, device=device).uniform_(-3, 5),
            cuplug.empty(50, dtype=dtype, device=device).normal_(2, 0.5),
            cuplug.zeros(6, 5, dtype=dtype, device=device).t()[::2].normal_(),
        ]

    for here, there in zip(numbers("cpu"), numbers("cuda"), strict=True):
        np.testing.assert_array_equal(here.numpy(), there.cpu().numpy())


def test_numbers_go_on_where_the_last_fill_ended_and_start_again_with_the_seed(device: str) -> None:
    cuplug.manual_seed(1)
    first, second = cuplug.rand(10, device=device), cuplug.rand(10, device=device)
    assert first.tolist() != second.tolist()
    cuplug.manual_seed(1)
    assert cuplug.rand(10, device=device).tolist() == first.tolist()
    cuplug.manual_seed(2)
    assert cuplug.rand(10, device=device).tolist() != first.tolist()


def test_a_generator_of_ones_own_leaves_the_default_one_alone(device: str) -> None:
    cuplug.manual_seed(1)
    expected = cuplug.rand(5, device=device).tolist()
    cuplug.manual_seed(1)
    own = cuplug.Generator(device).manual_seed(9)
    mine = cuplug.rand(5, device=device, generator=own).tolist()
    assert cuplug.rand(5, device=device).tolist() == expected
    state = own.get_state()
    after = cuplug.rand(5, device=device, generator=own).tolist()
    assert cuplug.rand(5, device=device, generator=own.set_state(state)).tolist() == after
    assert (state.dtype, state.device.type) == (cuplug.uint8, "cpu")
    with pytest.raises(ValueError, match="16 bytes"):
        own.set_state(cuplug.zeros(3))
    assert cuplug.rand(5, device=device, generator=own.manual_seed(9)).tolist() == mine


@pytest.mark.parametrize("kind", FLOATS)
def test_uniform_numbers_stay_in_their_range_and_normal_ones_have_their_moments(kind: str, device: str) -> None:
    cuplug.manual_seed(0)
    dtype = getattr(cuplug, kind)
    x = cuplug.rand(20000, dtype=dtype, device=device)
    assert bool((x >= 0).all())
    assert bool((x < 1).all())
    assert x.double().mean().item() == pytest.approx(0.5, abs=0.01)
    y = cuplug.empty(20000, dtype=dtype, device=device).uniform_(-0.1, 0.1)
    assert bool((y < 0.1).all())
    z = cuplug.empty(20000, dtype=dtype, device=device).normal_(3, 2).double()
    assert z.mean().item() == pytest.approx(3, abs=0.05)
    assert z.std().item() == pytest.approx(2, abs=0.05)


def test_random_integers_take_every_value_of_their_range(device: str) -> None:
    x = cuplug.randint(-2, 3, (1000,), device=device)
    assert sorted(set(x.tolist())) == [-2, -1, 0, 1, 2]
    assert x.dtype is cuplug.int64
    assert cuplug.randint(4, (2, 2), dtype=cuplug.int8, device=device).dtype is cuplug.int8
    far = cuplug.randint(2**40, 2**40 + 2**20, (1000,), device=device)
    assert bool(((far >= 2**40) & (far < 2**40 + 2**20)).all())
    assert len(set(far.tolist())) > 950
    assert sorted(cuplug.randperm(50, device=device).tolist()) == list(range(50))


def test_permutations_are_made_where_they_are_asked_for(running: str) -> None:
    with cuplug.device("cuda"):
        assert cuplug.randperm(5).is_cuda
    assert cuplug.randperm(5, dtype=cuplug.int32, device="cuda").dtype is cuplug.int32
    assert cuplug.randperm(0).tolist() == []
    cuplug.manual_seed(3)
    here = cuplug.randperm(1000)
    cuplug.manual_seed(3)
    assert cuplug.randperm(1000, device="cuda").tolist() == here.tolist()


def test_impossible_distributions_are_refused() -> None:
    for wrong in (
        lambda: cuplug.empty(2).normal_(0, -1),
        lambda: cuplug.empty(2).uniform_(1, 0),
        lambda: cuplug.randint(3, 3, (2,)),
        lambda: cuplug.manual_seed(2**64),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - each says something else
            wrong()
    with pytest.raises(TypeError, match="cannot be filled"):
        cuplug.empty(2, dtype=cuplug.int32).normal_()
    with pytest.raises(TypeError, match="cannot be filled"):
        cuplug.empty(2, dtype=cuplug.int32).uniform_()
    with pytest.raises(ValueError, match="holds"):
        cuplug.empty(2, dtype=cuplug.float16).uniform_(0, 7e4)
    with pytest.raises(TypeError, match="floating-point"):
        cuplug.rand(2, dtype=cuplug.int64)


def test_what_is_drawn_in_between_changes_nothing_afterwards(running: str) -> None:
    del running
    devices = ["cpu", *(["cuda"] if cuplug.cuda.is_available() else [])]
    for place in devices:
        cuplug.random.manual_seed(5)
        expected = [cuplug.rand(3, device=place).tolist() for _ in range(2)]
        cuplug.random.manual_seed(5)
        first = cuplug.rand(3, device=place).tolist()
        with cuplug.random.fork_rng():
            cuplug.random.seed()
            cuplug.rand(9, device=place)
        assert [first, cuplug.rand(3, device=place).tolist()] == expected
        with cuplug.random.fork_rng(enabled=False):
            cuplug.rand(9, device=place)
        assert cuplug.rand(3, device=place).tolist() != expected[1]
    with pytest.raises(ValueError, match="device_type"), cuplug.random.fork_rng(device_type="abacus"):
        pass


def test_the_default_generator_is_the_cpus() -> None:
    cuplug.manual_seed(7)
    assert cuplug.default_generator.initial_seed() == cuplug.initial_seed() == cuplug.random.initial_seed() == 7
    state = cuplug.default_generator.get_state()
    drawn = cuplug.rand(4).tolist()
    cuplug.random.set_rng_state(state)
    assert cuplug.rand(4).tolist() == drawn


def test_a_seed_given_as_a_tensor_of_a_device_is_kept_as_a_number(device: str) -> None:
    cuplug.manual_seed(cuplug.tensor(5, device=device))  # type: ignore[arg-type]
    assert [type(each) for each in generator._seeded] == [int]  # what a device that comes later starts from
    assert cuplug.initial_seed() == 5
