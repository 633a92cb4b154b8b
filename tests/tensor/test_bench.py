"""The cases that the bench measures do what they say. No time is asserted."""

from __future__ import annotations

import pytest
from cuplug.tools.benchmarks.operation_cost import ROWS, contenders, cost
from cuplug.tools.benchmarks.tensor_speed import Case, cases
from cuplug.tools.benchmarks.timing import time_in_turn

pytestmark = pytest.mark.one_schedule


def test_every_case_runs_with_every_library_that_is_there(device: str) -> None:
    found, missing = cases(1 << 14, device)
    assert [case.unit for case in found].count("GB/s") == 4
    for case in found:
        if case.name.startswith("matmul"):
            continue  # of a size that takes a while
        assert "cuplug" in case.contenders
        timings = time_in_turn(case.contenders, calls=1, rounds=1)
        assert all(case.figure(timing.median_ns) > 0 for timing in timings.values())
    assert not set(missing) & set(found[0].contenders)


def test_a_figure_is_the_amount_in_the_time() -> None:
    assert Case("x", 1, 4e9, "GB/s").figure(1e9) == 4.0
    assert Case("x", 1, 2e12, "TFLOP/s").figure(1e9) == 2.0
    assert Case("x", 1, 0, "us").figure(2500) == 2.5


@pytest.mark.parametrize("size", [1, 10, 1000])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of what the operations make of their own results
def test_every_operation_runs_on_every_place(size: int, running: str) -> None:
    for row in ROWS:
        if row.fits(size):
            for repeat in contenders(row, size).values():
                repeat(2)


@pytest.mark.needs_sim
def test_a_cost_is_what_each_place_takes_beyond_numpys_time(running: str) -> None:
    found = cost(next(row for row in ROWS if row.ours == "x + y"), 10, rounds=1)
    assert found.numpy_us > 0
    assert set(found.more_us) == {"cpu", "sim", "sim, waiting"}
    assert found.worst_us == max(found.more_us["cpu"], found.more_us["sim"])
