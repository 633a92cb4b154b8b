"""What the bench measures of allocations does what it says. No time is asserted."""

from __future__ import annotations

import pytest
from cuplug.runtime.machine.default_runtime import init, shutdown
from cuplug.tools.benchmarks.allocation_speed import contenders


@pytest.mark.needs_sim
@pytest.mark.parametrize("sizes", [[1 << 20], [512, 4096, 1 << 20]])
def test_each_contender_of_allocations_runs_and_each_one_left_out_has_a_reason(sizes: list[int]) -> None:
    init(driver="sim")
    try:
        found, missing = contenders(sizes)
        for repeat in found.values():
            repeat(2 * len(sizes))
        assert {"cuplug allocate/free", "cuplug Buffer"} <= set(found)
        assert all(missing.values())
    finally:
        shutdown()
