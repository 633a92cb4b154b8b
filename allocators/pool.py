"""Free memory of one stream: segments cut into pieces, the smallest that fits first. Address arithmetic only."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from .block import Block

if TYPE_CHECKING:
    from .base import Allocator
    from .ledger import Ledger
    from .upstream import Fence

__all__ = ["Held", "Piece", "Pool", "Rules"]

_ADDRESS_BITS = 64
_OVERSIZE_SLACK = 20 << 20


class Rules:
    """How a pool cuts its segments. Sizes are bytes.

    ``max_split_size`` means what PyTorch's ``max_split_size_mb`` does (``get_free_block`` and ``should_split`` in
    ``CUDACachingAllocator.cpp``): pieces from that size on are oversize, are never cut, and serve only requests that
    are oversize too and at most 20 MiB smaller.
    """

    __slots__ = ("max_split_size", "remainder", "spare_idle")

    def __init__(self, remainder: int, *, max_split_size: int | None = None, spare_idle: bool = False) -> None:
        self.remainder = remainder
        """A piece is cut if at least this much is left over; less stays with the block."""
        self.max_split_size = max_split_size
        self.spare_idle = spare_idle
        """Whether a segment that is free as a whole is only broken when nothing else fits."""

    def fits(self, piece: Piece, nbytes: int) -> bool:
        """Whether ``piece``, large enough, may serve ``nbytes``."""
        limit = self.max_split_size
        if limit is None or piece.nbytes < limit:
            return True
        return nbytes >= limit and piece.nbytes < nbytes + _OVERSIZE_SLACK

    def cuts(self, piece: Piece, nbytes: int) -> bool:
        """Whether ``piece`` is cut to serve ``nbytes``."""
        if self.max_split_size is not None and nbytes >= self.max_split_size:
            return False
        return piece.nbytes - nbytes >= self.remainder


class Held:
    """A segment: memory held from upstream, cut into pieces from end to end."""

    __slots__ = ("address", "first", "nbytes", "pool")

    def __init__(self, address: int, nbytes: int, pool: Pool) -> None:
        self.address = address
        self.nbytes = nbytes
        self.pool = pool
        self.first: Piece

    def pieces(self) -> Iterator[Piece]:
        """Its pieces in order of address."""
        piece: Piece | None = self.first
        while piece is not None:
            yield piece
            piece = piece.after


class Piece(Block):
    """A part of a segment: a block in the program's hands, or free. Knows its neighbours in order of address."""

    __slots__ = ("after", "before", "free", "idle_since", "key", "segment")

    def __init__(self, allocator: Allocator, address: int, nbytes: int, segment: Held) -> None:
        super().__init__(allocator, address, nbytes, 0, segment.pool.stream)
        self.segment = segment
        self.before: Piece | None = None
        self.after: Piece | None = None
        self.free = False
        self.key = 0
        """Its place among the free ones: first by size, then by address."""
        self.idle_since = 0
        """The pool's count of searches when it became free."""


class Pool:
    """The segments of one stream, small or large, and what is free in them."""

    __slots__ = (
        "_keys", "_ledger", "_pieces", "_rules", "allocator", "fence", "searches", "segments", "small", "stream"
    )  # fmt: skip

    def __init__(self, allocator: Allocator, ledger: Ledger, stream: int, rules: Rules, *, small: bool) -> None:
        self.allocator = allocator
        self.stream = stream
        self.small = small
        self.segments: dict[int, Held] = {}
        self.searches = 0
        """How often a piece was looked for. Ages of free pieces are counted in these."""
        self.fence: Fence | None = None
        """Set when the stream was destroyed: once it has passed, any stream may use what is free."""
        self._ledger = ledger
        self._rules = rules
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

    def find(self, nbytes: int) -> Piece | None:
        """The smallest free piece of at least ``nbytes``, of equals that of the lowest address; None if none fits."""
        self.searches += 1
        index = bisect_left(self._keys, nbytes << _ADDRESS_BITS)
        if index == len(self._keys):
            return None
        rules, piece = self._rules, self._pieces[index]
        if not rules.fits(piece, nbytes):
            return None
        if rules.spare_idle and piece.before is None and piece.after is None:
            for other in islice(self._pieces, index + 1, None):
                if other.before is not None or other.after is not None:
                    return other if rules.fits(other, nbytes) else piece
        return piece

    def take(self, piece: Piece, nbytes: int) -> Piece:
        """Take the first ``nbytes`` of ``piece``, free or new, for use."""
        blocks = change = 0
        after = piece.after
        if piece.free:
            self._unlist(piece)
            if after is not None or piece.before is not None:
                blocks, change = -1, -piece.nbytes
        if self._rules.cuts(piece, nbytes):
            rest = Piece(self.allocator, piece.address + nbytes, piece.nbytes - nbytes, piece.segment)
            piece.nbytes = nbytes
            rest.before, rest.after, piece.after = piece, after, rest
            if after is not None:
                after.before = rest
            self._list(rest)
            blocks += 1
            change += rest.nbytes
        if change:
            self._ledger.split(blocks, change, small=self.small)
        piece.stream = self.stream
        return piece

    def put(self, piece: Piece) -> None:
        """Make ``piece`` free again, and one with its free neighbours."""
        blocks, change = 0, 0
        after, before = piece.after, piece.before
        if after is not None and after.free:
            self._unlist(after)
            blocks, change = -1, -after.nbytes
            self._join(piece, after)
        if before is not None and before.free:
            self._unlist(before)
            blocks, change = blocks - 1, change - before.nbytes
            self._join(before, piece)
            piece = before
        self._list(piece)
        if piece.after is not None or piece.before is not None:
            blocks, change = blocks + 1, change + piece.nbytes
        if change:
            self._ledger.split(blocks, change, small=self.small)

    def idle(self) -> list[Held]:
        """The segments that are free as a whole, smallest first."""
        return [piece.segment for piece in self._pieces if piece.before is None and piece.after is None]

    def absorb(self, other: Pool) -> None:
        """Take over all segments of a pool of the same kind, with everything in them."""
        for segment in other.segments.values():
            segment.pool = self
        self.segments.update(other.segments)
        for piece in other._pieces:
            self._list(piece)
        other.segments = {}
        other._keys, other._pieces = [], []

    def _join(self, piece: Piece, after: Piece) -> None:
        piece.nbytes += after.nbytes
        beyond = piece.after = after.after
        if beyond is not None:
            beyond.before = piece
        after.before = after.after = None

    def _list(self, piece: Piece) -> None:
        piece.free = True
        piece.idle_since = self.searches
        key = piece.key = piece.nbytes << _ADDRESS_BITS | piece.address
        index = bisect_left(self._keys, key)
        self._keys.insert(index, key)
        self._pieces.insert(index, piece)

    def _unlist(self, piece: Piece) -> None:
        index = bisect_left(self._keys, piece.key)
        del self._keys[index]
        del self._pieces[index]
        piece.free = False
