"""``Owner``: gives its block back when it goes. In C where the native core is: no Python runs for a native block."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

from .base import Allocator
from .block import Block
from .native import is_available

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Owner", "forget_places", "quickly", "set_place"]

F = TypeVar("F", bound=Callable[..., Any])


class Owner:
    """Owns a block, and gives it back when it is closed or dropped. Classes that derive from it have no slots."""

    __slots__ = ("__weakref__", "_block")
    _block: Block  # unset once closed

    @classmethod
    def allocate(cls, allocator: Allocator, nbytes: int, /, *, stream: int) -> Self:
        """An owner of ``nbytes`` bytes from ``allocator``, for use on ``stream`` (as the allocator knows it).

        Raises as ``Allocator.allocate``.
        """
        owner = cls()
        owner._block = allocator.allocate(nbytes, stream=stream)  # one step: an interrupt finds it owned or not there
        return owner

    def close(self) -> None:
        """Give the memory up. Closing again, also from another thread at the same time, does nothing."""
        with suppress(AttributeError):
            block = self._block
            block.allocator.give_back(block)
            del self._block

    def __del__(self) -> None:
        # It may run at any bytecode, in a forked child, and when the interpreter's globals have gone: it looks none up.
        try:
            block = self._block
        except AttributeError:
            return
        block.allocator.give_back(block)

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
        try:
            block = self._block
            if block.live:
                return block.address
        except AttributeError:
            pass
        return self.address

    __index__ = __int__


def quickly(made: type[Owner]) -> Callable[[F], F]:
    """A decorator for a function that takes bytes and makes an owner of class ``made``: where the calling thread has a
    place (``set_place``), it takes the memory there and enters no Python. Without the native core it does nothing."""

    def decorate(function: F) -> F:
        if not is_available():
            return function
        quick = _native.quicken(function, made)
        update_wrapper(quick, function)
        return quick

    return decorate


def set_place(allocator: Allocator | None, stream: int) -> None:
    """Say where the calling thread's quick functions allocate: nowhere, unless ``allocator`` is a native one."""
    if is_available():
        _native.set_place(allocator, stream)


def forget_places() -> None:
    """No thread has a place any more."""
    if is_available():
        _native.forget_places()


if is_available():
    from . import _native

    if not TYPE_CHECKING:
        Owner = _native.Owner
