"""The free pieces of one stream's segments, and the rule by which one is chosen: the smallest that fits. Address
arithmetic only."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from .block import Block
from .held_memory import HeldMemory
from .statistics import Ledger
from .upstream import Fence

_OVERSIZE_SLACK = 20 << 20

Piece = tuple[int, int, HeldMemory, int]
"""A free part of a segment: its bytes, its address, the segment, and the ``searches`` when it became free. The smallest
come first."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How a pool cuts its segments. Sizes are bytes.

    ``max_split_size`` means what PyTorch's ``max_split_size_mb`` does (``get_free_block`` and ``should_split`` in
    ``CUDACachingAllocator.cpp``): pieces from that size on are oversize, are never cut, and serve only requests that
    are oversize too and at most 20 MiB smaller.
    """

    remainder: int
    """A piece is cut if at least this much is left over; less stays with the block."""
    max_split_size: int | None = None
    spare_idle: bool = False
    """Whether a segment that is free as a whole is only broken when nothing else fits."""


class Pool:
    """The segments of one stream, small or large, and what is free in them. ``HeldMemory.kept`` of each is its pool.

    Free pieces that touch within a segment are joined at once, so that the free pieces are the gaps between blocks.
    """

    __slots__ = (
        "_ending", "_ledger", "_pieces", "_rules", "_starting", "fence", "searches", "segments", "small", "stream",
    )  # fmt: skip

    def __init__(self, ledger: Ledger, stream: int, rules: Rules, *, small: bool) -> None:
        self.stream = stream
        self.small = small
        self.segments: dict[int, HeldMemory] = {}
        self.searches = 0
        """How often a piece was looked for. Ages of free pieces are counted in these."""
        self.fence: Fence | None = None
        """Set when the stream was destroyed: once it has passed, any stream may use what is free."""
        self._ledger = ledger
        self._rules = rules
        self._pieces: list[Piece] = []
        self._starting: dict[int, Piece] = {}
        """The free pieces by their addresses."""
        self._ending: dict[int, Piece] = {}
        """By the addresses behind them."""

    def add(self, segment: HeldMemory) -> Piece:
        """Take a new segment in, which is free as a whole."""
        segment.kept = self
        self.segments[segment.address] = segment
        return self._list(segment.nbytes, segment.address, segment)

    def remove(self, segment: HeldMemory) -> None:
        """Let go of a segment that is free as a whole."""
        self._unlist(self._starting[segment.address])
        del self.segments[segment.address]

    def find(self, nbytes: int) -> Piece | None:
        """The smallest free piece of at least ``nbytes``, of equals that of the lowest address; None if none fits."""
        self.searches += 1
        pieces, limit = self._pieces, self._rules.max_split_size
        first, end = bisect_left(pieces, (nbytes,)), len(pieces)
        if limit is not None:
            end = bisect_left(pieces, (limit if nbytes < limit else nbytes + _OVERSIZE_SLACK,))
        place = first
        if self._rules.spare_idle:
            while place < end and pieces[place][0] == pieces[place][2].nbytes:
                place += 1
        if place < end:
            return pieces[place]
        return pieces[first] if first < end else None

    def smallest(self, nbytes: int) -> Piece | None:
        """The same, whether or not the piece is a segment as a whole, and whatever the rules say."""
        self.searches += 1
        place = bisect_left(self._pieces, (nbytes,))
        return self._pieces[place] if place < len(self._pieces) else None

    def take(self, piece: Piece, nbytes: int) -> tuple[HeldMemory, int, int]:
        """Take the first ``nbytes`` of a free piece for use: its segment, its address and the bytes taken."""
        whole, address, segment, _ = piece
        rest, limit = whole - nbytes, self._rules.max_split_size
        self._unlist(piece)
        if rest < self._rules.remainder or (limit is not None and nbytes >= limit):
            rest = 0
        else:
            self._list(rest, address + nbytes, segment)
        if whole < segment.nbytes:
            self._ledger.split(0 if rest else -1, rest - whole, self.small)
        elif rest:
            self._ledger.split(1, rest, self.small)
        return segment, address, whole - rest

    def put(self, address: int, nbytes: int, segment: HeldMemory) -> None:
        """Make a block's memory in ``segment`` free again, and one with its free neighbours."""
        before, after = self._ending.get(address), self._starting.get(address + nbytes)
        joined, pieces = nbytes, 1
        if after is not None and after[2] is segment:
            self._unlist(after)
            joined, pieces = joined + after[0], 0
        if before is not None and before[2] is segment:
            self._unlist(before)
            address, joined, pieces = before[1], joined + before[0], pieces - 1
        self._list(joined, address, segment)
        if joined < segment.nbytes:
            self._ledger.split(pieces, nbytes, self.small)
        elif joined > nbytes:
            self._ledger.split(pieces - 1, nbytes - joined, self.small)

    def pieces(self) -> list[Piece]:
        """The free pieces, smallest first."""
        return self._pieces

    def idle(self) -> list[HeldMemory]:
        """The segments that are free as a whole, smallest first."""
        return [piece[2] for piece in self._pieces if is_idle(piece)]

    def age(self, segment: HeldMemory) -> int:
        """For how many searches a segment has been free as a whole."""
        return self.searches - self._starting[segment.address][3]

    def absorb(self, other: Pool) -> None:
        """Take over all segments of a pool of the same kind, with everything in them."""
        for segment in other.segments.values():
            segment.kept = self
        self.segments.update(other.segments)
        for nbytes, address, segment, _ in other._pieces:
            self._list(nbytes, address, segment)
        other.segments = {}
        other._forget_pieces()

    def recover(self, segments: Iterable[HeldMemory], blocks: Iterable[Block]) -> None:
        """Make everything anew: ``segments`` are the pool's, and free but for ``blocks``, in order of address."""
        self.segments = {segment.address: segment for segment in segments}
        self._forget_pieces()
        starts = {segment.address: segment.address for segment in self.segments.values()}
        for block in blocks:
            segment = block.kept
            start = starts[segment.address]
            if start < block.address:
                self._list(block.address - start, start, segment)
            starts[segment.address] = block.address + block.nbytes
        for address, start in starts.items():
            segment = self.segments[address]
            if start < address + segment.nbytes:
                self._list(address + segment.nbytes - start, start, segment)

    # --- small help

    def _list(self, nbytes: int, address: int, segment: HeldMemory) -> Piece:
        piece = nbytes, address, segment, self.searches
        insort(self._pieces, piece)
        self._starting[address] = self._ending[address + nbytes] = piece
        return piece

    def _unlist(self, piece: Piece) -> None:
        del self._pieces[bisect_left(self._pieces, piece)]
        del self._starting[piece[1]]
        del self._ending[piece[1] + piece[0]]

    def _forget_pieces(self) -> None:
        self._pieces, self._starting, self._ending = [], {}, {}


def is_idle(piece: Piece) -> bool:
    """Whether ``piece`` is a segment as a whole."""
    return piece[0] == piece[2].nbytes
