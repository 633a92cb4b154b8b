"""``Owner``: gives its block back when it goes. In C where the native core is: no Python runs for a native block.

Here is what an owner does. The one in C does the same: it needs no lease, since nothing interrupts it, and puts aside a
block in Python whose ``give_back`` was interrupted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

from ...allocators.base import Allocator
from ...allocators.block import Block
from ...allocators.native import is_available
from .leases import Lease

if TYPE_CHECKING:
    from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])
_leases: set[Lease] = set()
"""Those that are neither ended nor given back. Being here, they live, so that their callbacks are called."""
are_quick = is_available()
"""Whether quick functions have places to allocate at: those of the native core."""
unsettled: deque[Any] = deque()
"""Leases and blocks whose owners went, and were interrupted in it."""


class Owner:
    """Owns a block, and gives it back when it is closed or dropped. Classes that derive from it have no slots."""

    __slots__ = ("__weakref__", "_block", "_lease")
    _block: Block  # unset once closed
    _lease: Lease

    @classmethod
    def allocate(cls, allocator: Allocator, nbytes: int, /, *, stream: int) -> Self:
        """An owner of ``nbytes`` bytes from ``allocator``, for use on ``stream`` (as the allocator knows it).

        An exception at any point, such as an interrupt, loses no memory. Raises as ``Allocator.allocate``.
        """
        owner = cls()
        lease = owner._lease = Lease(owner, unsettled.append)
        _leases.add(lease)
        lease.hold(partial(allocator.allocate, stream=stream), nbytes)
        owner._block = lease.held
        return owner

    @classmethod
    def _of(cls, block: Block) -> Self:
        """The owner of ``block``. There must be only one."""
        owner = cls()
        lease = owner._lease = Lease(owner, unsettled.append)
        lease.held = block
        _leases.add(lease)
        owner._block = block
        return owner

    def close(self) -> None:
        """Give the memory up. Closing again, also from another thread at the same time, does nothing."""
        with suppress(AttributeError):
            _end(self._lease)
            del self._block

    def __del__(self) -> None:
        # It may run at any bytecode, in a forked child, and after the interpreter's globals have gone.
        try:
            lease = self._lease
        except AttributeError:
            return  # nothing was allocated, or an interrupt came: then the lease does it
        _end(lease)
        del self._lease  # a weak reference that has gone itself calls nobody

    @property
    def closed(self) -> bool:
        """Whether the memory is gone: closed here, or with its allocator."""
        try:
            return not self._block.live
        except AttributeError:
            return True

    @property
    def address(self) -> int:
        """The device address. A class that derives from it says what is wrong where there is none."""
        return self._block.address

    def __int__(self) -> int:
        try:  # every launch asks every buffer
            block = self._block
            if block.live:
                return block.address
        except AttributeError:
            pass
        return self.address

    __index__ = __int__
    _live_address = property(__int__)
    """As ``int(owner)``; in C it takes fewer steps."""


def settle_owners() -> None:
    """Give back the blocks whose owners were interrupted when they went."""
    while unsettled:
        left = unsettled[0]
        if isinstance(left, Lease):
            _end(left)
        else:
            left.allocator.give_back(left)
        try:
            unsettled.remove(left)
        except ValueError:  # another thread was at it too
            continue


def _end(lease: Lease) -> None:
    """The owner gives its block up. Again, it does nothing. Never blocks or raises."""
    if lease.held is not None:
        lease.held.allocator.give_back(lease.held)
    _leases.discard(lease)


def quickly(made: type[Owner]) -> Callable[[F], F]:
    """A decorator for a function that takes bytes and makes an owner of class ``made``: where the calling thread has
    a shortcut (``set_shortcut``), it takes the memory there and enters no Python. Without the native core it does
    nothing."""

    def decorate(function: F) -> F:
        if not are_quick:
            return function
        quick = _native.quicken(function, made)
        update_wrapper(quick, function)
        return quick

    return decorate


def set_shortcut(allocator: Allocator | None, stream: int) -> None:
    """Say where the calling thread's quick functions allocate: nowhere, unless ``allocator`` is a native one."""
    if are_quick:
        _native.set_shortcut(allocator, stream)


def forget_shortcuts() -> None:
    """No thread has a shortcut any more."""
    if are_quick:
        _native.forget_shortcuts()


if are_quick:
    from ...allocators import _native

    _native.leave_to(unsettled.append)
    if not TYPE_CHECKING:
        Owner = _native.Owner
