"""Near the end of memory, ``caching`` lets lie waste what the program will not need, and no more."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.native import is_available
from cuplug.allocators.pressure import Pressure
from cuplug.allocators.private_streams import STREAM_BITS
from cuplug.allocators.recurrence import Recurrence
from cuplug.allocators.statistics import Ledger
from cuplug.allocators.upstreams.null import NullUpstream

from .conftest import FACTORIES

MIB = 1 << 20
PEAK, HELD = 1000 * MIB, 1200 * MIB

FORMS = ["caching", "native"] if is_available() else ["caching"]


class Books:
    """A program that has allocated ``PEAK``, of ``HELD``; and what its allocator makes of it."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.ledger.allocated(PEAK, PEAK)
        self.ledger.mapped(1, HELD, small=False)
        self.recurrence = Recurrence()
        self.pressure = Pressure(applies=True)
        self.note(left=10 * HELD)

    def repeat(self) -> None:
        """Ask for the same twice."""
        for mark in [*range(10)] * 2:
            self.recurrence.mark(mark)

    def note(self, *, left: int) -> None:
        self.pressure.note(left, None, self.ledger, self.recurrence)

    def allowed(self) -> int:
        """How many bytes may lie waste; -1: memory is tight though none do."""
        if self.pressure.is_tight(self.ledger):
            return -1
        least, most = 0, 1 << 40
        while least < most:
            middle = (least + most + 1) // 2
            if self.pressure.is_tight(self.ledger, middle):
                most = middle - 1
            else:
                least = middle
        return least


def test_while_as_much_is_left_as_is_held_nothing_is_tight() -> None:
    books = Books()
    books.note(left=HELD)
    assert not books.pressure.is_tight(books.ledger, 1 << 50)
    books.note(left=HELD - 1)
    assert books.pressure.is_tight(books.ledger)
    books.note(left=HELD)
    assert not books.pressure.is_tight(books.ledger, 1 << 50)


def test_waste_of_which_more_than_is_allowed_makes_memory_tight() -> None:
    books = Books()
    books.repeat()
    books.note(left=300 * MIB)
    before = books.allowed()
    books.ledger.split(1, 100 * MIB, small=False)
    assert books.allowed() == before - 100 * MIB
    books.ledger.split(1, before, small=False)
    assert books.allowed() == -1


def test_a_limit_below_the_peak_allows_no_waste() -> None:
    books = Books()
    books.repeat()
    books.note(left=PEAK - HELD - 2 * MIB)
    assert books.allowed() == -1


@pytest.mark.parametrize(("more", "is_new"), [(0, False), (512, True)])
def test_whoever_has_just_reached_a_new_peak_may_waste_nothing(more: int, is_new: bool) -> None:
    books = Books()
    books.repeat()
    books.ledger.allocated(more, more)
    books.note(left=300 * MIB)
    assert (books.allowed() == -1) is is_new


def test_who_has_repeated_himself_since_the_peak_may_waste_all_but_the_peak_and_a_twentieth_of_it() -> None:
    books = Books()
    for mark in range(100, 130):  # however long he has gone on
        books.recurrence.mark(mark)
    books.note(left=300 * MIB)
    assert books.allowed() == -1
    books.repeat()
    books.note(left=300 * MIB)
    assert books.allowed() == HELD + 300 * MIB - PEAK - PEAK // 20


def test_a_peak_counts_though_peaks_were_reset() -> None:
    books = Books()
    books.repeat()
    books.note(left=300 * MIB)
    before = books.allowed()
    books.ledger.freed(PEAK, PEAK)
    books.ledger.reset_peaks()
    assert books.ledger.most_allocated == PEAK
    books.note(left=300 * MIB)
    assert books.allowed() == before


# --- what comes of it


CHANCE = random.Random(0)
LENGTHS = [CHANCE.randrange(20, 100) for _ in range(12)]
NEEDED = 1140 * MIB
"""What they take at their peak, with what lives on."""


