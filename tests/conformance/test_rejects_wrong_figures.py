"""The kit rejects allocators whose statistics, events or answers are wrong."""

from __future__ import annotations

from contextlib import suppress

import pytest
from cuplug.allocators.errors import InvalidFreeError
from cuplug.plugins.conformance.contract_checks import (
    check_accounting,
    check_events,
    check_invalid_frees,
    check_release_cached,
    check_sizes,
)
from cuplug.plugins.conformance.rules import Rule

from .example import ExampleAllocator


class Miscounts(ExampleAllocator):
    """Gives memory back without counting it."""

    def _release(self, address, nbytes, *, small, stream):
        self.upstream.release(address)


class CountsThePeakLate(ExampleAllocator):
    """Its peaks miss what was freed before anybody asked."""

    def statistics(self):
        statistics = super().statistics()
        for _, counters in statistics.pools():
            counters.requested_bytes.peak = counters.requested_bytes.current
        return statistics


class MixesSmallAndLarge(ExampleAllocator):
    """Counts its segments in the wrong pool, and says in the map what is right."""

    def _reserve(self, nbytes, *, small, stream):
        return super()._reserve(nbytes, small=not small, stream=stream)

    def _release(self, address, nbytes, *, small, stream):
        super()._release(address, nbytes, small=not small, stream=stream)


class SwapsTheCounters(ExampleAllocator):
    """Counts small blocks as large ones, and large ones as small."""

    def statistics(self):
        statistics = super().statistics()
        statistics.small, statistics.large = statistics.large, statistics.small
        return statistics


class SwapsWhatIsActive(ExampleAllocator):
    """As little as two figures are swapped."""

    def statistics(self):
        statistics = super().statistics()
        small, large = statistics.small, statistics.large
        small.active_bytes, large.active_bytes = large.active_bytes, small.active_bytes
        return statistics


class SaysTooMuchWasReleased(ExampleAllocator):
    def release_cached(self):
        return 2 * super().release_cached()


class ReleasesTwice(ExampleAllocator):
    def _release(self, address, nbytes, *, small, stream):
        super()._release(address, nbytes, small=small, stream=stream)
        self.upstream.release(address)


class AcceptsDoubleFrees(ExampleAllocator):
    def free(self, block):
        with suppress(InvalidFreeError):
            super().free(block)


class RaisesWhatItLikes(ExampleAllocator):
    def free(self, block):
        if block not in self.live_blocks():
            raise KeyError(block)
        super().free(block)


class Trips(ExampleAllocator):
    """Has a plain bug: a name is misspelt."""

    def _release_cached(self):
        self._cahced.clear()
        return super()._release_cached()


class CountsNothing(ExampleAllocator):
    """Gives memory for zero bytes."""

    def allocate(self, nbytes, *, stream):
        return super().allocate(max(nbytes, 1), stream=stream)


class HidesSegments(ExampleAllocator):
    """Takes memory behind the observers' backs."""

    def _emit(self, kind, *args):
        if kind.name != "SEGMENT_RELEASE":
            super()._emit(kind, *args)


class HidesFrees(ExampleAllocator):
    """Its observers see no free."""

    def attach(self, observer, *, context=None):
        self._filter = lambda kind, *event: kind.name == "FREE" or observer(kind, *event)
        super().attach(self._filter, context=context)

    def detach(self, observer):
        super().detach(self._filter)


FAULTS = [
    (Miscounts, check_release_cached, Rule.ACCOUNTING),
    (CountsThePeakLate, check_accounting, Rule.ACCOUNTING),
    (MixesSmallAndLarge, check_accounting, Rule.ACCOUNTING),
    (SwapsTheCounters, check_accounting, Rule.ACCOUNTING),
    (SwapsWhatIsActive, check_accounting, Rule.ACCOUNTING),
    (SaysTooMuchWasReleased, check_release_cached, Rule.RELEASE),
    (ReleasesTwice, check_release_cached, Rule.RELEASE),
    (AcceptsDoubleFrees, check_invalid_frees, Rule.INVALID_FREE),
    (RaisesWhatItLikes, check_invalid_frees, Rule.INVALID_FREE),
    (Trips, check_accounting, Rule.ERRORS),
    (CountsNothing, check_sizes, Rule.SIZES),
    (HidesSegments, check_events, Rule.EVENTS),
    (HidesFrees, check_events, Rule.EVENTS),
]


@pytest.mark.parametrize(("broken", "check", "rule"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_a_wrong_figure_is_found_and_its_rule_named(rule_broken_by, broken, check, rule):
    assert rule_broken_by(check, broken) is rule
