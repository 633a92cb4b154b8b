"""Buffers are packed into a given capacity, and as tightly as any order of them; checked by a few lines."""

from __future__ import annotations

import csv
import random
from itertools import permutations
from pathlib import Path

import pytest
from cuplug.allocators.native import is_available
from cuplug.allocators.packing import place_in_order
from cuplug.tools.analysis.exact_packing import pack_tightly, pack_within

from ..allocators.packed_buffers import check, some_buffers

INSTANCES = sorted((Path(__file__).parents[1] / "data" / "packing").glob("?.csv"))
CAPACITY = 1 << 20
needs_core = pytest.mark.skipif(not is_available(), reason="the exact search needs the native core")


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
