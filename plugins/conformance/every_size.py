"""The check that no size of block is lost: what was freed goes back to upstream, whatever its size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ...allocators.errors import OutOfMemoryError
from ...allocators.sizes import short_size
from ...runtime.drivers.sim import SimDriver
from .rules import ContractBrokenError, Rule
from .workbench import MIB, Bench, Drivers, Factory, Lane

_OCTAVES = range(9, 33)
"""Powers of two from 512 bytes to 4 GiB. Smaller blocks are as large as the first."""
_BETWEEN = (1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875)
"""Sizes between two powers of two: a strategy may lose what lies between two of its classes."""
_LARGE, _HUGE = 64 * MIB, 512 * MIB
"""From these sizes on only 1.5 times lies between two powers, and only one block is taken: an allocator that makes
memory of pages makes thousands for each."""


def check_freed_blocks_of_every_size_go_back(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """Blocks of each size are allocated, freed and released, after which nothing is held.

    Powers of two, one byte less and one more, and sizes between them. The blocks of one size are alone on the
    allocator, so that the failure names the size that was lost. They are freed in three ways, since strategies keep
    the memory in different lists: as ever, with work of another stream on them, and around the end of their stream.
    """
    with Bench(factory, drivers, capacity=20 << 30) as bench:
        for nbytes, called in _sizes():
            _freed_as_ever(bench, nbytes)
            _require_nothing_held(bench, called, "freed")
            if nbytes < _HUGE:
                _used_on_another_stream(bench, nbytes)
                _require_nothing_held(bench, called, "freed with work of another stream queued on them")
                _left_by_a_destroyed_stream(bench, nbytes)
                _require_nothing_held(bench, called, "freed before and after their stream was destroyed")
        bench.verify()


def _sizes() -> Iterator[tuple[int, str]]:
    """Sizes in bytes, and what a failure calls them."""
    for power in _OCTAVES:
        whole = 1 << power
        for nbytes, less_or_more in ((whole - 1, "1 less than "), (whole, ""), (whole + 1, "1 more than ")):
            yield nbytes, f"{nbytes} bytes ({less_or_more}{short_size(whole)})"
        for times in _BETWEEN:
            if whole < _LARGE or times == 1.5:
                nbytes = int(whole * times)
                yield nbytes, f"{nbytes} bytes ({short_size(nbytes)})"


def _freed_as_ever(bench: Bench, nbytes: int) -> None:
    """Three side by side, of which the second is freed first, taken again, and freed last; of huge ones one."""
    lane = bench.lanes[1]
    _allocate(bench, nbytes, lane, count=3 if nbytes < _HUGE else 1)
    for live in bench.live[1:2]:
        bench.touch(live)
        bench.free(live)
        _allocate(bench, nbytes, lane)
    bench.start_over()


def _used_on_another_stream(bench: Bench, nbytes: int) -> None:
    _allocate(bench, nbytes, bench.lanes[1])
    for live in bench.live:
        bench.touch(live, bench.lanes[2])
    bench.start_over()


def _left_by_a_destroyed_stream(bench: Bench, nbytes: int) -> None:
    """One block is cached for a stream when it is destroyed, and another one is still in use."""
    lane = bench.lanes[3]
    _allocate(bench, nbytes, lane, count=2)
    for live in bench.live[:1]:
        bench.free(live)
    bench.replace(lane)
    bench.start_over()


def _allocate(bench: Bench, nbytes: int, lane: Lane, count: int = 1) -> None:
    with suppress(OutOfMemoryError):  # a small device: the bench has seen to it that it was justified
        for _ in range(count):
            bench.allocate(nbytes, lane)


def _require_nothing_held(bench: Bench, called: str, how: str) -> None:
    bench.synchronize()
    bench.release_cached()
    held = bench.upstream.held
    if held:
        raise ContractBrokenError(
            Rule.NO_LEAK,
            f"blocks of {called} were {how}, and {held} bytes are held after release_cached() with no live block",
        )
