"""Entering an allocator: its lock, and what may happen while a thread is inside."""

from __future__ import annotations

import sys
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Protocol

from .block import Block
from .errors import CuplugError

if TYPE_CHECKING:
    from collections import deque

    from .observation import Observation

__all__ = ["Operation", "Prompt"]


class Entered(Protocol):
    """What ``Operation`` and ``Prompt`` need of an allocator."""

    _lock: RLock  # a class in the stubs, a function before Python 3.13
    _owner: int
    _observation: Observation
    _returned: deque[Block]

    def _settle_promptly(self) -> None: ...


class Operation:
    """``with`` this, a thread holds the allocator's lock, and tells the observers after letting go of it.

    A finaliser may run in the middle of an operation, on the same thread. It must not start another one: the
    allocator is between two states. The lock is one that its thread may take again, so that this is an error
    instead of a deadlock.
    """

    __slots__ = ("allocator",)

    def __init__(self, allocator: Entered) -> None:
        self.allocator = allocator

    def __enter__(self) -> None:
        allocator = self.allocator
        allocator._lock.acquire()
        thread = get_ident()
        if allocator._owner == thread:
            allocator._lock.release()
            raise CuplugError(
                "an allocator was used from a finaliser, or from an observer, while the same thread was inside it; "
                "there, only free() may be called"
            )
        allocator._owner = thread

    def __exit__(self, *exc: object) -> None:
        allocator = self.allocator
        allocator._owner = 0
        allocator._lock.release()
        allocator._observation.deliver()


class Prompt:
    """A home for blocks that should go back as soon as possible: it settles at once where it can."""

    __slots__ = ("allocator",)

    def __init__(self, allocator: Entered) -> None:
        self.allocator = allocator

    def append(self, block: Block, /) -> None:
        """Queue ``block``, and settle if nobody is inside. Never blocks or raises: it may run in a finaliser."""
        allocator = self.allocator
        allocator._returned.append(block)
        if sys.is_finalizing() or not allocator._lock.acquire(blocking=False):
            return
        entered = allocator._owner == 0  # else a finaliser runs in the middle of an operation of this thread
        try:
            if entered:
                allocator._owner = get_ident()
                allocator._settle_promptly()
        except CuplugError:
            pass  # a sticky error of the device: it surfaces at the next call that waits, as CUDA's do
        finally:
            if entered:
                allocator._owner = 0
            allocator._lock.release()
        if entered:
            allocator._observation.deliver()
