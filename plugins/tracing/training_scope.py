"""Where a training is in this thread: which module computes, in which phase; and the end of each iteration.

Networks, gradients, optimisers and data loaders, which stand above, say so here; a recorder with ``stacks="modules"``
asks. What costs more than a few attributes is done only while somebody asks.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FORWARD, BACKWARD, OPTIMISER, DATA = "forward", "backward", "optimiser", "data"
PHASES = (FORWARD, BACKWARD, OPTIMISER, DATA)
"""The phases of a training. Outside of them the phase is empty."""

NO_MODULE = "outside modules"
"""What stands in place of a module's path where there is none."""

ITERATION = "cuplug: the end of an iteration"
"""The marker that a trace has at the end of each iteration: of each step of an optimiser."""


class _Scope(threading.local):
    watched = False
    """Of all threads, set on the class: whether somebody asks for ``path`` and ``phase``."""

    def __init__(self) -> None:
        self.modules: list[Any] = []
        """The modules within which this thread computes, outermost first."""
        self.known_path: str | None = None
        """The path, where it is that of an operation recorded before: while gradients are computed."""
        self.phase = ""

    def path(self) -> str:
        """The path of the module that computes, as the outermost one names it; that one's class where it is alone."""
        if self.known_path is not None:
            return self.known_path
        return _path_in(self.modules[0], self.modules[-1]) if self.modules else ""

    def phase_here(self) -> str:
        """The phase; within modules ``forward``, where nothing else is said."""
        return self.phase or (FORWARD if self.modules else "")


scope = _Scope()


@contextmanager
def in_phase(name: str) -> Iterator[None]:
    """A context within which this thread is in a phase of the training."""
    before = scope.phase
    scope.phase = name
    try:
        yield
    finally:
        scope.phase = before


@contextmanager
def outside_modules() -> Iterator[None]:
    """A context of no module and no phase: for memory that stays for later calls, whoever makes the first of them."""
    before = scope.modules, scope.known_path, scope.phase
    scope.modules, scope.known_path, scope.phase = [], None, ""
    try:
        yield
    finally:
        scope.modules, scope.known_path, scope.phase = before


def iteration_done() -> None:
    """Say that an iteration has ended."""
    for each in tuple(_listeners):
        each()


_listeners: list[Callable[[], None]] = []


def watch(iteration_ended: Callable[[], None]) -> Callable[[], None]:
    """Ask for paths and phases from now on, and to be called at the end of each iteration.

    Returns:
        What ends it.
    """
    _listeners.append(iteration_ended)
    _Scope.watched = True

    def end() -> None:
        if iteration_ended in _listeners:
            _listeners.remove(iteration_ended)
        _Scope.watched = bool(_listeners)

    return end


_paths: weakref.WeakKeyDictionary[Any, dict[int, tuple[weakref.ref[Any], str]]] = weakref.WeakKeyDictionary()
"""By the outermost module: the paths of all within it."""


def _path_in(outermost: Any, module: Any) -> str:
    """The path of a module; of a replica that of the module which it replicates."""
    wanted = module.__dict__.get("_replica_of", module)
    root = outermost.__dict__.get("_replica_of", outermost)
    if wanted is root:
        return type(root).__name__
    for fresh in (False, True):
        paths = None if fresh else _paths.get(root)
        if paths is None:
            paths = _paths[root] = {id(each): (weakref.ref(each), path) for path, each in root.named_modules()}
        reference, path = paths.get(id(wanted), (None, ""))
        if reference is not None and reference() is wanted:
            return path
    return type(wanted).__name__
