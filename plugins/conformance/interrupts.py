"""The check of what an exception at any point leaves behind: Ctrl-C, no host memory, too deep a recursion."""

from __future__ import annotations

import random
import signal
import threading
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, Protocol

from ...allocators.base import Allocator
from ...allocators.errors import CuplugError, InvalidFreeError, OutOfMemoryError
from ...runtime.drivers.sim import SimDriver
from .interrupted_calls import SITUATIONS, Operation, Situation
from .rules import ContractBrokenError, DeadlockError, Rule, expect, require
from .stepping import PATIENCE_S, Code, chosen_lines, run_apart, run_at_line, run_threads
from .workbench import MIB, Bench, Drivers, Factory, Live

_KINDS: tuple[type[BaseException], ...] = (KeyboardInterrupt, MemoryError, RecursionError)
_SIGNALS = 100
_MANY_SIGNALS = 10_000
_AGAIN_S = 20e-6


def check_exceptions_at_any_line(
    factory: Factory, drivers: Drivers = SimDriver, *, patience_s: float = PATIENCE_S, thorough: bool = False
) -> None:
    """An exception before any line of the allocator's code leaves it consistent, or abandoned by an error that says so.

    Only a strategy that has no ``_recover`` may be abandoned.

    Args:
        factory: makes the allocator.
        drivers: makes the driver.
        patience_s: how long threads may stand still before it is a deadlock.
        thorough: whether each line is struck by each kind of exception, and wherever it runs. Otherwise it is struck
            once, by one kind or another.
    """
    most = 3 * len(SITUATIONS) if thorough else 1  # the first two times in a situation, and the last
    known: Counter[tuple[CodeType, int]] = Counter()
    for situation in SITUATIONS:
        for number, moment in enumerate(_lines_of(factory, drivers, situation, known, most)):
            for kind in _KINDS if thorough else (_KINDS[number % len(_KINDS)],):
                with Bench(factory, drivers, capacity=1 << 30) as bench:
                    run = _AtLine(Code(bench.allocator), moment, kind)
                    _break_off(bench, situation, run, patience_s)


def check_exceptions_from_upstream(
    factory: Factory, drivers: Drivers = SimDriver, *, patience_s: float = PATIENCE_S, thorough: bool = False
) -> None:
    """The same where an exception comes out of a call upstream, which then has changed nothing.

    Args:
        factory: makes the allocator.
        drivers: makes the driver.
        patience_s: how long threads may stand still before it is a deadlock.
        thorough: whether each call raises each kind of exception. Otherwise it raises one or another.
    """
    for situation in SITUATIONS:
        for number in range(_calls_of(factory, drivers, situation)):
            for kind in _KINDS if thorough else (_KINDS[number % len(_KINDS)],):
                with Bench(factory, drivers, capacity=1 << 30) as bench:
                    _break_off(bench, situation, _FromUpstream(bench, number, kind), patience_s)


def check_timer_signals(
    factory: Factory,
    drivers: Drivers = SimDriver,
    *,
    patience_s: float = PATIENCE_S,
    thorough: bool = False,
) -> None:
    """The same with timer signals, 1 to 100 µs after the operation began: between any two bytecodes.

    There are 100 of them, or 10,000 if it is to be ``thorough``.

    They interrupt the allocator's own code alone: whether a driver can be interrupted is not the subject. Only the main
    thread of a program gets signals; elsewhere this checks nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    signals = _MANY_SIGNALS if thorough else _SIGNALS
    choose = random.Random(signals)
    for number in range(signals):
        situation = SITUATIONS[number % len(SITUATIONS)]
        with Bench(factory, drivers, capacity=1 << 30) as bench:
            run = _BySignal(Code(bench.allocator), choose.uniform(1e-6, 100e-6))
            _break_off(bench, situation, run, patience_s)


# --- ways to break an operation off -----------------------------------------------------------------------------------


class _Interruption(ABC):
    """Runs an operation, raises an exception of one kind in its middle, and remembers where."""

    kind: type[BaseException] = KeyboardInterrupt
    where = "nowhere"

    @abstractmethod
    def __call__(self, call: Callable[[], object]) -> object:
        """What ``call`` returns, if it does."""

    def strike(self, where: str) -> None:
        """Raise the exception."""
        self.where = where
        raise self.kind("injected by the conformance kit")


class _AtLine(_Interruption):
    """Before one line of an allocator's code."""

    def __init__(self, code: Code, moment: int, kind: type[BaseException]) -> None:
        self._code = code
        self._moment = moment
        self.kind = kind

    def __call__(self, call: Callable[[], object]) -> object:
        found: list[object] = []

        def strike(frame: FrameType) -> None:
            self.strike(f"before {frame.f_code.co_filename}:{frame.f_lineno}")

        run_apart(lambda: run_at_line(self._code, lambda: found.append(call()), self._moment, strike))
        return found[0]


