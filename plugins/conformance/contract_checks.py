"""The contract, check by check. Each is a function of an allocator's factory that raises ContractBrokenError.

``check_alignment(MyAllocator)`` runs one on the simulator; ``drivers`` makes another driver, or another schedule.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from ...allocators.errors import CuplugError, DriverError, InvalidFreeError, OutOfMemoryError
from ...runtime.drivers.device_upstream import DeviceUpstream
from ...runtime.drivers.sim import SimDriver
from .block_addresses import (
    check_huge_blocks_do_not_overlap,
    check_live_blocks_do_not_overlap,
    check_many_blocks_of_one_size_do_not_overlap,
    check_segments_say_what_they_are_for,
)
from .cut_pieces import check_cut_memory_serves_as_a_whole_again
from .event_sums import EventSums
from .every_size import check_freed_blocks_of_every_size_go_back
from .failing_calls import check_failing_calls_lose_nothing
from .rules import Rule, expect, require
from .shortage import (
    check_failed_allocations_lose_nothing,
    check_memory_is_found_before_giving_up,
    check_memory_limit,
    check_out_of_memory_hook,
)
from .stream_order import (
    check_forgotten_streams,
    check_pieces_beside_orphans_are_safe,
    check_recorded_streams_are_waited_for,
    check_streams_are_not_mixed,
)
from .workbench import MIB, SIZES, Bench, Drivers, Factory, Live

__all__ = ["CHECKS", "SIMULATOR_ONLY", "Check"]

Check = Callable[[Factory, Drivers], None]


def check_sizes(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """Blocks are aligned and large enough; zero bytes are no memory; negative sizes are refused."""
    with Bench(factory, drivers) as bench:
        for nbytes in SIZES:
            bench.allocate(nbytes, bench.lanes[0])
        bench.verify()
        nothing = bench.allocator.allocate(0, stream=0)
        require((nothing.address, nothing.nbytes) == (0, 0), Rule.SIZES, f"zero bytes gave {nothing!r}")
        bench.allocator.record_stream(nothing, bench.lanes[1].handle)
        bench.ledger.verify_counted(Rule.SIZES)
        bench.allocator.free(nothing)
        bench.ledger.verify_counted(Rule.SIZES)
        expect(ValueError, Rule.SIZES, bench.allocator.allocate, -1, stream=0)
        bench.verify()


def check_accounting(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """Every figure follows from the program's calls, for repeated sizes (which hit caches) and new ones alike."""
    with Bench(factory, drivers) as bench:
        for turn in range(4):
            for index, nbytes in enumerate((*SIZES, *SIZES[:6])):
                live = bench.allocate(nbytes, bench.lanes[index % 2])
                if index % 3:
                    bench.free(live)
                if turn % 2:
                    bench.verify()
            for live in bench.live[::2]:
                bench.free(live)
        bench.verify()
        bench.allocator.reset_peaks()
        bench.ledger.peaks_were_reset()
        bench.verify()
        bench.start_over()
        bench.release_cached()
        bench.verify()
        held = bench.upstream.held
        require(not held, Rule.ACCOUNTING, f"{held} bytes are held after release_cached() with no live block")


