"""The checks of what happens when memory is short."""

from __future__ import annotations

import sys

from ...allocators.base import Allocator
from ...allocators.errors import OutOfMemoryError, PluginError
from ...allocators.upstream import Upstream
from ...runtime.drivers.sim import SimDriver
from .rules import ContractBrokenError, Rule, broken_by, expect, require
from .workbench import MIB, SIZES, Bench, Drivers, Factory, Live

_BIG, _BIG_WITHIN_LIMIT = 128 * MIB, 64 * MIB
"""Powers of two, which no strategy need round: of a bench's 192 MiB, and of a limit of 100 MiB."""


def check_failed_allocations_lose_nothing(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """When upstream has no more, blocks, counters and contents are as before, and freeing makes room again."""
    with Bench(factory, drivers) as bench:
        lane = bench.lanes[1]
        for _ in range(3):
            blocks = _fill(bench)
            kept = bench.upstream.held
            for nbytes in (bench.upstream.capacity, 64 * MIB):
                expect(OutOfMemoryError, Rule.NOTHING_LOST, bench.allocate, nbytes, lane)
            require(bench.upstream.held <= kept, Rule.NOTHING_LOST, "a failed allocation has reserved memory")
            for live in blocks:
                bench.touch(live)
            bench.start_over()
            bench.verify()
        ooms = bench.allocator.statistics().num_ooms
        require(ooms >= 6, Rule.ACCOUNTING, f"num_ooms is {ooms} after more failures than that")


def check_memory_is_found_before_giving_up(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """What is cached, for any size and stream, or waits for streams, is given back before an allocation fails."""
    with Bench(factory, drivers) as bench:
        for _ in range(2):
            for live in _fill(bench):
                bench.touch(live, bench.lanes[2])
            bench.start_over()
            try:
                big = bench.allocate(_BIG, bench.lanes[0])
            except OutOfMemoryError as error:
                require(False, Rule.LAST_RESORT, f"everything was freed, and two thirds cannot be had: {error}")
            else:
                bench.touch(big)
            bench.start_over()
        bench.verify()


def check_out_of_memory_hook(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """The hook may use the allocator; it is asked again only while its answers make a difference."""
    with Bench(factory, drivers) as bench:
        asked: list[tuple[int, int]] = []
        lane = bench.lanes[1]
        before = sys.exc_info()[1]  # what a trace function raised may have left the thread handling for ever (CPython)

        def frees_one(nbytes: int, stream: int) -> bool:
            asked.append((nbytes, stream))
            handled = sys.exc_info()[1]
            require(handled is before, Rule.HOOK, f"it was asked while {handled!r} was handled")
            bench.allocator.statistics()
            bench.start_over()
            return True

        def promises(nbytes: int, stream: int) -> bool:
            asked.append((nbytes, stream))
            require(len(asked) < 10, Rule.HOOK, "it is asked on and on, although its answers make no difference")
            return True

        def declines(nbytes: int, stream: int) -> bool:
            asked.append((nbytes, stream))
            return False

        _fill(bench)
        bench.allocator.on_out_of_memory = frees_one
        nbytes = bench.upstream.capacity // 2
        try:
            bench.allocator.free(bench.allocator.allocate(nbytes, stream=lane.handle))
        except OutOfMemoryError as error:
            require(False, Rule.HOOK, f"it freed everything, and the allocation failed: {error}")
        require(
            asked == [(nbytes, lane.handle)], Rule.HOOK, f"it was asked {asked}, expected {[(nbytes, lane.handle)]}"
        )
        for hook in (promises, declines):
            asked.clear()
            bench.allocator.on_out_of_memory = hook
            expect(OutOfMemoryError, Rule.HOOK, bench.allocator.allocate, 2 * bench.upstream.capacity, stream=0)
            require(bool(asked), Rule.HOOK, f"it was not asked ({hook.__name__})")


def check_memory_limit(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """``memory_limit`` counts as out of memory, and memory is found below it as it is below the device's.

    It holds as an option of the constructor, and set later.
    """
    limit = 100 * MIB

    def limited(upstream: Upstream) -> Allocator:
        try:
            return factory(upstream, memory_limit=limit)
        except (TypeError, PluginError) as error:
            raise ContractBrokenError(Rule.LIMIT, f"it cannot be made with memory_limit={limit}: {error}") from error

    for make in (limited, factory):
        with Bench(make, drivers) as bench:
            if make is factory:
                bench.allocator.memory_limit = limit
            found = bench.allocator.memory_limit
            require(found == limit, Rule.LIMIT, f"memory_limit is {found} after it was set to {limit}")
            for _ in range(2):
                for live in _fill(bench):
                    bench.touch(live)
                held = bench.upstream.held
                require(held <= limit, Rule.LIMIT, f"{held} bytes are reserved under a limit of {limit}")
                bench.start_over()
            try:
                bench.allocate(_BIG_WITHIN_LIMIT, bench.lanes[0])
            except OutOfMemoryError as error:
                raise broken_by(error, Rule.LIMIT) from error
            bench.verify()


def _fill(bench: Bench) -> list[Live]:
    """Allocate until upstream has no more: mixed sizes on all streams."""
    blocks: list[Live] = []
    while len(blocks) < 2000:
        index = len(blocks)
        try:
            blocks.append(bench.allocate(SIZES[index * 5 % len(SIZES)], bench.lanes[index % len(bench.lanes)]))
        except OutOfMemoryError:
            break
    return blocks
