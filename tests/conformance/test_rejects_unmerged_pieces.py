"""The kit rejects allocators that cut freed memory and never merge it; it accepts those that merge in their own way."""

from __future__ import annotations

import re

import pytest
from cuplug.allocators.base import Allocator, Block, BlockInfo, Segment
from cuplug.plugins.conformance.contract_checks import CHECKS
from cuplug.plugins.conformance.cut_pieces import check_cut_memory_serves_as_a_whole_again
from cuplug.plugins.conformance.rules import ContractBrokenError, Rule
from cuplug.plugins.conformance.workbench import MIB
from cuplug.runtime.drivers.sim import SimDriver

from .example import ExampleAllocator


class Piece:
    def __init__(self, address, nbytes):
        self.address, self.nbytes, self.block = address, nbytes, None


class NeverMerges(Allocator):
    """Cuts what it needs from the first free piece that is large enough. Segments that are free as a whole go back."""

    segment_size = 32 * MIB

    def __init__(self, upstream, *, memory_limit: int | None = None):
        super().__init__(upstream, memory_limit=memory_limit)
        self._areas = {}
        """By address: the stream of a segment, the one that it serves (None once it is destroyed), its size, pieces."""

    def _allocate(self, requested, nbytes, stream):
        for _, serves, _, pieces in self._areas.values():
            for piece in pieces:
                if serves == stream and piece.block is None and self._does(piece, nbytes):
                    return self._take(pieces, piece, requested, nbytes, stream)
        size = self._segment_for(nbytes)
        address = self._reserve(size, small=False, stream=stream)
        pieces = self._cut_at_first(address, size, nbytes)
        self._areas[address] = [stream, stream, size, pieces]
        return self._take(pieces, pieces[0], requested, nbytes, stream)

    def _segment_for(self, nbytes):
        return max(nbytes, self.segment_size)

    def _cut_at_first(self, address, size, nbytes):
        return [Piece(address, size)]

    def _does(self, piece, nbytes):
        return piece.nbytes >= nbytes

    def _take(self, pieces, piece, requested, nbytes, stream):
        if piece.nbytes > nbytes:
            pieces.insert(pieces.index(piece) + 1, Piece(piece.address + nbytes, piece.nbytes - nbytes))
            piece.nbytes = nbytes
        piece.block = Block(self, piece.address, nbytes, requested, stream)
        return piece.block

    def _free(self, block):
        for _, _, _, pieces in self._areas.values():
            for piece in pieces:
                if piece.block is block:
                    piece.block = None
            self._merge(pieces)

    def _merge(self, pieces):
        pass

    def _release_cached(self):
        released = 0
        for address, (stream, serves, size, pieces) in list(self._areas.items()):
            if all(piece.block is None for piece in pieces):
                if serves is not None:
                    self.upstream.fence(stream).wait()
                self._release(address, size, small=False, stream=stream)
                del self._areas[address]
                released += size
        return released

    def _forget_stream(self, stream):
        self.upstream.fence(stream).wait()
        for area in self._areas.values():
            area[1] = None if area[1] == stream else area[1]

    def _segments(self):
        for address, (stream, _, size, pieces) in self._areas.items():
            infos = [
                self._state(piece.block) if piece.block else BlockInfo(piece.address, piece.nbytes, 0, "inactive")
                for piece in pieces
            ]
            yield Segment(address, size, stream, "large", tuple(infos))


class NeverMergesOnSegmentsOfItsSizes(NeverMerges):
    """Each segment is as large as its first block, so that many go back as a whole, and few neighbours are lost."""

    segment_size = 512


class MergesNeighbours(NeverMerges):
    def _merge(self, pieces):
        for at in reversed(range(len(pieces) - 1)):
            if pieces[at].block is None and pieces[at + 1].block is None:
                pieces[at].nbytes += pieces.pop(at + 1).nbytes


class MergesWhenMemoryIsShort(MergesNeighbours):
    """``_free`` puts it off, which it may."""

    def _merge(self, pieces):
        pass

    def _release_cached(self):
        for _, _, _, pieces in self._areas.values():
            super()._merge(pieces)
        return super()._release_cached() or 512 * any(self._areas)  # worth another try


class Buddies(NeverMerges):
    """Halves a piece until it fits, and merges two halves of one piece, but no other neighbours."""

    def _rounded(self, nbytes):
        return 1 << max(9, (nbytes - 1).bit_length())

    def _take(self, pieces, piece, requested, nbytes, stream):
        while piece.nbytes > nbytes:
            half = piece.nbytes = piece.nbytes // 2
            pieces.insert(pieces.index(piece) + 1, Piece(piece.address + half, half))
        return super()._take(pieces, piece, requested, nbytes, stream)

    def _merge(self, pieces):
        at = 0
        while at < len(pieces) - 1:
            one, other = pieces[at : at + 2]
            halves = one.nbytes == other.nbytes and not (one.address - pieces[0].address) % (2 * one.nbytes)
            if halves and one.block is None and other.block is None:
                one.nbytes += pieces.pop(at + 1).nbytes
                at = max(at - 1, 0)
            else:
                at += 1


class Slabs(NeverMerges):
    """A segment has four places of one size, which are never cut or merged."""

    def _segment_for(self, nbytes):
        return 4 * nbytes

    def _cut_at_first(self, address, size, nbytes):
        return [Piece(address + at, nbytes) for at in range(0, size, nbytes)]

    def _does(self, piece, nbytes):
        return piece.nbytes == nbytes


OTHERS = [check for check in CHECKS if check is not check_cut_memory_serves_as_a_whole_again]


@pytest.mark.parametrize("broken", [NeverMerges, NeverMergesOnSegmentsOfItsSizes])
def test_what_never_merges_is_told_which_pieces_and_what_to_do(broken, rule_broken_by):
    assert rule_broken_by(check_cut_memory_serves_as_a_whole_again, broken) is Rule.WHOLE_AGAIN
    with pytest.raises(ContractBrokenError) as caught:
        check_cut_memory_serves_as_a_whole_again(broken, SimDriver)
    assert re.search(
        r"a block of \S+ MiB at 0x\w+ was freed, and blocks of \S+ MiB took its place\. .* Merge free neighbours "
        r"before OutOfMemoryError is raised, or give back in _release_cached\(\) the segment in which they lie",
        str(caught.value),
    )


@pytest.mark.parametrize("check", OTHERS, ids=lambda check: check.__name__)
def test_no_other_check_needs_free_pieces_to_be_merged(check):
    check(NeverMerges, SimDriver)


RIGHT = [ExampleAllocator, MergesNeighbours, MergesWhenMemoryIsShort, Buddies, Slabs]


@pytest.mark.parametrize("right", RIGHT)
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_what_merges_in_its_own_way_or_does_not_cut_is_accepted(right, schedule, drivers):
    check_cut_memory_serves_as_a_whole_again(right, drivers[schedule])
