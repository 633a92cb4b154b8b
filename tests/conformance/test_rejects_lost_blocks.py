"""The kit rejects allocators that lose freed blocks of some sizes, and says which."""

from __future__ import annotations

import pytest
from cuplug.plugins.conformance.every_size import check_freed_blocks_of_every_size_go_back
from cuplug.plugins.conformance.rules import ContractBrokenError, Rule
from cuplug.plugins.conformance.workbench import MIB

from .example import ExampleAllocator


class Loses(ExampleAllocator):
    """Forgets freed blocks of the sizes that ``_is_lost`` says."""

    def _is_lost(self, block):
        raise NotImplementedError

    def _free(self, block):
        if not self._is_lost(block):
            super()._free(block)


class LosesFourToSixMiB(Loses):
    def _is_lost(self, block):
        return 4 * MIB < block.nbytes < 6 * MIB


class LosesOneByteMore(Loses):
    """Puts a block of one byte more than 128 KiB into a class that nobody looks into."""

    def _is_lost(self, block):
        return block.requested == (128 << 10) + 1


class LosesOneByteLess(Loses):
    def _is_lost(self, block):
        return block.requested == (32 << 20) - 1


class LosesOneAndAHalf(Loses):
    def _is_lost(self, block):
        return block.requested == 96 * MIB


class LosesHugeBlocks(Loses):
    """Keeps sizes in 32 bits."""

    def _is_lost(self, block):
        return block.nbytes >= 4 << 30


class LosesOrphans(Loses):
    def _is_lost(self, block):
        return block.orphan and 256 << 10 < block.nbytes < 512 << 10


class LosesWhatIsTakenAgain(ExampleAllocator):
    """Loses blocks between 18 and 31 MiB that come from its cache."""

    def _piece_for(self, nbytes, stream):
        found = super()._piece_for(nbytes, stream)
        return None if 18 * MIB < nbytes < 31 * MIB else found


LOST = [
    (LosesFourToSixMiB, "blocks of 4194305 bytes (1 more than 4.00 MiB) were freed, and 16779264 bytes are held"),
    (LosesOneByteMore, "blocks of 131073 bytes (1 more than 128.00 KiB) were freed, and"),
    (LosesOneByteLess, "blocks of 33554431 bytes (1 less than 32.00 MiB) were freed, and"),
    (LosesOneAndAHalf, "blocks of 100663296 bytes (96.00 MiB) were freed, and"),
    (LosesHugeBlocks, "blocks of 4294967295 bytes (1 less than 4.00 GiB) were freed, and"),
    (
        LosesOrphans,
        "262145 bytes (1 more than 256.00 KiB) were freed before and after their stream was destroyed, and",
    ),
    (LosesWhatIsTakenAgain, "blocks of 20971520 bytes (20.00 MiB) were freed, and"),
]


@pytest.mark.parametrize(("broken", "said"), LOST, ids=[fault[0].__name__ for fault in LOST])
def test_the_size_of_a_lost_block_is_named(broken, said, drivers):
    with pytest.raises(ContractBrokenError) as caught:
        check_freed_blocks_of_every_size_go_back(broken, drivers["lazy"])
    assert caught.value.rule is Rule.NO_LEAK
    assert said in str(caught.value)
