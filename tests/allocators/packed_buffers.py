"""Random buffers with lifetimes, and the few lines that check where they were put."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

from cuplug.allocators.packing import Buffer


def check(buffers: Sequence[Buffer], offsets: Sequence[int], height: int) -> None:
    placed = [(*buffer, at) for buffer, at in zip(buffers, offsets, strict=True)]
    assert all(at >= 0 and at + size <= height for _, _, size, at in placed)
    for (lower, upper, size, at), (begin, end, other, where) in combinations(placed, 2):
        assert not (lower < end and begin < upper and at < where + other and where < at + size)


def some_buffers(random_: random.Random, count: int, times: int, sizes: int) -> list[Buffer]:
    lives = [sorted(random_.sample(range(times), 2)) for _ in range(count)]
    return [(lower, upper, random_.randint(1, sizes)) for lower, upper in lives]
