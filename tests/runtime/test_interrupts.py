"""An exception at any point of the runtime's code: nothing is lost or given twice, no lock stays held.

Tried in two ways: by raising at each line that runs in the runtime's own files, one after the other, and by the signals
of a timer, which arrive between any two bytecodes.
"""

from __future__ import annotations

import functools
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug import CuplugError, Runtime
from cuplug.runtime.machine import default_runtime as default
from cuplug.runtime.machine.device import current_device, device, synchronize
from cuplug.runtime.memory.copies import memcpy
from cuplug.runtime.memory.pinned import alloc_pinned, pinned_allocator
from cuplug.runtime.streams.stream import Event, Stream, current_stream, default_stream, stream

pytestmark = [pytest.mark.one_schedule, pytest.mark.needs_sim]

RUNTIME = Path(default.__file__).parents[1]
STOREYS = {str(RUNTIME / storey) for storey in ("machine", "streams", "memory", "facade")}
NBYTES = 4096
HANDLES = 2
TAKEN: weakref.WeakKeyDictionary[Runtime, int] = weakref.WeakKeyDictionary()
"""How many handles of each kind the last check of a runtime took."""


class Injection(KeyboardInterrupt):
    """The exception that a test plants."""


@functools.cache  # every call of a function asks
def _is_the_runtimes(file: str) -> bool:
    return str(Path(file).parent) in STOREYS


