"""What a replay of one program on one allocator finds, however its steps are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ...allocators.base import Allocator
from ...allocators.served import Served
from ...allocators.sizes import format_size
from ...allocators.statistics import Counters
from .program import LIMITS, Column, Program

Curve = tuple[Column, Column]
"""Numbers of steps, and the bytes that are reserved from each of them on."""


class Run:
    """The figures of ``ReplayResult`` for one device, as they are before a step is taken."""

    program: Program
    allocator: Allocator
    out_of_memory = 0
    seconds = 0.0
    failure = ""
    shortage: Shortage | None = None
    calls: Mapping[str, int] = MappingProxyType({})
    driver_time_us = 0.0
    peak_requested = peak_allocated = peak_reserved = peak_on_host = 0
    served: Served | None = None

    def note(self, counted: Counters, allocator: Any) -> None:
        """Take the peaks of what ``allocator`` has counted, and what a plan has served in it."""
        self.peak_requested = counted.requested_bytes.peak
        self.peak_allocated = counted.allocated_bytes.peak
        self.peak_reserved = counted.reserved_bytes.peak
        self.peak_on_host = counted.host_bytes.peak
        self.served = allocator.served() if hasattr(allocator, "served") else None


@dataclass(frozen=True, slots=True)
class Shortage:
    """What an allocator lacked at the request that ended a replay. Sizes are bytes."""

    requested: int
    active: int
    """In use, or freed and still waiting for streams."""
    reserved: int
    done: float
    """The part of the history that was replayed by then."""

    @classmethod
    def found(cls, program: Program, at: int, allocator: Allocator) -> Shortage:
        """What ``allocator`` counts after the step number ``at``, an allocation, has failed."""
        counted = allocator.statistics().all
        return cls(
            int(program.sizes[int(program.steps[at]) - 1]),
            counted.active_bytes.current,
            counted.reserved_bytes.current,
            at / len(program.steps),
        )


def failure_of(program: Program, at: int, why: str) -> str:
    """Names the event behind the step number ``at``, which failed."""
    step = int(program.steps[at])
    if step == 0:
        return f"event {program.events[at]}, emptying the cache of device {program.device}: {why}"
    if step < LIMITS:
        return f"event {program.events[at]}, changing the limit of device {program.device}: {why}"
    number = abs(step) - 1
    what = "allocating" if step > 0 else "freeing"
    return (
        f"event {program.events[at]}, {what} {program.sizes[number]} bytes of stream "
        f"{int(program.streams[number]):#x} on device {program.device}: "
        f"{why.removesuffix('.')}. {_how_far(program, at)}"
    )


def _how_far(program: Program, at: int) -> str:
    """How far a replay came that failed at the step number ``at``, in figures of the history."""
    held, peak = format_size(program.peak_before(at)), format_size(program.peak_requested)
    part = f"{100 * at / len(program.steps):.1f} %"
    return f"That is after {part} of the history; until then its program holds {held} at most, at its peak {peak}."


def lost_bytes(nbytes: int) -> str:
    """The failure of an allocator that was closed and still holds memory from upstream; empty if it holds none."""
    return f"the allocator lost {format_size(nbytes)}: close() did not give them back" if nbytes else ""
