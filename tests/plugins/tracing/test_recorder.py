"""The recorder: what allocators report arrives in the file, whoever reports it and whatever happens meanwhile."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import TraceError
from cuplug.allocators.events import EventKind
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.recorder import TraceRecorder
from cuplug.plugins.tracing.trace_in_memory import NO_DEVICE, Trace


def attached(recorder: TraceRecorder, device: int = 0) -> CachingAllocator:
    allocator = CachingAllocator(NullUpstream(1 << 40))
    allocator.attach(recorder.observer(device), context=recorder.context)
    return allocator


def kinds(trace: Trace) -> list[str]:
    return [EventKind(kind).name for kind in trace.events["kind"]]


def test_an_allocation_and_its_free_are_recorded(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.cuplug")
    allocator = attached(recorder, 3)
    block = allocator.allocate(1000, stream=7)
    allocator.free(block)
    allocator.close()
    recorder.close()
    trace = read_trace(tmp_path / "t.cuplug")
    assert kinds(trace) == ["SEGMENT_RESERVE", "ALLOCATE", "FREE", "SEGMENT_RELEASE"]
    allocated = trace.events[1]
    assert (allocated["device"], allocated["stream"], allocated["requested"], allocated["nbytes"]) == (3, 7, 1000, 1024)
    assert allocated["address"] == trace.events[2]["address"]
    assert trace.events["time"].tolist() == sorted(trace.events["time"])
    assert trace.threads[allocated["thread"]] == "MainThread"


def test_markers_are_named_and_belong_to_no_device(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.cuplug")
    for name in ("one", "two", "one"):
        recorder.marker(name)
    recorder.close()
    trace = read_trace(tmp_path / "t.cuplug")
    assert [trace.name(number) for number in trace.events["requested"]] == ["one", "two", "one"]
    assert set(trace.events["device"]) == {NO_DEVICE}
    assert trace.devices == []


def test_the_path_may_hold_the_number_of_the_process(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.{pid}.cuplug")
    recorder.close()
    assert recorder.path == str(tmp_path / f"t.{os.getpid()}.cuplug")
    assert Path(recorder.path).is_file()


def test_stacks_name_the_lines_of_the_program_innermost_first(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.cuplug", stacks="python")
    allocator = attached(recorder)

    def inner() -> None:
        allocator.free(allocator.allocate(512, stream=0))

    def outer() -> None:
        for _ in range(5):
            inner()

    outer()
    recorder.close()
    trace = read_trace(tmp_path / "t.cuplug")
    allocations = trace.events[trace.events["kind"] == EventKind.ALLOCATE]
    assert len(set(allocations["context"])) == 1
    stack = trace.stack(allocations["context"][0])
    assert [frame.function.rpartition(".")[2] for frame in stack[:2]] == ["inner", "outer"]
    assert stack[0].filename == __file__
    assert stack[0].line == inner.__code__.co_firstlineno + 1


def test_the_depth_limits_stacks(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.cuplug", stacks="python:3")
    allocator = attached(recorder)

    def recurse(levels: int) -> None:
        if levels:
            recurse(levels - 1)
        else:
            allocator.allocate(512, stream=0)

    recurse(20)
    recorder.close()
    trace = read_trace(tmp_path / "t.cuplug")
    assert [len(trace.stack(context)) for context in trace.events["context"] if context] == [3]


def test_two_lines_of_one_function_are_two_stacks(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.cuplug", stacks="python")
    allocator = attached(recorder)
    first = allocator.allocate(512, stream=0)
    second = allocator.allocate(512, stream=0)
    recorder.close()
    trace = read_trace(tmp_path / "t.cuplug")
    lines = [trace.stack(context)[0].line for context in trace.events["context"] if context]
    assert lines[1] == lines[0] + 1
    assert first is not second


def test_code_that_has_gone_is_not_confused_with_later_code(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.cuplug", stacks="python")
    allocator = attached(recorder)
    for number in range(200):
        scope: dict[str, object] = {"a": allocator}
        exec(compile("def f(): a.free(a.allocate(512, stream=0))\nf()", f"made{number}.py", "exec"), scope)
        del scope
        gc.collect(0)
    recorder.close()
    trace = read_trace(tmp_path / "t.cuplug")
    allocations = trace.events[trace.events["kind"] == EventKind.ALLOCATE]
    assert [trace.stack(number)[0].filename for number in allocations["context"]] == [
        f"made{number}.py" for number in range(200)
    ]


@pytest.mark.parametrize("stacks", ["perl", "python:0", "python:x", "python:1000"])
def test_an_unknown_kind_of_stacks_is_refused(tmp_path: Path, stacks: str) -> None:
    with pytest.raises(TraceError, match="write none, python, python:DEPTH with 1 to 999 levels, or modules"):
        TraceRecorder(tmp_path / "t.cuplug", stacks=stacks)


def test_the_environment_chooses_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPLUG_TRACE_STACKS", "python:4")
    recorder = TraceRecorder(tmp_path / "t.cuplug")
    assert recorder.context is not None
    recorder.close()
    assert read_trace(recorder.path).header.fields["stacks"] == "python"


def test_threads_are_numbered_in_order_of_their_first_events(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.cuplug")
    allocator = attached(recorder)
    allocator.allocate(512, stream=0)
    thread = threading.Thread(target=lambda: allocator.allocate(512, stream=0), name="loader")
    thread.start()
    thread.join()
    recorder.close()
    trace = read_trace(recorder.path)
    assert trace.threads == {0: "MainThread", 1: "loader"}
    assert trace.events["thread"][-1] == 1


def test_finalisers_that_free_while_an_event_is_written_lose_nothing(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.cuplug", stacks="python")
    allocators = [attached(recorder, device) for device in range(2)]

    class Owner:
        def __init__(self, device: int) -> None:
            self.me = self  # only the collector frees it
            self.device = device
            self.block = allocators[device].allocate(4096, stream=0)

        def __del__(self) -> None:
            allocators[self.device].free(self.block)

    before = gc.get_threshold()
    gc.set_threshold(5)
    try:
        for number in range(4000):
            Owner(number % 2)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    recorder.close()
    trace = read_trace(recorder.path)
    assert trace.complete
    for device in range(2):
        mine = trace.events[trace.events["device"] == device]
        assert (mine["kind"] == EventKind.ALLOCATE).sum() == 2000
        assert (mine["kind"] == EventKind.FREE).sum() == 2000


def test_a_forked_child_writes_nothing_into_its_parents_trace(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.cuplug", stacks="python")
    allocator = attached(recorder)
    allocator.allocate(512, stream=0)
    child = os.fork()
    if not child:
        status = 1
        try:
            observe = recorder.observer(0)
            for _ in range(30_000):
                observe(EventKind.FREE, 1, threading.get_ident(), 0, 0, 0, 0, 0)
            recorder.marker("child")
            recorder.flush()
            recorder.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    allocator.allocate(512, stream=0)
    recorder.close()
    trace = read_trace(recorder.path)
    assert trace.complete
    assert kinds(trace).count("ALLOCATE") == 2
    assert "FREE" not in kinds(trace)


def test_a_recorder_that_is_dropped_closes_its_trace(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.cuplug")
    recorder.marker("only")
    del recorder
    assert read_trace(tmp_path / "t.cuplug").complete


PROGRAM = """
import os, sys
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.tracing.recorder import TraceRecorder

