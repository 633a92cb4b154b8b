"""The kit rejects allocators whose blocks lie where they must not: over each other, in no memory, in wrong segments."""

from __future__ import annotations

import pytest
from cuplug.allocators.base import ALIGNMENT, Segment
from cuplug.allocators.statistics import SMALL_BLOCK
from cuplug.plugins.conformance.block_addresses import (
    check_huge_blocks_do_not_overlap,
    check_live_blocks_do_not_overlap,
    check_many_blocks_of_one_size_do_not_overlap,
    check_segments_say_what_they_are_for,
)
from cuplug.plugins.conformance.contract_checks import check_sizes
from cuplug.plugins.conformance.rules import ContractBrokenError, Rule

from .example import ExampleAllocator


class Overlaps(ExampleAllocator):
    """Hands a live block out again when it has no other of the size."""

    def _piece_for(self, nbytes, stream):
        found = super()._piece_for(nbytes, stream)
        return found or next((block.address for block in self._live.values() if block.nbytes == nbytes), None)


class OverlapsInsideASegment(ExampleAllocator):
    """Packs two blocks into one segment, and counts half of the first."""

    def _allocate(self, requested, nbytes, stream):
        block = super()._allocate(requested, nbytes, stream)
        near = [other for other in self._live.values() if other.nbytes > nbytes]
        if near and nbytes == ALIGNMENT:
            del self._live[block.address]
            return self._hand_out(near[0].address + ALIGNMENT, requested, nbytes, stream)
        return block


class OverlapsFromTheFourth(ExampleAllocator):
    """Hands a live block out again, but only once there are three of its size."""

    def _piece_for(self, nbytes, stream):
        same = [block.address for block in self._live.values() if block.nbytes == nbytes]
        return same[0] if len(same) >= 3 else super()._piece_for(nbytes, stream)


class OverlapsWhenHuge(ExampleAllocator):
    """Keeps blocks above 256 MiB in a place of their own, which has room for one."""

    def _piece_for(self, nbytes, stream):
        huge = [block.address for block in self._live.values() if block.nbytes > 256 << 20 and block.nbytes >= nbytes]
        return huge[0] if huge and nbytes > 256 << 20 else super()._piece_for(nbytes, stream)


class OverlapsPast32Bits(ExampleAllocator):
    """Computes sizes in 32 bits."""

    def _allocate(self, requested, nbytes, stream):
        block = super()._allocate(requested, nbytes & 0xFFFFFFFF or ALIGNMENT, stream)
        block.nbytes = nbytes
        return block


class Misaligns(ExampleAllocator):
    def _rounded(self, nbytes):
        return (nbytes + 255) // 256 * 256


class HandsOutTooLittle(ExampleAllocator):
    def _rounded(self, nbytes):
        return max(ALIGNMENT, nbytes // ALIGNMENT * ALIGNMENT)


class NamesAWrongStream(ExampleAllocator):
    """Its segments are all the default stream's."""

    def _segment(self, stream, info):
        return super()._segment(0, info)


class NamesAWrongPool(ExampleAllocator):
    """Its segments are all small."""

    def _segment(self, stream, info):
        found = super()._segment(stream, info)
        return Segment(found.address, found.nbytes, found.stream, "small", found.blocks)


class SwapsThePools(ExampleAllocator):
    """Takes small for large and large for small, throughout."""

    def _reserve(self, nbytes, *, small, stream):
        return super()._reserve(nbytes, small=not small, stream=stream)

    def _release(self, address, nbytes, *, small, stream):
        super()._release(address, nbytes, small=not small, stream=stream)

    def _segment(self, stream, info):
        found = super()._segment(stream, info)
        pool = "large" if info.nbytes <= SMALL_BLOCK else "small"
        return Segment(found.address, found.nbytes, found.stream, pool, found.blocks)


@pytest.mark.parametrize(
    ("broken", "check", "rule"),
    [
        (Overlaps, check_live_blocks_do_not_overlap, Rule.NO_OVERLAP),
        (OverlapsInsideASegment, check_live_blocks_do_not_overlap, Rule.NO_OVERLAP),
        (OverlapsFromTheFourth, check_many_blocks_of_one_size_do_not_overlap, Rule.NO_OVERLAP),
        (OverlapsWhenHuge, check_huge_blocks_do_not_overlap, Rule.NO_OVERLAP),
        (OverlapsPast32Bits, check_huge_blocks_do_not_overlap, Rule.NO_OVERLAP),
        (Misaligns, check_sizes, Rule.ALIGNED),
        (HandsOutTooLittle, check_sizes, Rule.ALIGNED),
        (NamesAWrongStream, check_segments_say_what_they_are_for, Rule.SEGMENT),
        (NamesAWrongPool, check_segments_say_what_they_are_for, Rule.SEGMENT),
        (SwapsThePools, check_segments_say_what_they_are_for, Rule.SEGMENT),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_misplaced_block_is_found_and_its_rule_named(rule_broken_by, broken, check, rule):
    assert rule_broken_by(check, broken) is rule


def test_a_failure_says_what_was_promised_and_what_was_found():
    with pytest.raises(ContractBrokenError, match=r"contract broken: .*multiples of 512 bytes.*\[ALIGNED\]: the block"):
        check_sizes(Misaligns)
