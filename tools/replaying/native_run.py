"""One program on one allocator, wholly in the native core: the same figures, in a hundredth of the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ...allocators.base import Allocator
from .program import LIMITS, NO_LIMIT, Program
from .run_figures import Curve, Run, Shortage, failure_of, lost_bytes

_OK = 0  # cuplug_allocator.h


class NativeRun(Run):
    """As ``PythonRun``, for an allocator over a ``NativeNullUpstream``."""

    def __init__(self, program: Program, allocator: Allocator) -> None:
        self.program = program
        self.allocator = allocator
        self.curve: Curve = np.empty(0, np.int64), np.empty(0, np.int64)

    def go(
        self,
        stream: Callable[[int, int], int] | None,  # noqa: ARG002 - there is no device: handles are mere numbers
        progress: Callable[[int], None],
        *,
        stop_at_failure: bool,
        with_curve: bool,
    ) -> None:
        """Take every step, then read the figures, then close the allocator. The arguments are those of ``replay``."""
        from ...allocators import _native

        program, allocator = self.program, self.allocator
        steps, sizes, streams = map(np.ascontiguousarray, (program.steps, program.sizes, program.streams))
        reserved = np.zeros(len(program.steps), np.int64) if with_curve else None
        before: dict[str, float] = {}
        taken = 0

        def more(count: int) -> None:
            nonlocal taken
            taken += count
            if taken == program.setup:
                allocator.reset_peaks()
                before.update(_native.null_counts(allocator))
            progress(count)

        setup = (program.setup,) if program.setup else ()
        began = time.perf_counter()
        answer, done, self.out_of_memory, first_failure, shortage = _native.replay(
            allocator, steps, sizes, streams, stop_at_failure, more if setup else progress, reserved, *setup
        )
        self.seconds = time.perf_counter() - began
        if self.out_of_memory:
            limits = program.steps[:first_failure][program.steps[:first_failure] < LIMITS]
            if len(limits):  # the core alone has seen it
                allocator.memory_limit = None if limits[-1] == NO_LIMIT else int(limits[-1]) - NO_LIMIT
            if stop_at_failure:
                self.shortage = Shortage.found(program, first_failure, allocator)
            self.failure = failure_of(program, first_failure, f"OutOfMemoryError: {_message(allocator, shortage)}")
        elif answer != _OK:
            self.failure = failure_of(program, done, f"the native core answered {answer}")
        if reserved is not None:
            known = reserved[:done]
            changes = np.flatnonzero(np.diff(known, prepend=-1))
            self.curve = changes, known[changes]
        self.note(allocator.statistics().all, allocator)
        figures = {name: figure - before.get(name, 0) for name, figure in _native.null_counts(allocator).items()}
        self.driver_time_us = figures["driver_time_us"]
        self.calls = {name: int(count) for name, count in figures.items() if name.startswith("cu") and count}
        allocator.close()
        self.failure = self.failure or lost_bytes(int(_native.null_counts(allocator)["used_bytes"]))


def _message(allocator: Any, shortage: tuple[int, ...]) -> str:
    message: str = allocator._out_of_memory_message(*shortage)
    return message
