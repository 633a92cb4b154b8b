"""The kit rejects allocators whose work explodes with the pieces that they hold, and accepts slow ones."""

from __future__ import annotations

import pytest
from cuplug.plugins.conformance.rules import Rule
from cuplug.plugins.conformance.scaling import check_work_grows_no_faster_than_the_pieces_held

from .example import ExampleAllocator


class SearchesEveryPair(ExampleAllocator):
    """Compares every free piece with every other one, in search of neighbours."""

    def _piece_for(self, nbytes, stream):
        free = [(at, size) for (_, size), places in self._cached.items() for at in places]
        for at, size in free:
            for other, _ in free:
                if at + size == other:
                    pass
        return super()._piece_for(nbytes, stream)


class SearchesEveryPairInC(ExampleAllocator):
    """The same, in loops that Python's tracing does not see."""

    def _piece_for(self, nbytes, stream):
        free = [at for places in self._cached.values() for at in places]
        sum(map(free.count, free))
        return super()._piece_for(nbytes, stream)


class SearchesFromTheFront(ExampleAllocator):
    """Looks at every free piece once: slow, and right."""

    def _piece_for(self, nbytes, stream):
        for (owner, size), places in self._cached.items():
            for at in places:
                if size == nbytes and owner in (stream, -1):
                    places.remove(at)
                    return at
        return None


@pytest.mark.parametrize("broken", [SearchesEveryPair, SearchesEveryPairInC])
def test_a_search_that_is_quadratic_in_free_pieces_is_found(rule_broken_by, broken):
    assert rule_broken_by(check_work_grows_no_faster_than_the_pieces_held, broken) is Rule.SPEED


def test_a_search_that_looks_at_every_piece_once_is_accepted(drivers):
    check_work_grows_no_faster_than_the_pieces_held(SearchesFromTheFront, drivers["eager"])
