"""The checks of where blocks lie: apart from each other, in segments that say what they are for."""

from __future__ import annotations

from contextlib import suppress

from ...allocators.block import Segment
from ...allocators.errors import OutOfMemoryError
from ...allocators.statistics import SMALL_BLOCK
from ...runtime.drivers.sim import SimDriver
from .rules import Rule, require
from .workbench import MIB, SIZES, Bench, Drivers, Factory, Live

_MANY = 40
_HUGE = (256 * MIB, 257 * MIB, 512 * MIB + 1, 1 << 30, (2 << 30) + 512, (4 << 30) + 1)
"""Sizes in bytes about which strategies for ordinary blocks may go wrong, past the reach of 32 bits too."""


def check_live_blocks_do_not_overlap(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """What is written into each block stays there, whatever is allocated and freed around it."""
    with Bench(factory, drivers) as bench:
        lanes = bench.lanes
        for turn in range(3):
            for index, nbytes in enumerate(SIZES):
                bench.touch(bench.allocate(nbytes, lanes[(index + turn) % len(lanes)]))
            for live in bench.live[turn::2]:
                bench.touch(live)
                bench.free(live)
            bench.verify()
        for live in bench.live:
            bench.touch(live)


def check_many_blocks_of_one_size_do_not_overlap(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """However many blocks of one size are live at once, each has its own place, also where freed ones left gaps."""
    for nbytes in (1, 4096, 100_000, MIB, 3 * MIB, 11 * MIB):
        with Bench(factory, drivers, capacity=2 << 30) as bench:
            lane = bench.lanes[1]
            for _ in range(_MANY):
                bench.touch(bench.allocate(nbytes, lane))
            for gap in (2, 3):
                freed = bench.live[::gap]
                for live in freed:
                    bench.free(live)
                for _ in freed:
                    bench.touch(bench.allocate(nbytes, lane))
                bench.touch(bench.allocate(nbytes, bench.lanes[2]))
            for live in bench.live:
                bench.touch(live)
            bench.verify()


def check_huge_blocks_do_not_overlap(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """Blocks of 256 MiB to 4 GiB have their own places as well, at every size that the device has room for."""
    with Bench(factory, drivers, capacity=20 << 30) as bench:
        lane = bench.lanes[0]
        for nbytes in _HUGE:
            with suppress(OutOfMemoryError):  # a small device: the bench has seen to it that it was justified
                for _ in range(3):
                    bench.touch(bench.allocate(nbytes, lane))
                for live in bench.live[::2]:
                    bench.free(live)
                bench.touch(bench.allocate(nbytes, lane))
            for live in bench.live:
                bench.touch(live)
            bench.verify()
            bench.start_over()
            bench.release_cached()


def check_segments_say_what_they_are_for(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """A new segment names the stream of the request that it was reserved for, and is counted in its own pool."""
    with Bench(factory, drivers) as bench:
        for turn in range(3):
            for nbytes in (*SIZES, *reversed(SIZES)):
                for lane in bench.lanes[turn % 2 :]:
                    before = {segment.address for segment in bench.allocator.segments()}
                    with suppress(OutOfMemoryError):
                        live = bench.allocate(nbytes, lane)
                        for segment in bench.allocator.segments():
                            if segment.address not in before:
                                _check_new_segment(segment, live)
            bench.verify()
            for live in bench.live[::2]:
                bench.free(live)
            bench.verify()
            bench.start_over()
            bench.release_cached()


def _check_new_segment(segment: Segment, live: Live) -> None:
    what = f"a segment at {segment.address:#x} was reserved for {live!r}, and says"
    stream = live.lane.handle
    require(segment.stream == stream, Rule.SEGMENT, f"{what} that it is for the stream {segment.stream:#x}")
    require(
        live.nbytes <= SMALL_BLOCK or segment.pool == "large",
        Rule.SEGMENT,
        f"{what} that it is for the {segment.pool} pool",
    )
