"""What every call of the simulated driver goes through: lock, interrupts, schedule, faults on request, fork.

**Interrupts.** An exception that is none of the simulator's own (Ctrl-C, exhausted memory, too deep a recursion) may
arrive between any two lines here. Three rules keep the simulator right:

- What exists is said by a few tables (allocations, ranges, pages, mappings, handles). All else, such as free memory and
  gaps, follows from them. A call clears ``Calls.whole`` before it changes anything and sets it at its end. Where it
  finds it cleared, an earlier call was cut short, and what follows from the tables is made anew from them.
- A call that makes something enters it in its table last. If an exception arrives after that, before the caller has the
  address or handle, the entry is noted in ``Calls.abandoned``, and the next call removes it.
- A call that gives something back only settles that, as the last thing before it returns, by a single store. The next
  call takes the thing out of its table. So what raises has given nothing back.

CPython delivers signals when a function is entered, when a loop jumps back, and after a function written in C returned,
but neither between a ``with`` that took a lock and its block, nor between a function's return and the line that uses
the value. So locks are only taken by ``with``, and what must not be left out stands in ``finally`` or ``except``, does
its work before it calls any function of Python, and in few lines.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import wraps
from threading import get_ident
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from ....allocators.errors import CuplugError
from ..base import driver_error
from ..forking import in_forked_child
from .schedule import Schedule

K = TypeVar("K")
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

CALLS: set[str] = set()
"""The names of all calls that can be told to fail."""


class Change(Protocol[R_co]):
    """Something that a call has prepared, and that takes effect at once."""

    def commit(self) -> R_co:
        """Let it take effect, and return what the call returns."""

    def undo(self) -> None:
        """Undo it as far as the tables are concerned, whether it has taken effect or not. Repeating does nothing."""


class Nbytes(int):
    """A number of bytes as an object of its own, so that an ``Entering`` can tell whether it is the one in a table."""

    __slots__ = ()


class Entering(Generic[K, R]):
    """A change that enters something new in a table: an object that is in no table and is entered only here.

    It is undone after the lock was let go of, so that if it had not taken effect, another thread may have entered
    something else at the same key.
    """

    __slots__ = ("key", "result", "table", "value")

    def __init__(self, table: dict[K, Any], key: K, value: object, result: R) -> None:
        """The call returns ``result``: mostly the key."""
        self.table = table
        self.key = key
        self.value = value
        self.result = result

    def commit(self) -> R:
        """Enter it."""
        self.table[self.key] = self.value
        return self.result

    def undo(self) -> None:
        """Remove it, if it is there."""
        if self.table.get(self.key) is self.value:
            del self.table[self.key]


class GivingBack:
    """What a call that gives something back has prepared."""

    __slots__ = ("cancelled", "finish", "memory", "settled")

    def __init__(self, finish: Callable[[], object], *, memory: bool = True) -> None:
        """``memory`` says whether that changes what memory there is."""
        self.memory = memory
        self.finish = finish
        """Takes the thing out of its table, if it is there, and what follows from that. Runs in the next call."""
        self.settled = False
        """Whether the thing has gone."""
        self.cancelled = False
        """Whether the call was interrupted before."""


class Calls:
    """The lock that every call of one simulated machine holds, and what each call begins with.

    While a call is inside, automatic garbage collection pauses in this process: a finaliser that ran in the middle of
    a call could call the driver again. Real drivers do not run Python code in the middle of a call either.
    """

    __slots__ = (
        "__weakref__",
        "_mend",
        "abandoned",
        "closed",
        "faults",
        "forked",
        "given_back",
        "lock",
        "memory_changes",
        "schedule",
        "used",
        "whole",
    )

    def __init__(self, schedule: Schedule, mend: Callable[[], None]) -> None:
        """``mend`` makes anew from the tables what follows from them."""
        self.schedule = schedule
        self.lock: Any = threading.RLock()  # typeshed does not know _is_owned, on which threading.Condition relies too
        self.whole = True
        """Whether every call so far has come to its end."""
        self.abandoned: deque[Change[Any]] = deque()
        """Changes of calls that were interrupted before they returned."""
        self.given_back: deque[GivingBack] = deque()
        """What is to be taken out of the tables, once it is settled."""
        self.memory_changes = 0
        """Grows whenever there may be other memory than before."""
        self.used = False
        self.forked = False
        self.closed = False
        self.faults: dict[str, list[tuple[int, int]]] = {}
        self._mend = mend
        _all_calls.add(self)

    def begin(
        self, name: str, method: Callable[..., Any], owner: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a call, under the lock: mend what an interrupted one left before, and give the schedule an opportunity.

        Raises:
            DriverError: the driver is closed, or the call was told to fail, or it refuses.
        """
        self.used = True
        if self.closed:
            self.check_usable(name)
        if self.given_back or self.abandoned or not self.whole:
            self.settle()
        try:
            if self.faults:
                self.fail_if_told(name)
            self.whole = False
            if self.schedule.active:
                self.schedule.step()
            return method(owner, *args, **kwargs)
        except CuplugError:
            self.whole = True
            raise

    def observe(
        self, _name: str, method: Callable[..., Any], owner: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run what only looks, under the lock."""
        if self.given_back or self.abandoned or not self.whole:
            self.settle()
        return method(owner, *args, **kwargs)

    def settle(self) -> None:
        """Finish what earlier calls left to do. If this is interrupted itself, the next call does it again."""
        if self.closed:
            return
        if self.abandoned or not self.whole:
            self.whole = False
            while self.abandoned:
                self.abandoned[0].undo()
                self.abandoned.popleft()
            self.memory_changes += 1
            self._mend()
        self.whole = False
        for _ in range(len(self.given_back)):
            change = self.given_back[0]
            if change.settled:
                self.memory_changes += change.memory
                change.finish()
                self.given_back.popleft()
            elif change.cancelled:
                self.given_back.popleft()
            else:  # another thread is just about to settle it
                self.given_back.rotate(-1)
        self.whole = True

    def refuse(self, name: str) -> None:
        """Raise where a call cannot be made: see ``check_usable``; or it comes from within an operation
        (``CUDA_ERROR_NOT_PERMITTED``, as for CUDA's host functions)."""
        self.check_usable(name)
        raise driver_error(
            800,
            f"{name} was called from within an operation; queued work must not call the driver, and neither must a "
            "signal handler that interrupts it: let the handler set a flag, and look at it between operations",
        )

    def check_usable(self, name: str) -> None:
        """Raise where the process was forked or the driver closed."""
        if self.forked:
            raise driver_error(
                3,
                f"{name}: Cannot re-initialize CUDA in forked subprocess: this process was forked after the simulated "
                'CUDA was initialised, which CUDA does not survive; start it with the multiprocessing method "spawn" '
                'or "forkserver"',
            )
        if self.closed:
            raise driver_error(4, f"{name}: this driver was closed; make a new one")

    def fail_next(self, name: str, code: int, after: int) -> None:
        """Let a call fail once, after it was made ``after`` more times. Holds no lock: for the thread that tests."""
        self.faults.setdefault(name, []).append((after, code))

    def fail_if_told(self, name: str) -> None:
        """Raise if ``fail_next`` said so for this call."""
        faults = self.faults.get(name)
        if faults is None:
            return
        due = [code for after, code in faults if after == 0]
        self.faults[name] = [(after - 1, code) for after, code in faults if after > 0]
        if not self.faults[name]:
            del self.faults[name]
        if due:
            raise driver_error(due[0], f"{name} was told to fail by fail_next")

    def after_fork_in_child(self) -> None:
        """The memory is a copy of the parent's now, and its locks may be held by threads that are not here."""
        self.forked = self.forked or self.used
        self.lock = threading.RLock()


class HasCalls(Protocol):
    """What the decorators below decorate the methods of."""

    _calls: Calls


S = TypeVar("S", bound=HasCalls)


def call(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a method a driver call: it runs under the lock.

    Where it raises an error of cuplug, it has changed nothing that has to be mended.
    """
    CALLS.add(method.__name__)
    return _locked(method)


def changing_call(method: Callable[Concatenate[S, P], Change[R]]) -> Callable[Concatenate[S, P], R]:
    """Make a method a driver call that either returns or has changed nothing. The method prepares the change."""
    CALLS.add(method.__name__)
    return _locked(method, changes=True)


def giving_back_call(method: Callable[Concatenate[S, P], GivingBack]) -> Callable[Concatenate[S, P], None]:
    """Make a method a driver call that gives something back if it returns, and has not if it raises."""
    CALLS.add(method.__name__)
    return _locked(method, gives_back=True)


def observation(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a method one that looks at the simulator under its lock: it runs nothing, and operations may call it too."""
    return _locked(method, observes=True)


def light_call(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a method a driver call that reads what needs no lock, and gives the schedule no opportunity."""
    name = method.__name__
    CALLS.add(name)

    @wraps(method)
    def checked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        calls = self._calls
        if calls.forked or calls.closed:
            calls.check_usable(name)
        calls.used = True
        if calls.faults:
            calls.fail_if_told(name)
        return method(self, *args, **kwargs)

    return checked


def _locked(
    method: Callable[..., Any], *, changes: bool = False, gives_back: bool = False, observes: bool = False
) -> Callable[..., Any]:
    name, run = method.__name__, Calls.observe if observes else Calls.begin

    @wraps(method)
    def locked(self: HasCalls, /, *args: Any, **kwargs: Any) -> Any:
        global _collected_before
        calls = self._calls
        lock = calls.lock
        if observes:
            if lock._is_owned():
                return method(self, *args, **kwargs)
        elif calls.forked or calls.closed or lock._is_owned():
            calls.refuse(name)
        schedule = calls.schedule
        change: Change[Any] | None = None
        giving_back: GivingBack | None = None
        thread = get_ident()
        # Within an operation of another machine, collection is paused already, and stays so when this call returns.
        pauses = _pausing.get(thread, calls) is calls
        try:
            try:
                if pauses:
                    _pausing[thread] = calls
                    if gc.isenabled():
                        _collected_before = True
                        gc.disable()
                        _pausing[thread] = calls  # again: a finaliser that called the driver has removed it
                with lock:
                    result = run(calls, name, method, self, args, kwargs)
                    if changes:
                        change = result
                        result = change.commit()
                    calls.whole = True
            finally:
                if pauses:
                    if thread in _pausing:
                        del _pausing[thread]  # noqa: RUF051 - pop is a call, after which an interrupt may arrive
                    if _collected_before and not _pausing:
                        _collected_before = False
                        gc.enable()
                if lock._is_owned():  # only if something was raised where ``with`` lets go of it: a tracer can do that
                    lock.release()
                # What executed operations held is dropped here, outside the lock, since that may run finalisers.
                if schedule.finished:
                    finished, schedule.finished = schedule.finished, []
                    del finished
            if gives_back:
                giving_back, result = result, None
                calls.given_back.append(giving_back)
                giving_back.settled = True
            return result  # noqa: TRY300 - not after the block: nothing may come between the two
        except BaseException:
            if change is not None:
                calls.abandoned.append(change)
            elif giving_back is not None:
                giving_back.cancelled, giving_back.settled = True, False
            raise

    return locked


# Threads do not take turns within the lines that change these two, for the same reasons as no signal arrives there.
_pausing: dict[int, Calls] = {}
"""The threads that are inside a call, and of which machine: automatic garbage collection pauses as long as any is."""
_collected_before = False
"""Whether it was on when one of them came in, and is to be switched on again."""


_all_calls: weakref.WeakSet[Calls] = weakref.WeakSet()


@in_forked_child
def _put_right() -> None:
    global _collected_before
    if _collected_before:
        gc.enable()
    _collected_before = False
    _pausing.clear()
    for calls in list(_all_calls):
        calls.after_fork_in_child()
