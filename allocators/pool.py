"""Free memory of one stream: segments cut into blocks, the smallest that fits first. Address arithmetic only."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .block import Block

if TYPE_CHECKING:
    from .base import Allocator

__all__ = ["Held", "Piece", "Pool"]

_ADDRESS_BITS = 64


class Held:
    """A segment: memory held from upstream, cut into pieces from end to end."""

    __slots__ = ("address", "first", "nbytes", "pool", "used")

    def __init__(self, address: int, nbytes: int, pool: Pool) -> None:
        self.address = address
        self.nbytes = nbytes
        self.pool = pool
        self.used = 0
        """When the pool last served from it, in the pool's count of searches."""
        self.first: Piece


class Piece(Block):
    """A part of a segment: a block in the program's hands, or free. Knows its neighbours in order of address."""

    __slots__ = ("after", "before", "free", "key", "segment")

    def __init__(self, allocator: Allocator, address: int, nbytes: int, segment: Held) -> None:
        super().__init__(allocator, address, nbytes, 0, segment.pool.stream)
        self.segment = segment
        self.before: Piece | None = None
        self.after: Piece | None = None
        self.free = False
        self.key = 0
        """Its place among the free ones: first by size, then by address."""


class Pool:
    """The segments of one stream, small or large, and what is free in them.

    ``remainder`` is how many bytes must be left over for a piece to be cut: fewer stay with the block.
    """

    __slots__ = ("_keys", "_pieces", "allocator", "remainder", "segments", "small", "stream")

    def __init__(self, allocator: Allocator, stream: int, *, small: bool, remainder: int) -> None:
        self.allocator = allocator
        self.stream = stream
        self.small = small
        self.remainder = remainder
        self.segments: dict[int, Held] = {}
        self._keys: list[int] = []
        self._pieces: list[Piece] = []

    def add(self, address: int, nbytes: int) -> Piece:
        """Take a new segment in and return it as one piece, not yet among the free ones."""
        segment = self.segments[address] = Held(address, nbytes, self)
        segment.first = piece = Piece(self.allocator, address, nbytes, segment)
        return piece

    def remove(self, segment: Held) -> None:
        """Let go of a segment that is free as a whole."""
        self._unlist(segment.first)
        del self.segments[segment.address]

    def smallest(self, nbytes: int) -> Piece | None:
        """The free piece of the smallest size of at least ``nbytes``, the one of the lowest address among equals."""
        index = bisect_left(self._keys, nbytes << _ADDRESS_BITS)
        return self._pieces[index] if index < len(self._pieces) else None

    def take(self, piece: Piece, nbytes: int) -> Piece:
        """Take the first ``nbytes`` of ``piece``, free or new, for use."""
        if piece.free:
            self._unlist(piece)
        if piece.nbytes - nbytes >= self.remainder:
            rest = Piece(self.allocator, piece.address + nbytes, piece.nbytes - nbytes, piece.segment)
            piece.nbytes = nbytes
            after = piece.after
            rest.before, rest.after, piece.after = piece, after, rest
            if after is not None:
                after.before = rest
            self._list(rest)
        return piece

    def put(self, piece: Piece) -> Piece:
        """Make ``piece`` free again, and one with its free neighbours. Returns the whole."""
        after = piece.after
        if after is not None and after.free:
            self._unlist(after)
            self._join(piece, after)
        before = piece.before
        if before is not None and before.free:
            self._unlist(before)
            self._join(before, piece)
            piece = before
        self._list(piece)
        return piece

    def idle(self) -> list[Held]:
        """The segments that are free as a whole, smallest first."""
        return [piece.segment for piece in self._pieces if piece.before is None and piece.after is None]

    def pieces(self, segment: Held) -> Iterator[Piece]:
        """The pieces of a segment in order of address."""
        piece: Piece | None = segment.first
        while piece is not None:
            yield piece
            piece = piece.after

    def _join(self, piece: Piece, after: Piece) -> None:
        piece.nbytes += after.nbytes
        beyond = piece.after = after.after
        if beyond is not None:
            beyond.before = piece
        after.before = after.after = None

    def _list(self, piece: Piece) -> None:
        piece.free = True
        key = piece.key = piece.nbytes << _ADDRESS_BITS | piece.address
        index = bisect_left(self._keys, key)
        self._keys.insert(index, key)
        self._pieces.insert(index, piece)

    def _unlist(self, piece: Piece) -> None:
        index = bisect_left(self._keys, piece.key)
        del self._keys[index]
        del self._pieces[index]
        piece.free = False
