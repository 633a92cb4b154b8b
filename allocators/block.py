"""What an allocator hands out, and the map of what it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from .base import Allocator

__all__ = ["ALIGNMENT", "Block", "BlockInfo", "Home", "Segment"]

ALIGNMENT = 512
"""Addresses and rounded sizes are multiples of this many bytes, as PyTorch's are (``kMinBlockSize``)."""


class Home(Protocol):
    """Where a freed block goes. A plain list or deque does."""

    def append(self, block: Any, /) -> None: ...


class Block:
    """A piece of device memory in the program's hands. It belongs to the allocator that made it, for good.

    Strategies may derive from it. The fields are the allocator's: a program reads ``address``, ``nbytes``,
    ``requested`` and ``stream``, and writes none.
    """

    __slots__ = (
        "__weakref__",
        "address",
        "allocator",
        "give_back",
        "home",
        "nbytes",
        "orphan",
        "requested",
        "stream",
        "streams",
        "uses",
    )

    def __init__(self, allocator: Allocator, address: int, nbytes: int, requested: int, stream: int) -> None:
        self.allocator = allocator
        self.address = address
        self.nbytes = nbytes
        """The size in bytes, rounded by the allocator."""
        self.requested = requested
        """The size in bytes that the program asked for."""
        self.stream = stream
        """The stream on which the memory is reusable as soon as it is freed."""
        self.streams: set[int] | None = None
        """Other streams that use the block (``record_stream``). Not None: it waits behind fences once it is freed."""
        self.orphan = False
        """Whether its own stream has been destroyed: once freed and waited for, it is any stream's to use."""
        self.uses = 0
        """Allocations plus frees of this object: odd while the block is in the program's hands. An owner's frees are
        not counted: then it is odd until the allocator takes the block back. 0 from then on."""
        self.home: Home = _NOWHERE
        """Where ``free`` puts the block."""
        self.give_back: Callable[[], object] = _give_nothing
        """What an owner calls, once, instead of ``free`` (``Allocator.allocate_owned``)."""

    def __int__(self) -> int:
        return self.address

    def __repr__(self) -> str:
        state = "live" if self.uses & 1 else "free"
        return f"<Block {self.address:#x} {self.requested} of {self.nbytes} bytes, stream {self.stream:#x}, {state}>"


class _Nowhere:
    def append(self, block: object, /) -> None:
        """Forget the block: its allocator has gone."""


_NOWHERE = _Nowhere()


def _give_nothing() -> None:
    """The block has no owner: it goes back by ``free``."""


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
