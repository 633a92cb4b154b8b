"""Running something between two lines of an allocator's code, and several things at once without hanging for ever."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

from ...allocators.base import Allocator
from ...allocators.statistics import Statistics
from .rules import DeadlockError, Rule, broken_by

PATIENCE_S = 60.0
"""Seconds in which some thread must move on, or it is a deadlock. ``--patience`` changes it."""

_ENDLESS = 30
_GLANCE_S = 0.02
_LONGEST_GLANCE_S = 10 * _GLANCE_S
"""A glance that takes longer counts as this much: the whole machine stood still, or had others to serve."""
_OCCURRENCES = 2


class Code:
    """The code of an allocator: its class's package, and those of the classes that it derives from.

    Args:
        allocator: whose code.
    """

    def __init__(self, allocator: Allocator) -> None:
        kit = __name__.rpartition(".")[0]
        modules = [cls.__module__ for cls in type(allocator).__mro__ if issubclass(cls, Allocator)]
        packages = {module.rpartition(".")[0] for module in modules} - {"", kit}
        self._modules = frozenset(modules)
        self._packages = tuple(f"{package}." for package in packages)

    def __contains__(self, frame: FrameType) -> bool:
        """Whether ``frame`` runs the allocator's code. Copying a ``Statistics`` is left out: it is many lines of no
        interest."""
        module: str = frame.f_globals.get("__name__", "")
        return (module in self._modules or module.startswith(self._packages)) and module != Statistics.__module__


def run_at_line(
    code: Code, operation: Callable[[], object], moment: int, action: Callable[[FrameType], object]
) -> bool:
    """Run ``operation``, and ``action`` before the ``moment``-th line of ``code`` in it. Whether it got so far.

    What ``action`` raises is raised from that line. What runs after it is not traced: it would take many times as long.
    """
    lines = 0
    before = sys.gettrace()

    def every_line(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == moment + 1:
                sys.settrace(before)
                action(frame)
        return every_line

    _traced(code, operation, every_line)
    return lines > moment


def chosen_lines(
    code: Code,
    operation: Callable[[], object],
    *,
    known: Counter[tuple[CodeType, int]] | None = None,
    most: int = 0,
) -> list[int]:
    """The moments of ``operation`` to look at: of each line that runs, the first two times and the last.

    With ``known``, which counts the moments chosen up to now in all operations, no line is chosen more than ``most``
    times.
    """
    seen: dict[tuple[CodeType, int], list[int]] = {}
    lines = 0

    def every_line(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if event == "line":
            times = seen.setdefault((frame.f_code, frame.f_lineno), [])
            if len(times) > _OCCURRENCES:
                times.pop()
            times.append(lines)
            lines += 1
        return every_line

    _traced(code, operation, every_line)
    if known is not None:
        for line, times in seen.items():
            del times[max(0, most - known[line]) :]
            known[line] += len(times)
    return sorted(moment for times in seen.values() for moment in times)


def _traced(code: Code, operation: Callable[[], object], every_line: Callable[..., Any]) -> None:
    def every_call(frame: FrameType, _event: str, _: object) -> Any:
        return every_line if frame in code else None

    # The function has a name here because CPython may still call it when it has let go of it: a collection that begins
    # while a call is told of may run a finaliser, and what ``every_line`` raises there ends the tracing.
    before = sys.gettrace()
    sys.settrace(every_call)
    try:
        operation()
    finally:
        sys.settrace(before)


class Worker(threading.Thread):
    """A thread that runs ``target``, keeps what it raises, and can be asked whether it moves on."""

    def __init__(self, target: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = target
        self._clock: int | None = None
        self.problem: BaseException | None = None

    def run(self) -> None:
        """Run the target."""
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        try:
            self._work()
        except BaseException as error:
            self.problem = error

    def used(self) -> float:
        """Seconds of processor time that it has used: who waits for a lock uses none."""
        try:
            return -1.0 if self._clock is None else time.clock_gettime(self._clock)
        except OSError:  # it has ended
            return -2.0


def run_apart(work: Callable[[], object]) -> None:
    """Run ``work`` in a thread of its own, and raise what it raises.

    For what raises from a trace function: where that happens while an ``except`` clause begins or ends, CPython goes on
    handling the exception for as long as the thread lives, and all later ones get it as their context.
    """
    worker = Worker(work)
    worker.start()
    worker.join()
    problem, worker.problem = worker.problem, None
    try:
        if problem is not None:
            raise problem
    finally:
        del problem  # it would hold this frame, which holds it: what its frames hold would go late


def run_threads(targets: Sequence[Callable[[], object]], rule: Rule, patience_s: float = PATIENCE_S) -> None:
    """Run each in a thread of its own. A deadlock, or what they raise, breaks ``rule``.

    It is a deadlock when no thread has used the processor for ``patience_s`` seconds: however slow, work uses it.

    Raises:
        ContractBrokenError: the first failure, or one that says where the threads stand.
    """
    workers = [Worker(target) for target in targets]
    for worker in workers:
        worker.start()
    _join(workers, rule, patience_s)
    for worker in workers:
        if isinstance(worker.problem, Exception):
            raise broken_by(worker.problem, rule) from worker.problem
        if worker.problem is not None:
            raise worker.problem


def _join(workers: list[Worker], rule: Rule, patience_s: float) -> None:
    last, idle_s = time.monotonic(), 0.0
    before: object = None
    while waiting := [worker for worker in workers if worker.is_alive()]:
        waiting[0].join(_GLANCE_S)
        now = time.monotonic()
        glance_s, last = min(now - last, _LONGEST_GLANCE_S), now
        used = [worker.used() for worker in workers]
        idle_s = idle_s + glance_s if used == before else 0.0
        before = used
        if idle_s > patience_s:
            if any(worker.problem for worker in workers):
                return  # one has failed, and others wait for what it held
            raise DeadlockError(
                rule, f"a deadlock: for {patience_s} s nothing moves at {_lines_of(waiting)}; --patience waits longer"
            )
        if sum(used) > _ENDLESS * patience_s:
            raise DeadlockError(
                rule, f"no end after {_ENDLESS * patience_s} s of work at {_lines_of(waiting)}; --patience waits longer"
            )


def _lines_of(workers: list[Worker]) -> str:
    gc.disable()  # a finaliser in the middle of the next call would hang in CPython 3.11
    frames = sys._current_frames()
    gc.enable()
    found = [frames[worker.ident] for worker in workers if worker.ident in frames]
    return " and ".join(f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in found)
