"""What advice follows from replays, on results made by hand."""

from __future__ import annotations

import pytest
from cuplug.tools.replaying.advice import Advice
from cuplug.tools.replaying.replayer import ReplayResult


def result(name: str, reserved: int, driver_time_us: float, failure: str = "") -> ReplayResult:
    return ReplayResult("t", name, 1, 100, 100, reserved, {}, driver_time_us, 0, 1.0, failure)


BEST = result("best", 10_000, 1000.0)


def cheaper(*ranking: ReplayResult) -> ReplayResult | None:
    return Advice("t", None, 1.0, BEST, list(ranking)).cheaper


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (result("half the time", 10_000, 500.0), True),
        (result("a little more than half", 10_000, 500.1), False),
        (result("2 % more memory", 10_200, 500.0), True),
        (result("more than that", 10_201, 1.0), False),
        (result("as much time", 10_000, 1000.0), False),
        (result("it fails", 10_000, 1.0, "out of memory"), False),
    ],
    ids=lambda value: getattr(value, "allocator", None),
)
def test_another_is_named_that_spends_half_the_driver_time_for_hardly_more_memory(
    other: ReplayResult, found: bool
) -> None:
    assert cheaper(BEST, other) == (other if found else None)


def test_of_several_that_spend_half_the_time_the_quickest_is_named() -> None:
    some = result("a", 10_000, 400.0), result("b", 10_100, 300.0), result("c", 10_000, 350.0)
    found = cheaper(BEST, *some)
    assert found is not None
    assert found.allocator == "b"
