"""Traces that the native core writes by itself: the same as those of the recorder in Python, whatever happens."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators import native
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import OutOfMemoryError
from cuplug.allocators.events import EventKind
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.tracing.observer_contexts import attach_all
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.recorder import TraceRecorder
from cuplug.plugins.tracing.stacks import CallStacks, PythonStacks
from cuplug.plugins.tracing.trace_in_memory import Trace

if not native.is_available():
    pytest.skip(f"the native core: {native.why_not()}", allow_module_level=True)

from cuplug.allocators import _native
from cuplug.allocators.native.strategies import NativeCaching
from cuplug.allocators.native.without_device import NativeNullUpstream

WINDOW = 20_480


def make_native(total: int = 1 << 40) -> Any:
    return NativeCaching(NativeNullUpstream(total))


def make_python(total: int = 1 << 40) -> Any:
    return CachingAllocator(NullUpstream(total))


def recorded(
    path: Path, work: Callable[[Any], None], make: Callable[[], Any] = make_native, stacks: str = "none"
) -> Trace:
    """The trace of what ``work`` does with an allocator that is recorded."""
    recorder = TraceRecorder(path, stacks=stacks)
    allocator = make()
    allocator.attach(recorder.observer(3), context=recorder.context)
    work(allocator)
    allocator.close()
    recorder.close()
    return read_trace(path)


def some_work(allocator: Any) -> None:
    """Allocations, frees, other streams, memory that runs out."""
    chance = random.Random(7)
    held: list[Any] = []
    for _ in range(400):
        if held and chance.random() < 0.45:
            allocator.free(held.pop(chance.randrange(len(held))))
        else:
            held.append(allocator.allocate(int(2 ** (chance.random() * 24)), stream=chance.choice([0, 5])))
        if held and chance.random() < 0.05:
            allocator.record_stream(held[-1], 9)
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(1 << 39, stream=0)
    allocator.allocate(700, stream=0, library=2)
    allocator.release_cached()


def plain(trace: Trace) -> list[Any]:
    """All but the times, with stacks in place of their numbers."""
    return [
        (trace.stack(row["context"]), trace.library(row["context"]), *(int(row[name]) for name in row.dtype.names
         if name not in ("time", "context")))
        for row in trace.events
    ]  # fmt: skip


@pytest.mark.parametrize("stacks", ["none", "python:5"])
def test_the_core_writes_the_trace_that_the_recorder_in_python_writes(tmp_path: Path, stacks: str) -> None:
    made = [
        recorded(tmp_path / "t.cuplug", some_work, lambda make=make: make(1 << 33), stacks)
        for make in (make_native, make_python)
    ]
    assert plain(made[0]) == plain(made[1])
    assert all(trace.complete for trace in made)
    assert made[0].threads == made[1].threads == {0: "MainThread"}
    assert (made[0].frames, made[0].stacks) == (made[1].frames, made[1].stacks)
    times = made[0].events["time"].tolist()
    assert times == sorted(times)


def test_nobody_calls_the_observer_whose_events_the_core_writes(tmp_path: Path) -> None:
    recorder, allocator = TraceRecorder(tmp_path / "t.cuplug"), make_native()
    observer = recorder.observer(0)
    allocator.attach(observer)
    assert allocator._observation.observers == ()
    allocator.free(allocator.allocate(1000, stream=0))
    allocator.detach(observer)
    allocator.free(allocator.allocate(1000, stream=0))
    recorder.close()
    assert [EventKind(kind).name for kind in read_trace(tmp_path / "t.cuplug").events["kind"]] == [
        "SEGMENT_RESERVE", "ALLOCATE", "FREE",
    ]  # fmt: skip


def test_a_trace_grows_with_markers_and_stacks_of_python_between_the_events(tmp_path: Path) -> None:
    recorder, allocator = TraceRecorder(tmp_path / "t.cuplug"), make_native()
    allocator.attach(recorder.observer(0))
    for _ in range(9):
        recorder.marker(f"{len(str(recorder)) * 'long '}, so that it takes several pieces")
        for _ in range(WINDOW // 4):
            allocator.free(allocator.allocate(1000, stream=0))
    recorder.close()
    trace = read_trace(tmp_path / "t.cuplug")
    assert (trace.complete, trace.note) == (True, "")
    kinds = [int(kind) for kind in trace.events["kind"] if kind != EventKind.SEGMENT_RESERVE]
    assert kinds == ([EventKind.MARKER] + [EventKind.ALLOCATE, EventKind.FREE] * (WINDOW // 4)) * 9
    assert os.path.getsize(tmp_path / "t.cuplug") < (len(trace.events) + 100) * 48 + 8192


PROGRAM = """
import os, signal, sys
from cuplug.allocators.native.strategies import NativeCaching
from cuplug.allocators.native.without_device import NativeNullUpstream
from cuplug.plugins.tracing.recorder import TraceRecorder

