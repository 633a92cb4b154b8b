"""A signal's exception at any moment of a ``with`` block, or of a backward pass, leaves what is current as it was.

Python handles signals where a function of its own begins and behind a call of one in C. An exception is raised at each
of these places, one after the other, by a profiler, which is called there. What the end of a block could not bring back
is brought back once the exception is dropped.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import cuplug
import pytest
from cuplug.allocators import tags
from cuplug.allocators.core_choice import is_available, why_not
from cuplug.plugins.tracing.training_scope import scope
from cuplug.runtime.autograd.anomaly import mode
from cuplug.runtime.machine.current import Entered
from cuplug.runtime.streams.stream import Stream, current_stream
from cuplug.runtime.tensor import cudnn_switches
from cuplug.runtime.tensor.core.casting_seam import autocasting
from cuplug.runtime.tensor.ops.exchange.safe_globals import get_safe_globals, safe_globals

pytestmark = pytest.mark.needs_sim
needs_the_core = pytest.mark.skipif(not is_available(), reason=f"the native core: {why_not()}")

PACKAGE = Path(cuplug.__file__).parent
WORKING = tuple(str(PACKAGE / folder) for folder in ("runtime/drivers", "runtime/kernels", "runtime/tensor/backends"))
"""Where work itself is done: what an exception breaks off there is a device's failure."""


@functools.cache  # every call of a function asks
def _is_watched(file: str) -> bool:
    return file == contextlib.__file__ or (file.startswith(str(PACKAGE)) and not file.startswith(WORKING))


class Injection(KeyboardInterrupt):
    """The exception that a test plants."""


