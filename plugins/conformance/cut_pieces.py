"""The check that memory which was cut into pieces serves as a whole again.

The invariant: *what has served a request serves it again, once everything that was allocated since is freed.* It is
true of every allocator that takes freed memory for smaller blocks, however it cuts and merges: the blocks in the
program's hands are the same as when the request was served, so that nothing lies in the way but what the allocator has
made of its free memory. An allocator that does not cut what was freed has promised nothing: one with a segment for each
block, or an arena, passes.
"""

from __future__ import annotations

from ...allocators.errors import OutOfMemoryError
from ...allocators.sizes import short_size
from ...runtime.drivers.sim import SimDriver
from .rules import ContractBrokenError, Rule
from .workbench import MIB, Bench, Drivers, Factory, Lane, Live

_WHOLE = ((16 * MIB, 192 * MIB), (MIB // 2, 8 * MIB))
"""Bytes of the blocks that are cut, and of the device: large ones and small ones, for which allocators have pools.
Powers of two, which no strategy need round."""
_HALVINGS = 3
"""How often a block's place is halved. Its pieces are large or small as it is itself."""
_MOST = 200
"""Blocks of a size: a device whose memory has no end cannot be filled."""


def check_cut_memory_serves_as_a_whole_again(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """A block is freed where upstream has no more, and halves take its place; once they are freed, it can be had again.

    A half's own place is cut in the same way while the other half lives, so that no segment is free as a whole.
    """
    for nbytes, capacity in _WHOLE:
        with Bench(factory, drivers, capacity=capacity) as bench:
            lane = bench.lanes[1]
            blocks = _until_full(bench, nbytes, lane)
            for live in (*blocks[:2], *blocks[2:][-1:]):
                _cut(bench, live, lane, _HALVINGS)
            bench.verify()


def _until_full(bench: Bench, nbytes: int, lane: Lane) -> list[Live]:
    """Blocks of a size, as many as there are."""
    blocks: list[Live] = []
    try:
        while len(blocks) < _MOST:
            blocks.append(bench.allocate(nbytes, lane))
    except OutOfMemoryError:
        pass  # the bench has seen to it that it was justified
    return blocks


def _cut(bench: Bench, whole: Live, lane: Lane, halvings: int) -> None:
    """Let halves take the place of a block, and free them; then take the block again."""
    nbytes, start, end = whole.requested, whole.address, whole.address + whole.nbytes
    bench.free(whole)
    kept = len(bench.live)
    halves = _until_full(bench, nbytes // 2, lane)
    inside = [half for half in halves if half.address < end and half.address + half.nbytes > start]
    if inside and halvings > 1:
        _cut(bench, inside[-1], lane, halvings - 1)
    for live in bench.live[kept:]:
        bench.free(live)
    try:
        bench.allocate(nbytes, lane)
    except OutOfMemoryError as error:
        if inside:  # else it does not cut what was freed
            raise ContractBrokenError(
                Rule.WHOLE_AGAIN,
                f"a block of {short_size(nbytes)} at {start:#x} was freed, and blocks of {short_size(nbytes // 2)} "
                f"took its place. All of them are freed again, and the {short_size(nbytes)} cannot be had any more. "
                f"Merge free neighbours before OutOfMemoryError is raised, or give back in _release_cached() the "
                f"segment in which they lie: {error}",
            ) from error