recorder = TraceRecorder("t.cuplug")
allocator = NativeCaching(NativeNullUpstream())
allocator.attach(recorder.observer(0))
"""


def run(tmp_path: Path, program: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", PROGRAM + program]
    return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_a_killed_process_loses_no_event(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "for number in range(30_001):\n    allocator.allocate(1000 + number, stream=0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)",
    )
    assert done.returncode == -signal.SIGKILL
    trace = read_trace(tmp_path / "t.cuplug")
    allocated = trace.events[trace.events["kind"] == EventKind.ALLOCATE]
    assert allocated["requested"].tolist() == list(range(1000, 31_001))


def test_a_forked_child_writes_nothing_into_its_parents_trace(tmp_path: Path) -> None:
    program = """
allocator.allocate(1000, stream=0)
if os.fork() == 0:
    try:
        allocator.allocate(2000, stream=0)
    except Exception as error:
        assert "forked" in str(error)
    recorder.close()
    os._exit(0)
os.wait()
allocator.allocate(3000, stream=0)
recorder.close()
"""
    done = run(tmp_path, program)
    assert (done.returncode, done.stderr) == (0, "")
    trace = read_trace(tmp_path / "t.cuplug")
    allocated = trace.events[trace.events["kind"] == EventKind.ALLOCATE]
    assert (trace.complete, allocated["requested"].tolist()) == (True, [1000, 3000])


def test_a_trace_that_cannot_grow_says_so_once_and_the_program_goes_on(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, resource.RLIM_INFINITY))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "for number in range(60_000):\n    allocator.allocate(1000 + number, stream=0)\n"
        "recorder.marker('late')\nrecorder.close()\nprint(allocator.statistics().all.allocation.current)\n",
    )
    assert (done.returncode, done.stdout) == (0, "60000\n")
    assert done.stderr.count("RuntimeWarning") == 1
    assert "what comes from here on is missing" in done.stderr
    trace = read_trace(tmp_path / "t.cuplug")
    assert not trace.complete
    assert "cut off here, since the disk had no room for more" in trace.note
    allocated = trace.events[trace.events["kind"] == EventKind.ALLOCATE]
    assert len(allocated) >= WINDOW
    assert allocated["requested"].tolist() == list(range(1000, 1000 + len(allocated)))


def test_pythons_writer_has_the_core_let_the_file_grow_and_hears_that_there_is_no_room(tmp_path: Path) -> None:
    program = (
        "import os, resource, sys\nfrom cuplug.allocators.errors import TraceError\n"
        "from cuplug.plugins.tracing.writer import TraceWriter\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 19, resource.RLIM_INFINITY))\n"
        "def never(*_arguments):\n    raise AssertionError('two would let the file grow')\n"
        "writer = TraceWriter(sys.argv[1])\nos.posix_fallocate = never\n"
        "try:\n    for number in range(100_000):\n        writer.append(1, 0, number, 0, 0, 512, 512, 500, 0)\n"
        "except TraceError as error:\n    print(error)\nwriter.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "t.cuplug"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "File too large; what comes from here on is missing" in done.stdout
    trace = read_trace(tmp_path / "t.cuplug")
    assert not trace.complete
    assert trace.events["time"].tolist() == list(range(2 * WINDOW))


def test_threads_write_at_once_and_every_event_is_there_with_its_threads_name(tmp_path: Path) -> None:
    start = threading.Barrier(4)

    def work(allocator: Any) -> None:
        def allocate(number: int) -> None:
            start.wait()
            for size in range(5000):
                allocator.free(allocator.allocate(number * 100_000 + size + 1, stream=number))

        threads = [threading.Thread(target=allocate, args=(number,), name=f"worker {number}") for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    trace = recorded(tmp_path / "t.cuplug", work)
    assert trace.complete
    for number in range(4):
        for kind in (EventKind.ALLOCATE, EventKind.FREE):
            mine = trace.events[(trace.events["stream"] == number) & (trace.events["kind"] == kind)]
            assert mine["requested"].tolist() == [number * 100_000 + size + 1 for size in range(5000)]
            assert {trace.threads[thread] for thread in mine["thread"]} == {f"worker {number}"}
    times = trace.events["time"].tolist()
    assert times == sorted(times)


def test_threads_of_c_are_recorded_without_the_interpreter(tmp_path: Path) -> None:
    def work(allocator: Any) -> None:
        handle = allocator._core_handle()
        _native.time_threads(handle, [1000] * 800, 4, 200, 16, 0)

    trace = recorded(tmp_path / "t.cuplug", work)
    assert trace.complete
    assert int((trace.events["kind"] == EventKind.ALLOCATE).sum()) == 800
    assert sorted({trace.threads[thread] for thread in trace.events["thread"]}) == ["MainThread", "unknown thread"]


def test_a_trace_may_be_closed_while_threads_write(tmp_path: Path) -> None:
    for _ in range(20):
        recorder, allocator = TraceRecorder(tmp_path / "t.cuplug"), make_native()
        allocator.attach(recorder.observer(0))
        thread = threading.Thread(
            target=_native.time_threads, args=(allocator._core_handle(), [1000] * 8000, 4, 2000, 16, 0)
        )
        thread.start()
        recorder.close()
        thread.join()
        trace = read_trace(tmp_path / "t.cuplug")
        assert (trace.complete, trace.note) == (True, "")


class Seen:
    """An observer in Python, with or without call stacks."""

    def __init__(self, stacks: CallStacks | None = None) -> None:
        self.kinds: list[str] = []
        self.levels: list[str] = []
        self.stacks = stacks

    def __call__(self, kind: EventKind, *rest: int) -> None:
        self.kinds.append(kind.name)
        if self.stacks is not None and kind is EventKind.ALLOCATE:
            self.levels.append(self.stacks.levels(rest[-1])[0][2].rpartition(".")[2])


def test_observers_in_python_see_the_same_beside_the_trace(tmp_path: Path) -> None:
    seen, faulty = Seen(), Seen()
    faulty.kinds = None  # type: ignore[assignment] # it raises at its first event

    def work(allocator: Any) -> None:
        allocator.attach(seen)
        allocator.attach(faulty)
        with pytest.warns(RuntimeWarning, match="was detached"):
            allocator.free(allocator.allocate(1000, stream=0))
        some_work(allocator)

    trace = recorded(tmp_path / "t.cuplug", work, lambda: make_native(1 << 33))
    assert [EventKind(kind).name for kind in trace.events["kind"]] == seen.kinds
    assert len(seen.kinds) > 400


def test_observers_with_call_stacks_of_their_own_and_the_trace_each_get_theirs(tmp_path: Path) -> None:
    stacks = CallStacks(depth=1)
    seen = Seen(stacks)
    recorder, allocator = TraceRecorder(tmp_path / "t.cuplug", stacks="python:2"), make_native()
    attach_all(allocator, [(seen, stacks.context), (recorder.observer(0), recorder.context)])
    allocator.free(allocator.allocate(1000, stream=0))
    recorder.close()
    here = "test_observers_with_call_stacks_of_their_own_and_the_trace_each_get_theirs"
    assert seen.levels == [here]
    trace = read_trace(tmp_path / "t.cuplug")
    (allocated,) = trace.events[trace.events["kind"] == EventKind.ALLOCATE]
    assert trace.stack(allocated["context"])[0].function.rpartition(".")[2] == here
    assert len(trace.stack(allocated["context"])) == 2


def test_a_walk_in_c_finds_the_stacks_that_a_walk_in_python_finds() -> None:
    kept: list[tuple[tuple[str, int, str], ...]] = [()]

    def number_of(levels: Any) -> int:
        kept.append(tuple(levels))
        return len(kept) - 1

    for depth in (1, 3, 16):
        stacks = PythonStacks(number_of, depth)
        other = PythonStacks(number_of, depth)
        made: dict[str, Any] = {"__name__": "cuplug.runtime.made"}
        exec("def inside(deeper): return deeper()", made)
        ends: dict[str, Any] = {"__name__": "theirs", "__cuplug_stacks_end_here__": True}
        exec("def ends(deeper): return deeper()", ends)

        def both(stacks: PythonStacks = stacks, other: PythonStacks = other) -> int:
            numbers = stacks.context(), other.walk()
            assert kept[numbers[0]] == kept[numbers[1]]
            return numbers[0]

        chance = random.Random(3)

        def descend(path: list[int], both: Any = both, made: Any = made, ends: Any = ends) -> int:
            if not path:
                return int(both())
            step, *rest = path
            go = lambda: descend(rest)  # noqa: E731 - a frame of its own
            if step == 0:
                return int(made["inside"](go))
            if step == 1:
                return int(ends["ends"](go))
            if step == 2:  # two lines, two stacks
                return go()
            return go()

        assert isinstance(stacks.context, _native.StackWalker)
        paths = [[chance.choice([0, 0, 1, 2, 3, 3]) for _ in range(chance.randrange(9))] for _ in range(200)]
        first, again = ([descend(path) for path in paths] for _ in range(2))
        assert first == again  # each has one number
        assert (len(set(first)) > 1) == (depth > 1)  # the innermost level is always the same


def test_an_interrupt_while_a_stack_is_told_leaves_nothing_allocated() -> None:
    def interrupted(_frame: Any) -> int:
        raise KeyboardInterrupt

    allocator = make_native()
    allocator.attach(Seen(), context=_native.StackWalker(interrupted, lambda _count, _frame: 1, 4))
    with pytest.raises(KeyboardInterrupt):
        allocator.allocate(1000, stream=0)
    assert allocator.statistics().all.allocation.allocated == 0


def test_an_allocator_beside_another_writes_where_that_one_does(tmp_path: Path) -> None:
    first, second = make_native(), make_native()
    beside = ctypes.CDLL(_native.__file__).cuplug_record_beside
    beside(ctypes.c_void_p(first._core_handle()), ctypes.c_void_p(second._core_handle()))

    def use_both() -> None:
        for allocator, nbytes in ((first, 1 << 20), (second, 3 << 20)):
            allocator.free(allocator.allocate(nbytes, stream=0))

    recorder = TraceRecorder(tmp_path / "trace", stacks="none")
    use_both()  # told to nobody
    first.attach(observer := recorder.observer(3), context=recorder.context)
    use_both()
    first.detach(observer)
    use_both()
    recorder.close()
    events = read_trace(tmp_path / "trace").events
    sizes = events["requested"][events["kind"] == int(EventKind.ALLOCATE)]
    assert sizes.tolist() == [1 << 20, 3 << 20]
    assert set(events["device"].tolist()) == {3}
