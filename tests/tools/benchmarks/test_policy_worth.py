"""What figures are worth: the histories that are made for it are programs, and a figure left out shows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cuplug.allocators.native import is_available
from cuplug.plugins.manager import default_manager
from cuplug.tools.benchmarks import policy_worth
from cuplug.tools.benchmarks.policy_worth import Case, Outcome, cases, outcomes, summary, worth
from cuplug.tools.replaying.one_replay import null_upstream
from cuplug.tools.replaying.perturbed import PERTURBATIONS, followed_by, repeated
from cuplug.tools.replaying.program import Program
from cuplug.tools.replaying.replayer import replay
from typer.testing import CliRunner

MIB = 1 << 20


def some_program(seed: int) -> Program:
    """Blocks of all sizes that live for random times; some never end."""
    chance = np.random.default_rng(seed)
    steps: list[int] = []
    alive: list[int] = []
    count = 0
    while count < 400:
        if len(alive) > 30 or (alive and chance.random() < 0.4):
            steps.append(-alive.pop(int(chance.integers(len(alive)))))
        else:
            count += 1
            alive.append(count)
            steps.append(count)
    sizes = chance.choice(chance.integers(1, 70 * MIB, 40), count)
    events = np.arange(len(steps))
    program = Program("", 0, np.array(steps, np.int64), sizes, np.zeros(count, np.uint64), events, len(steps), 0)
    return replace(program, peak_requested=program.peak_before(len(steps)))


def check(program: Program) -> None:
    """Each block is allocated at most once, and freed at most once, later."""
    alive: set[int] = set()
    known: set[int] = set()
    for step in program.steps.tolist():
        if step > 0:
            assert step not in known
            known.add(step)
            alive.add(step)
        else:
            alive.remove(-step)
    assert max(known) <= len(program.sizes) == len(program.streams)
    assert program.sizes.min() > 0


@pytest.mark.parametrize("kind", PERTURBATIONS)
@pytest.mark.parametrize("seed", range(5))
def test_a_perturbed_history_is_another_program(kind: str, seed: int) -> None:
    program = some_program(seed)
    other = PERTURBATIONS[kind](program, np.random.default_rng(seed))
    check(other)
    assert [other.steps.tolist(), other.sizes.tolist(), other.streams.tolist()] != [
        program.steps.tolist(), program.sizes.tolist(), program.streams.tolist(),
    ]  # fmt: skip


def test_a_program_after_another_begins_where_nothing_is_left() -> None:
    first, second = some_program(1), some_program(2)
    joined = followed_by(first, second)
    check(joined)
    assert joined.peak_before(len(joined.steps)) == max(each.peak_before(len(each.steps)) for each in (first, second))


def test_a_name_says_whether_a_history_is_for_choosing_rules_or_for_judging_them() -> None:
    names = ("densenet", "detection", "segmentation", "recommender")
    assert [policy_worth.half_of(name) for name in names] == ["judging", "choosing"] * 2


def test_a_part_that_is_repeated_is_a_program() -> None:
    check(repeated(some_program(3), 100, 300, before=3, after=2))


@pytest.mark.skipif(not is_available(), reason="replays without the core would take minutes")
def test_a_figure_left_out_shows_and_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_worth, "_known", {"one": (some_program(1), 1.0), "two": (some_program(2), 1.0)})
    chosen = cases(["one", "two"], seeds=6)
    assert len(chosen) == 2 * (5 + 3 + 2 + 6)
    found = [one for each in outcomes(chosen, ["caching"], ["MOST_SEGMENT"], 1, {}) for one in each]
    plain = [one for one in found if one.allocator == "caching" and not one.figure]
    without = [one for one in found if one.allocator == "caching" and one.figure]
    assert [one.case for one in plain] == [one.case for one in without] == chosen
    assert [one.ratio for one in plain] != [one.ratio for one in without]
    (again,) = outcomes([Case("one", "whole")], ["caching"], [], 1, {})
    assert again[-1] == plain[0]
    told = summary(plain)
    assert told.count == len(chosen)
    assert 1 <= told.mean <= told.worst


@pytest.mark.skipif(not is_available(), reason="replays without the core would take minutes")
def test_what_repeats_on_little_memory_has_that_much_of_its_own_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    program = some_program(1)
    monkeypatch.setattr(policy_worth, "_known", {"one": (replace(program, peak_requested=1 << 50), 1.0)})
    held = [one for one in cases(["one"], seeds=0) if one.kind.startswith("repeated, held")]
    found = [each[-1] for each in outcomes(held, ["expandable"], [], 1, {})]
    assert [one.case.held for one in found] == list(policy_worth.HELD_REPEATED)
    assert [1 <= one.ratio <= one.case.held for one in found] == [True, True]
    assert sum(one.calls for one in found) > 0


@pytest.mark.skipif(not is_available(), reason="replays without the core would take minutes")
def test_passes_are_the_calls_of_the_second_and_third_run_of_a_history(monkeypatch: pytest.MonkeyPatch) -> None:
    program = some_program(1)
    monkeypatch.setattr(policy_worth, "_known", {"one": (program, 1.0)})
    chosen = [one for one in cases(["one"], seeds=0) if one.kind in ("whole", "three passes")]
    whole, passes = (each[-1] for each in outcomes(chosen, ["expandable"], [], 1, {}))
    nothing = replace(program, steps=program.steps[:0])
    once = followed_by(program, nothing)
    thrice = followed_by(followed_by(once, program), once)
    assert passes.passes == calls_of(thrice) - calls_of(once) > 0
    assert (whole.passes, whole.calls, passes.calls) == (0, 0, 0)
    told = summary([whole, passes])
    assert (told.calls, told.passes) == (0, passes.passes)
    costlier = [whole, replace(passes, figure="X", passes=passes.passes + 7)]
    assert worth([whole, passes], costlier).passes == 7


def calls_of(program: Program) -> int:
    """The driver's calls of ``expandable``."""
    result = replay(
        [program],
        partial(default_manager().make_allocator, "expandable"),
        allocator="expandable",
        make_upstream=partial(null_upstream, "expandable", None),
    )
    return sum(result.driver_calls.values())


