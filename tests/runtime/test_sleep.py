"""Sleep and wake: tagged memory goes back to the device, and comes back at its addresses with its contents."""

from __future__ import annotations

import os
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import CuplugError, DriverError, OutOfMemoryError
from cuplug.allocators.events import EventKind
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import is_available
from cuplug.allocators.planned import PlannedAllocator
from cuplug.allocators.planning import Cycle, Plan
from cuplug.plugins.tracing.reader import read_trace
from cuplug.runtime.drivers.sim import SimDriver
from cuplug.runtime.machine.device import synchronize
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.copies import memcpy, memset
from cuplug.runtime.memory.memory_sleep import memory_tag, sleep, wake
from cuplug.runtime.memory.memory_stats import empty_cache, mem_get_info, memory_snapshot, memory_stats, memory_summary
from cuplug.runtime.memory.pinned import alloc_pinned, made_pinned_allocators, pinned_allocator
from cuplug.runtime.streams.stream import Stream

SEEDS = int(os.environ.get("CUPLUG_SLEEP_SEEDS", "2"))
KIB, MIB = 1 << 10, 1 << 20
PAGE = 2 * MIB
FORMS: dict[str, Any] = {"python": ExpandableAllocator}
if is_available():
    from cuplug.allocators.native.strategies import NativeExpandable, NativePlanned

    FORMS["native"] = NativeExpandable

Start = Callable[..., Runtime]


@contextmanager
def starting(form: str, **defaults: Any) -> Iterator[Start]:
    """Makes runtimes with ``expandable`` on simulated devices; at the end they have given everything back."""
    made: list[tuple[Runtime, SimDriver]] = []

    def start(trace: Path | None = None, **options: Any) -> Runtime:
        options = defaults | options
        chosen = {name: options.pop(name) for name in ("host",) if name in options}
        driver = SimDriver(**options)
        runtime = Runtime(partial(FORMS[form], **chosen), driver, trace)
        made.append((runtime, driver))
        return runtime

    yield start
    for runtime, driver in made:
        runtime.close()
        assert (driver.live.pages, driver.live.mappings, driver.live.ranges) == (0, 0, 0)
        driver.close()


@pytest.fixture(params=sorted(FORMS))
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    with starting(request.param) as start:
        yield start


def fill(runtime: Runtime, nbytes: int, value: int, stream: Any = None) -> Any:
    buffer = runtime.alloc(nbytes, stream=stream)
    memset(buffer, value, stream=stream, runtime=runtime)
    return buffer


def contents(runtime: Runtime, buffer: Any) -> Any:
    host = np.empty(buffer.nbytes, np.uint8)
    synchronize(runtime=runtime)
    memcpy(host, buffer, stream=Stream(runtime=runtime), runtime=runtime)
    return host


def test_the_device_has_the_memory_while_it_sleeps_and_the_program_its_contents_afterwards(start: Start) -> None:
    runtime = start(memory=64 * MIB)
    with memory_tag("weights"):
        buffers = [fill(runtime, nbytes, number) for number, nbytes in enumerate((20 * MIB, 300, 5 * MIB))]
    other = fill(runtime, 10 * MIB, 99)
    addresses = [buffer.address for buffer in buffers]
    before = mem_get_info(runtime=runtime)[0]
    released = sleep("weights", runtime=runtime)
    assert released >= 25 * MIB
    assert mem_get_info(runtime=runtime)[0] == before + released
    big = runtime.alloc(50 * MIB)
    big.close()
    assert wake("weights", runtime=runtime) == released
    assert [buffer.address for buffer in buffers] == addresses
    for number, buffer in enumerate(buffers):
        assert (contents(runtime, buffer) == number).all()
    assert (contents(runtime, other) == 99).all()


def test_the_place_where_contents_are_kept_is_made_once_and_is_no_programs(start: Start) -> None:
    runtime = start()
    made: list[tuple[int, bool]] = []
    host_alloc = runtime.driver.host_alloc

    def tell(nbytes: int, *, device: int | None = None, private: bool = False) -> int:
        made.append((nbytes, private))
        return host_alloc(nbytes, device=device, private=private)

    runtime.driver.host_alloc = tell  # type: ignore[method-assign]
    with memory_tag("weights"):
        buffers = [fill(runtime, nbytes, value) for value, nbytes in enumerate((3 * MIB, 32 * MIB, 48 * MIB))]
    for _ in range(3):
        sleep("weights", runtime=runtime)
        wake("weights", runtime=runtime)
        assert [(contents(runtime, buffer) == value).all() for value, buffer in enumerate(buffers)] == [True] * 3
    assert all(private for _, private in made)
    assert sum(nbytes for nbytes, _ in made) < 120 * MIB
    before = len(made)
    alloc_pinned(32 * MIB, runtime=runtime).close()
    assert [private for _, private in made[before:]] == [False]
    held = sum(allocator.statistics().all.reserved_bytes.current for allocator in made_pinned_allocators(runtime))
    assert held == sum(nbytes for nbytes, _ in made)
    empty_cache(runtime=runtime)
    assert runtime.driver.simulator.live.host_allocations == 0


