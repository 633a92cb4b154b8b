"""The kit accepts a small correct allocator, and rejects each copy of it that has one fault, for that fault."""

from __future__ import annotations

import threading
from functools import partial

import hypothesis
import pytest
from cuplug.allocators.base import ALIGNMENT, Allocator, Block, Segment
from cuplug.allocators.block import BlockInfo
from cuplug.allocators.errors import OutOfMemoryError
from cuplug.allocators.statistics import SMALL_BLOCK
from cuplug.plugins.conformance.checks import (
    CHECKS,
    check_abandon,
    check_accounting,
    check_close,
    check_events,
    check_forgotten_streams,
    check_invalid_frees,
    check_live_blocks_do_not_overlap,
    check_recorded_streams_are_waited_for,
    check_release_cached,
    check_sizes,
    check_sticky_errors_do_not_reach_free,
    check_streams_are_not_mixed,
)
from cuplug.plugins.conformance.random_operations import check_random_operations
from cuplug.plugins.conformance.rules import ContractBrokenError, Rule
from cuplug.plugins.conformance.shortage import (
    check_failed_allocations_lose_nothing,
    check_memory_is_found_before_giving_up,
    check_memory_limit,
    check_out_of_memory_hook,
)
from cuplug.plugins.conformance.threads import check_free_at_any_moment, check_threads
from cuplug.plugins.conformance.workbench import Bench
from cuplug.plugins.manager import default_manager
from cuplug.runtime.drivers.sim import SimDriver

ANY = -1
"""In place of a stream: memory that every stream may use."""

eager, lazy = partial(SimDriver, schedule="eager"), partial(SimDriver, schedule="lazy")
random = partial(SimDriver, schedule="random", seed=1)
few = hypothesis.settings(
    max_examples=50, stateful_step_count=30, derandomize=True, database=None, phases=[hypothesis.Phase.generate]
)
until_found = hypothesis.settings(few, max_examples=3000)


class Simple(Allocator):
    """Keeps freed blocks by stream and size, and hands out those of exactly the right size. Correct."""

    def __init__(self, upstream, *, memory_limit: int | None = None):
        super().__init__(upstream, memory_limit=memory_limit)
        self._live = {}
        self._cached = {}

    def _allocate(self, requested, nbytes, stream):
        address = self._find(nbytes, stream)
        if address is None:
            address = self._reserve(nbytes, small=nbytes <= SMALL_BLOCK, stream=stream)
        return self._hand_out(address, requested, nbytes, stream)

    def _find(self, nbytes, stream):
        for key in ((stream, nbytes), (ANY, nbytes)):
            if self._cached.get(key):
                return self._cached[key].pop()
        return None

    def _hand_out(self, address, requested, nbytes, stream):
        block = self._live[address] = Block(self, address, nbytes, requested, stream)
        return block

    def _free(self, block):
        del self._live[block.address]
        self._cached.setdefault((ANY if block.orphan else block.stream, block.nbytes), []).append(block.address)

    def _release_cached(self):
        released = 0
        for (stream, nbytes), addresses in self._cached.items():
            if addresses and stream != ANY:
                self.upstream.fence(stream).wait()
            while addresses:
                self._release(addresses.pop(), nbytes, small=nbytes <= SMALL_BLOCK, stream=stream)
                released += nbytes
        return released

    def _forget_stream(self, stream):
        self.upstream.fence(stream).wait()
        for key in [key for key in self._cached if key[0] == stream]:
            self._cached.setdefault((ANY, key[1]), []).extend(self._cached.pop(key))

    def _live_blocks(self):
        return self._live.values()

    def _segments(self):
        for block in self._live.values():
            yield self._segment(block.stream, self._state(block))
        for (stream, nbytes), addresses in self._cached.items():
            for address in addresses:
                yield self._segment(stream, BlockInfo(address, nbytes, 0, "inactive"))

    def _segment(self, stream, info):
        return Segment(info.address, info.nbytes, stream, "small" if info.nbytes <= SMALL_BLOCK else "large", (info,))


class MixesStreams(Simple):
    """Reuses across streams without a fence."""

    def _find(self, nbytes, stream):
        fitting = (addresses for (_, size), addresses in self._cached.items() if size == nbytes and addresses)
        found = next(fitting, None)
        return found.pop() if found else None


class IgnoresRecordStream(Simple):
    def record_stream(self, block, stream):
        if block.allocator is not self or not block.uses & 1:
            super().record_stream(block, stream)


