"""What advice follows from replays, on results made by hand."""

from __future__ import annotations

import pytest
from cuplug.tools.replaying import advice
from cuplug.tools.replaying.replayer import ReplayResult


def result(name: str, reserved: int, driver_time_us: float, failure: str = "") -> ReplayResult:
    return ReplayResult("t", name, 1, 100, 100, reserved, {}, driver_time_us, 0, 1.0, failure)


BEST = result("best", 10_000, 1000.0)


def advised(*ranking: ReplayResult, ran_on: str = "", of_pytorch: bool = False) -> advice.Advice:
    base = ran_on if of_pytorch else ""
    return advice.Advice("t", None, 1.0, BEST, list(ranking), base=base, ran_on=ran_on)


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
    assert advised(BEST, other).cheaper == (other if found else None)


def test_of_several_that_spend_half_the_time_the_quickest_is_named() -> None:
    some = [BEST, result("a", 10_000, 400.0), result("b", 10_100, 300.0), result("c", 10_000, 350.0)]
    cheaper = advised(*some).cheaper
    assert cheaper is not None
    assert cheaper.allocator == "b"


@pytest.mark.parametrize(
    ("ranking", "found"),
    [
        ([result("expandable", 9_900, 1.0), result("caching", 10_000, 1.0)], "expandable"),
        ([result("expandable", 9_901, 1.0), result("caching", 10_000, 1.0)], None),
        ([result("caching", 10_000, 1.0)], None),
        ([result("expandable", 9_901, 1.0), result("caching", 10_000, 1.0, "out of memory")], "expandable"),
    ],
    ids=["1 % less", "hardly less", "alone", "what ran fails"],
)
def test_what_reserves_noticeably_less_than_what_ran_is_recommended(
    ranking: list[ReplayResult], found: str | None
) -> None:
    chosen = advised(*ranking, ran_on="caching").recommended
    assert (None if chosen is None else chosen.allocator) == found


def test_a_program_of_pytorchs_is_recommended_what_pytorch_can_be_given() -> None:
    ranking = [result(name, 1_000 * number, 1.0) for number, name in enumerate(("bump", "expandable:preset=torch"), 1)]
    ranking += [result("expandable", 5_000, 1.0), result("caching:preset=torch", 10_000, 1.0)]
    chosen = advised(*ranking, ran_on="caching:preset=torch", of_pytorch=True).recommended
    assert chosen is not None
    assert chosen.allocator == "expandable"
