"""An exception at any point of an allocator's code leaves every counter, block and segment right."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from cuplug.allocators import base
from cuplug.allocators.base import Allocator
from cuplug.allocators.block import Block
from cuplug.allocators.bump import BumpAllocator
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.direct import DirectAllocator
from cuplug.allocators.errors import CuplugError, OutOfMemoryError
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import is_available
from cuplug.allocators.planned import PlannedAllocator
from cuplug.allocators.planning import Cycle, Plan
from cuplug.allocators.upstream import in_one_step
from cuplug.plugins.conformance.stepping import run_apart

MIB = 1 << 20
CODE = str(Path(base.__file__).parent) + os.sep
UPSTREAMS = {
    *(str(Path(CODE, "upstreams", name)) for name in ("null.py", "costs.py")),
    str(Path(__file__).with_name("conftest.py")),
}
COLLECTING: dict[str, Any] = {
    "garbage_collection_threshold": 0.3,
    "memory_limit": 96 * MIB,
}  # PyTorch's waits for a limit
FACTORIES: dict[str, Callable[..., Allocator]] = {
    "direct": DirectAllocator,
    "bump": lambda upstream: BumpAllocator(upstream, chunk_size=2 * MIB),
    "caching": CachingAllocator,
    "torch": lambda upstream: CachingAllocator(upstream, preset="torch", **COLLECTING),
    "expandable": lambda upstream: ExpandableAllocator(upstream, slack=0),
    "expandable aliases": lambda upstream: ExpandableAllocator(upstream, slack=0, aliases=2),
    "expandable torch": lambda upstream: ExpandableAllocator(upstream, preset="torch"),
    "expandable host": lambda upstream: ExpandableAllocator(upstream, slack=0, memory_limit=12 * MIB, host=160 * MIB),
}
PLAN = Plan(
    [
        Cycle(
            1,
            [1024, 3 * MIB, 12 * MIB, 9 * MIB, 12 * MIB, 1024, 25 * MIB, 6 * MIB],
            0,
            [0, 1 * MIB, 4 * MIB, 16 * MIB, 4 * MIB, 512, 25 * MIB, 0],
            50 * MIB,
            50 * MIB,
        )
    ]
)
"""What the program asks for on its first stream; some of it lies where something else still does."""


def planned(upstream: Any, made: Callable[..., Allocator] = PlannedAllocator) -> Allocator:
    with tempfile.NamedTemporaryFile("w", suffix=".plan") as file:
        file.write(PLAN.to_text())
        file.flush()
        return made(upstream, plan=file.name, slack=0)


FACTORIES["planned"] = planned
IN_PYTHON = list(FACTORIES)
if is_available():  # of these only what is in Python has lines; signals and exceptions from upstream reach all
    from cuplug.allocators.native.strategies import NativeCaching, NativeExpandable, NativePlanned

    FACTORIES["native"] = NativeCaching
    FACTORIES["native torch"] = lambda upstream: NativeCaching(upstream, preset="torch", **COLLECTING)
    FACTORIES["native planned"] = lambda upstream: planned(upstream, NativePlanned)
    FACTORIES["native expandable"] = lambda upstream: NativeExpandable(upstream, slack=0)
    FACTORIES["native expandable aliases"] = lambda upstream: NativeExpandable(upstream, slack=0, aliases=2)
    FACTORIES["native expandable host"] = lambda upstream: NativeExpandable(
        upstream, slack=0, memory_limit=12 * MIB, host=160 * MIB
    )
    FACTORIES["native expandable torch"] = lambda upstream: NativeExpandable(upstream, preset="torch")


class Injection(KeyboardInterrupt):
    """The exception that a test plants."""


class InjectsAtLine:
    """Raises at the line with the given number, of all lines of the allocators' own code that run."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen = 0
        self.where = ""
        self.lines: list[tuple[CodeType, int]] = []
        """Those seen, where ``at`` is 0 and none is struck."""

    def __enter__(self) -> None:
        self._held = self._call  # see ``_traced`` in plugins/conformance/stepping.py
        sys.settrace(self._held)

    def __exit__(self, *_error: object) -> None:
        sys.settrace(None)
        self._held = None

    def _call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        name = frame.f_code.co_filename
        return self._line if name.startswith(CODE) and name not in UPSTREAMS else None

    def _line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.seen += 1
            if not self.at:
                self.lines.append((frame.f_code, frame.f_lineno))
            elif self.seen == self.at:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
                sys.settrace(None)
                raise Injection(self.where)
        return self._line