def of_many_lengths(make: Callable[..., Any], iterations: int, times: float, *, lowered: bool = False) -> list[int]:
    """How often a training on batches of many lengths calls upstream in each iteration.

    ``times``: the limit, in parts of what it needs. ``lowered``: that is its limit only after half of the iterations.
    """
    upstream = NullUpstream(1 << 40)
    allocator = make(upstream, memory_limit=None if lowered else int(times * NEEDED))
    live = allocator.allocate(500 * MIB, stream=0)
    calls = []
    for iteration in range(iterations):
        if 2 * iteration >= iterations:
            allocator.memory_limit = int(times * NEEDED)
        before = upstream.calls.total()
        for length in LENGTHS:
            kept: list[Any] = []
            for _ in range(12):
                kept += [allocator.allocate(length * part * MIB // 16, stream=0) for part in (3, 8, 2, 5, 3)]
                allocator.free(kept.pop(-2))
                allocator.free(kept.pop(-3))
            while kept:
                allocator.free(kept.pop())
        allocator.reset_peaks()  # as programs do that print them
        calls.append(upstream.calls.total() - before)
    assert live.nbytes
    statistics = allocator.statistics()
    assert (statistics.num_ooms, statistics.num_alloc_retries) == (0, 0)
    assert upstream.used_bytes <= int(times * NEEDED)
    return calls


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("times", [1.2, 1.3, 1.5])
def test_what_repeats_comes_to_rest_near_the_end_of_memory(form: str, times: float) -> None:
    calls = of_many_lengths(FACTORIES[form], 12, times)
    assert calls[0] > 600
    assert calls[-4:] == [0, 0, 0, 0]


def test_without_the_rule_it_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_tight(pressure: Pressure, ledger: Ledger, more: int = 0) -> bool:
        return pressure.is_near

    monkeypatch.setattr(Pressure, "is_tight", is_tight)
    assert min(of_many_lengths(CachingAllocator, 6, 1.3)) > 600


@pytest.mark.parametrize("form", FORMS)
def test_a_limit_that_was_lowered_is_noticed_at_the_next_large_block(form: str) -> None:
    calls = of_many_lengths(FACTORIES[form], 16, 1.05, lowered=True)
    assert calls[6:8] == [0, 0]
    assert min(calls[8:]) > 100


@pytest.mark.parametrize("form", FORMS)
def test_a_small_block_lies_among_large_ones_where_no_segment_is_left_for_it(form: str) -> None:
    upstream = NullUpstream(8 * MIB)
    allocator = FACTORIES[form](upstream)
    large = allocator.allocate(3 * MIB, stream=0)
    assert upstream.used_bytes == 8 * MIB
    small = allocator.allocate(1024, stream=0)
    assert large.address <= small.address < large.address + 8 * MIB
    assert allocator.statistics().num_alloc_retries == 0
    allocator.free(small)
    allocator.free(large)
    assert allocator.release_cached() == 8 * MIB


class Asked(NullUpstream):
    """Counts how often it is asked for its memory."""

    asked = 0

    def memory_info(self) -> tuple[int, int]:
        self.asked += 1
        return super().memory_info()


@pytest.mark.parametrize("form", FORMS)
def test_a_private_pool_does_not_ask_the_device_for_its_memory(form: str) -> None:
    """Its work may be under capture, where the driver may refuse a call."""
    upstream = Asked()
    allocator = FACTORIES[form](upstream)
    pool = 7 | 3 << STREAM_BITS
    allocator.free(allocator.allocate(20 * MIB, stream=pool))
    allocator.memory_limit = 1 << 32
    before = upstream.asked
    allocator.allocate(20 * MIB, stream=pool)
    assert upstream.asked == before
    allocator.allocate(20 * MIB, stream=7)
    assert upstream.asked > before


@pytest.mark.skipif(not is_available(), reason="one form alone is compared with nothing")
@pytest.mark.parametrize("lowered", [False, True])
@pytest.mark.parametrize("times", [1.03, 1.1, 1.3])
def test_both_forms_make_the_same_calls(times: float, lowered: bool) -> None:
    python, native = (of_many_lengths(FACTORIES[form], 6, times, lowered=lowered) for form in FORMS)
    assert python == native
