"""Replays a recorded history on an allocator, and measures what it would have cost. Computes only; prints nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ...allocators.base import Allocator
from ...allocators.block import Block
from ...allocators.errors import OutOfMemoryError
from ...allocators.null import NullUpstream
from ...allocators.sizes import format_size
from ...allocators.upstream import Upstream
from ...allocators.upstreams import TimedUpstream
from .program import Program

__all__ = ["ReplayResult", "replay"]

_CHUNK = 8192


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What one allocator did with one history. Over several devices, figures are sums."""

    trace: str
    """The trace's path."""
    allocator: str
    """The allocator's selection."""
    events: int
    """The events of the trace, those included that a replay passes over (such as the recorded allocator's segments)."""
    peak_requested_bytes: int
    peak_allocated_bytes: int
    """As the allocator rounded them."""
    peak_reserved_bytes: int
    driver_calls: dict[str, int]
    """How often each call of the driver was made, or would have been (``NullUpstream``), until the last event."""
    driver_time_us: float
    """Microseconds in those calls: estimated by ``NullUpstream``, measured by ``TimedUpstream``."""
    out_of_memory_events: int
    """Allocations that failed. What depends on them was passed over."""
    seconds: float
    """Wall time of the replay, from the first event to the last."""
    failure: str = ""
    """The first event that failed, and why; empty where none did."""
    note: str = ""
    """What is missing in the trace; empty where nothing is."""

    @property
    def reserved_over_requested(self) -> float:
        """Peak reserved as a multiple of peak requested."""
        return self.peak_reserved_bytes / self.peak_requested_bytes if self.peak_requested_bytes else 0.0

    @property
    def events_per_second(self) -> float:
        """Events of the trace in a second of replay."""
        return self.events / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, object]:
        """The figures by name, for JSON."""
        return {
            "trace": self.trace,
            "allocator": self.allocator,
            "events": self.events,
            "peak_requested_bytes": self.peak_requested_bytes,
            "peak_allocated_bytes": self.peak_allocated_bytes,
            "peak_reserved_bytes": self.peak_reserved_bytes,
            "reserved_over_requested": self.reserved_over_requested,
            "driver_calls": self.driver_calls,
            "driver_time_us": self.driver_time_us,
            "out_of_memory_events": self.out_of_memory_events,
            "seconds": self.seconds,
            "events_per_second": self.events_per_second,
            **({"failure": self.failure} if self.failure else {}),
            **({"note": self.note} if self.note else {}),
        }


def replay(
    programs: list[Program],
    make_allocator: Callable[[Upstream], Allocator],
    *,
    allocator: str,
    make_upstream: Callable[[int], Upstream] | None = None,
    memory: int | None = None,
    stream: Callable[[int, int], int] | None = None,
    progress: Callable[[int], None] | None = None,
    chunk: int = _CHUNK,
    stop_at_failure: bool = False,
) -> ReplayResult:
    """Replay ``programs``, one device after the other, each on an allocator of its own.

    Args:
        programs: from ``decode``.
        make_allocator: makes the allocator over its upstream.
        allocator: its selection, for the result and for messages.
        make_upstream: makes the upstream of a device's ordinal; by default a ``NullUpstream``. It is measured
            (``TimedUpstream``) unless it is a ``NullUpstream``, which estimates.
        memory: the capacity in bytes of a default upstream; by default more than any history needs.
        stream: the stream to use for a device's ordinal and a recorded stream; by default the recorded handle.
        progress: called now and then with the number of further steps that have been done.
        chunk: how many steps lie between two calls of ``progress``.
        stop_at_failure: give up at the first event that fails; the figures are then of the part replayed.

    Raises:
        ValueError: there are no programs.
    """
    if not programs:
        raise ValueError("nothing to replay: the trace has no device events")
    runs = []
    for program in programs:
        upstream: Upstream
        if make_upstream is None:
            upstream = NullUpstream() if memory is None else NullUpstream(memory)
        else:
            upstream = make_upstream(program.device)
        metered = upstream if isinstance(upstream, NullUpstream | TimedUpstream) else TimedUpstream(upstream)
        runs.append(_Run(program, make_allocator(metered), metered))
    for run in runs:
        run.go(stream, progress or _ignore, chunk, stop_at_failure=stop_at_failure)
        if stop_at_failure and run.failure:
            break
    calls: Counter[str] = Counter()
    for run in runs:
        calls.update(run.calls)
    return ReplayResult(
        trace=programs[0].trace,
        allocator=allocator,
        events=sum(program.total_events for program in programs),
        peak_requested_bytes=sum(run.peak_requested for run in runs),
        peak_allocated_bytes=sum(run.peak_allocated for run in runs),
        peak_reserved_bytes=sum(run.peak_reserved for run in runs),
        driver_calls=dict(calls),
        driver_time_us=sum(run.driver_time_us for run in runs),
        out_of_memory_events=sum(run.out_of_memory for run in runs),
        seconds=sum(run.seconds for run in runs),
        failure=next((run.failure for run in runs if run.failure), ""),
    )