class _FromUpstream(_Interruption):
    """From one call upstream."""

    def __init__(self, bench: Bench, number: int, kind: type[BaseException]) -> None:
        self._upstream = bench.upstream
        self._left = number
        self.kind = kind

    def __call__(self, call: Callable[[], object]) -> object:
        self._upstream.before_call = self._count
        try:
            return call()
        finally:
            self._upstream.before_call = None

    def _count(self, name: str) -> None:
        self._left -= 1
        if self._left == -1:
            self.strike(f"from upstream.{name}")


class _BySignal(_Interruption):
    """By a timer's signal, as soon as it comes while the allocator's code runs."""

    def __init__(self, code: Code, after_s: float) -> None:
        self._code = code
        self._after_s = after_s
        self._armed = False

    def __call__(self, call: Callable[[], object]) -> object:
        before = signal.signal(signal.SIGALRM, self._ring)
        self._armed = True
        signal.setitimer(signal.ITIMER_REAL, self._after_s)
        try:
            return call()
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _ring(self, _signal: int, frame: FrameType | None) -> None:
        if not self._armed or frame is None:
            return
        if frame not in self._code:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            return
        self._armed = False
        self.strike(f"by a signal at {frame.f_code.co_filename}:{frame.f_lineno}")


# --- what an exception breaks off -------------------------------------------------------------------------------------


def _break_off(bench: Bench, situation: Situation, run: _Interruption, patience_s: float) -> None:
    """Carry the operation out by ``run``, and see what it has left."""
    operation = situation.prepare(bench)
    try:
        try:
            with warnings.catch_warnings():  # what strikes an observer detaches it, with a warning
                warnings.simplefilter("ignore", RuntimeWarning)
                found = run(operation.call)
        except (run.kind, OutOfMemoryError):  # of memory it may be short in any case
            found = None
        _Aftermath(bench, operation, patience_s).check(found)
    except DeadlockError as error:
        raise DeadlockError(Rule.INTERRUPTED, _story(situation, run, error.detail)) from error
    except ContractBrokenError as error:
        detail = f"{error.detail} [{error.rule.name}]"
        raise ContractBrokenError(Rule.INTERRUPTED, _story(situation, run, detail)) from error
    except Exception as error:
        raise ContractBrokenError(Rule.INTERRUPTED, _story(situation, run, repr(error))) from error


def _story(situation: Situation, run: _Interruption, detail: str) -> str:
    return f"{run.kind.__name__} {run.where} broke off {situation.name}; then {detail}"


