"""What the program asked of the allocator as a whole is in the trace: limits, which replays change too, and peaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.events import EventKind
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.plugins.tracing.reader import read_trace
from cuplug.tools.replaying.one_replay import Work, run
from cuplug.tools.replaying.program import NO_LIMIT, decode

MIB = 1 << 20


@pytest.fixture(params=["caching", "expandable", CachingAllocator, ExpandableAllocator])
def limited(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """On 1 GiB the program holds 128 MiB, may have a quarter, half or all of it, and asks for 300 MiB each time.

    A name is the native form, where that was built; a class is the form in Python.
    """
    path = tmp_path / "run.cuplug"
    choice: Any = request.param
    runtime = cuplug.Runtime(driver="sim:memory=1GiB", allocator=choice, trace=path)
    try:
        kept = runtime.alloc(128 * MIB)
        for fraction, fits in ((0.25, False), (0.5, True), (1.0, True)):
            cuplug.cuda.set_per_process_memory_fraction(fraction, runtime=runtime)
            try:
                runtime.alloc(300 * MIB)
            except cuplug.OutOfMemoryError:
                assert not fits
            else:
                assert fits
        cuplug.cuda.reset_peak_memory_stats(runtime=runtime)
        runtime.allocator(0).memory_limit = None
        del kept
    finally:
        runtime.close()
    return path


def test_limits_and_resets_of_peaks_stand_in_the_trace(limited: Path) -> None:
    events = read_trace(limited).events
    told = events[np.isin(events["kind"], (EventKind.LIMIT, EventKind.RESET_PEAKS))]
    assert [(EventKind(int(one["kind"])), int(one["nbytes"]), int(one["requested"])) for one in told] == [
        (EventKind.LIMIT, 256 * MIB, 1),
        (EventKind.LIMIT, 512 * MIB, 1),
        (EventKind.LIMIT, 1024 * MIB, 1),
        (EventKind.RESET_PEAKS, 0, 0),
        (EventKind.LIMIT, 0, 0),
    ]


def test_replays_change_the_limit_where_the_program_did(limited: Path) -> None:
    (program,) = decode(read_trace(limited))
    assert [step - NO_LIMIT for step in program.steps.tolist() if step < -(1 << 62)] == [
        256 * MIB, 512 * MIB, 1024 * MIB, 0,
    ]  # fmt: skip


@pytest.mark.parametrize("allocator", ["caching", "expandable", "caching:preset=torch", "direct"])
def test_a_limit_of_the_program_holds_in_replays_on_every_allocator(limited: Path, allocator: str) -> None:
    result = run(Work(str(limited), allocator)).result
    assert (result.failure, result.out_of_memory_events) == ("", 0)  # what failed in vain is passed over
    assert 428 * MIB <= result.peak_reserved_bytes <= 512 * MIB
