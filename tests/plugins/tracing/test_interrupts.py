"""Ctrl-C anywhere in the recorder: every event stands in the trace once, the trace is whole, and no lock is held."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing import new_file as creating
from cuplug.plugins.tracing import recorder as recording
from cuplug.plugins.tracing import stacks as stacking
from cuplug.plugins.tracing import writer as writing
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.recorder import TraceRecorder

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files left open

FILES = {module.__file__ for module in (creating, recording, stacking, writing)}


class Interrupts:
    """Raises KeyboardInterrupt before the line or the instruction of a given number, over the recorder's own code."""

    def __init__(self, at: int, event: str) -> None:
        self.left = at
        self.event = event
        self.where = ""

    def __enter__(self) -> None:
        # Python 3.12 tells of instructions only if it was asked to, of any frame, before the tracing begins.
        sys._getframe().f_trace_opcodes = self.event == "opcode"
        self._held = self.trace  # see ``_traced`` in plugins/conformance/stepping.py
        sys.settrace(self._held)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        self._held = None

    def trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes = self.event == "opcode"
        if event == self.event:
            self.left -= 1
            if self.left == 0:
                self.where = f"{frame.f_code.co_name}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self.trace


def every_interrupt(action: Callable[[Interrupts], None], event: str = "line") -> Iterator[str]:
    """Carry out the action with an interrupt at its first line (or instruction), its second, and so on to its last."""
    at = 0
    while True:
        at += 1
        interrupts = Interrupts(at, event)
        action(interrupts)
        if not interrupts.where:
            assert at > 10  # or nothing was tried
            return
        yield interrupts.where


def free_of_locks(recorder: TraceRecorder) -> bool:
    """Whether another thread can write."""
    done = threading.Event()

    def work() -> None:
        with recorder._writer._growing:
            done.set()

    threading.Thread(target=work, daemon=True).start()
    return done.wait(300)


def test_an_interrupt_anywhere_in_the_observer_loses_no_event_and_writes_none_twice(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    states: list[tuple[TraceRecorder, bool]] = []

    def action(interrupts: Interrupts) -> None:
        recorder = TraceRecorder(path)
        observe = recorder.observer(0)
        inside = False
        try:
            observe(EventKind.ALLOCATE, 1, 1, 0, 1, 512, 500, 0)
            with interrupts:
                observe(EventKind.ALLOCATE, 2, threading.get_ident(), 0, 2, 512, 500, 0)
        except KeyboardInterrupt:
            inside = True
        for _ in range(2):  # whoever delivers repeats what was interrupted, perhaps after it had been done
            observe(EventKind.ALLOCATE, 2, threading.get_ident(), 0, 2, 512, 500, 0)
        observe(EventKind.ALLOCATE, 3, 1, 0, 3, 512, 500, 0)
        states.append((recorder, inside))

    for where in every_interrupt(action, "opcode"):
        recorder, inside = states.pop()
        assert inside, where
        assert free_of_locks(recorder), where
        recorder.close()
        trace = read_trace(path)
        assert trace.complete, (where, trace.note)
        times = trace.events["time"].tolist()
        assert times == [1, 2, 3], where
    states.pop()[0].close()


def test_an_interrupt_anywhere_in_a_marker_leaves_a_whole_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    states: list[TraceRecorder] = []

    def action(interrupts: Interrupts) -> None:
        states.append(TraceRecorder(path))
        try:
            with interrupts:
                states[-1].marker("a name of more than forty characters, so that it takes two pieces")
        except KeyboardInterrupt:
            pass
        states[-1].marker("next")

    for where in every_interrupt(action):
        recorder = states.pop()
        assert free_of_locks(recorder), where
        recorder.close()
        trace = read_trace(path)
        assert trace.complete, (where, trace.note)
        names = [trace.name(number) for number in trace.events["requested"]]
        assert names[-1] == "next", where
        assert all("missing" not in name for name in names), where
        assert len(names) <= 2, where
    states.pop().close()


def test_an_interrupt_anywhere_in_taking_a_stack_leaves_the_next_ones_right(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    states: list[TraceRecorder] = []

    def action(interrupts: Interrupts) -> None:
        states.append(TraceRecorder(path, stacks="python:2"))
        context = states[-1].context
        assert context is not None
        observe = states[-1].observer(0)
        for interrupting in (True, False):
            try:
                if interrupting:
                    interrupts.__enter__()
                number = context()
                interrupts.__exit__()
                observe(EventKind.ALLOCATE, 1, 1, 0, 1, 512, 500, number)
            except KeyboardInterrupt:
                pass
            finally:
                interrupts.__exit__()

    for where in every_interrupt(action):
        recorder = states.pop()
        assert free_of_locks(recorder), where
        recorder.close()
        trace = read_trace(path)
        assert trace.complete, (where, trace.note)
        for number in trace.events["context"]:
            assert trace.stack(number)[0].function.rpartition(".")[2] == "action", where
    states.pop().close()


@pytest.mark.parametrize("events", [0, 3])
def test_an_interrupted_close_may_be_called_again(tmp_path: Path, events: int) -> None:
    path = tmp_path / "t.cuplug"
    states: list[TraceRecorder] = []

    def action(interrupts: Interrupts) -> None:
        states.append(TraceRecorder(path))
        for number in range(events):
            states[-1].observer(0)(EventKind.FREE, number, 1, 0, 0, 0, 0, 0)
        try:
            with interrupts:
                states[-1].close()
        except KeyboardInterrupt:
            pass

    for where in every_interrupt(action):
        states.pop().close()
        trace = read_trace(path)
        assert trace.complete, (where, trace.note)
        assert trace.events["time"].tolist() == list(range(events)), where
    states.pop().close()


def test_an_interrupted_start_leaves_the_older_trace_or_a_new_one_and_nobody_who_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    older = TraceRecorder(path)
    older.marker("older")
    older.close()

    def action(interrupts: Interrupts) -> None:
        try:
            with interrupts:
                recorder = TraceRecorder(path)
        except KeyboardInterrupt:
            return
        recorder.close()

    for where in every_interrupt(action):
        assert [entry.name for entry in tmp_path.iterdir()] == ["t.cuplug"], where
        read_trace(path)
        recorder = TraceRecorder(path)  # nobody holds it
        recorder.marker("older")
        recorder.close()


def test_events_of_one_moment_are_all_kept(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "t.cuplug")
    observe = recorder.observer(0)
    for address in range(50_000):
        observe(EventKind.ALLOCATE, 7, 1, 0, address, 512, 500, 0)
    recorder.close()
    assert read_trace(tmp_path / "t.cuplug").events["address"].tolist() == list(range(50_000))