class _Aftermath:
    """What must hold once an operation has been broken off."""

    def __init__(self, bench: Bench, operation: Operation, patience_s: float) -> None:
        self._bench = bench
        self._allocator = bench.allocator
        self._operation = operation
        self._patience_s = patience_s

    def check(self, found: Any) -> None:
        """``found``: what the operation returned after all."""
        bench, operation = self._bench, self._operation
        bench.upstream.capacity = 4 << 30
        self._answer()
        if operation.closes:
            self._allocator.close()
        lane = bench.lanes[0]
        try:
            probe = self._allocator.allocate(4096, stream=lane.handle)
        except CuplugError as error:
            self._has_given_up(error)
            return
        self._allocator.free(probe)
        if operation.frees is not None:
            self._settle_doubt(operation.frees)
        if operation.nbytes and found is not None:  # a block, of whatever class
            bench.took(found, operation.nbytes, next(one for one in bench.lanes if one.handle == found.stream))
        bench.ledger.adopt(
            self._allocator.statistics(),
            [live.block for live in bench.live],
            most=2 * max(operation.nbytes, 4096) + (2 << 20),
            peaks_were_reset=operation.resets_peaks,
        )
        if operation.forgets is not None:
            bench.replace(operation.forgets)
        self._goes_on()

    def _answer(self) -> None:
        """Another thread gets an answer: every lock is open."""

        def ask() -> None:
            self._allocator.statistics()
            with suppress(CuplugError):
                self._allocator.free(self._allocator.allocate(4096, stream=self._bench.lanes[0].handle))

        run_threads([ask], Rule.INTERRUPTED, self._patience_s)

    def _has_given_up(self, error: CuplugError) -> None:
        """It refuses to go on: that must be allowed, and said, and nothing worse may come of it."""
        closed = "closed" in str(error) and not self._bench.upstream.held
        if closed:
            self._is_closed()
            return
        mends = getattr(type(self._allocator), "_recover", None) is not getattr(Allocator, "_recover", None)
        require(not mends, Rule.INTERRUPTED, f"it has a _recover method, and refused to go on: {error}")
        require("interrupt" in str(error), Rule.INTERRUPTED, f"its error does not say that it was interrupted: {error}")
        bench = self._bench
        expect(CuplugError, Rule.INTERRUPTED, self._allocator.release_cached)
        self._allocator.segments()
        for live in bench.live:
            with suppress(InvalidFreeError):
                self._allocator.free(live.block)
        bench.synchronize()
        self._allocator.close()
        self._allocator.statistics()
        bench.check_upstream()
        bench.lost = True

    def _is_closed(self) -> None:
        self._allocator.close()
        for live in self._bench.live:
            self._allocator.free(live.block)
        self._bench.check_upstream()
        self._bench.lost = True

    def _settle_doubt(self, live: Live) -> None:
        """The free was broken off: the allocator says whether the block is freed, and the program goes by that."""
        if any(block is live.block for block in self._allocator.live_blocks()):
            self._bench.kept(live)
        else:
            expect(InvalidFreeError, Rule.INVALID_FREE, self._allocator.free, live.block)

    def _goes_on(self) -> None:
        """Whatever a program may do next works, and in the end everything goes back."""
        bench = self._bench
        bench.verify()
        for live in list(bench.live):
            bench.touch(live)
        for nbytes in (512, 512, 4096, 2 * MIB, 3 * MIB, 11 * MIB):
            for lane in bench.lanes[:2]:
                bench.touch(bench.allocate(nbytes, lane))
        bench.verify()
        bench.start_over()
        bench.verify()
        bench.synchronize()
        bench.start_over()
        self._allocator.release_cached()
        bench.verify()
        held = bench.upstream.held
        require(not held, Rule.INTERRUPTED, f"{held} bytes are lost: everything was freed, and release_cached() called")


# --- the situations ---------------------------------------------------------------------------------------------------


def _lines_of(
    factory: Factory, drivers: Drivers, situation: Situation, known: Counter[tuple[CodeType, int]], most: int
) -> list[int]:
    """The moments of the operation at which to break it off: no line more than ``most`` times in all situations."""
    with Bench(factory, drivers, capacity=1 << 30) as bench:
        operation = situation.prepare(bench)
        bench.lost = True

        def call() -> None:
            with suppress(OutOfMemoryError):
                operation.call()

        return chosen_lines(Code(bench.allocator), call, known=known, most=most)


def _calls_of(factory: Factory, drivers: Drivers, situation: Situation) -> int:
    """How often the operation calls upstream."""
    with Bench(factory, drivers, capacity=1 << 30) as bench:
        operation = situation.prepare(bench)
        bench.lost = True
        names: list[str] = []
        bench.upstream.before_call = names.append
        with suppress(OutOfMemoryError):
            operation.call()
        return len(names)


class PatientCheck(Protocol):
    """A check that tells a deadlock by time."""

    __name__: str

    def __call__(self, factory: Factory, drivers: Drivers, *, patience_s: float, thorough: bool = False) -> None: ...


INTERRUPTS: tuple[PatientCheck, ...] = (
    check_exceptions_at_any_line,
    check_exceptions_from_upstream,
    check_timer_signals,
)