def check_release_cached(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """The bytes that ``release_cached`` says it gave back are those that upstream got, and live blocks stay."""
    with Bench(factory, drivers) as bench:
        for nbytes in SIZES:
            for lane in bench.lanes:
                bench.touch(bench.allocate(nbytes, lane))
        for live in bench.live[::3]:
            bench.free(live)
        for queued in (True, False):
            if not queued:
                bench.synchronize()
                bench.free(bench.live[0])
                bench.allocator.segments()
            before = bench.upstream.held
            released = bench.release_cached()
            given = before - bench.upstream.held
            # What waited for queued work may go back before the cached memory does, and is not counted.
            right = released <= given if queued else released == given
            require(right, Rule.RELEASE, f"release_cached() says {released}, upstream got {given} bytes")
            bench.verify()
        for live in bench.live:
            bench.touch(live)


def check_invalid_frees(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """A block is freed once, to its own allocator; a refused free changes nothing."""
    with Bench(factory, drivers) as bench:
        other = factory(DeviceUpstream(bench.driver, 0))
        theirs = other.allocate(512, stream=0)
        for nbytes in (512, 2 * MIB):
            kept, live = bench.allocate(nbytes, bench.lanes[0]), bench.allocate(nbytes, bench.lanes[0])
            block = live.block
            bench.free(live)
            for what in (block, theirs):
                expect(InvalidFreeError, Rule.INVALID_FREE, bench.allocator.free, what)
                expect(InvalidFreeError, Rule.INVALID_FREE, bench.allocator.record_stream, what, 7)
            bench.allocate(nbytes, bench.lanes[0])
            bench.touch(kept)
        theirs.allocator.free(theirs)
        expect(InvalidFreeError, Rule.INVALID_FREE, other.free, theirs)
        other.close()
        bench.verify()


def check_close(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """``close`` waits for queued work, takes live blocks back, may be repeated; later frees are ignored."""
    with Bench(factory, drivers) as bench:
        for nbytes in SIZES:
            bench.touch(bench.allocate(nbytes, bench.lanes[1]), bench.lanes[2])
        for live in bench.live[::2]:
            bench.free(live)
        left = [live.block for live in bench.live]
        bench.allocator.close()
        bench.check_upstream()
        held = bench.upstream.held
        require(not held, Rule.CLOSE, f"{held} bytes were not given back")
        statistics = bench.allocator.statistics().all
        for name, counter in statistics.named():
            require(not counter.current, Rule.CLOSE, f"{name} is {counter} after close()")
        bench.allocator.close()
        for block in left:
            bench.allocator.free(block)
        for nbytes in (0, 512):
            expect(CuplugError, Rule.CLOSE, bench.allocator.allocate, nbytes, stream=0)
        require(not bench.upstream.held, Rule.CLOSE, "a closed allocator took memory")


def check_abandon(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """After ``abandon`` (a fork, a lost device) nothing is called upstream, and dropping blocks is harmless."""
    with Bench(factory, drivers) as bench:
        for nbytes in (512, 512, 2 * MIB):
            bench.touch(bench.allocate(nbytes, bench.lanes[0]), bench.lanes[1])
        bench.synchronize()
        calls = bench.upstream.calls
        blocks = [live.block for live in bench.live]
        bench.allocator.abandon("it is tested")
        for block in blocks:
            bench.allocator.free(block)
        expect(CuplugError, Rule.ABANDON, bench.allocator.allocate, 512, stream=0)
        bench.allocator.close()
        require(bench.upstream.calls == calls, Rule.ABANDON, "it called upstream afterwards")
        bench.lost = True


def check_sticky_errors_do_not_reach_free(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """Once the device's work has failed, ``free`` stays silent, and ``close`` raises or does what it can."""
    with Bench(factory, drivers) as bench:
        for nbytes in SIZES:
            bench.touch(bench.allocate(nbytes, bench.lanes[1]), bench.lanes[2])
        bench.lost = True
        bench.driver.memset(8, 0, 1, stream=bench.lanes[1].handle)
        for live in bench.live[::2]:
            _free_silently(bench, live)
        expect(DriverError, Rule.STICKY_ERROR, bench.driver.synchronize)
        for live in bench.live[1::2]:
            _free_silently(bench, live)
        try:
            bench.allocator.close()
        except DriverError:
            bench.allocator.abandon("the device is lost")


def check_events(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """What an observer sees adds up to what the allocator holds, attached early or late, and none is missing."""
    with Bench(factory, drivers) as bench:
        bench.allocate(512, bench.lanes[0])
        bench.free(bench.allocate(512, bench.lanes[0]))
        replay = EventSums(bench.allocator)
        for turn in range(3):
            for nbytes in SIZES:
                live = bench.allocate(nbytes, bench.lanes[turn])
                bench.touch(live, bench.lanes[turn + 1])
                replay.verify()
            for live in bench.live[::2]:
                bench.free(live)
                replay.verify()
            if turn == 1:
                bench.synchronize()
                bench.release_cached()
                replay.verify()
        bench.upstream.capacity, capacity = 0, bench.upstream.capacity
        expect(OutOfMemoryError, Rule.EVENTS, bench.allocate, 50 * MIB, bench.lanes[0])
        bench.upstream.capacity = capacity
        replay.verify()
        require(replay.out_of_memory == 1, Rule.EVENTS, f"{replay.out_of_memory} OUT_OF_MEMORY events of 1")
        replay.detach()
        seen = replay.count
        bench.start_over()
        require(replay.count == seen, Rule.EVENTS, "a detached observer was called")


def check_failing_observers(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """An observer that raises does no harm: it is detached with a warning."""
    with Bench(factory, drivers) as bench:

        def fails(*_event: int) -> None:
            raise ZeroDivisionError("an observer's fault")

        bench.allocator.attach(fails)
        replay = EventSums(bench.allocator)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            bench.touch(bench.allocate(512, bench.lanes[0]))
            bench.free(bench.live[0])
        require(
            len(caught) == 1, Rule.OBSERVERS, f"{len(caught)} warnings of 1: {[str(one.message) for one in caught]}"
        )
        replay.verify()


CHECKS: tuple[Check, ...] = (
    check_sizes,
    check_live_blocks_do_not_overlap,
    check_many_blocks_of_one_size_do_not_overlap,
    check_huge_blocks_do_not_overlap,
    check_segments_say_what_they_are_for,
    check_streams_are_not_mixed,
    check_recorded_streams_are_waited_for,
    check_accounting,
    check_release_cached,
    check_freed_blocks_of_every_size_go_back,
    check_failed_allocations_lose_nothing,
    check_failing_calls_lose_nothing,
    check_memory_is_found_before_giving_up,
    check_cut_memory_serves_as_a_whole_again,
    check_out_of_memory_hook,
    check_memory_limit,
    check_invalid_frees,
    check_close,
    check_abandon,
    check_sticky_errors_do_not_reach_free,
    check_events,
    check_failing_observers,
    check_forgotten_streams,
    check_pieces_beside_orphans_are_safe,
)
SIMULATOR_ONLY = frozenset({check_sticky_errors_do_not_reach_free})
"""What would take a GPU's context along."""


def _free_silently(bench: Bench, live: Live) -> None:
    try:
        bench.allocator.free(live.block)
    except CuplugError as error:
        require(False, Rule.STICKY_ERROR, f"it raised {error!r}")
