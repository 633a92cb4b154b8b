"""Replays empty the cache where the program did: as cuplug's traces say it, and as PyTorch's histories show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cuplug
import pytest
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.events import EventKind
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.plugins.tracing.reader import read_trace
from cuplug.tools.foreign.load import load
from cuplug.tools.replaying.one_replay import Work, run
from cuplug.tools.replaying.program import decode

from ..made_snapshots import BASE, MIB, MadeSnapshot, saved, snapshot_of

ALLOCATORS = ("caching:preset=torch", "caching", "expandable", "direct")


def emptied(blocks: int = 4, later: int = 500) -> MadeSnapshot:
    """Blocks of 300 MiB, all given back at once, then as many of ``later`` MiB."""
    made = MadeSnapshot()
    for number in range(blocks):
        made.reserve(BASE + number * 1024 * MIB, 300 * MIB)
        made.allocate(BASE + number * 1024 * MIB, 300 * MIB)
    for number in range(blocks):
        made.free(BASE + number * 1024 * MIB)
    for number in range(blocks):
        made.release(BASE + number * 1024 * MIB)
    for number in range(blocks):
        made.reserve(BASE + (16 + number) * 1024 * MIB, later * MIB)
        made.allocate(BASE + (16 + number) * 1024 * MIB, later * MIB)
    return made


def peak(path: Path, allocator: str, memory: int | None = None) -> int:
    return run(Work(str(path), allocator, memory)).result.peak_reserved_bytes


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_an_emptied_cache_in_pytorchs_history_is_emptied_in_every_replay(tmp_path: Path, allocator: str) -> None:
    path = saved(tmp_path / "emptied.pickle", snapshot_of(emptied()))
    assert peak(path, allocator) == 2000 * MIB
    (program,) = decode(load(path))
    assert program.steps.tolist() == [1, 2, 3, 4, -1, -2, -3, -4, 0, 5, 6, 7, 8]
    assert not len(program.pressed)


def test_what_a_failed_request_gave_back_is_pytorchs_own_doing_alone(tmp_path: Path) -> None:
    made = emptied(4, 310)  # 1200 MiB and 310 more were never reserved at once: there may have been no room
    path = saved(tmp_path / "pressed.pickle", snapshot_of(made))
    (program,) = decode(load(path))
    assert program.pressed.tolist() == [8]
    assert 0 not in program.as_asked().steps.tolist()
    assert peak(path, "caching:preset=torch") == 1240 * MIB  # as recorded
    assert peak(path, "direct") == 1240 * MIB
    assert peak(path, "caching:preset=torch", 2000 * MIB) > 1240 * MIB  # there is room here, so nothing is given back


def test_some_of_what_is_idle_given_back_is_no_emptied_cache(tmp_path: Path) -> None:
    made = emptied()
    released = [place for place, entry in enumerate(made.entries) if entry["action"] == "segment_free"]
    del made.entries[released[-1]]
    made.segments[BASE + 3 * 1024 * MIB] = {**made.segments[BASE + 16 * 1024 * MIB], "address": BASE + 3 * 1024 * MIB}
    snapshot = snapshot_of(made)
    snapshot["segments"] = []
    (program,) = decode(load(saved(tmp_path / "some.pickle", snapshot)))
    assert 0 not in program.steps.tolist()


@pytest.mark.parametrize("choice", ["caching", "expandable", "direct", CachingAllocator, ExpandableAllocator])
def test_cuplugs_own_traces_tell_that_the_cache_was_emptied_and_replays_do_the_same(
    tmp_path: Path, choice: Any
) -> None:
    """A name is the native form, where that was built; a class is the form in Python."""
    path = tmp_path / "run.cuplug"
    runtime = cuplug.Runtime(driver="sim:memory=4GiB", allocator=choice, trace=path)
    try:
        for size in (30, 50):
            blocks = [runtime.alloc(size * MIB) for _ in range(4)]
            blocks.clear()
            cuplug.cuda.empty_cache(runtime=runtime)
    finally:
        runtime.close()
    events = read_trace(path).events
    told = events[events["kind"] == EventKind.EMPTY_CACHE]
    assert len(told) == 2
    assert choice == "direct" or (told["nbytes"] >= (120 * MIB, 200 * MIB)).all()
    assert peak(path, "caching:preset=torch") == 200 * MIB  # 320 where the cache is kept
    for allocator in ALLOCATORS:
        assert 200 * MIB <= peak(path, allocator) < 300 * MIB
