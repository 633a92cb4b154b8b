"""The search for the least memory, on allocators made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cuplug.tools.replaying import least_memory
from cuplug.tools.replaying.least_memory import STEP, Fit, FitWork, fit_one
from cuplug.tools.replaying.one_replay import Outcome, Work
from cuplug.tools.replaying.replayer import ReplayResult


def fitted(monkeypatch: pytest.MonkeyPatch, *, requested: int, reserved: int, needs: int, exact: bool = False) -> Fit:
    """What is found for an allocator that reserves so much without a limit, and completes on ``needs`` bytes."""
    free = ReplayResult("t", "made", 1, requested, requested, reserved, {}, 0.0, 0, 1.0)

    def run(work: Work) -> Outcome:
        fails = work.memory is not None and work.memory < needs
        return Outcome(replace(free, failure="out of memory" if fails else ""))

    monkeypatch.setattr(least_memory, "run", run)
    monkeypatch.setattr(least_memory, "history", lambda _path: type("Past", (), {"programs": [None]}))
    found = fit_one(FitWork("t", "made", exact))
    assert found is not None
    return found


def test_what_is_found_completes_and_a_step_less_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = fitted(monkeypatch, requested=1000 * STEP, reserved=1500 * STEP, needs=1234 * STEP - 5)
    assert (fit.least, fit.step) == (1234 * STEP, STEP)


def test_the_step_is_rough_where_most_is_wasted_unless_it_is_to_be_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"requested": 1000 * STEP, "reserved": 64_000 * STEP, "needs": 30_001 * STEP}
    rough, exact = (fitted(monkeypatch, **made, exact=exact) for exact in (False, True))
    assert rough.step == 1000 * STEP
    assert rough.least == 31_000 * STEP
    assert (exact.least, exact.step) == (30_001 * STEP, STEP)


def test_the_answer_is_never_above_what_is_known_to_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = fitted(monkeypatch, requested=1000 * STEP, reserved=64_100 * STEP, needs=64_050 * STEP)
    assert fit.least == 64_100 * STEP  # and not the next multiple of the step
