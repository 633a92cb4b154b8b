"""One program on one allocator, step by step in Python: the form that serves every allocator and every upstream."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ...allocators.base import Allocator
from ...allocators.block import Block
from ...allocators.errors import OutOfMemoryError
from ...allocators.upstreams import TimedUpstream
from ...allocators.upstreams.null import NullUpstream
from .program import LIMITS, NO_LIMIT, Program
from .run_figures import Curve, Run, Shortage, failure_of, lost_bytes

_CHUNK = 8192


class PythonRun(Run):
    """Takes the steps one by one."""

    def __init__(self, program: Program, allocator: Allocator, upstream: NullUpstream | TimedUpstream) -> None:
        self.program = program
        self.allocator = allocator
        self.upstream = upstream
        self._blocks: list[Block | None] = [None] * len(program.sizes)
        self._sizes: list[int] = program.sizes.tolist()
        self._streams: list[int] = program.streams.tolist()
        self._at = 0
        self._calls_before: dict[str, int] = {}
        self._time_before = 0.0
        self._stop_at_failure = False
        self._changes: list[tuple[int, int]] | None = None

    @property
    def curve(self) -> Curve:
        """What was reserved after each step at which that changed."""
        changes = np.array(self._changes or np.empty((0, 2)), np.int64)
        return changes[:, 0], changes[:, 1]

    def go(
        self,
        stream: Callable[[int, int], int] | None,
        progress: Callable[[int], None],
        *,
        stop_at_failure: bool,
        with_curve: bool,
    ) -> None:
        """Take every step, then read the figures, then close the allocator. The arguments are those of ``replay``."""
        program = self.program
        self._stop_at_failure = stop_at_failure
        self._changes = [] if with_curve else None
        streams = self._streams
        if stream is not None:
            handles = {recorded: stream(program.device, recorded) for recorded in dict.fromkeys(streams)}
            streams = [handles[recorded] for recorded in streams]
        began = time.perf_counter()
        first, count = 0, len(program.steps)
        try:
            while first < count:
                end = min(first + _CHUNK, program.setup if first < program.setup else count)
                self._take(first, program.steps[first:end].tolist(), streams)
                progress(end - first)
                first = end
                if first == program.setup:
                    self._begin()
        except Exception as error:  # whatever a plugin's allocator raises belongs to the event that caused it
            self._failed(error)
        self.seconds = time.perf_counter() - began
        self._read()
        self._blocks.clear()
        try:
            self.allocator.close()
        except Exception as error:
            self.failure = self.failure or f"closing the allocator failed: {error}"
        if isinstance(self.upstream, NullUpstream):
            self.failure = self.failure or lost_bytes(self.upstream.used_bytes)

    def _begin(self) -> None:
        """Count from here on."""
        self.allocator.reset_peaks()
        self._calls_before, self._time_before = dict(self.upstream.calls), self.upstream.driver_time_us

    def _take(self, first: int, chunk: list[int], streams: list[int]) -> None:
        if self._changes is None:
            self._steps(first, chunk, streams)
            return
        for at, step in enumerate(chunk, first):
            self._steps(at, [step], streams)
            self._note(at)

    def _note(self, at: int) -> None:
        assert self._changes is not None
        reserved = self.upstream.used_bytes if isinstance(self.upstream, NullUpstream) else 0
        if not self._changes or self._changes[-1][1] != reserved:
            self._changes.append((at, reserved))

    def _steps(self, first: int, steps: list[int], streams: list[int]) -> None:
        allocate, free = self.allocator.allocate, self.allocator.free
        blocks, sizes = self._blocks, self._sizes
        for at, step in enumerate(steps, first):
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
                        self.shortage = Shortage.found(self.program, at, self.allocator)
                        raise
                    self._failed(error)
            elif step == 0:
                self._at = at
                self.allocator.release_cached()
            elif step < LIMITS:
                self.allocator.memory_limit = None if step == NO_LIMIT else step - NO_LIMIT
            else:
                number = -step - 1
                block = blocks[number]
                if block is not None:
                    blocks[number] = None
                    self._at = at
                    free(block)

    def _failed(self, error: Exception) -> None:
        self.failure = self.failure or failure_of(self.program, self._at, f"{type(error).__name__}: {error}")

    def _read(self) -> None:
        try:
            counted = self.allocator.statistics().all
        except Exception as error:
            self.failure = self.failure or f"reading the allocator's statistics failed: {error}"
            return
        self.note(counted, self.allocator)
        before = self._calls_before
        calls = {name: count - before.get(name, 0) for name, count in self.upstream.calls.items()}
        self.calls = {name: count for name, count in calls.items() if count}
        self.driver_time_us = self.upstream.driver_time_us - self._time_before
