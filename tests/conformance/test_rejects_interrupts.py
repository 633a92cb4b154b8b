"""The kit rejects allocators that an exception in their middle breaks, and accepts those that mend or say so."""

from __future__ import annotations

import os
import threading
from typing import ClassVar

import pytest
from cuplug.allocators.base import Allocator
from cuplug.plugins.conformance.interrupts import (
    INTERRUPTS,
    check_exceptions_at_any_line,
    check_exceptions_from_upstream,
)
from cuplug.plugins.conformance.rules import ContractBrokenError, DeadlockError, Rule

from .example import ExampleAllocator

pytestmark = pytest.mark.skipif(
    not hasattr(Allocator, "_recover"), reason="the base class cannot be interrupted without harm yet"
)
ANY = -1


class Mends(ExampleAllocator):
    """Makes its lists anew from what the base class knows. Right."""

    def _hand_out(self, address, requested, nbytes, stream):
        self._held[address].kept = stream  # on which it is used from now on
        return super()._hand_out(address, requested, nbytes, stream)

    def _forget_stream(self, stream):
        self.upstream.fence(stream).wait()
        for held in self._held.values():
            if stream in (held.kept, held.stream if held.kept is None else ANY):
                held.kept = ANY
        super()._forget_stream(stream)

    def _recover(self):
        self._live = dict(self._in_use)
        self._cached = {}
        for address, held in self._held.items():
            if address not in self._in_use:
                stream = held.stream if held.kept is None else held.kept
                self._cached.setdefault((stream, held.nbytes), []).append(address)


class MendsNothing(ExampleAllocator):
    """Says that it can mend itself, and leaves its lists as they are."""

    def _recover(self):
        pass


class ForgetsWhatIsFree(Mends):
    """Makes its list of live blocks anew, and none of free ones."""

    def _recover(self):
        self._live = dict(self._in_use)
        self._cached = {}


class TakesAllForFree(Mends):
    """Forgets that blocks are in use."""

    def _recover(self):
        super()._recover()
        for address, held in self._held.items():
            self._cached.setdefault((held.stream, held.nbytes), []).append(address)


class KeepsALock(Mends):
    """Takes a lock of its own, and lets go of it only if nothing happens."""

    locks: ClassVar = []

    def __init__(self, upstream, *, memory_limit=None):
        super().__init__(upstream, memory_limit=memory_limit)
        self._mine = threading.Lock()
        self.locks.append(self._mine)

    def _allocate(self, requested, nbytes, stream):
        self._mine.acquire()
        block = super()._allocate(requested, nbytes, stream)
        self._mine.release()
        return block


ACCEPTED = [
    *((Mends, check) for check in INTERRUPTS),
    *((ExampleAllocator, check) for check in INTERRUPTS[: None if "CUPLUG_THOROUGH" in os.environ else 1]),
]


@pytest.mark.parametrize(("right", "check"), ACCEPTED, ids=lambda each: each.__name__)
def test_an_allocator_that_mends_itself_or_says_that_it_was_interrupted_is_accepted(right, check, drivers):
    check(right, drivers["lazy"], patience_s=30.0)


@pytest.mark.parametrize("broken", [MendsNothing, ForgetsWhatIsFree, TakesAllForFree])
def test_an_allocator_that_goes_on_half_done_is_found(rule_broken_by, broken):
    assert rule_broken_by(check_exceptions_at_any_line, broken, "lazy", patience_s=30.0) is Rule.INTERRUPTED


def test_exceptions_from_upstream_find_it_as_well(rule_broken_by):
    found = rule_broken_by(check_exceptions_from_upstream, TakesAllForFree, "lazy", patience_s=30.0)
    assert found is Rule.INTERRUPTED


def test_a_lock_that_stays_held_is_a_deadlock_and_the_story_is_told(drivers, ended_deadlocks, monkeypatch):
    monkeypatch.setattr(KeepsALock, "locks", ended_deadlocks)
    with pytest.raises(ContractBrokenError, match=r"broke off an allocation .*; then a deadlock") as caught:
        check_exceptions_at_any_line(KeepsALock, drivers["lazy"], patience_s=2.0)
    assert isinstance(caught.value, DeadlockError)
    assert caught.value.rule is Rule.INTERRUPTED
