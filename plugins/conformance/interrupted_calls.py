"""The situations in which the kit breaks off an allocator's calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .workbench import MIB, Bench, Lane, Live


@dataclass(frozen=True)
class Situation:
    """An operation, and what the program has done before it."""

    name: str
    prepare: Callable[[Bench], Operation]


@dataclass(frozen=True, eq=False)
class Operation:
    """A call of the allocator that an exception is to break off."""

    call: Callable[[], object]
    """A block that it returns is in the program's hands."""
    nbytes: int = 0
    """What it allocates, if it does."""
    frees: Live | None = None
    """What it frees, if it does: broken off, it may have done so or not."""
    closes: bool = False
    """Whether it closes the allocator: broken off, it is done again."""
    forgets: Lane | None = None
    """The stream that it makes the allocator forget: broken off, it is done again, and the stream destroyed."""
    resets_peaks: bool = False
    """Whether it starts the peaks again."""


def _some_blocks(bench: Bench) -> list[Live]:
    """Blocks of several sizes on two streams, all in use."""
    blocks = [bench.allocate(nbytes, lane) for nbytes in (512, 4096, 3 * MIB) for lane in bench.lanes[:2] for _ in "12"]
    for live in blocks:
        bench.touch(live)
    return blocks


def _allocation(bench: Bench, nbytes: int) -> Operation:
    stream = bench.lanes[1].handle
    return Operation(lambda: bench.allocator.allocate(nbytes, stream=stream), nbytes=nbytes)


def _a_hit(bench: Bench) -> Operation:
    blocks = _some_blocks(bench)
    for live in blocks[::2]:
        bench.free(live)
    return _allocation(bench, 512)


def _a_cut(bench: Bench) -> Operation:
    _some_blocks(bench)
    bench.free(bench.allocate(11 * MIB, bench.lanes[1]))
    return _allocation(bench, 2 * MIB)


def _an_allocation_behind_fences(bench: Bench) -> Operation:
    blocks = _some_blocks(bench)
    for live in blocks[::2]:
        bench.touch(live, bench.lanes[2])
        bench.free(live)
    bench.synchronize()
    return _allocation(bench, 4096)


def _a_shortage(bench: Bench) -> Operation:
    blocks = _some_blocks(bench)
    for live in blocks[1::2]:
        bench.touch(live, bench.lanes[2])
    for live in blocks[1:]:
        bench.free(live)
    bench.upstream.capacity = bench.upstream.held
    return _allocation(bench, 7 * MIB)


def _running_out(bench: Bench) -> Operation:
    _some_blocks(bench)
    bench.upstream.capacity = bench.upstream.held
    return _allocation(bench, 600 * MIB)


def _a_free(bench: Bench) -> Operation:
    live = _some_blocks(bench)[3]
    bench.gave_up(live)
    return Operation(lambda: bench.allocator.free(live.block), frees=live)


def _a_free_that_waits(bench: Bench) -> Operation:
    live = _some_blocks(bench)[3]
    bench.touch(live, bench.lanes[2])
    bench.gave_up(live)
    return Operation(lambda: bench.allocator.free(live.block), frees=live)


def _after_frees(call: Callable[[Bench], object], **what: bool) -> Callable[[Bench], Operation]:
    def prepare(bench: Bench) -> Operation:
        blocks = _some_blocks(bench)
        bench.touch(blocks[2], bench.lanes[2])
        for live in blocks[::2]:
            bench.free(live)
        return Operation(lambda: call(bench), **what)  # type: ignore[arg-type]

    return prepare


def _forgetting(bench: Bench) -> Operation:
    """Blocks of the stream are in use, free, and waiting for another stream; more are to be freed when it is gone."""
    lane = bench.lanes[1]
    frees = _after_frees(lambda bench: bench.allocator.forget_stream(lane.handle))(bench)
    return Operation(frees.call, forgets=lane)


def _recording(bench: Bench) -> Operation:
    block = _some_blocks(bench)[1].block
    return Operation(lambda: bench.allocator.record_stream(block, bench.lanes[3].handle))


def _watched(bench: Bench) -> Operation:
    bench.allocator.attach(lambda *_event: None)
    return _a_hit(bench)


def _resetting(bench: Bench) -> Operation:
    blocks = _some_blocks(bench)
    for live in blocks:
        bench.free(live)
    return Operation(getattr(bench.allocator, "reset", bench.allocator.segments))


SITUATIONS = (
    Situation("an allocation from upstream", lambda bench: _allocation(bench, 3 * MIB)),
    Situation("an allocation of what was freed", _a_hit),
    Situation("an allocation of a part of what was freed", _a_cut),
    Situation("an allocation while blocks wait for streams", _an_allocation_behind_fences),
    Situation("an allocation that gives cached memory back first", _a_shortage),
    Situation("an allocation that fails", _running_out),
    Situation("an allocation that is observed", _watched),
    Situation("a free", _a_free),
    Situation("a free of a block that other streams use", _a_free_that_waits),
    Situation("record_stream()", _recording),
    Situation("release_cached()", _after_frees(lambda bench: bench.allocator.release_cached() and None)),
    Situation("forget_stream()", _forgetting),
    Situation("statistics()", _after_frees(lambda bench: bench.allocator.statistics() and None)),
    Situation("segments()", _after_frees(lambda bench: bench.allocator.segments() and None)),
    Situation("reset_peaks()", _after_frees(lambda bench: bench.allocator.reset_peaks(), resets_peaks=True)),
    Situation("reset()", _resetting),
    Situation("close()", _after_frees(lambda bench: bench.allocator.close(), closes=True)),
)
