"""Where ``expandable`` lays a block that no free span can hold: no other place would need less."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from cuplug.allocators import placing
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.placing import best_opening
from cuplug.allocators.returning import Returning
from cuplug.allocators.spans import Opening, Space
from cuplug.allocators.upstreams.null import NullUpstream

STEP = 512 << 10
"""All blocks are multiples of this, and so all bounds. A page has four."""
PAGE = 2 << 20


def moments(seed: int) -> Iterator[ExpandableAllocator]:
    """An allocator in the midst of a random program of large blocks on two streams, again and again."""
    chance = random.Random(seed)
    allocator = ExpandableAllocator(NullUpstream(), slack=0)
    live: list[Any] = []
    for step in range(600):
        if live and chance.random() < (0.35 if step % 150 < 75 else 0.65):
            allocator.free(live.pop(chance.randrange(len(live))))
        else:
            live.append(allocator.allocate(chance.randrange(3, 60) * STEP, stream=chance.randrange(2)))
        if step % 20 == 19:
            yield allocator


def large_spaces(allocator: ExpandableAllocator) -> list[Space]:
    return [space for space in allocator._movable_spaces() if not space.small]


def every_place(space: Space, nbytes: int) -> Iterator[Opening]:
    for gap in space.gaps():
        start, end = gap[0].address, min(gap[-1].end, gap[-1].address + nbytes + PAGE)  # the rest of a range is alike
        for address in range(start, end - nbytes + 1, STEP):
            yield Opening(address, nbytes, space.missing(gap, address, address + nbytes), gap[-1].end - start)


def excess(allocator: ExpandableAllocator, nbytes: int) -> int:
    """How many bytes more a block of ``nbytes`` misses where it is laid than it would elsewhere."""
    found = 0
    for space in large_spaces(allocator):
        best = best_opening(space, nbytes)
        assert best is not None
        found = max(found, best.missing - min(each.missing for each in every_place(space, nbytes)))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_block_is_laid_where_the_least_is_missing(seed: int) -> None:
    chance = random.Random(seed)
    assert [excess(allocator, chance.randrange(3, 60) * STEP) for allocator in moments(seed)] == [0] * 30


def test_the_test_finds_a_place_that_is_not_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "FREE", "nothing ends there")
    chance = random.Random(0)
    assert any(excess(allocator, chance.randrange(3, 60) * STEP) for allocator in moments(0))


def saved(returning: Returning, allocator: ExpandableAllocator, start: int, end: int) -> int:
    """What ``Returning.saving`` estimates, alias by alias."""
    start, end = start // PAGE * PAGE, -(-end // PAGE) * PAGE
    total = 0
    for alias in allocator._pages.aliases:
        if alias.address < end and start < alias.end:
            comes = returning.span_of(alias.page) is not None and start <= alias.address and alias.end <= end
            total += alias.page.nbytes if comes else -alias.page.nbytes
    return total


def to_map(opening: Opening, returning: Returning, allocator: ExpandableAllocator) -> int:
    start, end = opening.address, opening.address + opening.nbytes
    expected = saved(returning, allocator, start, end)
    assert returning.saving(start, end) == expected
    return opening.missing - expected


@pytest.mark.parametrize("seed", range(4))
def test_pages_come_from_elsewhere_to_where_most_can_come_back(seed: int) -> None:
    chance = random.Random(seed)
    elsewhere = 0
    for allocator in moments(seed):
        returning, nbytes = allocator._returning(host=False), chance.randrange(3, 60) * STEP
        for space in large_spaces(allocator):
            least, best = best_opening(space, nbytes), best_opening(space, nbytes, returning)
            assert least is not None
            assert best is not None
            aliases = [alias for gap in space.gaps() for alias in returning.pages.within(gap[0].address, gap[-1].end)]
            bounds = {alias.address for alias in aliases} | {alias.end - nbytes for alias in aliases}
            bounds |= {span.address for gap in space.gaps() for span in gap}
            places = [each for each in every_place(space, nbytes) if each.address in bounds]
            most = min(to_map(each, returning, allocator) for each in places)
            assert to_map(best, returning, allocator) <= most
            elsewhere += to_map(best, returning, allocator) < to_map(least, returning, allocator)
    assert elsewhere > 3
