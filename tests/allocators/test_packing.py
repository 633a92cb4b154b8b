"""Buffers with known lifetimes get places that never overlap; checked by a few lines."""

from __future__ import annotations

import math
import random
from array import array

import pytest
from cuplug.allocators.native import is_available
from cuplug.allocators.packing import columns_of, load_peak, pack, place_in_order, place_in_time

from .packed_buffers import check, some_buffers

needs_core = pytest.mark.skipif(not is_available(), reason="it is the native core's")


@needs_core
def test_the_core_places_in_an_order_as_the_specification_does() -> None:
    from cuplug.allocators import _native

    for seed in range(100):
        random_ = random.Random(seed)
        count = random_.randrange(40)
        buffers = some_buffers(random_, count, 25, 9)
        order = random_.sample(range(count), count)
        fixed = [0 if number == count // 2 else -1 for number in range(count)]
        offsets = array("q", fixed)
        columns = [array("q", [buffer[column] for buffer in buffers]) for column in range(3)]
        height = _native.place_in_order(*columns, array("q", order), math.inf, offsets)
        assert (height, list(offsets)) == place_in_order(buffers, order, fixed)


@needs_core
def test_the_core_places_in_time_as_the_specification_does() -> None:
    from cuplug.allocators import _native

    for seed in range(200):
        random_ = random.Random(seed)
        buffers = [*some_buffers(random_, random_.randrange(60), 25, 9), (1, 9, 0)]
        offsets = array("q", bytes(8 * len(buffers)))
        height = _native.place_in_time(*columns_of(buffers), offsets)
        assert (height, list(offsets)) == place_in_time(buffers)
        assert _native.load_peak(*columns_of(buffers)) == load_peak(buffers)
        check(buffers, offsets, height)


def test_where_no_order_can_be_tried_in_time_the_buffers_are_placed_by_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cuplug.allocators.packing._LEAST_S", 0)
    buffers = some_buffers(random.Random(3), 500, 300, 40)
    found = pack(buffers, seconds=0)
    check(buffers, found.offsets, found.height)
    assert (found.height, found.offsets) == place_in_time(buffers)


@needs_core
def test_an_order_is_given_up_once_the_time_is_over() -> None:
    from cuplug.allocators import _native

    buffers = [(0, 1000, 1)] * 3000
    offsets = array("q", [-1] * len(buffers))
    assert _native.place_in_order(*columns_of(buffers), array("q", range(len(buffers))), 0, offsets) is None


def test_ctrl_c_ends_the_search_with_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    buffers = some_buffers(random.Random(3), 200, 100, 40)
    monkeypatch.setattr("cuplug.allocators.packing._Heuristic.attempt", interrupted)
    found = pack(buffers, seconds=60)
    assert found.interrupted
    check(buffers, found.offsets, found.height)


def test_the_heuristic_comes_near_the_bound_for_many_buffers() -> None:
    random_ = random.Random(1)
    starts = [random_.randrange(2_000) for _ in range(600)]
    buffers = [(start, start + random_.randint(1, 200), 512 * random_.randint(1, 64)) for start in starts]
    found = pack(buffers, seconds=0)
    check(buffers, found.offsets, found.height)
    assert found.bound == load_peak(buffers) <= found.height < 1.2 * found.bound


def test_buffers_with_a_fixed_place_keep_it() -> None:
    buffers = [(0, 4, 10), (2, 6, 5), (5, 9, 10)]
    found = pack(buffers, seconds=0, fixed=[-1, 7, -1])
    check(buffers, found.offsets, found.height)
    assert found.offsets == [12, 7, 12]


def test_nothing_and_what_needs_nothing_are_packed_too() -> None:
    assert pack([]).height == 0
    assert pack([(3, 3, 100), (1, 2, 0)]).height == 0
