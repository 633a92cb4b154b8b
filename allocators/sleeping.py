"""Memory that sleeps: it keeps its addresses and its blocks, and the device has its pages back.

What holds between any two operations (the tests check each):

1. A block has the tag that its thread had when it was allocated, for good. Blocks of different tags, or of one and
   none, never share a page: each tag has address ranges of its own.
2. A tag is asleep or awake as a whole. While it sleeps, no page stands behind its addresses and none of its bytes is
   counted as reserved; its blocks stay in the program's hands, and nothing is allocated with that tag.
3. Memory falls asleep once all work is done that was queued for it before, on the streams of its blocks and on those
   that were recorded for them; and, if its contents are kept, once their copies are there.
4. Memory wakes at the addresses where it fell asleep, with the contents that were kept. Before it is awake as a whole
   it sleeps as before: whatever fails then, no page and no copy is lost.
5. What is freed in its sleep needs no memory when the tag wakes, unless a private pool holds it, since recorded work
   comes back to its addresses.
6. An interrupt leaves the tag either asleep or awake, with its contents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .errors import CuplugError, OutOfMemoryError
from .page import Page
from .tags import tag_name, tag_number


class Copy(Protocol):
    """The contents of a block on the host. Dropped, it is gone."""

    def restore(self) -> None:
        """Queue copying the contents back to the address that they came from.

        Raises:
            DriverError: the device is in a sticky error state.
        """

    def wait(self) -> None:
        """Block until what was queued last is done: the copy, or the way back.

        Raises:
            DriverError: the device is in a sticky error state.
        """


Keep = Callable[[int, int], Copy]
"""Queues copying from an address on, so many bytes, to the host. Raises OutOfMemoryError if the host has no room."""


@dataclass(frozen=True, slots=True)
class Sleeping:
    """What sleeps of one tag."""

    tag: str
    blocks: int
    nbytes: int
    """Of the blocks."""
    kept_bytes: int
    """Of those whose contents are kept on the host."""


@dataclass(slots=True)
class Sleeper:
    """A tag that is asleep."""

    pages: dict[int, Page]
    """By address: what is to be mapped when it wakes. No memory stands behind these."""
    copies: dict[int, Copy]
    """By the addresses of blocks: what they held."""


def check_sleep(allocator: str, tag: str, *, can_sleep: bool) -> int | None:
    """The number of a tag that is to sleep or to wake; None if nothing was ever tagged so.

    Args:
        allocator: what messages call the allocator.
        tag: as ``memory_tag`` had it.
        can_sleep: whether the allocator can.

    Raises:
        CuplugError: the allocator cannot put memory to sleep.
    """
    if not can_sleep:
        raise cannot_sleep(allocator)
    return tag_number(tag) or None


def cannot_sleep(allocator: str, how: str = "") -> CuplugError:
    """The error for an allocator that cannot put memory to sleep. ``how`` says how another one is chosen."""
    return CuplugError(
        f"{allocator} cannot put memory to sleep, since its addresses go with its memory; choose expandable{how}"
    )


def cannot_wake(tag: str, error: OutOfMemoryError) -> OutOfMemoryError:
    """The error for memory that sleeps on, for want of room."""
    return OutOfMemoryError(f"memory tagged {tag!r} sleeps on, since it cannot wake: {error}")


def why_shared(tag: int) -> str:
    """Why a tag neither sleeps nor moves of whose pages other processes may have mapped some."""
    return (
        f"memory tagged {tag_name(tag)!r} stays as it is: parts of it were shared with other processes, which would "
        "keep them. Share copies that are made outside of the tag"
    )


def why_asleep(tag: int) -> str:
    """Why nothing can be allocated with this tag at present."""
    return f"memory tagged {tag_name(tag)!r} is asleep; wake it before more is allocated with that tag"