class RaisesAt:
    """Raises at one of the places where Python handles signals within the project's files, by its number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.seen = 0

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        # Where a generator is closed, too, there is a call, but no signal is handled.
        begins = event == "call" and not frame.f_code.co_flags & inspect.CO_GENERATOR
        if (begins or event == "c_return") and _is_watched(frame.f_code.co_filename):
            self.seen += 1
            if self.seen == self.number:
                sys.setprofile(None)
                raise Injection


def _current() -> tuple[object, ...]:
    """What contexts change in this thread or process."""
    return (
        current_stream(),
        cuplug.cuda.current_device(),
        cuplug.is_grad_enabled(),
        cuplug.is_inference_mode_enabled(),
        dict(autocasting.fast),
        (mode.enabled, mode.check_nan),
        tags.here.tag,
        (cudnn_switches.enabled, cudnn_switches.deterministic),
        get_safe_globals(),
        (tuple(scope.modules), scope.known_path, scope.phase),
    )


def _within(make: Callable[[], Any]) -> Callable[[], None]:
    def work() -> None:
        with make():
            pass

    return work


def _twice(stream: Stream) -> Callable[[], None]:
    def work() -> None:
        with stream, Stream(0), stream:
            pass

    return work


def _backward(stream: Stream) -> Callable[[], None]:
    x = cuplug.ones(3, device="cuda:1", requires_grad=True)

    def work() -> None:
        with cuplug.cuda.stream(stream):
            loss = (x * x).sum()
        loss.backward()

    return work


def _called(module: cuplug.nn.Module) -> Callable[[], None]:
    x = cuplug.ones(3)

    def work() -> None:
        module(x)

    return work


@pytest.fixture
def stream(running: str) -> Stream:
    del running
    return Stream(1)


WORK: dict[str, Callable[[Stream], Callable[[], None]]] = {
    "stream": lambda stream: _within(lambda: cuplug.cuda.stream(stream)),
    "device": lambda _: _within(lambda: cuplug.cuda.device(1)),
    "backward": lambda stream: _backward(stream),
    "autocast": lambda _: _within(lambda: cuplug.autocast("cpu", cuplug.bfloat16)),
    "memory_tag": lambda _: _within(lambda: cuplug.cuda.memory_tag("weights")),
    "flags": lambda _: _within(lambda: cudnn_switches.flags(deterministic=True)),
    "module": lambda _: _called(cuplug.nn.Linear(3, 2)),
    "safe_globals": lambda _: _within(lambda: safe_globals([Path])),
}
NEEDS_THE_CORE: dict[str, Callable[[Stream], Callable[[], None]]] = {
    "a stream itself": lambda stream: _within(lambda: stream),
    "a stream itself, twice": lambda stream: _twice(stream),
    "no_grad": lambda _: _within(cuplug.no_grad),
    "enable_grad in no_grad": lambda _: cuplug.no_grad()(_within(cuplug.enable_grad)),
    "inference_mode": lambda _: _within(cuplug.inference_mode),
    "a function without gradients": lambda _: cuplug.no_grad()(_called(cuplug.nn.Linear(3, 2))),
}
"""Whose ends nothing else brings back: in C they are not interrupted at their beginning."""


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # raised in a finaliser of a backward pass
@pytest.mark.parametrize("name", [*WORK, *(pytest.param(name, marks=needs_the_core) for name in NEEDS_THE_CORE)])
def test_an_exception_at_any_moment_leaves_what_is_current(stream: Stream, name: str) -> None:
    work = {**WORK, **NEEDS_THE_CORE}[name](stream)
    work()
    before, number, raising = _current(), 0, RaisesAt(0)
    gc.collect()
    gc.disable()  # what is brought back comes back at once
    try:
        while raising.seen >= number:  # else all of them were tried
            number += 1
            raising = RaisesAt(number)
            try:  # not by contextlib, which is watched
                sys.setprofile(raising)
                work()
            except Injection:
                pass
            finally:
                sys.setprofile(None)
            assert _current() == before, f"raised at {number}"
    finally:
        gc.enable()
    assert number > 5


def test_inference_mode_changes_both_of_its_settings_at_once() -> None:
    seen = set()
    sys.setprofile(lambda *_: seen.add((cuplug.is_grad_enabled(), cuplug.is_inference_mode_enabled())))
    try:
        with cuplug.inference_mode():
            pass
    finally:
        sys.setprofile(None)
    assert seen == {(True, False), (False, True)}


def test_what_ends_a_block_is_made_as_any_object() -> None:
    assert type(object.__new__(Stream)) is Stream
    assert type(object.__new__(cuplug.no_grad)) is cuplug.no_grad


def test_a_stream_that_an_exception_kept_from_being_left_does_not_keep_one_around_it(stream: Stream) -> None:
    before = _current()
    with Stream(0):
        stream.__enter__()  # as where the exception came at the beginning of its end
    assert _current() == before


def test_blocks_that_end_in_the_order_of_their_beginning_leave_those_around_them_alone(stream: Stream) -> None:
    def block(entered: Stream) -> Iterator[None]:
        with entered:
            yield

    outer = Stream(1)
    with outer:
        first, second = block(stream), block(Stream(1))
        next(first)
        next(second)
        assert next(first, "ended") == "ended"
        assert next(second, "ended") == "ended"
        assert current_stream(1) == outer


def test_no_interrupt_is_lost_where_a_stream_is_left(stream: Stream) -> None:
    """As Python loses what is raised in a finaliser: there is none."""
    finalised = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code is Entered.__del__.__code__:
            finalised.append(frame.f_lineno)

    gc.collect()
    gc.disable()  # what other tests have left
    try:
        sys.setprofile(note)
        with cuplug.cuda.stream(stream), cuplug.cuda.device(0):
            pass
    finally:
        sys.setprofile(None)
        gc.enable()
    assert finalised == []


@pytest.mark.parametrize("switch", [cuplug.no_grad, cuplug.autograd.detect_anomaly])
def test_a_mode_that_is_entered_and_never_left_stays_on_as_in_pytorch(switch: Callable[[], Any]) -> None:
    before = _current()
    with cuplug.inference_mode(False), cuplug.autograd.set_detect_anomaly(False):  # whose ends bring everything back
        switch().__enter__()
        gc.collect()
        assert _current() != before
    assert _current() == before
