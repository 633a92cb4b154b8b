"""Memory that moves between the device and the host: the live blocks of one tag, at addresses that stay.

What holds (the tests check each):

1. A block moves only when nothing can use it: the work queued before on its stream, and on those recorded for it, is
   done.
2. All new pages are there, and filled, before the first old one is unmapped. What fails until then has changed nothing.
3. Then the new ones take the places of the old ones. What fails there puts the old ones back: all of a tag that lay on
   the other side moves, or nothing does.
4. An interrupt leaves the tag on one side or on the other, with its contents.
5. What the tag allocates later goes where ``memory_tag`` says, moved or not.
"""

from __future__ import annotations

from typing import Literal, Protocol

from .core_choice import is_available
from .errors import CuplugError, OutOfMemoryError
from .sizes import short_size
from .tags import tag_name, tag_number

if is_available():
    from . import _native

Side = Literal["device", "host"]


class Copier(Protocol):
    """Copies memory of the device, or of the host at addresses of the device."""

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Queue copying ``nbytes`` from one address to another.

        Raises:
            DriverError: the device is in a sticky error state.
        """

    def wait(self) -> None:
        """Block until all that was queued is done.

        Raises:
            DriverError: the device is in a sticky error state.
        """


def check_move(allocator: str, tag: str, to: str, *, can_move: bool) -> int | None:
    """The number of a tag that is to move; None if nothing was ever tagged so.

    Args:
        allocator: what messages call the allocator.
        tag: as ``memory_tag`` had it.
        to: ``device`` or ``host``.
        can_move: whether the allocator may take memory of the host.

    Raises:
        CuplugError: it may not.
        ValueError: ``to`` is neither.
    """
    if to not in ("device", "host"):
        raise ValueError(f"memory moves to the 'device' or to the 'host', not to {to!r}")
    if not can_move:
        raise not_on_the_host(allocator)
    return tag_number(tag) or None


def is_capturing() -> bool:
    """Whether work is being captured into a graph, as far as the core was told (``cuplug_cuda_capture``)."""
    return is_available() and _native.is_capturing()


def not_on_the_host(allocator: str) -> CuplugError:
    """The error for an allocator that takes no memory of the host."""
    return CuplugError(
        f"{allocator} takes no memory of the host, so that nothing can move there or back; choose expandable and say "
        "how much it may take, for example expandable:host=64GiB"
    )


def why_not_moved(tag: int) -> str:
    """Why a tag does not move that is asleep."""
    return f"memory tagged {tag_name(tag)!r} is asleep; wake it before it moves"


def cannot_move(tag: str, to: Side, nbytes: int, error: object = None) -> OutOfMemoryError:
    """The error for memory that stays where it is, for want of room."""
    if to == "device":
        return OutOfMemoryError(f"memory tagged {tag!r} stays on the host, since it cannot move to the device: {error}")
    return OutOfMemoryError(
        f"memory tagged {tag!r} stays on the device: it needs {short_size(nbytes)} of the host, which has not that "
        "much left within host= and what the system, or the container's limit, leaves"
    )
