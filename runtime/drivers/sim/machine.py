"""What every call of the simulated driver goes through: lock, schedule, faults on request, fork, handles."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from threading import get_ident
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

from ..base import driver_error
from .schedule import Schedule

__all__ = ["CALLS", "Handles", "Machine", "call", "light_call", "observation"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

CALLS: set[str] = set()
"""The names of all calls that can be told to fail."""


class Machine:
    """One simulated machine, and the lock that every call holds.

    While a call is inside, automatic garbage collection pauses in this process: a finaliser that ran in the middle of
    a call could call the driver again. Real drivers do not run Python code in the middle of a call either.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.used = False
        self.forked = False
        self.closed = False
        self._lock = threading.Lock()
        self._owner = 0
        self.faults: dict[str, list[tuple[int, int]]] = {}
        _machines.add(self)

    def enter(self, name: str) -> None:
        """Begin a call: take the lock and give the schedule an opportunity.

        Raises:
            DriverError: the process was forked, the driver is closed, the call was told to fail, or it comes from
                within an operation (``CUDA_ERROR_NOT_PERMITTED``, as for CUDA's host functions).
        """
        if self.forked or self.closed:
            self.check_usable(name)
        if self._owner == get_ident():
            raise driver_error(800, f"{name} was called from within an operation; queued work must not call the driver")
        self._take()
        try:
            self.used = True
            if self.closed:
                self.check_usable(name)
            if self.faults:
                self.fail_if_told(name)
            if self.schedule.active:
                self.schedule.step()
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """End a call."""
        schedule = self.schedule
        finished = schedule.finished
        if finished:
            schedule.finished = []
        self._owner = 0
        self._lock.release()
        _garbage_collection.resume()
        if finished:
            finished.clear()  # may run finalisers, so it comes last

    def look(self) -> bool:
        """Take the lock for something that is no call of the driver, unless this thread holds it."""
        if self._owner == get_ident():
            return False
        self._take()
        return True

    def _take(self) -> None:
        _garbage_collection.pause()
        self._lock.acquire()
        self._owner = get_ident()

    def check_usable(self, name: str) -> None:
        """Raise where the process was forked or the driver closed."""
        if self.forked:
            raise driver_error(
                3,
                f"{name}: this process was forked after the simulated CUDA was initialised, which CUDA does not "
                'survive; start it with the multiprocessing method "spawn" or "forkserver"',
            )
        if self.closed:
            raise driver_error(4, f"{name}: this driver was closed; make a new one")

    def fail_next(self, name: str, code: int, after: int) -> None:
        """Let a call fail once, after it was made ``after`` more times. Holds no lock: for the thread that tests."""
        self.faults.setdefault(name, []).append((after, code))

    def fail_if_told(self, name: str) -> None:
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
        self._lock = threading.Lock()
        self._owner = 0


class HasMachine(Protocol):
    """What ``call`` decorates the methods of."""

    _machine: Machine


S = TypeVar("S", bound=HasMachine)


def call(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a method a driver call: it runs under the machine's lock."""
    name = method.__name__
    CALLS.add(name)

    @wraps(method)
    def locked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        machine = self._machine
        machine.enter(name)
        try:
            return method(self, *args, **kwargs)
        finally:
            machine.leave()

    return locked


def light_call(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a method a driver call that reads what needs no lock, and gives the schedule no opportunity."""
    name = method.__name__
    CALLS.add(name)

    @wraps(method)
    def checked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        machine = self._machine
        if machine.forked or machine.closed:
            machine.check_usable(name)
        machine.used = True
        if machine.faults:
            machine.fail_if_told(name)
        return method(self, *args, **kwargs)

    return checked


def observation(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a method one that looks at the simulator under its lock: it runs nothing, and operations may call it too."""

    @wraps(method)
    def locked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        machine = self._machine
        taken = machine.look()
        try:
            return method(self, *args, **kwargs)
        finally:
            if taken:
                machine.leave()

    return locked


class Handles(Generic[T]):
    """Integers that stand for objects. The one given back last is given out first, as pointers often are."""

    def __init__(self, what: str, first: int) -> None:
        self._what = what
        self._next = first
        self._free: list[int] = []
        self._objects: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def add(self, thing: T) -> int:
        """A handle for ``thing``."""
        if self._free:
            handle = self._free.pop()
        else:
            handle = self._next
            self._next += 16
        self._objects[handle] = thing
        return handle

    def get(self, handle: int) -> T:
        """What the handle stands for.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_HANDLE``.
        """
        try:
            return self._objects[handle]
        except KeyError:
            raise driver_error(400, f"{handle:#x} is no {self._what}, or was destroyed") from None

    def remove(self, handle: int) -> T:
        """Take the handle back. Raises as ``get`` does."""
        thing = self.get(handle)
        del self._objects[handle]
        self._free.append(handle)
        return thing


class _GarbageCollection:
    """Pauses automatic garbage collection while any thread is inside any simulated driver."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finaliser may run right between two lines below
        self._inside = 0
        self._was_enabled = False

    def pause(self) -> None:
        with self._lock:
            if not self._inside:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._inside += 1

    def resume(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._was_enabled:
                gc.enable()

    def after_fork_in_child(self) -> None:
        self._lock = threading.RLock()
        if self._inside and self._was_enabled:
            gc.enable()
        self._inside = 0


_machines: weakref.WeakSet[Machine] = weakref.WeakSet()
_garbage_collection = _GarbageCollection()


def _after_fork_in_child() -> None:
    _garbage_collection.after_fork_in_child()
    for machine in list(_machines):
        machine.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
