"""The conformance kit over every registered allocator, those of installed packages included."""

from __future__ import annotations

from cuplug.plugins.conformance import contract
from cuplug.plugins.conformance.contract import (  # noqa: F401 - pytest finds them here
    allocator_factory,
    driver_factory,
    test_an_allocator_keeps_its_contract,
    test_an_allocator_keeps_its_contract_under_random_operations,
    test_an_allocator_serves_many_threads,
    test_an_interrupted_allocator_is_consistent_or_says_that_it_was_interrupted,
    test_finalisers_may_free_at_any_moment,
    test_freed_blocks_of_every_size_go_back,
    test_nothing_is_lost_where_a_call_upstream_fails,
    test_the_work_of_a_call_grows_no_faster_than_the_pieces_held,
    test_threads_may_meet_in_an_allocator_at_any_line,
)


def test_every_check_of_the_kit_runs_here() -> None:
    assert set(contract.__all__) <= globals().keys()
