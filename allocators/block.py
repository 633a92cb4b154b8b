"""What an allocator hands out, and the map of what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Protocol

from .upstream import Fence, Upstream

__all__ = ["ALIGNMENT", "Block", "BlockInfo", "Issuer", "Segment", "why_not_free"]

ALIGNMENT = 512
"""Addresses and rounded sizes are multiples of this many bytes, as PyTorch's are (``kMinBlockSize``)."""


_NO_STREAMS: frozenset[int] = frozenset()


class Block:
    """A piece of device memory in the program's hands. It belongs to the allocator that made it, for good.

    A program reads ``address``, ``nbytes``, ``requested``, ``stream`` and ``live``, and writes none. A strategy may
    keep what it knows of the block in ``kept``; everything else is the allocator's.
    """

    __slots__ = (
        "__weakref__",
        "address",
        "allocator",
        "fences",
        "kept",
        "live",
        "nbytes",
        "orphan",
        "requested",
        "stream",
        "streams",
        "waiting",
    )  # fmt: skip

    def __init__(
        self, allocator: Issuer, address: int, nbytes: int, requested: int, stream: int, kept: Any = None
    ) -> None:
        self.allocator = allocator
        self.address = address
        self.nbytes = nbytes
        """The size in bytes, rounded by the allocator."""
        self.requested = requested
        """The size in bytes that the program asked for."""
        self.stream = stream
        """The stream on which the memory is reusable as soon as it is freed."""
        self.live = False
        """Whether it is in the program's hands: allocated, and not yet freed."""
        self.orphan = False
        """Whether its own stream has been destroyed: once freed and waited for, it is any stream's to use."""
        self.streams = _NO_STREAMS
        """Other streams that use the block (``record_stream``)."""
        self.fences: tuple[tuple[object, Fence], ...] = ()
        """What it waits for once it is freed, each with its key: the stream, or the fence of a destroyed stream."""
        self.waiting = False
        """Whether it was freed and waits behind ``fences``."""
        self.kept = kept
        """Whatever the strategy keeps with the block: the segment that it lies in, for example."""

    def __int__(self) -> int:
        return self.address

    def __repr__(self) -> str:
        state = "live" if self.live else "free"
        return f"<Block {self.address:#x} {self.requested} of {self.nbytes} bytes, stream {self.stream:#x}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Block cannot be copied or pickled: two owners would free it; allocate a second one instead")


class Issuer(Protocol):
    """What a block may ask of the allocator that made it. Every ``Allocator`` is one."""

    upstream: Upstream

    def free(self, block: Block) -> None:
        """See ``Allocator.free``."""

    def give_back(self, block: Block) -> None:
        """See ``Allocator.give_back``."""

    def record_stream(self, block: Block, stream: int) -> None:
        """See ``Allocator.record_stream``."""


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """One piece of a segment. ``state`` is named as in PyTorch's memory snapshots. Sizes are bytes."""

    address: int
    nbytes: int
    requested: int
    state: Literal["active_allocated", "active_pending_free", "inactive"]


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of memory held from upstream, with what lies in it in order of address. Sizes are bytes."""

    address: int
    nbytes: int
    stream: int
    pool: Literal["small", "large"]
    blocks: tuple[BlockInfo, ...]
    expandable: bool = False
    """Whether the segment is mapped page by page (virtual memory)."""
    tag: str = ""
    """The tag of its blocks (``memory_tag``); empty for none."""
    asleep: bool = False
    """Whether it sleeps: no memory stands behind it, and it does not count as reserved."""
    host: bool = False
    """Whether the host's memory stands behind it (``expandable:host=``)."""


def why_not_free(block: Block, allocator: object) -> str:
    """What is wrong with a block that ``allocator`` was given to free, and that is not its own or not in use."""
    home: object = block.allocator
    if home is not allocator:
        return f"{block!r} belongs to another allocator ({home!r}); free it there"
    return f"{block!r} is not in the program's hands: it was freed before, or its allocator was closed"
