"""The kit rejects allocators that threads or finalisers break, and does not take a slow one for a deadlock."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import ClassVar

import pytest
from cuplug.allocators.base import ALIGNMENT, BlockInfo, Segment
from cuplug.plugins.conformance import stepping
from cuplug.plugins.conformance.finalisers import check_free_at_any_moment
from cuplug.plugins.conformance.rules import DeadlockError, Rule
from cuplug.plugins.conformance.stepping import run_threads
from cuplug.plugins.conformance.threads import check_threads, check_threads_that_meet_at_any_line

from .example import ExampleAllocator


class FreesUnderALock(ExampleAllocator):
    """Its ``free`` waits for a lock, which the same thread may hold."""

    locks: ClassVar = []

    def __init__(self, upstream, *, memory_limit: int | None = None):
        super().__init__(upstream, memory_limit=memory_limit)
        self._mine = threading.Lock()
        self.locks.append(self._mine)

    def free(self, block):
        with self._mine:
            super().free(block)

    def _allocate(self, requested, nbytes, stream):
        with self._mine:
            return super()._allocate(requested, nbytes, stream)


class EntersToFree(ExampleAllocator):
    """Its ``free`` is an operation like others, which a finaliser cannot be."""

    def free(self, block):
        super().free(block)
        self.statistics()


class HasAnUnlockedBin(ExampleAllocator):
    """Looks for a freed block before it takes the lock, and hands out what it saw."""

    def __init__(self, upstream, *, memory_limit: int | None = None):
        super().__init__(upstream, memory_limit=memory_limit)
        self._mine = threading.local()

    def allocate(self, nbytes, *, stream):
        lying = self._cached.get((stream, -(-nbytes // ALIGNMENT) * ALIGNMENT))
        self._mine.seen = lying[-1] if lying else None
        return super().allocate(nbytes, stream=stream)

    def _piece_for(self, nbytes, stream):
        seen, self._mine.seen = self._mine.seen, None
        if seen is None:
            return super()._piece_for(nbytes, stream)
        with suppress(KeyError, ValueError):
            self._cached[stream, nbytes].remove(seen)
        return seen


class CountsWithoutALock(ExampleAllocator):
    """Keeps a number of its own for each block, and two threads may read the same."""

    def __init__(self, upstream, *, memory_limit: int | None = None):
        super().__init__(upstream, memory_limit=memory_limit)
        self._number = 0
        self._numbers = {}

    def allocate(self, nbytes, *, stream):
        number = self._number
        block = super().allocate(nbytes, stream=stream)
        self._number = number + 1
        if number in self._numbers:
            raise AssertionError("two blocks have one number")
        self._numbers[number] = block
        return block


def test_a_free_that_takes_a_lock_is_found(rule_broken_by, ended_deadlocks, monkeypatch):
    monkeypatch.setattr(FreesUnderALock, "locks", ended_deadlocks)
    assert rule_broken_by(check_free_at_any_moment, FreesUnderALock, patience_s=0.5) is Rule.FINALISERS


def test_a_free_that_is_an_operation_like_others_is_found(rule_broken_by):
    assert rule_broken_by(check_free_at_any_moment, EntersToFree) is Rule.FINALISERS


def test_an_unlocked_bin_is_found_where_two_threads_meet(rule_broken_by):
    assert rule_broken_by(check_threads_that_meet_at_any_line, HasAnUnlockedBin) is Rule.NO_OVERLAP


def test_a_number_that_two_threads_may_read_is_found(rule_broken_by):
    assert rule_broken_by(check_threads_that_meet_at_any_line, CountsWithoutALock) is Rule.THREADS


class IsSlow(ExampleAllocator):
    """Says of every segment in 4,096 pieces what it could say in one."""

    def _segment(self, stream, info):
        if info.state != "inactive" or info.nbytes < 4096 * ALIGNMENT:
            return super()._segment(stream, info)
        step = info.nbytes // 4096 // ALIGNMENT * ALIGNMENT
        starts = range(info.address, info.address + 4095 * step, step)
        infos = [BlockInfo(at, step, 0, "inactive") for at in starts]
        at = info.address + 4095 * step
        infos.append(BlockInfo(at, info.address + info.nbytes - at, 0, "inactive"))
        return Segment(info.address, info.nbytes, stream, "large", tuple(infos))


def test_a_slow_allocator_is_not_taken_for_a_deadlock(drivers):
    check_threads(IsSlow, drivers["lazy"], patience_s=5.0)


def test_work_that_takes_longer_than_anybodys_patience_is_no_deadlock_as_long_as_it_goes_on():
    def work():
        while time.thread_time() < 2.0:
            pass

    run_threads([work], Rule.THREADS, patience_s=1.5)


def test_a_machine_that_stands_still_as_a_whole_is_no_deadlock(monkeypatch):
    end, glances = threading.Event(), itertools.count()

    def an_hour_later():
        now = next(glances)
        if now == 5:
            end.set()
        return 3600.0 * now

    monkeypatch.setattr(stepping, "time", SimpleNamespace(**{**vars(time), "monotonic": an_hour_later}))
    run_threads([end.wait], Rule.THREADS, patience_s=1.5)


def test_threads_that_wait_for_each_other_are_a_deadlock_which_says_where_they_stand():
    never = threading.Event()
    try:
        with pytest.raises(DeadlockError, match=r"0.1 s nothing moves at .*threading.py:\d+; --patience"):
            run_threads([never.wait], Rule.THREADS, patience_s=0.1)
    finally:
        never.set()
