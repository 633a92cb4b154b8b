"""The conformance kit over every registered allocator, those of installed packages included."""

from __future__ import annotations

from cuplug.plugins.conformance.contract import (  # noqa: F401 - pytest finds them here
    allocator_factory,
    driver_factory,
    test_an_allocator_keeps_its_contract,
    test_an_allocator_keeps_its_contract_under_random_operations,
    test_an_allocator_serves_many_threads,
    test_finalisers_may_free_at_any_moment,
    test_threads_may_meet_in_an_allocator_at_any_line,
)
