"""Call stacks have the program's lines alone, however deep in cuplug the allocation happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import cuplug
import pytest
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import PluginError
from cuplug.allocators.events import EventKind
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.bundled import Bundled
from cuplug.plugins.manager import PluginManager
from cuplug.plugins.specs import hookimpl
from cuplug.plugins.tracing.observer_contexts import attach_all
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.recorder import TraceRecorder
from cuplug.plugins.tracing.stacks import CallStacks

PROGRAM = """
import cuplug

def forward():
    a = cuplug.ones(1000, device="cuda")
    b = a * 2 + 1
    c = b.reshape(10, 100).sum(0)
    d = cuplug.cat((a, b))
    return c, d, cuplug.cuda.alloc(5000)

held = forward()
"""


def test_only_lines_of_the_program_are_in_the_stacks_that_record_takes(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CUPLUG_")}
    words = ["record", "-d", "sim", "--stacks", "python:9", "program.py"]
    subprocess.run([sys.executable, "-m", "cuplug.tools.trace", *words], cwd=tmp_path, env=clean, check=True)
    trace = read_trace(tmp_path / "trace.cuplug")
    allocations = trace.events[trace.events["kind"] == EventKind.ALLOCATE]
    assert len(allocations) >= 5
    stacks = {trace.stack(number) for number in allocations["context"]}
    assert {Path(frame.filename).name for stack in stacks for frame in stack} == {"program.py"}
    assert {tuple(frame.function for frame in stack) for stack in stacks} == {("forward", "<module>")}
    lines = PROGRAM.splitlines()
    named = {lines[stack[0].line - 1].split()[0] for stack in stacks}
    assert {"a", "b", "c", "d", "return"} <= named


class Watch:
    """An observer that asks for stacks."""

    def __init__(self, depth: int) -> None:
        self.stacks = CallStacks(depth)
        self.context = self.stacks.context
        self.seen: list[tuple[EventKind, list[str]]] = []

    def __call__(
        self, kind: EventKind, _time: int, _thread: int, _stream: int,
        _address: int, _nbytes: int, _requested: int, context: int, /,
    ) -> None:  # fmt: skip
        self.seen.append((kind, [function.rpartition(".")[2] for _, _, function in self.stacks.levels(context)]))


class Plugin:
    """Contributes observers."""

    def __init__(self, *observers: object) -> None:
        self.made = observers

    @hookimpl
    def cuplug_observers(self, runtime: object) -> object:
        return [lambda _ordinal, observer=observer: observer for observer in self.made]


def test_observers_of_plugins_and_the_recorder_each_get_stacks_as_they_asked(tmp_path: Path) -> None:
    one, three = Watch(1), Watch(3)
    unasking: list[int] = []
    plugins = PluginManager()
    plugins.register(Bundled(), "cuplug")
    plugins.register(Plugin(one, three, lambda *event: unasking.append(event[0])))

    def step(runtime: cuplug.Runtime) -> None:
        runtime.alloc(5000)

    def epoch(runtime: cuplug.Runtime) -> None:
        step(runtime)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUPLUG_TRACE_STACKS", "python:2")
        with cuplug.Runtime(driver="sim", trace=tmp_path / "t.cuplug", plugins=plugins) as runtime:
            epoch(runtime)
    here = "test_observers_of_plugins_and_the_recorder_each_get_stacks_as_they_asked"
    assert (EventKind.ALLOCATE, ["step"]) in one.seen
    assert (EventKind.ALLOCATE, ["step", "epoch", here]) in three.seen
    assert EventKind.ALLOCATE in unasking
    trace = read_trace(tmp_path / "t.cuplug")
    (allocated,) = trace.events[trace.events["kind"] == EventKind.ALLOCATE]
    assert [frame.function.rpartition(".")[2] for frame in trace.stack(allocated["context"])] == ["step", "epoch"]


def test_one_observer_that_asks_needs_nothing_between_it_and_the_allocator() -> None:
    watch = Watch(1)
    allocator = CachingAllocator(NullUpstream(1 << 30))
    attach_all(allocator, [(watch, watch.context)])
    allocator.free(allocator.allocate(1000, stream=0))
    allocator.detach(watch)
    allocator.free(allocator.allocate(1000, stream=0))
    assert [kind for kind, _ in watch.seen].count(EventKind.ALLOCATE) == 1


def test_a_context_that_cannot_be_called_is_the_plugins_error() -> None:
    watch = Watch(1)
    watch.context = 5  # type: ignore[assignment]
    plugins = PluginManager()
    plugins.register(Bundled(), "cuplug")
    plugins.register(Plugin(watch))
    runtime = cuplug.Runtime(driver="sim", plugins=plugins)
    with runtime, pytest.raises(PluginError, match="has a context that cannot be called: 5"):
        runtime.alloc(5000)


def test_levels_of_cuplug_do_not_count_and_code_without_a_module_is_the_programs(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.cuplug", stacks="python:2")
    assert recorder.context is not None
    made: dict[str, object] = {"__name__": "cuplug.runtime.made", "context": recorder.context}
    exec("def generated(levels):\n    return generated(levels - 1) if levels else context()", made)
    space = {"generated": made["generated"]}
    exec("def inner(): return generated(40)\ndef outer(): return inner()\nnumber = outer()", space)
    recorder.close()
    stack = read_trace(tmp_path / "t.cuplug").stack(space["number"])  # type: ignore[arg-type]
    assert [frame.function for frame in stack] == ["inner", "outer"]
    assert json.dumps([frame.filename for frame in stack]) == '["<string>", "<string>"]'