class RaisesAtLine:
    """Raises at one line of all those that run in the storeys of ``runtime/``, by its number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.seen = 0
        self.where = ""

    def __enter__(self) -> None:
        self._held = self._call  # see ``_traced`` in plugins/conformance/stepping.py
        sys.settrace(self._held)

    def __exit__(self, *_exception: object) -> None:
        sys.settrace(None)
        self._held = None

    def _call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        return self._line if _is_the_runtimes(frame.f_code.co_filename) else None

    def _line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.seen += 1
            if self.seen == self.number:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                raise Injection
        return self._line


class _Foreign:
    """Host memory that another library keeps."""

    def __init__(self) -> None:
        self.array = np.zeros(NBYTES, np.uint8)
        self.__array_interface__ = self.array.__array_interface__


def _allocate(runtime: Runtime) -> None:
    held = [runtime.alloc(NBYTES) for _ in range(3)]
    held.pop().close()
    del held


def _stream(runtime: Runtime) -> None:
    made = [Stream(1, runtime=runtime), Stream(runtime=runtime, priority=-1)]
    runtime.alloc(NBYTES, stream=made[0])
    del made
    Stream(1, runtime=runtime)


def _event(runtime: Runtime) -> None:
    event = Event(enable_timing=True, runtime=runtime)
    event.record(default_stream(runtime=runtime))
    event.synchronize()
    default_stream(runtime=runtime).record_event()


def _pinned(runtime: Runtime) -> None:
    with alloc_pinned(NBYTES, runtime=runtime) as first:
        array = first.array
        memcpy(runtime.alloc(NBYTES), array, runtime=runtime)
    alloc_pinned(NBYTES, runtime=runtime)


def _copy(runtime: Runtime) -> None:
    buffer = runtime.alloc(NBYTES)
    memcpy(buffer, np.asarray(_Foreign()), runtime=runtime)
    memcpy(np.asarray(_Foreign()), buffer, runtime=runtime)
    memcpy(bytearray(NBYTES), buffer, runtime=runtime)


def _use_streams(runtime: Runtime) -> None:
    with stream(Stream(1, runtime=runtime)), device(0, runtime=runtime), stream(Stream(runtime=runtime)) as inner:
        runtime.alloc(NBYTES, stream=0).record_stream(inner)


def _use_devices(runtime: Runtime) -> None:
    with device(1, runtime=runtime):
        runtime.alloc(NBYTES)
        with device(0, runtime=runtime), device(-1, runtime=runtime):
            runtime.alloc(NBYTES)


def _synchronize(runtime: Runtime) -> None:
    queue = Stream(runtime=runtime)
    memcpy(runtime.alloc(NBYTES, stream=queue), np.asarray(_Foreign()), stream=queue, runtime=runtime)
    queue.synchronize()
    synchronize(1, runtime=runtime)


SCENARIOS: dict[str, Callable[[Runtime], None]] = {
    "allocate": _allocate,
    "stream": _stream,
    "event": _event,
    "pinned": _pinned,
    "copy": _copy,
    "use_streams": _use_streams,
    "use_devices": _use_devices,
    "synchronize": _synchronize,
}


@pytest.fixture(autouse=True)
def _exceptions_in_finalisers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python does once it has printed them. pytest would keep them, and with their tracebacks what was finalised."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _unraisable: None)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(driver="sim:devices=2") as made:
        yield made


def _check(runtime: Runtime, where: object) -> None:
    """Everything is as it was before, for this thread and for others."""
    assert current_device(runtime=runtime) == 0, where
    assert runtime.driver.current_device() in (None, 0), where
    assert current_stream(runtime=runtime) is default_stream(runtime=runtime), where
    assert current_stream(1, runtime=runtime) is default_stream(1, runtime=runtime), where
    failures: list[BaseException] = []

    def elsewhere() -> None:
        try:
            _check_memory(runtime)
            _check_handles(runtime)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=elsewhere, daemon=True)
    thread.start()
    thread.join(300)
    assert not thread.is_alive(), f"a lock stays held after an interrupt at {where}"
    assert not failures, f"after an interrupt at {where}: {failures[0]!r}"


def _check_memory(runtime: Runtime) -> None:
    for ordinal in (0, 1):
        synchronize(ordinal, runtime=runtime)
        assert not runtime.device(ordinal).borrowed.queued().get(0)
        counted = runtime.allocator(ordinal).statistics().all
        assert (counted.allocated_bytes.current, counted.allocation.current) == (0, 0)
        assert runtime.alloc(NBYTES, stream=default_stream(ordinal, runtime=runtime)).nbytes == NBYTES
        runtime.allocator(ordinal).release_cached()
        assert runtime.allocator(ordinal).statistics().all.reserved_bytes.current == 0
    pinned_allocator(runtime).release_cached()
    live = runtime.driver.live  # type: ignore[attr-defined]
    assert (live.allocations, live.host_allocations) == (0, 0)


def _check_handles(runtime: Runtime) -> None:
    """No handle has two owners, and none that was made is out of use.

    So many are taken of each kind that the driver has made no others: ``HANDLES``, which the work needs at a time, and
    whatever came beside them since the first check, which is made before any interrupt; all of it may be of one kind.
    It may: an interrupted copy's loan, and so its event, lasts until a later copy ends it, and several in a row can be
    interrupted there.
    """
    live, before = runtime.driver.live, TAKEN.get(runtime, HANDLES)  # type: ignore[attr-defined]
    each_kind = before + max(0, live.streams - 4 * before, live.events - 4 * before)
    assert each_kind < 4 * HANDLES, "handles pile up"
    TAKEN[runtime] = each_kind
    for ordinal in (0, 1):
        streams = [Stream(ordinal, priority, runtime=runtime) for priority in (0, -1) for _ in range(each_kind)]
        assert len({each.cuda_stream for each in streams}) == len(streams)
        events = [Event(timing, runtime=runtime) for timing in (False, True) for _ in range(each_kind)]
        for event in events:
            event.record(default_stream(ordinal, runtime=runtime))
        assert len({each.cuda_event for each in events}) == len(events)
        del streams, events, event
    live = runtime.driver.live  # type: ignore[attr-defined]
    assert (live.streams, live.events) == (4 * each_kind, 4 * each_kind)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_exception_at_any_line_loses_nothing(runtime: Runtime, scenario: str) -> None:
    work = SCENARIOS[scenario]
    work(runtime)
    _check(runtime, "nowhere")
    number, injected = 1, 1
    while injected:
        raising = RaisesAtLine(number)
        injected = 0
        try:
            with raising:
                work(runtime)
        except Injection:
            injected = 1
        if raising.where:
            injected = 1  # also in a finaliser, which swallows it
            _check(runtime, raising.where)
        number += 1
    assert number > 20


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of signals in the collector
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_interrupts_at_any_moment_lose_nothing(runtime: Runtime, scenario: str) -> None:
    work = SCENARIOS[scenario]
    work(runtime)
    _check(runtime, "nowhere")

    def interrupt(*_arguments: object) -> None:
        raise Injection

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        interrupted, step = 0, 0
        while interrupted < 200:
            step += 1
            interrupted += _interrupted(work, runtime, (1 + step * 7 % 100) * 1e-6 * (1 + step % 5))
            if step % 10 == 0:
                _check(runtime, f"step {step}")
        _check(runtime, "the end")
    finally:
        signal.signal(signal.SIGALRM, before)


def _interrupted(work: Callable[[Runtime], None], runtime: Runtime, after_s: float) -> bool:
    """Do the work with a timer set. Whether its signal came before the end."""
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, after_s)
            for _ in range(3):
                work(runtime)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Injection:
        return True
    return False


# --- beginning and end


def _start_and_stop() -> None:
    cuplug.init(driver="sim")
    cuplug.cuda.alloc(NBYTES)
    cuplug.cuda.Stream()
    cuplug.shutdown()


def test_an_exception_at_any_line_of_starting_or_stopping_leaves_a_runtime_that_starts_and_stops() -> None:
    _start_and_stop()
    number, where = 1, "?"
    while where:
        raising = RaisesAtLine(number)
        with suppress(Injection), raising:
            _start_and_stop()
        where = raising.where
        thread = threading.Thread(target=cuplug.shutdown, daemon=True)
        thread.start()
        thread.join(300)
        assert not thread.is_alive(), f"a lock stays held after an interrupt at {where}"
        assert default._default is None
        cuplug.init(driver="sim")
        assert cuplug.cuda.alloc(NBYTES).nbytes == NBYTES
        cuplug.shutdown()
        number += 1


def test_closing_again_does_what_an_interrupt_left_undone() -> None:
    number, where = 1, "?"
    while where:
        runtime = Runtime(driver="sim")
        driver, buffer = runtime.driver, runtime.alloc(NBYTES)
        queue, pinned = Stream(runtime=runtime), alloc_pinned(NBYTES, runtime=runtime)
        raising = RaisesAtLine(number)
        with suppress(Injection), raising:
            runtime.close()
        where = raising.where
        runtime.close()
        live = driver.live  # type: ignore[attr-defined]
        assert (live.allocations, live.host_allocations, live.streams, live.events) == (0, 0, 0, 0), where
        with pytest.raises(CuplugError, match="shut down"):
            runtime.alloc(1)
        assert buffer.closed, where
        del queue, pinned
        number += 1
