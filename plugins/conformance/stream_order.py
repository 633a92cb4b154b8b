"""The checks of what streams may see: memory that other streams have finished with, destroyed ones included."""

from __future__ import annotations

from ...runtime.drivers.sim import SimDriver
from .rules import Rule, require
from .workbench import MIB, Bench, Drivers, Factory

_SIZES = (512, 40_000, 2 * MIB, 12 * MIB)


def check_streams_are_not_mixed(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """Memory freed under queued work is not handed to another stream before that work has passed."""
    for nbytes in _SIZES:
        with Bench(factory, drivers) as bench:
            for user in bench.lanes:
                bench.keep_busy(user)
                live = bench.allocate(nbytes, user)
                bench.touch(live)
                bench.free(live)
                for other in bench.lanes:
                    bench.touch(bench.allocate(nbytes, other))
                bench.start_over()
            bench.verify()


def check_recorded_streams_are_waited_for(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """A block used on other streams is not handed out again before these have passed the point of the free."""
    for nbytes in _SIZES:
        with Bench(factory, drivers) as bench:
            owner, *others = bench.lanes
            for _ in range(2):
                live = bench.allocate(nbytes, owner)
                for other in others:
                    bench.keep_busy(other)
                    bench.touch(live, other)
                bench.free(live)
                for lane in (owner, *others):
                    bench.touch(bench.allocate(nbytes, lane))
                bench.start_over()
                bench.verify()
            bench.synchronize()
            bench.verify()


def check_forgotten_streams(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """The blocks of a destroyed stream serve others, and the next stream of its handle once it is safe."""
    with Bench(factory, drivers) as bench:
        for nbytes in _SIZES:
            for _ in range(3):
                lane = bench.lanes[1]
                bench.keep_busy(lane)
                live = bench.allocate(nbytes, lane)
                bench.touch(live)
                bench.free(live)
                bench.replace(lane)
                bench.touch(bench.allocate(nbytes, bench.lanes[1]))
                bench.touch(bench.allocate(nbytes, bench.lanes[2]))
                bench.start_over()
        _forget_many_sizes(bench)
        bench.synchronize()
        bench.start_over()
        bench.release_cached()
        held = bench.upstream.held
        require(not held, Rule.FORGET_STREAM, f"{held} bytes are stranded after release_cached() with no live block")
        bench.verify()


def _forget_many_sizes(bench: Bench) -> None:
    """Destroy a busy stream for which blocks of many sizes are cached, and ask for each of them at once."""
    lane = bench.lanes[1]
    sizes = [512 << power for power in range(14)] + [3 * MIB, 12 * MIB]
    blocks = [bench.allocate(nbytes, lane) for nbytes in sizes]
    bench.keep_busy(lane)
    for live in blocks:
        bench.touch(live)
        bench.free(live)
    bench.replace(lane)
    for index, nbytes in enumerate(sizes):
        bench.touch(bench.allocate(nbytes, bench.lanes[index % 3]))
    bench.verify()
    bench.start_over()


def check_pieces_beside_orphans_are_safe(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """What was freed beside the live blocks of a destroyed stream serves others only after that stream's work.

    So does what those blocks leave when they are freed later, alone or as one with the pieces beside them.
    """
    for nbytes in _SIZES:
        for queued_first in (True, False):
            with Bench(factory, drivers, capacity=2 << 30) as bench:
                lane = bench.lanes[1]
                blocks = [bench.allocate(nbytes, lane) for _ in range(5)]
                for live in blocks:
                    bench.touch(live)
                if queued_first:
                    bench.synchronize()
                bench.keep_busy(lane)
                for live in blocks:
                    bench.touch(live)
                for live in blocks[::2]:
                    bench.free(live)
                bench.replace(lane)
                for other in (bench.lanes[1], bench.lanes[2], bench.lanes[0]):
                    bench.touch(bench.allocate(nbytes, other))
                bench.verify()
                for live in blocks[1::2]:
                    bench.free(live)
                for other in (bench.lanes[2], bench.lanes[1]):
                    bench.touch(bench.allocate(nbytes, other))
                    bench.touch(bench.allocate(2 * nbytes, other))
                bench.verify()
                bench.start_over()
                bench.synchronize()
                bench.start_over()
                bench.release_cached()
                held = bench.upstream.held
                require(not held, Rule.FORGET_STREAM, f"{held} bytes are stranded after everything was freed")
                bench.verify()