class WaitsForTheWrongStream(Simple):
    """Puts one fence behind the first of the recorded streams, and none behind the others."""

    def record_stream(self, block, stream):
        if not block.streams:
            super().record_stream(block, stream)


class Overlaps(Simple):
    """Hands a live block out again when it has no other of the size."""

    def _find(self, nbytes, stream):
        found = super()._find(nbytes, stream)
        return found or next((block.address for block in self._live.values() if block.nbytes == nbytes), None)


class OverlapsInsideASegment(Simple):
    """Packs two blocks into one segment, and counts half of the first."""

    def _allocate(self, requested, nbytes, stream):
        block = super()._allocate(requested, nbytes, stream)
        near = [other for other in self._live.values() if other.nbytes > nbytes]
        if near and nbytes == ALIGNMENT:
            del self._live[block.address]
            return self._hand_out(near[0].address + ALIGNMENT, requested, nbytes, stream)
        return block


class LeaksAtClose(Simple):
    def _release_all(self):
        """Leaves everything where it is."""


class LeaksEvents(Simple):
    """Makes fences with the driver's events, and never destroys them."""

    def _free(self, block):
        self.upstream._upstream.driver.event_create()
        super()._free(block)


class Miscounts(Simple):
    """Gives memory back without counting it."""

    def _release(self, address, nbytes, *, small, stream):
        self.upstream.release(address)


class CountsThePeakLate(Simple):
    """Its peaks miss what was freed before anybody asked."""

    def statistics(self):
        statistics = super().statistics()
        for _, counters in statistics.pools():
            counters.requested_bytes.peak = counters.requested_bytes.current
        return statistics


class SaysTooMuchWasReleased(Simple):
    def release_cached(self):
        return 2 * super().release_cached()


class LosesABlock(Simple):
    """Takes a block out of its cache before it knows that the allocation will do."""

    def _allocate(self, requested, nbytes, stream):
        taken = next((key for key, addresses in self._cached.items() if addresses), None)
        address = self._cached[taken].pop() if taken else None
        block = super()._allocate(requested, nbytes, stream)
        if address is not None:
            self._cached[taken].append(address)
        return block


class CountsFailures(Simple):
    """Counts the bytes of allocations that then fail."""

    failed = 0

    def _allocate(self, requested, nbytes, stream):
        try:
            return super()._allocate(requested, nbytes, stream)
        except OutOfMemoryError:
            self.failed += requested
            raise

    def statistics(self):
        statistics = super().statistics()
        statistics.all.requested_bytes.increase(self.failed)
        statistics.all.requested_bytes.decrease(self.failed)
        return statistics


class Hoards(Simple):
    """Keeps what it has cached, also when memory is short."""

    def _release_cached(self):
        return super()._release_cached() if self._closed is not None else 0

    def _release_all(self):
        super()._release_cached()


class Misaligns(Simple):
    def _rounded(self, nbytes):
        return (nbytes + 255) // 256 * 256


