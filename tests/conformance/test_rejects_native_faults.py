"""The kit finds faults in native strategies too: planted around the core, since nothing can be changed within it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cuplug.allocators.native import is_available, why_not
from cuplug.plugins.conformance.block_addresses import (
    check_huge_blocks_do_not_overlap,
    check_many_blocks_of_one_size_do_not_overlap,
    check_segments_say_what_they_are_for,
)
from cuplug.plugins.conformance.contract_checks import check_accounting, check_release_cached
from cuplug.plugins.conformance.rules import Rule
from cuplug.plugins.conformance.shortage import check_memory_limit
from cuplug.plugins.conformance.stream_order import (
    check_forgotten_streams,
    check_pieces_beside_orphans_are_safe,
    check_recorded_streams_are_waited_for,
)

if not is_available():
    pytest.skip(f"the native core is not here: {why_not()}", allow_module_level=True)

from cuplug.allocators.native.strategies import NativeCaching, NativeExpandable

HUGE = 256 << 20


class Through:
    """Passes everything on to an upstream. What is planted in it, the core believes."""

    def __init__(self, upstream):
        self._upstream = upstream
        self.granularity = upstream.granularity
        self.virtual = upstream.virtual

    def reserve(self, nbytes):
        return self._upstream.reserve(nbytes)

    def release(self, address):
        self._upstream.release(address)

    def memory_info(self):
        return self._upstream.memory_info()

    def fence(self, stream):
        return self._upstream.fence(stream)


class GivesThePlaceOfTheThirdAgain(Through):
    def __init__(self, upstream):
        super().__init__(upstream)
        self._given = []

    def reserve(self, nbytes):
        address = super().reserve(nbytes)
        self._given.append(address)
        return address if len(self._given) < 4 else self._given[2]


class MisplacesWhatIsHuge(Through):
    def reserve(self, nbytes):
        return super().reserve(nbytes) - (nbytes // 2 // 512 * 512 if nbytes > HUGE else 0)


class NeverWaits(Through):
    class Fence:
        def done(self):
            return True

        def wait(self):
            pass

    def fence(self, stream):
        return self.Fence()


class SwapsTheCounters(NativeCaching):
    def statistics(self):
        statistics = super().statistics()
        statistics.small, statistics.large = statistics.large, statistics.small
        return statistics


class NamesAnotherStream(NativeCaching):
    def segments(self):
        return [replace(segment, stream=segment.stream + 16) for segment in super().segments()]


class DropsTheLimit(NativeCaching):
    def __init__(self, upstream, *, memory_limit=None):
        super().__init__(upstream)


class RecordsNoStream(NativeCaching):
    def record_stream(self, block, stream):
        pass


class ForgetsNoStream(NativeExpandable):
    def forget_stream(self, stream):
        pass


class GivesBackLessThanItSays(NativeExpandable):
    def release_cached(self):
        return super().release_cached() + 512


@pytest.mark.parametrize(
    ("check", "factory", "schedule", "rules"),
    [
        (
            check_many_blocks_of_one_size_do_not_overlap,
            lambda upstream: NativeCaching(GivesThePlaceOfTheThirdAgain(upstream)),
            "eager",
            {Rule.NO_OVERLAP},
        ),
        (
            check_huge_blocks_do_not_overlap,
            lambda upstream: NativeCaching(MisplacesWhatIsHuge(upstream)),
            "eager",
            {Rule.NO_OVERLAP},
        ),
        (
            check_recorded_streams_are_waited_for,
            lambda upstream: NativeCaching(NeverWaits(upstream)),
            "lazy",
            {Rule.RECORD_STREAM, Rule.STREAM_ORDER, Rule.CONTENTS},
        ),
        (
            check_pieces_beside_orphans_are_safe,
            lambda upstream: NativeCaching(NeverWaits(upstream)),
            "lazy",
            {Rule.RECORD_STREAM, Rule.STREAM_ORDER, Rule.FORGET_STREAM, Rule.CONTENTS, Rule.RELEASE},
        ),
        (check_accounting, SwapsTheCounters, "eager", {Rule.ACCOUNTING}),
        (check_segments_say_what_they_are_for, NamesAnotherStream, "eager", {Rule.SEGMENT}),
        (check_memory_limit, DropsTheLimit, "eager", {Rule.LIMIT}),
        (check_recorded_streams_are_waited_for, RecordsNoStream, "lazy", {Rule.RECORD_STREAM}),
        (check_forgotten_streams, ForgetsNoStream, "lazy", {Rule.STREAM_ORDER, Rule.FORGET_STREAM}),
        (check_release_cached, GivesBackLessThanItSays, "eager", {Rule.RELEASE}),
    ],
)
def test_a_fault_around_the_core_is_found_and_its_rule_named(rule_broken_by, check, factory, schedule, rules):
    assert rule_broken_by(check, factory, schedule) in rules
