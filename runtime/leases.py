"""Blocks and their owners: a block goes back to its allocator when its owner does, whatever interrupts its finaliser.

An owner's finaliser runs Python, at whose first bytecode a signal handler may raise already: then Python prints the
exception and the finaliser is never finished. So each owner has a *lease* from before its block is allocated. It is
a weak reference, whose callback is a C function, which nothing interrupts: it puts aside the lease of an owner that
died in such a way. The next allocation, or question to an allocator, gives its block back.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..allocators.base import Allocator
from ..allocators.block import Block

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Lease", "begin_lease", "end_lease", "lease_of", "settle_leases"]


class Lease(weakref.ref):  # type: ignore[type-arg]
    """Knows whether the owner of something lives."""

    __slots__ = ("held",)
    held: Any
    """What is owned; None before it is there."""
    # Its own, not its owner's.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __new__(cls, owner: Any, when_left: Callable[[Any], object]) -> Self:
        """Make the lease of ``owner``. ``when_left`` is called with it if the owner dies first; it is a C function, so
        that it surely is."""
        lease = super().__new__(cls, owner, when_left)
        lease.held = None
        return lease

    def hold(self, source: Callable[[Any], Any], argument: Any) -> None:
        """Hold ``source(argument)``.

        From the end of the call to the assignment this is one step for the interpreter, so that no interrupt comes
        between them: ``map`` calls, and signal handlers run neither in it nor before a value is stored.
        """
        (self.held,) = map(source, (argument,))


_leases: set[Lease] = set()
"""Those that are neither ended nor given back. Being here, they live, so that their callbacks are called."""
_left: deque[Lease] = deque()
"""Those whose owners died without ending them."""


def begin_lease(owner: Any, allocator: Allocator, nbytes: int, *, stream: int) -> Lease:
    """Allocate a block for ``owner``. Raises as ``Allocator.allocate``.

    If an exception arrives at any point, the block goes back when the owner does.
    """
    lease = Lease(owner, _left.append)
    _leases.add(lease)
    lease.hold(partial(allocator.allocate, stream=stream), nbytes)
    return lease


def lease_of(owner: Any, block: Block) -> Lease:
    """The lease of ``owner``, which takes over a block."""
    lease = Lease(owner, _left.append)
    lease.held = block
    _leases.add(lease)
    return lease


def end_lease(lease: Lease) -> None:
    """The owner gives its block up. Again, it does nothing. Never blocks or raises."""
    if lease.held is not None:
        lease.held.allocator.give_back(lease.held)
    _leases.discard(lease)


def settle_leases() -> None:
    """Give back the blocks whose owners' finalisers were interrupted."""
    while _left:
        lease = _left[0]
        end_lease(lease)
        try:
            _left.remove(lease)
        except ValueError:  # another thread was at it too
            continue
