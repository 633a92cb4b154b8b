"""Remainders and quotients by way of float64 are NumPy's own, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.places import quotients

COUNT = 20_000


def any_bits(random: np.random.Generator) -> Any:
    return random.integers(0, 2**32, COUNT, dtype=np.uint32).view(np.float32)


def of_bits(random: np.random.Generator) -> tuple[Any, Any]:
    return any_bits(random), any_bits(random)


def of_small_integers(random: np.random.Generator) -> tuple[Any, Any]:
    return tuple(random.integers(-most, most, COUNT).astype(np.float32) for most in (20, 6))


def of_many_sizes(random: np.random.Generator) -> tuple[Any, Any]:
    powers = (10.0 ** random.integers(-most, most, COUNT) for most in (10, 3))
    return tuple((random.standard_normal(COUNT) * power).astype(np.float32) for power in powers)


def of_whole_quotients(random: np.random.Generator) -> tuple[Any, Any]:
    """And of those just beside one."""
    times = random.integers(1, 2**26, COUNT)
    divisor = (any_bits(random) / times).astype(np.float32)
    product = (divisor * times).astype(np.float32)
    beside = np.nextafter(product, random.choice(np.array([0, np.inf], np.float32), COUNT))
    return np.where(random.integers(0, 2, COUNT) == 1, product, beside), divisor


def of_the_unusual(_: np.random.Generator) -> tuple[Any, Any]:
    numbers = [0, 0.5, 1, 2, 3.5, 2.0**22, 2.0**28, 1e-45, 3e38, np.inf, np.nan]
    both = np.array([*numbers, *(-each for each in numbers)], np.float32)
    a, b = np.meshgrid(both, both)
    return np.tile(a.ravel(), 10), np.tile(b.ravel(), 10)


def below_the_divisor(random: np.random.Generator) -> tuple[Any, Any]:
    """And infinite divisors, and zeros of either sign."""
    a, b = any_bits(random), any_bits(random)
    b = np.where(np.abs(a) < np.abs(b), b, np.float32(-np.inf))
    return np.where(np.isfinite(a), a, np.copysign(np.float32(0), a)), np.where(np.isnan(b), np.float32(np.inf), b)


def by_one_number(random: np.random.Generator) -> tuple[Any, Any]:
    return any_bits(random), np.float32(-3.7)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
@pytest.mark.parametrize(
    "of",
    [of_bits, of_small_integers, of_many_sizes, of_whole_quotients, of_the_unusual, below_the_divisor, by_one_number],
    ids=lambda each: each.__name__,
)
def test_results_are_numpys_to_the_bit(
    name: str, of: Callable[[np.random.Generator], tuple[Any, Any]], seed: int
) -> None:
    with np.errstate(all="ignore"):
        a, b = of(np.random.default_rng(seed))
        wanted, found = getattr(np, name)(a, b), getattr(quotients, name)(a, b)
        written = getattr(quotients, name)(a, b, out=np.empty_like(wanted))
    for each in (found, written):
        assert each.dtype == wanted.dtype
        differ = (each.view(np.uint32) != wanted.view(np.uint32)) & ~(np.isnan(each) & np.isnan(wanted))
        assert not differ.any(), np.argwhere(differ)[0]


@pytest.mark.parametrize("count", [200, 5_000, 70_000])
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_a_tensor_may_be_written_to_that_is_divided_or_divides(name: str, count: int, device: str) -> None:
    x = cuplug.arange(count, dtype=cuplug.float32, device=device) - count // 2 + 0.3
    operation = getattr(cuplug, name)
    # NumPy divides none of them by the first, each third by the second, and most by the third.
    for divisors in ([7.0, 7.0, 7.0], [7.0, 7.0, np.inf], [1e-7, 1e-7, 1e-7]):
        array = np.resize(np.array(divisors, np.float32), count)
        wanted = getattr(np, name)(x.cpu().numpy(), array).tolist()
        by, written = cuplug.tensor(array, device=device), x.clone()
        assert getattr(x.clone(), f"{name}_")(by).tolist() == wanted
        assert operation(written, by, out=written).tolist() == wanted
        assert operation(x, by, out=by).tolist() == wanted


def test_what_is_smaller_than_its_divisor_is_not_divided_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays for the slow passes where a single element is as large as its divisor."""
    taken: list[int] = []
    original = quotients._rest
    monkeypatch.setattr(quotients, "_rest", lambda a, b, quotient: taken.append(a.size) or original(a, b, quotient))
    a, by = np.linspace(-1, 1, COUNT, dtype=np.float32), np.full(1, 1.5, np.float32)
    assert quotients.fmod(a, by).tobytes() == a.tobytes()
    assert taken == []
    for end in (0, -1):
        larger = a.copy()
        larger[end] *= 1.5
        assert quotients.fmod(larger, by).tobytes() == np.fmod(larger, by).tobytes()
    assert taken == [COUNT, COUNT]


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_of_no_elements_there_are_no_quotients(name: str) -> None:
    by = cuplug.ones(COUNT)
    for x in (cuplug.ones(0, COUNT), cuplug.ones(0, 1)):
        assert getattr(cuplug, name)(x, by).shape == (0, COUNT)
        assert getattr(cuplug, name)(x, by, out=cuplug.empty(0, COUNT)).shape == (0, COUNT)


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_where_most_is_unusual_numpy_divides_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def watched(a: Any, b: Any, out: Any = None) -> Any:
        asked.append(a.size)
        return original(a, b, out=out)

    original = getattr(np, name)
    monkeypatch.setattr(np, name, watched)
    ones, by = np.ones(COUNT, np.float32), np.full(COUNT, 3, np.float32)
    for unusual in (COUNT // 2 + 1, COUNT // 2):
        a = ones.copy()
        a[:unusual] = np.nan
        with np.errstate(all="ignore"):
            getattr(quotients, name)(a, by)
    assert asked == [COUNT, COUNT // 2]
