"""Free memory of one stream: segments cut into pieces, the smallest that fits first. Address arithmetic only."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from .block import Block
from .held_memory import HeldMemory
from .statistics import Ledger
from .upstream import Fence

__all__ = ["Piece", "Pool", "Rules"]

_OVERSIZE_SLACK = 20 << 20

Piece = tuple[int, int]
"""A free part of a segment: its bytes and its address. They are kept in this order, so that the smallest come first."""


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

    def fits(self, piece_nbytes: int, nbytes: int) -> bool:
        """Whether a piece of ``piece_nbytes``, large enough, may serve ``nbytes``."""
        limit = self.max_split_size
        if limit is None or piece_nbytes < limit:
            return True
        return nbytes >= limit and piece_nbytes < nbytes + _OVERSIZE_SLACK

    def cuts(self, piece_nbytes: int, nbytes: int) -> bool:
        """Whether a piece of ``piece_nbytes`` is cut to serve ``nbytes``."""
        if self.max_split_size is not None and nbytes >= self.max_split_size:
            return False
        return piece_nbytes - nbytes >= self.remainder


class Pool:
    """The segments of one stream, small or large, and what is free in them. ``HeldMemory.place`` of each is its pool.

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
        self._starting: dict[int, tuple[int, HeldMemory, int]] = {}
        """By address: bytes, segment, and ``searches`` when it became free."""
        self._ending: dict[int, int] = {}  # by the address behind a free piece: its own

    def add(self, segment: HeldMemory) -> None:
        """Take a new segment in. It is not yet among the free pieces: ``take_new`` cuts it."""
        segment.place = self
        self.segments[segment.address] = segment

    def remove(self, segment: HeldMemory) -> None:
        """Let go of a segment that is free as a whole."""
        self._unlist(segment.nbytes, segment.address)
        del self.segments[segment.address]

    def find(self, nbytes: int) -> Piece | None:
        """The smallest free piece of at least ``nbytes``, of equals that of the lowest address; None if none fits."""
        self.searches += 1
        pieces, rules = self._pieces, self._rules
        place = bisect_left(pieces, (nbytes, 0))
        if place == len(pieces) or not rules.fits(pieces[place][0], nbytes):
            return None
        if rules.spare_idle:
            for other in range(place, len(pieces)):
                if not self.is_idle(pieces[other]):
                    return pieces[other] if rules.fits(pieces[other][0], nbytes) else pieces[place]
        return pieces[place]

    def smallest(self, nbytes: int) -> Piece | None:
        """The same, whether or not the piece is a segment as a whole, and whatever the rules say."""
        self.searches += 1
        place = bisect_left(self._pieces, (nbytes, 0))
        return self._pieces[place] if place < len(self._pieces) else None

    def take(self, piece: Piece, nbytes: int) -> tuple[HeldMemory, int, int]:
        """Take the first ``nbytes`` of a free piece for use: its segment, its address and the bytes taken."""
        idle = self.is_idle(piece)
        return self._cut(self._unlist(*piece), piece, nbytes, was_idle=idle)

    def take_new(self, segment: HeldMemory, nbytes: int) -> tuple[HeldMemory, int, int]:
        """The same for a segment that was added just now."""
        return self._cut(segment, (segment.nbytes, segment.address), nbytes, was_idle=True)

    def put(self, address: int, nbytes: int, segment: HeldMemory) -> None:
        """Make a block's memory in ``segment`` free again, and one with its free neighbours."""
        start, end = address, address + nbytes
        blocks = change = 0
        if end != segment.address + segment.nbytes and end in self._starting:
            after = self._starting[end][0]
            self._unlist(after, end)
            end += after
            blocks, change = -1, -after
        if start != segment.address and start in self._ending:
            before = self._ending[start]
            self._unlist(start - before, before)
            blocks, change = blocks - 1, change - (start - before)
            start = before
        self._list(end - start, start, segment)
        if end - start < segment.nbytes:
            blocks, change = blocks + 1, change + end - start
        if change:
            self._ledger.split(blocks, change, small=self.small)

    def pieces(self) -> list[tuple[HeldMemory, int, int]]:
        """The free pieces: segment, address and bytes of each."""
        return [(self._starting[address][1], address, nbytes) for nbytes, address in self._pieces]

    def is_idle(self, piece: Piece) -> bool:
        """Whether ``piece`` is a segment as a whole."""
        return self._starting[piece[1]][1].nbytes == piece[0]

    def idle(self) -> list[HeldMemory]:
        """The segments that are free as a whole, smallest first."""
        return [self._starting[piece[1]][1] for piece in self._pieces if self.is_idle(piece)]

    def age(self, segment: HeldMemory) -> int:
        """For how many searches a segment has been free as a whole."""
        return self.searches - self._starting[segment.address][2]

    def absorb(self, other: Pool) -> None:
        """Take over all segments of a pool of the same kind, with everything in them."""
        for segment in other.segments.values():
            segment.place = self
        self.segments.update(other.segments)
        for nbytes, address in other._pieces:
            self._list(nbytes, address, other._starting[address][1])
        other.segments = {}
        other._forget_pieces()

    def recover(self, segments: Iterable[HeldMemory], blocks: Iterable[Block]) -> None:
        """Make everything anew: ``segments`` are the pool's, and free but for ``blocks``, in order of address."""
        self.segments = {segment.address: segment for segment in segments}
        self._forget_pieces()
        starts = {segment.address: segment.address for segment in self.segments.values()}
        for block in blocks:
            segment = block.place
            start = starts[segment.address]
            if start < block.address:
                self._list(block.address - start, start, segment)
            starts[segment.address] = block.address + block.nbytes
        for address, start in starts.items():
            segment = self.segments[address]
            if start < address + segment.nbytes:
                self._list(address + segment.nbytes - start, start, segment)

    # --- small help

    def _cut(self, segment: HeldMemory, piece: Piece, nbytes: int, *, was_idle: bool) -> tuple[HeldMemory, int, int]:
        taken, address = piece
        blocks, change = (0, 0) if was_idle else (-1, -taken)
        if self._rules.cuts(taken, nbytes):
            rest, taken = taken - nbytes, nbytes
            self._list(rest, address + nbytes, segment)
            blocks, change = blocks + 1, change + rest
        if change:
            self._ledger.split(blocks, change, small=self.small)
        return segment, address, taken

    def _list(self, nbytes: int, address: int, segment: HeldMemory) -> None:
        insort(self._pieces, (nbytes, address))
        self._starting[address] = nbytes, segment, self.searches
        self._ending[address + nbytes] = address

    def _unlist(self, nbytes: int, address: int) -> HeldMemory:
        del self._pieces[bisect_left(self._pieces, (nbytes, address))]
        del self._ending[address + nbytes]
        return self._starting.pop(address)[1]

    def _forget_pieces(self) -> None:
        self._pieces, self._starting, self._ending = [], {}, {}
