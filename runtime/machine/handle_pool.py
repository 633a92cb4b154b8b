"""Driver handles of streams and events, which are made once and used again.

Making and destroying these costs driver calls, and a destroyed stream's handle may be given to a new stream while
blocks of the old one are still cached, pending or in the program's hands (cupy#5264, cupy#8068). So a handle whose
owner has gone is kept here for the next one. The driver destroys them when the runtime closes, after the allocators
did. PyTorch never destroys its streams either (``c10/cuda/CUDAStream.cpp``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

from ...allocators.errors import CuplugError
from ...allocators.lock import Lock
from .leases import Lease

_LOOKED_AT = 4
"""Of the handles that nobody has, so many are asked whether they are usable, before another is made."""


class _HandleLease(Lease):
    """Holds a handle of a kind."""

    __slots__ = ("kind",)
    kind: int


class HandlePool:
    """The streams, or the events, that were made on one device. The device must be current when a method is called.

    A handle is somebody's while a lease in ``_leases`` holds it; else it is in ``_idle``. It moves from there to a
    lease in one step. It comes back in several, which are repeated until the last is done: an exception at any point
    loses no handle, and gives none to two owners.
    """

    def __init__(
        self,
        create: Callable[[int], int],
        destroy: Callable[[int], None],
        *,
        forget: Callable[[int], None] | None = None,
        is_usable: Callable[[int], bool] | None = None,
    ) -> None:
        """Make a pool, empty.

        Args:
            create: makes a handle of a kind: a priority of streams, say.
            destroy: destroys a handle.
            forget: called with a handle whose owner has gone, before another may have it.
            is_usable: whether a handle that nobody has may be given out at present; by default always.
        """
        self._create = create
        self._destroy = destroy
        self._forget = forget
        self._is_usable = is_usable
        self._idle: dict[int, dict[int, int]] = {}
        """By kind: the handles without owners, in order of their return, each under itself."""
        self._leases: set[_HandleLease] = set()
        self._left: deque[Any] = deque()
        """Leases whose owners have gone. They are still in ``_leases``."""
        self._lock = Lock()

    def take(self, owner: Any, kind: int) -> int:
        """A handle of that kind for ``owner``, for as long as it lives: a usable one that nobody has, or a new one."""
        if self._lock.is_mine():  # a finaliser in the middle of this, on the same thread
            return self._lend(owner, kind, self._create, kind)
        return self._lock.run(self._take, owner, kind)

    @property
    def has_left(self) -> bool:
        """Whether there are handles whose owners have gone."""
        return bool(self._left)

    def settle(self) -> bool:
        """Take back the handles whose owners have gone. Whether there were any."""
        return bool(self._left) and not self._lock.is_mine() and self._lock.run(self._settle)

    def close(self) -> None:
        """Destroy them all. What the driver refuses, on a device in a sticky error state, is left to it."""
        lent = [lease.held for lease in self._leases if lease.held is not None]
        for handle in {*lent, *(handle for idle in self._idle.values() for handle in idle)}:
            with suppress(CuplugError):
                self._destroy(handle)
        self._leases.clear()
        self._idle.clear()

    def _take(self, owner: Any, kind: int) -> int:
        self._settle()
        idle = self._idle.setdefault(kind, {})
        for handle in list(islice(idle, _LOOKED_AT)):
            if self._is_usable is None or self._is_usable(handle):
                return self._lend(owner, kind, idle.pop, handle)
        return self._lend(owner, kind, self._create, kind)

    def _lend(self, owner: Any, kind: int, source: Callable[[int], int], argument: int) -> int:
        lease = _HandleLease(owner, self._left.append)
        lease.kind = kind
        self._leases.add(lease)
        lease.hold(source, argument)
        handle: int = lease.held
        return handle

    def _settle(self) -> bool:
        some = False
        while self._left:
            lease, some = self._left[0], True
            handle = lease.held
            if handle is not None and lease in self._leases:
                if self._forget is not None:
                    self._forget(handle)
                self._idle.setdefault(lease.kind, {})[handle] = handle
            self._leases.discard(lease)
            self._left.popleft()
        return some