class Program:
    """Uses an allocator in every way, and knows which of its steps have returned."""

    def __init__(self, make: Callable[..., Allocator], manual: Any) -> None:
        self.manual = manual
        self.allocator = make(manual)
        self.live: list[Block] = []
        self.freed: list[Block] = []
        self.struck = 1
        """How many exceptions may have broken a free off at its start: then the block is live still."""

    def allocate(self, nbytes: int, stream: int) -> None:
        (block,) = in_one_step(self.allocator.allocate, nbytes, stream=stream)
        self.live.append(block)
        self.manual.queue(block, stream)

    def free(self, place: int) -> None:
        block = self.live[place]
        self.freed.append(block)
        del self.live[place]
        self.allocator.free(block)

    def steps(self) -> Iterator[Callable[[], object]]:
        allocator = self.allocator
        for nbytes, stream in ((1000, 1), (3 * MIB, 1), (12 * MIB, 1), (600, 2), (2 * MIB, 2), (9 * MIB, 1)):
            yield lambda nbytes=nbytes, stream=stream: self.allocate(nbytes, stream)
        yield lambda: allocator.record_stream(self.live[1], 2)
        yield lambda: allocator.record_stream(self.live[0], 3)
        yield lambda: self.free(1)
        yield lambda: self.free(2)
        yield lambda: self.free(0)
        yield lambda: self.manual.finish(2)
        for nbytes, stream in ((12 * MIB, 1), (700, 1), (25 * MIB, 1)):
            yield lambda nbytes=nbytes, stream=stream: self.allocate(nbytes, stream)
        yield lambda: self.free(0)
        yield self.destroy_stream
        yield lambda: self.allocate(5 * MIB, 3)
        yield lambda: self.free(-1)
        yield lambda: self.free(0)
        yield lambda: allocator.statistics()
        yield lambda: allocator.segments()
        yield lambda: self.allocate(30 * MIB, 3)
        yield lambda: self.refused(200 * MIB)
        yield lambda: allocator.release_cached()
        yield lambda: self.allocate(6 * MIB, 1)
        yield lambda: allocator.reset_peaks()

    def destroy_stream(self) -> None:
        """As the runtime does it: a stream is not destroyed before the allocator has forgotten it."""
        self.allocator.forget_stream(2)
        self.manual.gone.add(2)

    def refused(self, nbytes: int) -> None:
        try:
            self.allocate(nbytes, 1)
        except OutOfMemoryError:
            return
        raise AssertionError("the device is too small for that")

    def check(self) -> None:
        """What must hold after anything. Blocks that no step has had returned are not to be found either."""
        allocator, manual = self.allocator, self.manual
        assert not manual.faults, manual.faults
        held = allocator.live_blocks()
        assert {id(block) for block in self.live} <= {id(block) for block in held}
        assert len([block for block in self.freed if block in held]) <= self.struck
        known = {id(block) for block in (*self.live, *self.freed)}
        assert all(id(block) in known for block in held), "a block is in nobody's hands"
        end = 0
        for block in held:
            assert block.address >= end, "two live blocks overlap"
            end = block.address + block.nbytes
        segments = allocator.segments()
        counted = allocator.statistics()
        infos = [info for segment in segments for info in segment.blocks]
        used = manual.used_bytes + manual.used_host_bytes
        assert counted.all.reserved_bytes.current == sum(segment.nbytes for segment in segments) == used
        assert counted.all.host_bytes.current == manual.used_host_bytes
        assert counted.all.segment.current == len(segments)
        for segment in segments:
            at = segment.address
            for info in segment.blocks:
                assert info.address == at, "the map has a gap"
                at += info.nbytes
            assert at == segment.address + segment.nbytes
        active = [info for info in infos if info.state == "active_allocated"]
        assert sorted(info.address for info in active) == [block.address for block in held if block.nbytes]
        assert counted.all.allocation.current == len(held)
        assert counted.all.allocated_bytes.current == sum(block.nbytes for block in held)
        assert counted.all.requested_bytes.current == sum(block.requested for block in held)
        pending = [info for info in infos if info.state == "active_pending_free"]
        assert counted.all.active.current == len(held) + len(pending)
        for name, counter in counted.all.named():
            parts = [dict(pool.named())[name].current for pool in (counted.small, counted.large)]
            assert counter.current == sum(parts), name
            assert counter.peak >= counter.current >= 0, name
            assert counter.allocated - counter.freed == counter.current, name

    def finish(self) -> None:
        """Everything can be freed and given back, from another thread too."""
        for block in self.allocator.live_blocks():
            self.allocator.free(block)
        thread = threading.Thread(target=self.allocator.release_cached)
        thread.start()
        thread.join(300)
        assert not thread.is_alive(), "another thread waits for a lock that nobody lets go of"
        if not isinstance(self.allocator, BumpAllocator):
            assert self.manual.used_bytes == 0
        self.allocator.close()
        assert self.manual.used_bytes == self.manual.used_host_bytes == 0
        assert not self.manual.faults, self.manual.faults


