"""What an allocator knows of a call that it is serving, while it makes room in one way after another."""

from __future__ import annotations

from .block import Block
from .moving import Copier
from .tags import UNTAGGED

__all__ = ["MOST_BYTES", "Request"]

MOST_BYTES = 1 << 44
"""Bytes of a request beyond which there is no memory, whatever upstream says: 16 TiB, which no device has. What a
stranger's file or program asks for is compared with it before anything is computed."""


class Request:
    """One call of ``Allocator.allocate``, ``wake`` or ``move``, from its beginning to its end."""

    __slots__ = ("available", "block", "context", "copier", "failure", "nbytes", "stream", "tag")

    def __init__(self, nbytes: int, stream: int, tag: int = UNTAGGED) -> None:
        self.nbytes = nbytes
        self.stream = stream
        self.tag = tag
        """What is to wake or to move, if that is what was asked for; ``nbytes`` is then how much it takes."""
        self.copier: Copier | None = None
        """What copies, if it is to move to the device."""
        self.context = 0
        self.block: Block | None = None
        """What was found, once it is."""
        self.available: int
        """Bytes that the device has free or the allocator holds unused, after an attempt that failed."""
        self.failure: str
