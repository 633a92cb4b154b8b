"""The check that the work of one call stays in proportion to what the allocator holds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from ...allocators.errors import OutOfMemoryError
from ...runtime.drivers.sim import SimDriver
from .rules import Rule, require
from .workbench import MIB, Bench, Drivers, Factory

_FEW, _TIMES = 96, 4
_MOST = 2.2 * _TIMES
"""So much more work may a call be with four times the pieces: n log n is 5, and n squared 16 times."""
_SLACK = 400
"""Lines that do not count."""
_SLACK_S = 0.004
"""Seconds of processor time that do not count: below, the clock says nothing."""
_TRIES = 4

_LEFT_OUT = tuple(f"{__name__.split('.')[0]}.{floor}." for floor in ("runtime", "plugins.conformance"))

Sizes = Callable[[int], int]
Call = tuple[str, Callable[[Bench], object]]

_SIZES: dict[str, Sizes] = {
    "of 4 KiB": lambda _: 4096,
    "of different sizes": lambda index: 512 * (index + 1),
    "of 2 MiB": lambda _: 2 * MIB,
}


def check_work_grows_no_faster_than_the_pieces_held(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """With four times the free pieces, a call does not take sixteen times the work.

    Work is counted in lines of Python. What runs in C is measured in processor time of this thread, at sizes where it
    can be told from noise, and only what is found again in every one of four tries counts.
    """
    for what, size in _SIZES.items():
        for name, call in _CALLS:
            _check_lines(factory, drivers, what, size, name, call)
    for name, call in _CALLS:
        _check_time(factory, drivers, name, call)


def _check_lines(
    factory: Factory, drivers: Drivers, what: str, size: Sizes, name: str, call: Callable[[Bench], object]
) -> None:
    few, many = (_with_free_pieces(factory, drivers, count, size, call, _lines) for count in (_FEW, _TIMES * _FEW))
    require(
        many <= _MOST * few + _SLACK,
        Rule.SPEED,
        f"{name} takes {few:.0f} lines with {_FEW} free pieces {what}, and {many:.0f} with {_TIMES * _FEW}",
    )


def _check_time(factory: Factory, drivers: Drivers, name: str, call: Callable[[Bench], object]) -> None:
    few, many = 4 * _FEW, 4 * _FEW * _TIMES
    found = []
    for _ in range(_TRIES):
        slow = _with_free_pieces(factory, drivers, many, lambda _: 4096, call, _seconds)
        if slow <= _SLACK_S:
            return
        quick = _with_free_pieces(factory, drivers, few, lambda _: 4096, call, _seconds)
        if slow <= _MOST * quick:
            return
        found.append(slow / quick)
    factors = ", ".join(f"{factor:.0f}" for factor in found)
    require(
        False,
        Rule.SPEED,
        f"{name} takes {factors} times the processor time with {many} free pieces that it takes with {few}",
    )


def _with_free_pieces(
    factory: Factory,
    drivers: Drivers,
    count: int,
    size: Sizes,
    call: Callable[[Bench], object],
    measure: Callable[[Callable[[], object]], float],
) -> float:
    """What one ``call`` costs beside ``count`` free pieces, each between two live blocks."""
    with Bench(factory, drivers, capacity=16 << 30) as bench:
        allocator, stream = bench.allocator, bench.lanes[1].handle
        blocks = [allocator.allocate(size(index // 2), stream=stream) for index in range(2 * count)]
        for block in blocks[::2]:
            allocator.free(block)
        allocator.segments()  # what was put off until now is no part of the call
        bench.spare = blocks[1::2]
        cost = measure(lambda: call(bench))
        bench.lost = True  # what is held is the simulator's to take back: giving it back one by one is not the subject
        return cost


def _lines(operation: Callable[[], object]) -> float:
    lines = 0

    def every_line(_frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return every_line

    def every_call(frame: FrameType, _event: str, _: object) -> Any:
        return None if frame.f_globals.get("__name__", "").startswith(_LEFT_OUT) else every_line

    before = sys.gettrace()
    sys.settrace(every_call)
    try:
        operation()
    finally:
        sys.settrace(before)
    return lines


def _seconds(operation: Callable[[], object]) -> float:
    begun = time.thread_time()
    operation()
    return time.thread_time() - begun


def _allocate(nbytes: int) -> Callable[[Bench], object]:
    return lambda bench: bench.allocator.allocate(nbytes, stream=bench.lanes[1].handle)


def _allocate_in_vain(bench: Bench) -> None:
    bench.upstream.capacity = bench.upstream.held
    with suppress(OutOfMemoryError):
        bench.allocator.allocate(1 << 30, stream=bench.lanes[1].handle)


def _free(bench: Bench) -> None:
    bench.allocator.free(bench.spare.pop())
    bench.allocator.statistics()


_CALLS: tuple[Call, ...] = (
    ("an allocation that a free piece fits", _allocate(4096)),
    ("an allocation that no free piece fits", _allocate(12 * MIB)),
    ("a small allocation that few free pieces fit", _allocate(48 << 10)),
    ("an allocation that fails", _allocate_in_vain),
    ("a free", _free),
    ("statistics()", lambda bench: bench.allocator.statistics()),
    ("segments()", lambda bench: bench.allocator.segments()),
    ("release_cached()", lambda bench: bench.allocator.release_cached()),
)