def moments(program: Program) -> dict[tuple[CodeType, int], list[tuple[int, int]]]:
    """When each line runs that ``program`` runs: each time the step, and its number among the lines of that step."""
    found: dict[tuple[CodeType, int], list[tuple[int, int]]] = {}
    for number, step in enumerate(program.steps()):
        counting = InjectsAtLine(0)
        with counting, suppress(OutOfMemoryError):
            step()
        for moment, line in enumerate(counting.lines, 1):
            found.setdefault(line, []).append((number, moment))
    return found


def chosen(found: dict[tuple[CodeType, int], list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """One moment of every third line, of one an early and of another a late one; what ``CUPLUG_INJECT_EVERY`` says has
    every moment of all lines, or every so many."""
    every = int(os.environ.get("CUPLUG_INJECT_EVERY", "0"))
    if every:
        return [moment for times in found.values() for moment in times][::every]
    return [times[number * 7 % len(times)] for number, times in enumerate(found.values()) if number % 3 == 0]


def run(program: Program, at_step: int, at_line: int) -> str:
    """Every step of ``program``; an exception comes at a line of one step, which is left. Returns where it came.

    Only that step is traced: Python is many times as slow where it is.
    """
    injection = InjectsAtLine(at_line)
    for number, step in enumerate(program.steps()):
        if number > at_step:
            with suppress(IndexError, OutOfMemoryError):  # a block is missing, or left, because of the exception
                step()
            continue
        try:
            if number < at_step:
                step()
            else:
                with injection:
                    step()
        except Injection:
            sys.settrace(None)
            program.check()
        except OutOfMemoryError:
            pass
    return injection.where


@pytest.mark.parametrize("name", IN_PYTHON)
def test_an_exception_at_any_line_leaves_everything_right(name: str, make_manual: Callable[..., Any]) -> None:
    def inject_everywhere() -> None:
        found = moments(Program(FACTORIES[name], make_manual(96 * MIB)))
        assert sum(map(len, found.values())) > 500
        for step, line in chosen(found):
            program = Program(FACTORIES[name], make_manual(96 * MIB))
            where = run(program, step, line)
            assert where, f"line {line} of step {step} did not run again"
            try:
                program.check()
                program.finish()
            except BaseException as error:
                raise AssertionError(f"after an exception at {where} (line {line} of step {step})") from error

    run_apart(inject_everywhere)


class InterruptsCalls:
    """An upstream of which one call raises an exception, and has no effect then."""

    def __init__(self, upstream: Any, at: int, kind: type[BaseException]) -> None:
        self._upstream = upstream
        self.at = at
        self.kind = kind
        self.calls = 0
        self.where = ""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._upstream, name)
        if name == "virtual" and found is not None:
            return _Counted(found, self)
        return self.counted(name, found) if name in ("reserve", "release", "memory_info", "fence") else found

    def counted(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: int) -> Any:
            self.calls += 1
            if self.calls == self.at:
                self.where = name
                raise self.kind
            result = work(*arguments)
            return _Counted(result, self) if name == "fence" else result

        return call


class _Counted:
    """A fence, or virtual memory, whose calls are the upstream's too."""

    def __init__(self, of: Any, upstream: InterruptsCalls) -> None:
        self._of = of
        self._upstream = upstream

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        return self._upstream.counted(name, found) if callable(found) else found


class Deep(RecursionError):
    """The exceptions that a test plants in calls upstream are of all kinds; none is a program's own."""


@pytest.mark.parametrize("kind", [Injection, MemoryError, Deep])
@pytest.mark.parametrize("name", FACTORIES)
def test_an_exception_from_any_call_upstream_leaves_everything_right(
    name: str, kind: type[BaseException], make_manual: Callable[..., Any]
) -> None:
    # One kind comes from every call, each other kind from every third. CUPLUG_INJECT_EVERY=1 has all from every one.
    every = 1 if kind is Injection or os.environ.get("CUPLUG_INJECT_EVERY") == "1" else 3
    calls = at = 0
    while at <= calls:
        manual = make_manual(96 * MIB)
        upstream = InterruptsCalls(manual, at, kind)
        program = Program(lambda _manual, upstream=upstream: FACTORIES[name](upstream), manual)
        for step in program.steps():
            try:
                step()
            except kind:
                program.check()
            except (IndexError, OutOfMemoryError):
                pass  # a block is missing, or left, because of the exception
        calls = calls or upstream.calls
        try:
            program.check()
            program.finish()
        except BaseException as error:
            raise AssertionError(f"after an exception in call {at}, {upstream.where}, of {calls}") from error
        at += every if at else 1 + (kind is Deep) * (every > 1)
    assert calls > 20


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of signals in the collector
@pytest.mark.parametrize("name", FACTORIES)
def test_timer_signals_at_any_moment_leave_everything_right(name: str, make_manual: Callable[..., Any]) -> None:
    armed = False

    def interrupt(_number: int, frame: FrameType | None) -> None:
        nonlocal armed
        while armed and frame is not None:
            if frame.f_code.co_filename in UPSTREAMS:
                signal.setitimer(signal.ITIMER_REAL, 1e-4)  # this upstream is not built for interrupts: a moment later
                return
            frame = frame.f_back
        if armed:
            armed = False
            raise Injection

    wanted = int(os.environ.get("CUPLUG_INTERRUPTS", "200"))
    before = signal.signal(signal.SIGALRM, interrupt)
    interrupts = round_number = 0
    try:
        while interrupts < wanted:
            program = Program(FACTORIES[name], make_manual(96 * MIB))
            program.struck = 0
            for step in program.steps():
                round_number += 1
                try:
                    try:
                        armed = True
                        signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + round_number * 7 % 100))
                        step()
                    finally:
                        armed = False
                        signal.setitimer(signal.ITIMER_REAL, 0)
                except Injection:
                    interrupts += 1
                    program.struck += 1
                    program.check()
                except (IndexError, CuplugError):
                    pass  # a block is not there that an interrupt has prevented
            program.check()
            program.finish()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class CannotMendItself(CachingAllocator):
    _recover = Allocator._recover