def test_contents_that_are_not_kept_take_no_host_memory(start: Start) -> None:
    runtime = start()
    with memory_tag("weights"):
        buffer = fill(runtime, 8 * MIB, 1)
    sleep("weights", keep=False, runtime=runtime)
    assert not made_pinned_allocators(runtime)
    wake("weights", runtime=runtime)
    memset(buffer, 3, runtime=runtime)
    assert (contents(runtime, buffer) == 3).all()


@pytest.mark.parametrize("form", sorted(FORMS))
def test_using_sleeping_memory_is_an_illegal_access(form: str) -> None:
    driver = SimDriver()
    runtime = Runtime(FORMS[form], driver)
    with memory_tag("weights"):
        buffer = fill(runtime, 8 * MIB, 1)
    sleep("weights", runtime=runtime)
    memset(buffer, 1, runtime=runtime)
    with pytest.raises(DriverError, match="nothing is mapped"):
        synchronize(runtime=runtime)
    with pytest.raises(DriverError):
        runtime.close()
    driver.close()


def test_blocks_of_different_tags_never_share_a_page(start: Start) -> None:
    runtime = start()
    owners = defaultdict(set)
    kept = []
    for number in range(60):
        tag = ("", "weights", "cache")[number % 3]
        with memory_tag(tag) if tag else nullcontext():
            buffer = runtime.alloc(1000 * number + 100)
        kept.append(buffer)
        for page in range(buffer.address // PAGE, (buffer.address + buffer.nbytes - 1) // PAGE + 1):
            owners[page].add(tag)
    assert all(len(tags) == 1 for tags in owners.values())
    found = {block["address"]: segment["tag"] for segment in memory_snapshot(runtime=runtime)
             for block in segment["blocks"]}  # fmt: skip
    assert [found[buffer.address] for buffer in kept[:3]] == ["", "weights", "cache"]


def test_the_innermost_tag_of_the_own_thread_counts(start: Start) -> None:
    runtime = start()
    found = []
    with memory_tag("outer"):
        with memory_tag("inner"):
            found.append(runtime.alloc(1 * MIB))
        found.append(runtime.alloc(1 * MIB))
        thread = threading.Thread(target=lambda: found.append(runtime.alloc(1 * MIB)))
        thread.start()
        thread.join()
    found.append(runtime.alloc(1 * MIB))
    tags = {block["address"]: segment["tag"] for segment in memory_snapshot(runtime=runtime)
            for block in segment["blocks"]}  # fmt: skip
    assert [tags[buffer.address] for buffer in found] == ["inner", "outer", "", ""]


def test_work_queued_on_any_stream_is_waited_for(start: Start) -> None:
    runtime = start(schedule="lazy")
    own, other = Stream(runtime=runtime), Stream(runtime=runtime)
    with memory_tag("weights"):
        buffer = fill(runtime, 4 * MIB, 1, own)
    memset(buffer, 2, stream=other, runtime=runtime)  # nobody recorded it: the buffer is alive
    sleep("weights", runtime=runtime)
    wake("weights", runtime=runtime)
    assert (contents(runtime, buffer) == 2).all()


def test_what_is_freed_in_its_sleep_takes_no_memory_when_the_rest_wakes(start: Start) -> None:
    runtime = start()
    with memory_tag("weights"):
        gone, stays = fill(runtime, 12 * MIB, 1), fill(runtime, 6 * MIB, 2)
    slept = sleep("weights", runtime=runtime)
    gone.close()
    assert memory_stats(runtime=runtime)["asleep"] == 1
    assert wake("weights", runtime=runtime) <= slept - 10 * MIB
    assert (contents(runtime, stays) == 2).all()
    stays.close()
    sleep("weights", runtime=runtime)
    assert mem_get_info(runtime=runtime)[0] == mem_get_info(runtime=runtime)[1]


def test_everything_may_be_freed_in_its_sleep(start: Start) -> None:
    runtime = start()
    with memory_tag("weights"):
        buffer = fill(runtime, 4 * MIB, 1)
    sleep("weights", runtime=runtime)
    buffer.close()
    assert wake("weights", runtime=runtime) == 0
    assert memory_stats(runtime=runtime)["allocated_bytes.all.current"] == 0


def test_waking_goes_through_the_out_of_memory_sequence_and_sleeps_on_where_that_fails(start: Start) -> None:
    runtime = start(memory=48 * MIB)
    with memory_tag("weights"):
        buffer = fill(runtime, 30 * MIB, 7)
    sleep("weights", runtime=runtime)
    hog, cached = runtime.alloc(16 * MIB), runtime.alloc(24 * MIB)
    with pytest.raises(OutOfMemoryError, match="'weights' sleeps on"):
        wake("weights", runtime=runtime)
    stats = memory_stats(runtime=runtime)
    assert (stats["num_ooms"], stats["asleep_bytes"], stats["asleep_kept_bytes"]) == (1, 30 * MIB, 30 * MIB)
    cached.close()  # it stays in the cache, from which waking takes it
    wake("weights", runtime=runtime)
    assert (contents(runtime, buffer) == 7).all()
    hog.close()
    sleep("weights", runtime=runtime)
    hogs = [runtime.alloc(8 * MIB) for _ in range(6)]
    asked = []

    def free_one(nbytes: int, stream: int) -> bool:
        asked.append((nbytes, stream))
        hogs.pop().close()
        return True

    runtime.allocator(0).on_out_of_memory = free_one
    wake("weights", runtime=runtime)
    assert len(asked) == 4
    assert asked[0][0] == 30 * MIB
    assert (contents(runtime, buffer) == 7).all()


def test_a_memory_limit_holds_for_waking_too(start: Start) -> None:
    runtime = start()
    with memory_tag("weights"):
        buffer = fill(runtime, 10 * MIB, 7)
    sleep("weights", runtime=runtime)
    runtime.allocator(0).memory_limit = 6 * MIB
    with pytest.raises(OutOfMemoryError):
        wake("weights", runtime=runtime)
    runtime.allocator(0).memory_limit = None
    wake("weights", runtime=runtime)
    assert (contents(runtime, buffer) == 7).all()


def test_nothing_is_allocated_with_a_tag_that_is_asleep(start: Start) -> None:
    runtime = start()
    with memory_tag("weights"):
        buffer = fill(runtime, 1 * MIB, 7)
        sleep("weights", runtime=runtime)
        with pytest.raises(CuplugError, match="'weights' is asleep; wake it"):
            runtime.alloc(100)
        wake("weights", runtime=runtime)
        runtime.alloc(100).close()
    assert (contents(runtime, buffer) == 7).all()


def test_going_to_sleep_twice_and_waking_twice_is_once(start: Start) -> None:
    runtime = start()
    with memory_tag("weights"):
        buffer = fill(runtime, 3 * MIB, 7)
    assert wake("weights", runtime=runtime) == 0
    assert sleep("weights", runtime=runtime) > 0
    assert sleep("weights", keep=False, runtime=runtime) == 0
    assert wake("weights", runtime=runtime) > 0
    assert wake("weights", runtime=runtime) == 0
    assert (contents(runtime, buffer) == 7).all()


def test_a_runtime_closes_while_memory_sleeps(start: Start) -> None:
    runtime = start()
    with memory_tag("weights"):
        buffer = fill(runtime, 3 * MIB, 7)
    sleep("weights", runtime=runtime)
    runtime.close()
    buffer.close()


def test_a_stream_may_go_while_its_memory_sleeps(start: Start) -> None:
    runtime = start()
    stream = Stream(runtime=runtime)
    with memory_tag("weights"):
        buffer = fill(runtime, 3 * MIB, 7, stream)
    sleep("weights", runtime=runtime)
    runtime.allocator(0).forget_stream(stream.cuda_stream)
    wake("weights", runtime=runtime)
    assert (contents(runtime, buffer) == 7).all()
    buffer.close()
    runtime.allocator(0).release_cached()
    assert memory_stats(runtime=runtime)["reserved_bytes.all.current"] == 0


def test_statistics_segments_and_the_summary_show_what_sleeps(start: Start) -> None:
    runtime = start()
    with memory_tag("weights"):
        buffer = fill(runtime, 3 * MIB, 7)
    reserved = memory_stats(runtime=runtime)["reserved_bytes.all.current"]
    assert sleep("weights", runtime=runtime) == reserved
    stats = memory_stats(runtime=runtime)
    assert stats["reserved_bytes.all.current"] == 0
    assert (stats["asleep"], stats["asleep_bytes"], stats["asleep_kept_bytes"]) == (1, 3 * MIB, 3 * MIB)
    assert [segment["asleep"] for segment in memory_snapshot(runtime=runtime)] == [True]
    assert "asleep: weights, 3072 KiB in 1 blocks, 3072 KiB kept on the host" in memory_summary(runtime=runtime)
    wake("weights", runtime=runtime)
    assert memory_stats(runtime=runtime)["asleep_bytes"] == 0
    assert [segment["asleep"] for segment in memory_snapshot(runtime=runtime)] == [False]
    assert "asleep" not in memory_summary(runtime=runtime)
    assert (contents(runtime, buffer) == 7).all()


def test_where_the_host_has_no_room_for_the_contents_nothing_has_changed(start: Start) -> None:
    runtime = start()
    with memory_tag("weights"):
        buffers = [fill(runtime, 3 * MIB, 7), fill(runtime, 5 * MIB, 8)]
    pinned_allocator(runtime, private=True).memory_limit = 4 * MIB
    before = memory_stats(runtime=runtime)
    with pytest.raises(OutOfMemoryError):
        sleep("weights", runtime=runtime)
    assert memory_stats(runtime=runtime) == before
    assert [(contents(runtime, buffer) == value).all() for buffer, value in zip(buffers, (7, 8), strict=True)]


@pytest.mark.parametrize("form", sorted(FORMS))
def test_what_is_tagged_lies_outside_a_plan_and_sleeps(form: str, tmp_path: Path) -> None:
    path = tmp_path / "run.plan"
    path.write_text(Plan([Cycle(0, [3 * MIB, 5 * MIB], 0, [0, 4 * MIB], 10 * MIB, 10 * MIB)]).to_text())
    made = PlannedAllocator if form == "python" else NativePlanned
    driver = SimDriver()
    with Runtime(lambda upstream: made(upstream, plan=str(path)), driver) as runtime:
        planned = fill(runtime, 3 * MIB, 1)
        with memory_tag("weights"):
            tagged = fill(runtime, 5 * MIB, 2)
        allocator: Any = runtime.allocator(0)
        assert allocator.served().planned_requests == 1
        assert sleep("weights", runtime=runtime) == 6 * MIB
        assert (contents(runtime, planned) == 1).all()
        wake("weights", runtime=runtime)
        assert (contents(runtime, tagged) == 2).all()
    driver.close()


@pytest.mark.parametrize("name", ["direct", "bump", "caching"])
def test_other_allocators_refuse_by_name(name: str) -> None:
    refusal = f"the allocator {name} cannot put memory to sleep.*choose expandable"
    with Runtime(name, "sim") as runtime:
        with memory_tag("weights"):
            buffer = runtime.alloc(100)
        for call in (sleep, wake):
            with pytest.raises(CuplugError, match=refusal):
                call("weights", runtime=runtime)
        with pytest.raises(CuplugError, match="cannot put memory to sleep"):
            runtime.allocator(0).sleep("weights")
        buffer.close()


def test_a_tag_that_nothing_had_is_an_error_that_names_those_there_are(start: Start) -> None:
    runtime = start()
    with memory_tag("weights"):
        runtime.alloc(100).close()
    with pytest.raises(ValueError, match=r"nothing was ever tagged 'wieghts'.*'weights'"):
        sleep("wieghts", runtime=runtime)
    with pytest.raises(TypeError, match="a name such as 'weights'"):
        wake(3, runtime=runtime)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must have a name"), memory_tag(""):
        pass


def test_a_trace_says_what_slept_and_when(start: Start, tmp_path: Path) -> None:
    runtime = start(trace=tmp_path / "run.cuplug")
    with memory_tag("cache"):
        buffer = fill(runtime, 3 * MIB, 7)
    slept = sleep("cache", runtime=runtime)
    wake("cache", runtime=runtime)
    buffer.close()
    runtime.close()
    trace = read_trace(tmp_path / "run.cuplug")
    told = [
        (EventKind(int(event["kind"])), int(event["nbytes"]), trace.tag(int(event["requested"])))
        for event in trace.events
        if event["kind"] in (EventKind.SLEEP, EventKind.WAKE)
    ]
    assert told == [(EventKind.SLEEP, slept, "cache"), (EventKind.WAKE, slept, "cache")]
    assert trace.complete


class Program:
    """A random program: what it holds, and what ought to stand there."""

    def __init__(self, runtime: Runtime, seed: int) -> None:
        self.runtime = runtime
        self.chance = random.Random(seed)
        self.streams = [Stream(runtime=runtime) for _ in range(3)]
        self.held: list[tuple[Any, str, int | None]] = []  # the buffer, its tag, its contents
        self.asleep: set[str] = set()
        self.latest = 0
        for tag in ("a", "b"):
            with memory_tag(tag):
                pass

    def step(self) -> None:
        chance, held = self.chance, self.held
        draw = chance.random()
        tag = chance.choice(["", "a", "b"])
        if draw < 0.35:
            self.allocate(tag)
        elif draw < 0.55 and held:
            held.pop(chance.randrange(len(held)))[0].close()
        elif draw < 0.7 and held:
            self.use(chance.randrange(len(held)))
        elif draw < 0.8 and tag:
            self.sleep(tag)
        elif draw < 0.9 and tag:
            wake(tag, runtime=self.runtime)
            self.asleep.discard(tag)
        elif draw < 0.95:
            self.runtime.allocator(0).release_cached()
        elif held:
            self.check(chance.randrange(len(held)))
        self.check_books()

    def allocate(self, tag: str) -> None:
        nbytes = self.chance.choice([self.chance.randrange(1, 8 * KIB), self.chance.randrange(1, 6 * MIB)])
        self.latest = (self.latest + 1) % 251
        with memory_tag(tag) if tag else nullcontext():
            if tag in self.asleep:
                with pytest.raises(CuplugError, match="is asleep"):
                    self.runtime.alloc(nbytes)
                return
            buffer = fill(self.runtime, nbytes, self.latest, self.chance.choice(self.streams))
        self.held.append((buffer, tag, self.latest))

    def use(self, at: int) -> None:
        buffer, tag, _ = self.held[at]
        if tag in self.asleep:
            return
        stream = self.chance.choice(self.streams)
        self.latest = (self.latest + 1) % 251
        for other in self.streams:  # its contents are to be those of the last to write
            stream.wait_stream(other)
        memset(buffer, self.latest, stream=stream, runtime=self.runtime)
        buffer.record_stream(stream)
        for other in self.streams:
            other.wait_stream(stream)
        self.held[at] = buffer, tag, self.latest

    def sleep(self, tag: str) -> None:
        keep = self.chance.random() < 0.7
        if sleep(tag, keep=keep, runtime=self.runtime):
            self.asleep.add(tag)
            if not keep:
                self.held[:] = [(one, of, None if of == tag else value) for one, of, value in self.held]

    def check(self, at: int) -> None:
        buffer, tag, value = self.held[at]
        if tag not in self.asleep and value is not None:
            assert (contents(self.runtime, buffer) == value).all()

    def check_books(self) -> None:
        runtime = self.runtime
        segments = runtime.allocator(0).segments()
        stats = memory_stats(runtime=runtime)
        awake = sum(segment.nbytes for segment in segments if not segment.asleep)
        free, total = mem_get_info(runtime=runtime)
        assert stats["reserved_bytes.all.current"] == awake == total - free
        assert stats["segment.all.current"] == sum(not segment.asleep for segment in segments)
        split = [info.nbytes for segment in segments if not segment.asleep and len(segment.blocks) > 1
                 for info in segment.blocks if info.state == "inactive"]  # fmt: skip
        assert stats["inactive_split_bytes.all.current"] == sum(split)
        tags = {info.address: segment for segment in segments for info in segment.blocks}
        for buffer, tag, _ in self.held:
            assert tags[buffer.address].tag == tag
            assert tags[buffer.address].asleep == (tag in self.asleep)
        assert all(segment.address % PAGE == segment.nbytes % PAGE == 0 for segment in segments)
        sleeping = [buffer.block.nbytes for buffer, tag, _ in self.held if tag in self.asleep]
        assert (stats["asleep"], stats["asleep_bytes"]) == (len(sleeping), sum(sleeping))


@pytest.mark.parametrize("schedule", ["eager", "random"])
def test_random_programs_find_their_contents_wherever_they_slept(start: Start, schedule: str) -> None:
    for seed in range(SEEDS):
        options = {"seed": seed} if schedule == "random" else {}
        runtime = start(memory=128 * MIB, schedule=schedule, **options)
        program = Program(runtime, seed)
        try:
            for _ in range(60):
                program.step()
            for tag in sorted(program.asleep):
                wake(tag, runtime=runtime)
            program.asleep.clear()
            for at in range(len(program.held)):
                program.check(at)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
