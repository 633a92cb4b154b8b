"""Tagged memory moves between the device and the host: at its addresses, with its contents, all or nothing."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators.errors import CuplugError, DriverError, OutOfMemoryError
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.reader import read_trace
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory import memory_moves
from cuplug.runtime.memory.copies import memset
from cuplug.runtime.memory.memory_moves import move
from cuplug.runtime.memory.memory_sleep import memory_tag, sleep, wake
from cuplug.runtime.memory.memory_stats import mem_get_info, memory_stats
from cuplug.runtime.streams.stream import Stream

from .test_sleep import FORMS, Program, Start, contents, fill, starting

SEEDS = int(os.environ.get("CUPLUG_MOVE_SEEDS", "4"))
MIB = 1 << 20


@pytest.fixture(params=sorted(FORMS))
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    with starting(request.param, host=256 * MIB) as start:
        yield start


def on_host(runtime: Runtime) -> int:
    return int(memory_stats(runtime=runtime)["host_bytes.all.current"])


def test_it_keeps_its_addresses_and_contents_and_the_device_has_the_memory(start: Start) -> None:
    runtime = start(memory=64 * MIB)
    with memory_tag("states"):
        buffers = [fill(runtime, nbytes, number) for number, nbytes in enumerate((20 * MIB, 300, 5 * MIB))]
    other = fill(runtime, 10 * MIB, 99)
    addresses = [buffer.address for buffer in buffers]
    free = mem_get_info(runtime=runtime)[0]
    moved = move("states", "host", runtime=runtime)
    assert moved >= 25 * MIB
    assert on_host(runtime) == moved == mem_get_info(runtime=runtime)[0] - free
    for _ in range(2):
        assert [buffer.address for buffer in buffers] == addresses
        for number, buffer in enumerate(buffers):
            assert (contents(runtime, buffer) == number).all()
        memset(buffers[0], 0, runtime=runtime)
        assert move("states", "device", runtime=runtime) in (moved, 0)
    assert on_host(runtime) == 0
    assert (contents(runtime, other) == 99).all()


def test_a_tag_that_lies_on_both_sides_is_joined_and_moving_twice_is_once(start: Start) -> None:
    runtime = start(memory=128 * MIB, host=32 * MIB)
    with memory_tag("states", where="host"):
        buffers = [fill(runtime, 12 * MIB, value) for value in range(4)]  # the host has room for two
    assert 0 < on_host(runtime) <= 32 * MIB
    assert move("states", "device", runtime=runtime) == 24 * MIB
    assert move("states", "device", runtime=runtime) == 0
    assert [(contents(runtime, buffer) == value).all() for value, buffer in enumerate(buffers)] == [True] * 4
    for buffer in buffers:
        buffer.close()
    with memory_tag("states", where="host"):
        again = fill(runtime, 12 * MIB, 5)
    assert on_host(runtime) == 12 * MIB
    assert (contents(runtime, again) == 5).all()


def test_where_the_host_has_no_room_one_error_says_so_and_nothing_has_changed(start: Start) -> None:
    for options in ({"host": 16 * MIB}, {"host_memory": 16 * MIB}):
        runtime = start(memory=128 * MIB, **options)
        with memory_tag("states"):
            buffers = [fill(runtime, 12 * MIB, value) for value in range(3)]
        before = runtime.allocator(0).segments(), mem_get_info(runtime=runtime)
        with pytest.raises(OutOfMemoryError, match=r"'states' stays on the device: it needs 36\.00 MiB of the host"):
            move("states", "host", runtime=runtime)
        assert (runtime.allocator(0).segments(), mem_get_info(runtime=runtime)) == before
        assert [(contents(runtime, buffer) == value).all() for value, buffer in enumerate(buffers)] == [True] * 3


def test_where_the_device_is_short_cached_memory_goes_the_hooks_are_asked_and_then_it_stays(start: Start) -> None:
    runtime = start(memory=64 * MIB)
    with memory_tag("states", where="host"):
        buffer = fill(runtime, 40 * MIB, 7)
    cached, kept = fill(runtime, 30 * MIB, 1), fill(runtime, 32 * MIB, 2)
    cached.close()
    with pytest.raises(OutOfMemoryError, match="stays on the host, since it cannot move to the device"):
        move("states", "device", runtime=runtime)
    assert (contents(runtime, buffer) == 7).all()
    asked: list[int] = []

    def free_some(nbytes: int, stream: int) -> bool:
        asked.append(nbytes)
        kept.close()
        return len(asked) == 1

    runtime.allocator(0).on_out_of_memory = free_some
    assert move("states", "device", runtime=runtime) == 40 * MIB
    assert asked == [40 * MIB]
    assert (contents(runtime, buffer) == 7).all()


def test_a_memory_limit_holds_for_what_comes_back(start: Start) -> None:
    runtime = start(memory=256 * MIB)
    with memory_tag("states", where="host"):
        buffer = fill(runtime, 40 * MIB, 7)
    runtime.allocator(0).memory_limit = 32 * MIB
    with pytest.raises(OutOfMemoryError, match="stays on the host"):
        move("states", "device", runtime=runtime)
    assert (contents(runtime, buffer) == 7).all()
    runtime.allocator(0).memory_limit = None


def test_free_host_memory_makes_room(start: Start) -> None:
    runtime = start(memory=256 * MIB, host=40 * MIB)
    with memory_tag("other", where="host"):
        fill(runtime, 10 * MIB, 1).close()
    assert on_host(runtime) == 10 * MIB
    with memory_tag("states"):
        buffer = fill(runtime, 36 * MIB, 7)
    assert move("states", "host", runtime=runtime) == 36 * MIB
    assert (contents(runtime, buffer) == 7).all()


def test_work_queued_on_any_stream_is_waited_for(start: Start) -> None:
    runtime = start(memory=128 * MIB, schedule="lazy")
    stream = Stream(runtime=runtime)
    with memory_tag("states"):
        buffer = runtime.alloc(8 * MIB)
    memset(buffer, 3, stream=stream, runtime=runtime)
    move("states", "host", runtime=runtime)
    assert (contents(runtime, buffer) == 3).all()


def test_a_stream_may_have_gone_and_what_it_left_moves_too(start: Start) -> None:
    runtime = start(memory=128 * MIB)
    stream = Stream(runtime=runtime)
    with memory_tag("states"):
        buffer = fill(runtime, 8 * MIB, 3, stream)
    del stream
    assert move("states", "host", runtime=runtime) == 8 * MIB
    assert (contents(runtime, buffer) == 3).all()
    assert move("states", "device", runtime=runtime) == 8 * MIB
    assert (contents(runtime, buffer) == 3).all()


def test_what_sleeps_does_not_move_and_what_was_moved_sleeps_and_wakes_there(start: Start) -> None:
    runtime = start(memory=128 * MIB)
    with memory_tag("states"):
        buffer = fill(runtime, 8 * MIB, 3)
    sleep("states", runtime=runtime)
    with pytest.raises(CuplugError, match="'states' is asleep; wake it before it moves"):
        move("states", "host", runtime=runtime)
    wake("states", runtime=runtime)
    move("states", "host", runtime=runtime)
    sleep("states", runtime=runtime)
    assert on_host(runtime) == 0
    wake("states", runtime=runtime)
    assert on_host(runtime) == 8 * MIB
    assert (contents(runtime, buffer) == 3).all()


def test_each_call_upstream_that_fails_leaves_all_where_it_was(start: Start) -> None:
    for to, back in (("host", "device"), ("device", "host")):
        runtime = start(memory=128 * MIB)
        with memory_tag("states", where="host" if to == "device" else "device"):
            buffers = [fill(runtime, nbytes * MIB, nbytes) for nbytes in (5, 9)]
        allocator = runtime.allocator(0)
        failed = 0
        while True:
            before = allocator.segments()
            try:
                with failing(runtime, failed + 1):
                    move("states", to, runtime=runtime)
            except DriverError:
                failed += 1
                found = [(s.address, s.nbytes, s.host, s.blocks) for s in allocator.segments()]
                assert found == [(s.address, s.nbytes, s.host, s.blocks) for s in before]
            else:
                break
            for buffer in buffers:
                assert (contents(runtime, buffer) == buffer.nbytes // MIB).all(), failed
        assert failed >= 12
        assert move("states", to, runtime=runtime) == 0
        assert move("states", back, runtime=runtime) == 14 * MIB


class failing:
    """Within, the call numbered ``at`` of the driver's virtual memory, or copy, fails."""

    NAMES = ("reserve_range", "create_page", "create_host_page", "release_page", "map", "set_access", "unmap")

    def __init__(self, runtime: Runtime, at: int) -> None:
        self.left = at
        self.owners = [(runtime.allocator(0).upstream.virtual, name) for name in self.NAMES]
        self.owners.append((runtime.driver, "memcpy_dtod"))
        self.undo: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        for owner, name in self.owners:
            original = getattr(owner, name)

            def call(*arguments: Any, original: Any = original, name: str = name, **options: Any) -> Any:
                self.left -= 1
                if self.left == 0:
                    raise DriverError(999, "CUDA_ERROR_UNKNOWN", f"{name} was told to fail")
                return original(*arguments, **options)

            setattr(owner, name, call)
            self.undo.append(partial(delattr, owner, name))

    def __exit__(self, *raised: object) -> None:
        for undo in self.undo:
            undo()