def test_a_strategy_that_cannot_mend_itself_is_abandoned_and_says_why(make_manual: Callable[..., Any]) -> None:
    class Interrupted(RuntimeError):
        pass

    manual = make_manual(96 * MIB)
    allocator = CannotMendItself(manual)
    block = allocator.allocate(1000, stream=1)

    def reserve(_nbytes: int) -> int:
        raise Interrupted

    manual.reserve = reserve
    with pytest.raises(Interrupted):
        allocator.allocate(50 * MIB, stream=1)
    with pytest.raises(CuplugError, match="interrupted in its middle"):
        allocator.allocate(1000, stream=1)
    allocator.free(block)
    assert allocator.statistics().all.segment.current == 1
    allocator.close()


def test_lack_of_host_memory_in_a_finaliser_drops_no_free(make_manual: Callable[..., Any]) -> None:
    allocator = CachingAllocator(make_manual(96 * MIB))

    class Full:
        def append(self, _block: Block) -> None:
            raise MemoryError

    blocks = [allocator.allocate(nbytes, stream=1) for nbytes in (1000, 2000, 3 * MIB)]
    listed, allocator._returned = allocator._returned, Full()  # type: ignore[assignment]
    for block in blocks:
        allocator.give_back(block)
    allocator._returned = listed
    assert allocator.statistics().all.allocation.current == 0
    assert allocator.live_blocks() == []
