"""Buffers are packed into a given capacity, and as tightly as any order of them; checked by a few lines."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from itertools import combinations, permutations
from pathlib import Path

import pytest
from cuplug.allocators.native import is_available
from cuplug.allocators.packing import Buffer, place_in_order
from cuplug.tools.analysis.exact_packing import pack_tightly, pack_within

INSTANCES = sorted((Path(__file__).parents[1] / "data" / "packing").glob("?.csv"))
CAPACITY = 1 << 20
needs_core = pytest.mark.skipif(not is_available(), reason="the exact search needs the native core")


def check(buffers: Sequence[Buffer], offsets: Sequence[int], height: int) -> None:
    placed = [(*buffer, at) for buffer, at in zip(buffers, offsets, strict=True)]
    assert all(at >= 0 and at + size <= height for _, _, size, at in placed)
    for (lower, upper, size, at), (begin, end, other, where) in combinations(placed, 2):
        assert not (lower < end and begin < upper and at < where + other and where < at + size)


def some_buffers(random_: random.Random, count: int, times: int, sizes: int) -> list[Buffer]:
    lives = [sorted(random_.sample(range(times), 2)) for _ in range(count)]
    return [(lower, upper, random_.randint(1, sizes)) for lower, upper in lives]


@needs_core
@pytest.mark.parametrize("path", INSTANCES, ids=lambda path: path.stem)
def test_a_hard_instance_is_packed_within_its_capacity(path: Path) -> None:
    with path.open() as file:
        buffers = [(int(row["lower"]), int(row["upper"]), int(row["size"])) for row in csv.DictReader(file)]
    found = pack_within(buffers, CAPACITY)
    assert found is not None
    check(buffers, found.offsets, CAPACITY)
    assert found.bound <= found.height <= CAPACITY


@needs_core
def test_the_search_finds_the_least_height_that_any_order_gives() -> None:
    for seed in range(150):
        buffers = some_buffers(random.Random(seed), 5, 6, 5)
        least = min(place_in_order(buffers, order)[0] for order in permutations(range(5)))
        found = pack_tightly(buffers, seconds=30)
        check(buffers, found.offsets, found.height)
        assert found.height == least, (seed, buffers)
        assert pack_within(buffers, least - 1, seconds=30) is None


def test_less_than_what_lives_at_once_is_refused_without_a_search() -> None:
    assert pack_within([(0, 2, 6), (1, 3, 5)], 10) is None
    assert pack_within([(3, 3, 100), (1, 2, 0)], 0) is not None


@needs_core
def test_a_search_ends_when_its_time_has_passed() -> None:
    with INSTANCES[4].open() as file:
        buffers = [(int(row["lower"]), int(row["upper"]), int(row["size"])) for row in csv.DictReader(file)]
    with pytest.raises(TimeoutError, match=r"was found in 0\.001 seconds"):
        pack_within(buffers, CAPACITY, seconds=0.001)