def test_it_is_refused_by_name_without_host_memory_and_under_capture(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = start(host=0)
    with memory_tag("states"):
        fill(runtime, MIB, 1)
    with pytest.raises(CuplugError, match="expandable:host=64GiB"):
        move("states", "host", runtime=runtime)
    runtime = start()
    with pytest.raises(ValueError, match="nothing was ever tagged 'nobody'"):
        move("nobody", "host", runtime=runtime)
    with pytest.raises(ValueError, match="not to 'disk'"):
        move("states", "disk", runtime=runtime)  # type: ignore[arg-type]
    monkeypatch.setattr(memory_moves, "is_capturing", lambda: True)
    with pytest.raises(CuplugError, match="while work is being captured"):
        move("states", "host", runtime=runtime)


def test_pages_in_a_trace_add_up_and_say_where_they_lie(start: Start, tmp_path: Path) -> None:
    runtime = start(trace=tmp_path / "run.cuplug", memory=64 * MIB)
    with memory_tag("states"):
        buffer = fill(runtime, 6 * MIB, 7)
    move("states", "host", runtime=runtime)
    move("states", "device", runtime=runtime)
    buffer.close()
    runtime.close()
    trace = read_trace(tmp_path / "run.cuplug")
    told = dict.fromkeys(EventKind, 0)
    for event in trace.events:
        told[EventKind(int(event["kind"]))] += int(event["nbytes"])
    assert told[EventKind.MOVE] == 12 * MIB
    assert told[EventKind.HOST_PAGE_CREATE] == told[EventKind.HOST_PAGE_RELEASE] == 6 * MIB
    assert told[EventKind.PAGE_CREATE] == told[EventKind.PAGE_RELEASE] == 12 * MIB
    assert told[EventKind.PAGE_MAP] == told[EventKind.PAGE_UNMAP] == 18 * MIB


class MovingProgram(Program):
    """A random program whose tagged memory moves, too."""

    moved = 0

    def step(self) -> None:
        tag, to = self.chance.choice("ab"), self.chance.choice(("host", "device"))
        if self.chance.random() < 0.3 and tag not in self.asleep:
            try:
                self.moved += move(tag, to, runtime=self.runtime)  # type: ignore[arg-type]
            except OutOfMemoryError:
                pass
            else:
                sides = {s.host for s in self.runtime.allocator(0).segments() if s.tag == tag}
                assert sides <= {to == "host"}
        super().step()

    def check_books(self) -> None:
        runtime = self.runtime
        segments = runtime.allocator(0).segments()
        stats, (free, total) = memory_stats(runtime=runtime), mem_get_info(runtime=runtime)
        awake = [segment for segment in segments if not segment.asleep]
        assert stats["reserved_bytes.all.current"] == sum(segment.nbytes for segment in awake)
        assert total - free == sum(segment.nbytes for segment in awake if not segment.host)
        assert on_host(runtime) == sum(segment.nbytes for segment in awake if segment.host)
        assert stats["segment.all.current"] == len(awake)
        split = [info.nbytes for segment in awake if len(segment.blocks) > 1
                 for info in segment.blocks if info.state == "inactive"]  # fmt: skip
        assert stats["inactive_split_bytes.all.current"] == sum(split)
        tags = {info.address: segment for segment in segments for info in segment.blocks}
        assert all(tags[buffer.address].tag == tag for buffer, tag, _ in self.held)


@pytest.mark.parametrize("schedule", ["eager", "random"])
def test_random_programs_find_their_contents_wherever_they_moved(start: Start, schedule: str) -> None:
    moved = 0
    for seed in range(SEEDS):
        options = {"seed": seed} if schedule == "random" else {}
        host = random.Random(seed).choice((8, 32, 128)) * MIB
        program = MovingProgram(start(memory=64 * MIB, host=host, schedule=schedule, **options), seed)
        try:
            for _ in range(60):
                program.step()
            for tag in sorted(program.asleep):
                wake(tag, runtime=program.runtime)
            program.asleep.clear()
            for at in range(len(program.held)):
                program.check(at)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        moved += program.moved
    assert moved
