"""The kit rejects allocators that go wrong when memory is short, at their end, or after the device has failed."""

from __future__ import annotations

import pytest
from cuplug.allocators.errors import OutOfMemoryError
from cuplug.plugins.conformance.contract_checks import check_abandon, check_close, check_sticky_errors_do_not_reach_free
from cuplug.plugins.conformance.failing_calls import check_failing_calls_lose_nothing
from cuplug.plugins.conformance.rules import ContractBrokenError, Rule
from cuplug.plugins.conformance.shortage import (
    check_failed_allocations_lose_nothing,
    check_memory_is_found_before_giving_up,
    check_memory_limit,
    check_out_of_memory_hook,
)
from cuplug.plugins.conformance.workbench import MIB

from .example import ExampleAllocator


class LosesABlock(ExampleAllocator):
    """Takes a block out of its cache before it knows that the allocation will do."""

    def _allocate(self, requested, nbytes, stream):
        taken = next((key for key, addresses in self._cached.items() if addresses), None)
        address = self._cached[taken].pop() if taken else None
        block = super()._allocate(requested, nbytes, stream)
        if address is not None:
            self._cached[taken].append(address)
        return block


class CountsFailures(ExampleAllocator):
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
        statistics.all.requested_bytes.allocated += self.failed  # and as much freed
        return statistics


class Hoards(ExampleAllocator):
    """Keeps what it has cached, also when memory is short."""

    closing = False

    def _release_cached(self):
        return super()._release_cached() if self.closing else 0

    def _release_all(self):
        self.closing = True
        self._release_cached()


class IgnoresItsLimit(ExampleAllocator):
    def __init__(self, upstream, *, memory_limit: int | None = None):
        super().__init__(upstream)

    memory_limit = property(lambda self: None, lambda self, limit: None)


class DropsItsLimit(ExampleAllocator):
    """Takes the option and forgets it; set later, the limit holds."""

    def __init__(self, upstream, *, memory_limit: int | None = None):
        super().__init__(upstream)


class HasNoLimit(ExampleAllocator):
    def __init__(self, upstream):
        super().__init__(upstream)


class AsksTheHookOnAndOn(ExampleAllocator):
    def allocate(self, nbytes, *, stream):
        while True:
            try:
                return super().allocate(nbytes, stream=stream)
            except OutOfMemoryError:
                if self.on_out_of_memory is None or not self.on_out_of_memory(nbytes, stream):
                    raise


class LeaksAtClose(ExampleAllocator):
    def _release_all(self):
        """Leaves everything where it is."""


class LeaksEvents(ExampleAllocator):
    """Makes fences with the driver's events, and never destroys them."""

    def _free(self, block):
        self.upstream._upstream.driver.event_create()
        super()._free(block)


class CallsUpstreamWhenAbandoned(ExampleAllocator):
    def free(self, block):
        super().free(block)
        self.upstream.release(block.address)


class FreesRaiseWhatTheDeviceDid(ExampleAllocator):
    def free(self, block):
        super().free(block)
        self.upstream.fence(block.stream).wait()


class StrikesOffBeforeItReleases(ExampleAllocator):
    """Loses a piece that upstream refuses to take back."""

    def _release_cached(self):
        released = 0
        for (stream, nbytes), addresses in self._cached.items():
            if addresses:
                self.upstream.fence(max(stream, 0)).wait()
            while addresses:
                self._release(addresses.pop(), nbytes, small=nbytes <= MIB, stream=stream)
                released += nbytes
        return released


class CountsBeforeItReserves(ExampleAllocator):
    """Lists a block before there is memory for it."""

    pending = 0

    def _allocate(self, requested, nbytes, stream):
        self.pending += nbytes
        block = super()._allocate(requested, nbytes, stream)
        self.pending -= nbytes
        return block

    def statistics(self):
        statistics = super().statistics()
        statistics.all.allocated_bytes.current += self.pending
        return statistics


class ForgetsBeforeItFences(ExampleAllocator):
    """Strikes the pieces of a stream off its list, and then asks for the fence that it keeps them behind."""

    def _forget_stream(self, stream):
        taken = {key: self._cached.pop(key) for key in [key for key in self._cached if key[0] == stream]}
        self.upstream.fence(stream).wait()
        for (_, nbytes), addresses in taken.items():
            self._cached.setdefault((-1, nbytes), []).extend(addresses)


class FreesRaiseWhatAFenceDid(ExampleAllocator):
    def _free(self, block):
        self.upstream.fence(0)
        super()._free(block)


FAULTS = [
    (StrikesOffBeforeItReleases, check_failing_calls_lose_nothing, {Rule.NOTHING_LOST, Rule.ACCOUNTING, Rule.MAP}),
    (CountsBeforeItReserves, check_failing_calls_lose_nothing, {Rule.NOTHING_LOST, Rule.ACCOUNTING}),
    (ForgetsBeforeItFences, check_failing_calls_lose_nothing, {Rule.NOTHING_LOST, Rule.ACCOUNTING, Rule.MAP}),
    (FreesRaiseWhatAFenceDid, check_failing_calls_lose_nothing, {Rule.ACCOUNTING, Rule.STICKY_ERROR}),
    (LosesABlock, check_failed_allocations_lose_nothing, Rule.NOTHING_LOST),
    (CountsFailures, check_failed_allocations_lose_nothing, Rule.NOTHING_LOST),
    (Hoards, check_memory_is_found_before_giving_up, Rule.LAST_RESORT),
    (IgnoresItsLimit, check_memory_limit, Rule.LIMIT),
    (DropsItsLimit, check_memory_limit, Rule.LIMIT),
    (HasNoLimit, check_memory_limit, Rule.LIMIT),
    (AsksTheHookOnAndOn, check_out_of_memory_hook, Rule.HOOK),
    (LeaksAtClose, check_close, Rule.CLOSE),
    (LeaksEvents, check_close, Rule.CLOSE),
    (CallsUpstreamWhenAbandoned, check_abandon, Rule.ABANDON),
]


@pytest.mark.parametrize(("broken", "check", "rule"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_a_fault_in_a_shortage_or_at_the_end_is_found_and_its_rule_named(rule_broken_by, broken, check, rule):
    found = rule_broken_by(check, broken)
    assert found in rule if isinstance(rule, set) else found is rule


def test_a_free_that_raises_what_the_device_did_is_found(rule_broken_by):
    found = rule_broken_by(check_sticky_errors_do_not_reach_free, FreesRaiseWhatTheDeviceDid, "lazy")
    assert found is Rule.STICKY_ERROR


def test_an_allocation_that_fails_without_need_names_the_rule_and_not_only_the_error():
    class GivesUp(ExampleAllocator):
        """Refuses its sixth block."""

        def allocate(self, nbytes, *, stream):
            if len(self.live_blocks()) == 5:
                raise OutOfMemoryError("that is enough")
            return super().allocate(nbytes, stream=stream)

    with pytest.raises(ContractBrokenError, match="LAST_RESORT"):
        check_close(GivesUp)
