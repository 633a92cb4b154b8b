"""What an allocator knows of a call that it is serving, while it makes room in one way after another."""

from __future__ import annotations

from collections.abc import Callable

from .block import Block

MOST_BYTES = 1 << 44
"""Bytes of a request beyond which there is no memory, whatever upstream says: 16 TiB, which no device has. What a
stranger's file or program asks for is compared with it before anything is computed."""


class Request:
    """One call of ``Allocator.allocate``, ``wake`` or ``move``, from its beginning to its end."""

    __slots__ = ("available", "block", "context", "failure", "nbytes", "needs", "stream", "work")

    def __init__(
        self, nbytes: int, stream: int, work: Callable[[], int] | None = None, needs: Callable[[], int] | None = None
    ) -> None:
        self.nbytes = nbytes
        self.stream = stream
        self.work = work
        """What needs the memory, if it is not for a block; it answers how much it took, which is ``nbytes`` then."""
        self.needs = needs
        """How much that takes, where there is no room."""
        self.context = 0
        self.block: Block | None = None
        """What was found, once it is."""
        self.available: int
        """Bytes that the device has free or the allocator holds unused, after an attempt that failed."""
        self.failure: str
