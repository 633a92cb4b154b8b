"""``Lease``: knows whether the owner of something lives, whatever interrupts the owner's finaliser.

A finaliser runs Python, at whose first bytecode a signal handler may raise already: then Python prints the exception
and the finaliser is never finished. So an owner has a lease from before there is anything to own. It is a weak
reference, whose callback is a C function, which nothing interrupts: it puts aside the lease of an owner that died in
such a way, for a later call to end.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


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