def _ignore(steps: int) -> None:
    """No progress is shown."""


class _Run:
    """One program on one allocator."""

    def __init__(self, program: Program, allocator: Allocator, upstream: NullUpstream | TimedUpstream) -> None:
        self.program = program
        self.allocator = allocator
        self.upstream = upstream
        self.out_of_memory = 0
        self.seconds = 0.0
        self.failure = ""
        self.calls: dict[str, int] = {}
        self.driver_time_us = 0.0
        self.peak_requested = self.peak_allocated = self.peak_reserved = 0
        self._blocks: list[Block | None] = [None] * len(program.sizes)
        self._at = 0
        self._stop_at_failure = False

    def go(
        self,
        stream: Callable[[int, int], int] | None,
        progress: Callable[[int], None],
        chunk: int,
        *,
        stop_at_failure: bool,
    ) -> None:
        """Take every step, then read the figures, then close the allocator."""
        program = self.program
        self._stop_at_failure = stop_at_failure
        streams = program.streams
        if stream is not None:
            handles = {recorded: stream(program.device, recorded) for recorded in dict.fromkeys(streams)}
            streams = [handles[recorded] for recorded in streams]
        began = time.perf_counter()
        try:
            for first in range(0, len(program.steps), chunk):
                self._steps(first, min(first + chunk, len(program.steps)), streams)
                progress(min(chunk, len(program.steps) - first))
        except Exception as error:  # whatever a plugin's allocator raises belongs to the event that caused it
            self._failed(error)
        self.seconds = time.perf_counter() - began
        self._read()
        self._blocks.clear()
        try:
            self.allocator.close()
        except Exception as error:
            self.failure = self.failure or f"closing the allocator failed: {error}"
        lost = self.upstream.used_bytes if isinstance(self.upstream, NullUpstream) else 0
        if lost and not self.failure:
            self.failure = f"the allocator lost {format_size(lost)}: close() did not give them back"

    def _steps(self, first: int, end: int, streams: list[int]) -> None:
        allocate, free = self.allocator.allocate, self.allocator.free
        blocks, sizes = self._blocks, self.program.sizes
        for at, step in enumerate(self.program.steps[first:end], first):
            if step > 0:
                number = step - 1
                try:
                    blocks[number] = allocate(sizes[number], stream=streams[number])
                except Exception as error:
                    self._at = at
                    if not isinstance(error, OutOfMemoryError):
                        raise
                    self.out_of_memory += 1
                    if self._stop_at_failure:
                        raise
                    self._failed(error)
            else:
                number = -step - 1
                block = blocks[number]
                if block is not None:
                    blocks[number] = None
                    self._at = at
                    free(block)

    def _failed(self, error: Exception) -> None:
        if self.failure:
            return
        program, step = self.program, self.program.steps[self._at]
        number = abs(step) - 1
        what = "allocating" if step > 0 else "freeing"
        self.failure = (
            f"event {program.events[self._at]}, {what} {program.sizes[number]} bytes of stream "
            f"{program.streams[number]:#x} on device {program.device}: {type(error).__name__}: {error}"
        )

    def _read(self) -> None:
        try:
            counted = self.allocator.statistics().all
        except Exception as error:
            self.failure = self.failure or f"reading the allocator's statistics failed: {error}"
            return
        self.peak_requested = counted.requested_bytes.peak
        self.peak_allocated = counted.allocated_bytes.peak
        self.peak_reserved = counted.reserved_bytes.peak
        self.calls = dict(self.upstream.calls)
        self.driver_time_us = self.upstream.driver_time_us