def test_a_case_that_runs_out_without_a_figure_is_counted_and_takes_nothing_along() -> None:
    """Else leaving out a figure that the costliest case needs would look like a saving."""
    whole, held, roomy = Case("one", "whole"), Case("two", "repeated, held", 0, 1.07), Case("two", "repeated")

    def outcome(case: Case, figure: str, ratio: float, share: float, calls: int) -> Outcome:
        return Outcome(case, "caching", figure, ratio, share, calls)

    plain = [outcome(whole, "", 1.0, 0.1, 0), outcome(held, "", 1.06, 0.5, 900), outcome(roomy, "", 1.2, 0.2, 3)]
    lost = [outcome(whole, "X", 1.1, 0.1, 0), outcome(held, "X", 0.0, 0.0, 0), outcome(roomy, "X", 1.2, 0.4, 5)]
    told = worth(plain, lost)
    assert (told.lost, told.gained, told.calls, told.calls_held) == (1, 0, 2, 0)
    assert told.ratio == pytest.approx(1.1**0.5 - 1)
    assert told.by_history == pytest.approx({"one": 0.1, "two": 0.0})
    assert told.share == pytest.approx(0.1)
    back = worth(lost, plain)
    assert (back.lost, back.gained, back.calls) == (0, 1, -2)
    slower = [plain[0], outcome(held, "X", 1.07, 0.6, 1000), plain[2]]
    assert worth(plain, slower).calls_held == 100
    assert worth(plain, [outcome(one.case, "X", 0.0, 0.0, 0) for one in plain]).lost == 3


def test_figures_of_host_memory_are_left_out_only_of_an_allocator_that_has_some() -> None:
    plain, hosted = policy_worth.figures_of("expandable"), policy_worth.figures_of("expandable:host=8GiB")
    assert set(hosted) - set(plain) == {"VALLEY", "LAP_PATIENCE", "PATIENT_LAPS", "SHORTAGE_PARTS", "COUNTED_LIFE"}
    assert set(plain) < set(hosted)
    assert "OWN_WASTE" in policy_worth.figures_of("caching")


@pytest.mark.skipif(not is_available(), reason="replays without the core would take minutes")
def test_the_command_prints_what_a_figure_is_worth() -> None:
    from cuplug.tools.bench import app

    history = Path(__file__).parents[3] / "tools" / "data" / "resnet_multiscale.pickle.xz"
    asked = ["policy", str(history), "--allocator", "expandable", "--figure", "SLACK_BLOCKS", "--kind", "whole"]
    told = CliRunner().invoke(app, asked, env={"COLUMNS": "120"})
    assert told.exit_code == 0, told.output
    assert "SLACK_BLOCKS" in told.output
    assert "passes" in told.output
    assert "expandable: without a figure" in told.output
    assert "expandable ran out of memory on: none" in told.output
    refused = CliRunner().invoke(app, ["policy", "--figure", "MOST_LUCK"], env={"COLUMNS": "120"})
    assert refused.exit_code == 2
    assert "there is no figure MOST_LUCK" in refused.output