recorder = TraceRecorder(sys.argv[1], stacks="python")
allocator = CachingAllocator(NullUpstream(1 << 40))
told = 0

def tell(*event):  # after the recorder: what was told has been recorded
    global told
    told += 1
    if told % 500 == 0:
        os.write(1, told.to_bytes(8, "little"))

allocator.attach(recorder.observer(0), context=recorder.context)
allocator.attach(tell)
live = []
number = 0
while True:
    number += 1
    live.append(allocator.allocate(1 + number % 100_000, stream=number % 3))
    if len(live) > 50:
        allocator.free(live.pop(number % 50))
"""


@pytest.mark.parametrize("reports", [1, 9, 60])
def test_a_killed_process_leaves_a_trace_up_to_the_kill(tmp_path: Path, reports: int) -> None:
    path = tmp_path / "t.cuplug"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(reports):
            told = int.from_bytes(process.stdout.read(8), "little")
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()  # what it still told before it was gone
    assert process.returncode == -signal.SIGKILL
    told = int.from_bytes(rest[-8:], "little") if rest else told
    trace = read_trace(path)
    assert not trace.complete
    assert "killed" in trace.note
    assert told >= 500 * reports
    assert len(trace.events) >= told
    assert trace.stack(int(trace.events["context"].max()))
    live: set[int] = set()  # the history is whole: every free has its allocation, and no block is handed out twice
    for event in trace.events:
        address = int(event["address"])
        if event["kind"] == EventKind.ALLOCATE:
            assert address not in live
            live.add(address)
        elif event["kind"] == EventKind.FREE:
            live.remove(address)


def test_the_same_program_gives_the_same_trace_but_for_times(tmp_path: Path) -> None:
    program = """
import random, sys
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.tracing.recorder import TraceRecorder

recorder = TraceRecorder(sys.argv[1], stacks="python")
sys.argv[1] = ""
allocator = CachingAllocator(NullUpstream(1 << 40))
allocator.attach(recorder.observer(0), context=recorder.context)
choose, live = random.Random(7), []
for _ in range(2000):
    if live and choose.random() < 0.5:
        allocator.free(live.pop(choose.randrange(len(live))))
    else:
        live.append(allocator.allocate(choose.randrange(1, 1 << 22), stream=choose.randrange(3)))
recorder.marker("end")
recorder.close()
"""
    traces = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        subprocess.run([sys.executable, "-c", program, "t.cuplug"], check=True, cwd=tmp_path / name)
        traces.append(read_trace(tmp_path / name / "t.cuplug"))
    assert len(traces[0].events) > 2000
    assert traces[0].canonical() == traces[1].canonical()
    assert (traces[0].events["time"] != traces[1].events["time"]).any()
    first, second = (dict(trace.header.fields) for trace in traces)
    assert {name for name in first if first[name] != second[name]} <= {"clock", "pid"}