class HandsOutTooLittle(Simple):
    def _rounded(self, nbytes):
        return max(ALIGNMENT, nbytes // ALIGNMENT * ALIGNMENT)


class AcceptsDoubleFrees(Simple):
    def free(self, block):
        if block.uses & 1 and block.allocator is self:
            super().free(block)


class ReleasesUnderQueuedWork(Simple):
    def _free(self, block):
        del self._live[block.address]
        self._release(block.address, block.nbytes, small=block.nbytes <= SMALL_BLOCK, stream=block.stream)


class ReleasesTwice(Simple):
    def _release(self, address, nbytes, *, small, stream):
        super()._release(address, nbytes, small=small, stream=stream)
        self.upstream.release(address)


class IgnoresItsLimit(Simple):
    def __init__(self, upstream, *, memory_limit: int | None = None):
        super().__init__(upstream)

    memory_limit = property(lambda self: None, lambda self, limit: None)


class StrandsBlocks(Simple):
    """Leaves what a destroyed stream has cached to the next stream of its handle."""

    def _forget_stream(self, stream):
        pass


class HidesSegments(Simple):
    """Takes memory behind the observers' backs."""

    def _emit(self, kind, *args):
        if kind.name != "SEGMENT_RELEASE":
            super()._emit(kind, *args)


class HidesFrees(Simple):
    """Its observers see no free."""

    def free(self, block):
        watched = block.home
        block.home = getattr(watched, "home", watched)
        super().free(block)


class FreesUnderALock(Simple):
    """Its ``free`` waits for a lock, which the same thread may hold."""

    def __init__(self, upstream, *, memory_limit: int | None = None):
        super().__init__(upstream, memory_limit=memory_limit)
        self._mine = threading.Lock()

    def free(self, block):
        with self._mine:
            super().free(block)

    def _allocate(self, requested, nbytes, stream):
        with self._mine:
            return super()._allocate(requested, nbytes, stream)


class EntersToFree(Simple):
    """Its ``free`` is an operation like others, which a finaliser cannot be."""

    def free(self, block):
        super().free(block)
        self.statistics()


class CallsUpstreamWhenAbandoned(Simple):
    def free(self, block):
        super().free(block)
        self.upstream.release(block.address)


class FreesRaiseWhatTheDeviceDid(Simple):
    def free(self, block):
        super().free(block)
        self.upstream.fence(block.stream).wait()


class AsksTheHookOnAndOn(Simple):
    def allocate(self, nbytes, *, stream):
        while True:
            try:
                return super().allocate(nbytes, stream=stream)
            except OutOfMemoryError:
                if self.on_out_of_memory is None or not self.on_out_of_memory(nbytes, stream):
                    raise


class CountsNothing(Simple):
    """Gives memory for zero bytes."""

    def allocate(self, nbytes, *, stream):
        return super().allocate(max(nbytes, 1), stream=stream)


FAULTS = [
    (MixesStreams, check_streams_are_not_mixed, lazy, Rule.STREAM_ORDER),
    (IgnoresRecordStream, check_recorded_streams_are_waited_for, lazy, Rule.RECORD_STREAM),
    (WaitsForTheWrongStream, check_recorded_streams_are_waited_for, lazy, Rule.RECORD_STREAM),
    (Overlaps, check_live_blocks_do_not_overlap, eager, Rule.NO_OVERLAP),
    (OverlapsInsideASegment, check_live_blocks_do_not_overlap, eager, Rule.NO_OVERLAP),
    (LeaksAtClose, check_close, eager, Rule.CLOSE),
    (LeaksEvents, check_close, eager, Rule.CLOSE),
    (Miscounts, check_release_cached, eager, Rule.ACCOUNTING),
    (CountsThePeakLate, check_accounting, eager, Rule.ACCOUNTING),
    (SaysTooMuchWasReleased, check_release_cached, eager, Rule.RELEASE),
    (LosesABlock, check_failed_allocations_lose_nothing, eager, Rule.NOTHING_LOST),
    (CountsFailures, check_failed_allocations_lose_nothing, eager, Rule.NOTHING_LOST),
    (Hoards, check_memory_is_found_before_giving_up, eager, Rule.LAST_RESORT),
    (Misaligns, check_sizes, eager, Rule.ALIGNED),
    (HandsOutTooLittle, check_sizes, eager, Rule.ALIGNED),
    (CountsNothing, check_sizes, eager, Rule.SIZES),
    (AcceptsDoubleFrees, check_invalid_frees, eager, Rule.INVALID_FREE),
    (ReleasesUnderQueuedWork, check_streams_are_not_mixed, lazy, Rule.RELEASE),
    (ReleasesTwice, check_release_cached, eager, Rule.RELEASE),
    (IgnoresItsLimit, check_memory_limit, eager, Rule.LIMIT),
    (StrandsBlocks, check_forgotten_streams, lazy, Rule.STREAM_ORDER),
    (HidesSegments, check_events, eager, Rule.EVENTS),
    (HidesFrees, check_events, eager, Rule.EVENTS),
    (EntersToFree, check_free_at_any_moment, eager, Rule.FINALISERS),
    (FreesUnderALock, partial(check_free_at_any_moment, patience_s=0.5), eager, Rule.FINALISERS),
    (CallsUpstreamWhenAbandoned, check_abandon, eager, Rule.ABANDON),
    (FreesRaiseWhatTheDeviceDid, check_sticky_errors_do_not_reach_free, lazy, Rule.STICKY_ERROR),
    (AsksTheHookOnAndOn, check_out_of_memory_hook, eager, Rule.HOOK),
]


@pytest.mark.parametrize("drivers", [eager, lazy, random], ids=lambda made: made.keywords["schedule"])
@pytest.mark.parametrize("check", [*CHECKS, check_threads, check_free_at_any_moment], ids=lambda check: check.__name__)
def test_the_kit_accepts_a_correct_allocator(check, drivers):
    check(Simple, drivers)


def test_the_kit_accepts_a_correct_allocator_under_random_operations(driver_selection):
    check_random_operations(Simple, partial(default_manager().make_driver, driver_selection), profile=few)


@pytest.mark.parametrize(("broken", "check", "drivers", "rule"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_the_kit_rejects_a_fault_and_says_which_line_it_breaks(broken, check, drivers, rule):
    with pytest.raises(ContractBrokenError) as caught:
        check(broken, drivers)
    assert caught.value.rule is rule
    assert rule.value in str(caught.value)


RANDOM_FAULTS = [
    (MixesStreams, {Rule.STREAM_ORDER}),
    (IgnoresRecordStream, {Rule.RECORD_STREAM, Rule.RELEASE}),
    (WaitsForTheWrongStream, {Rule.RECORD_STREAM, Rule.RELEASE}),
    (Overlaps, {Rule.NO_OVERLAP, Rule.STREAM_ORDER, Rule.RECORD_STREAM}),
    (LeaksAtClose, {Rule.CLOSE}),
    (Miscounts, {Rule.ACCOUNTING, Rule.NOTHING_LOST}),
    (LosesABlock, {Rule.NOTHING_LOST}),
    (CountsFailures, {Rule.NOTHING_LOST, Rule.ACCOUNTING}),  # whichever check looks first after the failure
    (ReleasesUnderQueuedWork, {Rule.RELEASE}),
    (StrandsBlocks, {Rule.STREAM_ORDER, Rule.RELEASE}),
    (HidesFrees, {Rule.EVENTS}),
]


@pytest.mark.parametrize(("broken", "rules"), RANDOM_FAULTS, ids=[fault[0].__name__ for fault in RANDOM_FAULTS])
def test_random_operations_find_the_fault_by_themselves(broken, rules):
    with pytest.raises(ContractBrokenError) as caught:
        check_random_operations(broken, random, profile=until_found)
    assert caught.value.rule in rules


class Blind(Bench):
    """Sees only what queued work finds in memory: neither events nor the simulator's queues are asked."""

    def _check_place(self, live):
        pass

    def _touched(self, address, nbytes):
        return None


@pytest.mark.parametrize("broken", [MixesStreams, IgnoresRecordStream])
def test_what_queued_work_finds_in_memory_gives_a_fault_away(broken, monkeypatch):
    monkeypatch.setattr("cuplug.plugins.conformance.random_operations.Bench", Blind)
    with pytest.raises(ContractBrokenError) as caught:
        check_random_operations(broken, random, profile=until_found)
    assert caught.value.rule is Rule.CONTENTS


class Queues(Bench):
    """Asks only the simulator's queues."""

    def _check_reuse(self, live, freed):
        pass

    def _touched(self, address, nbytes):
        return None


@pytest.mark.parametrize("broken", [MixesStreams, IgnoresRecordStream])
def test_the_simulators_queues_give_a_fault_away(broken, monkeypatch):
    monkeypatch.setattr("cuplug.plugins.conformance.random_operations.Bench", Queues)
    with pytest.raises(ContractBrokenError, match="is still queued"):
        check_random_operations(broken, lazy, profile=until_found)


def test_a_failure_says_what_was_promised_and_what_was_found():
    with pytest.raises(ContractBrokenError, match=r"contract broken: .*multiples of 512 bytes.*\[ALIGNED\]: the block"):
        check_sizes(Misaligns)


class Opaque:
    """A driver that is not the simulator, as far as the kit can tell: one whose queues it cannot look into."""

    def __init__(self):
        self._driver = lazy()

    def __getattr__(self, name):
        return getattr(self._driver, name)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_kit_runs_on_a_driver_that_is_not_the_simulator(check, monkeypatch):
    monkeypatch.setattr(Bench, "keep_busy", lambda bench, lane: None)
    check(Simple, Opaque)


@pytest.mark.parametrize(
    ("broken", "check", "rule"),
    [
        (MixesStreams, check_streams_are_not_mixed, Rule.STREAM_ORDER),
        (IgnoresRecordStream, check_recorded_streams_are_waited_for, Rule.RECORD_STREAM),
        (ReleasesUnderQueuedWork, check_streams_are_not_mixed, Rule.RELEASE),
        (StrandsBlocks, check_forgotten_streams, Rule.STREAM_ORDER),
    ],
)
def test_the_kit_rejects_faults_on_a_driver_that_is_not_the_simulator(broken, check, rule, monkeypatch):
    monkeypatch.setattr(Bench, "keep_busy", lambda bench, lane: None)
    with pytest.raises(ContractBrokenError) as caught:
        check(broken, Opaque)
    assert caught.value.rule is rule
