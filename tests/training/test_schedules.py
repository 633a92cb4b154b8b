"""Schedules of rates, beside those that PyTorch computes: together, with tensors, and what is refused."""

from __future__ import annotations

import io
import math
import warnings
from collections import Counter
from typing import Any

import cuplug
import pytest

pytestmark = pytest.mark.one_schedule

schedules = cuplug.optim.lr_scheduler


def _optimiser(**settings: Any) -> Any:
    return cuplug.optim.SGD([cuplug.nn.Parameter(cuplug.zeros(1))], **{"lr": 0.1, "momentum": 0.5, **settings})


def test_a_cosine_and_a_line_of_one_optimiser_multiply() -> None:
    optimiser = _optimiser()
    both = [schedules.CosineAnnealingLR(optimiser, 4), schedules.ExponentialLR(optimiser, 0.5)]
    rates = []
    for _ in range(8):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        for each in both:
            each.step()
    falling = [0.05 * (1 + math.cos(math.pi * step / 4)) * 0.5**step for step in range(5)]
    assert rates[:5] == pytest.approx(falling)
    # From 0 on a rate rises by what the cosine alone adds in its first step, and by its factors from there.
    assert rates[5] == pytest.approx(0.05 * (1 - math.cos(math.pi / 4)) * 0.5)


def test_a_rate_that_is_a_tensor_is_changed_in_place_and_nothing_else_with_it() -> None:
    rate = cuplug.tensor(0.1)
    optimiser = _optimiser(lr=rate)
    schedule = schedules.StepLR(optimiser, 1, 0.5)
    optimiser.step()
    schedule.step()
    assert optimiser.param_groups[0]["lr"] is rate
    assert rate.item() == pytest.approx(0.05)
    assert schedule.base_lrs[0].item() == pytest.approx(0.1)


def test_a_schedule_that_steps_before_the_optimiser_warns_once() -> None:
    optimiser = _optimiser()
    schedule = schedules.StepLR(optimiser, 1)
    with pytest.warns(UserWarning, match="how-to-adjust-learning-rate"):
        schedule.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()


@pytest.mark.filterwarnings("error")
def test_schedules_in_turn_warn_of_nothing() -> None:
    optimiser = _optimiser()
    turns = [schedules.ConstantLR(optimiser, 0.5, 10), schedules.ExponentialLR(optimiser, 0.5)]
    schedule = schedules.SequentialLR(optimiser, turns, [2])
    for _ in range(4):
        optimiser.step()
        schedule.step()
    assert schedule.get_last_lr() == pytest.approx([0.025])


def test_a_cycle_has_limits_for_each_group_and_goes_on_from_its_state() -> None:
    parameters = [cuplug.nn.Parameter(cuplug.zeros(1)) for _ in range(2)]
    optimiser = cuplug.optim.SGD([{"params": [each]} for each in parameters], lr=1.0, momentum=0.5)
    schedule = schedules.CyclicLR(optimiser, [1.0, 2.0], [3.0, 6.0], 2, mode="triangular2", max_momentum=[0.8, 0.9])
    optimiser.step()
    schedule.step()
    assert schedule.get_last_lr() == [2.0, 4.0]
    assert [group["momentum"] for group in optimiser.param_groups] == pytest.approx([0.8, 0.85])
    other = schedules.CyclicLR(optimiser, [1.0, 2.0], [3.0, 6.0], 2)
    other.load_state_dict(schedule.state_dict())
    assert other.mode == "triangular2"
    assert other.scale_fn(2) == 0.5


@pytest.mark.parametrize("form", ["SequentialLR(o, turns, [2])", "ChainedScheduler(turns)"])
def test_the_state_of_several_schedules_has_theirs_in_numbers_and_they_go_on_from_a_file(form: str) -> None:
    def made() -> Any:
        o = _optimiser()
        turns = [schedules.MultiStepLR(o, [1, 1, 3], 0.5), schedules.ExponentialLR(o, 0.9)]
        return o, eval(form, {**vars(schedules), "o": o, "turns": turns})

    def rates(optimiser: Any, schedule: Any, steps: int) -> list[float]:
        seen = []
        for _ in range(steps):
            optimiser.step()
            schedule.step()
            seen.append(schedule.get_last_lr()[0])
        return seen

    first, schedule = made()
    rates(first, schedule, 3)
    file = io.BytesIO()
    cuplug.save([schedule.state_dict(), first.state_dict()], file)
    file.seek(0)
    state, of_optimiser = cuplug.load(file)
    assert type(state["_schedulers"][0]["milestones"]) is Counter
    assert state["_schedulers"][0]["milestones"] == {1: 2, 3: 1}
    second, other = made()
    second.load_state_dict(of_optimiser)
    other.load_state_dict(state)
    assert rates(second, other, 3) == rates(first, schedule, 3)


def test_schedules_in_turn_are_one_more_than_milestones_and_of_one_optimiser() -> None:
    optimiser, other = _optimiser(), _optimiser()
    with pytest.raises(ValueError, match="one more than the number of milestone points"):
        schedules.SequentialLR(optimiser, [schedules.ConstantLR(optimiser)], [2])
    with pytest.raises(ValueError, match="another optimiser"):
        schedules.SequentialLR(optimiser, [schedules.ConstantLR(optimiser), schedules.ConstantLR(other)], [2])
    with pytest.raises(ValueError, match="ReduceLROnPlateau"):
        schedules.SequentialLR(
            optimiser, [schedules.ConstantLR(optimiser), schedules.ReduceLROnPlateau(optimiser)], [2]
        )


def test_objects_that_say_the_rate_are_part_of_the_state_and_functions_are_not() -> None:
    class Factor:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def __call__(self, step: int) -> float:
            return self.factor**step

    optimiser = _optimiser()
    state = schedules.LambdaLR(optimiser, Factor(0.5)).state_dict()
    assert state["lr_lambdas"] == [{"factor": 0.5}]
    other = schedules.LambdaLR(optimiser, Factor(0.25))
    other.load_state_dict(state)
    assert other.lr_lambdas[0].factor == 0.5
    assert schedules.LambdaLR(optimiser, lambda step: 1.0).state_dict()["lr_lambdas"] == [None]


@pytest.mark.parametrize(
    "text",
    [
        "LinearLR(o, start_factor=0)",
        "LinearLR(o, start_factor=1.1)",
        "LinearLR(o, end_factor=-0.1)",
        "OneCycleLR(o, 1.0, 10, pct_start=1.1)",
        "OneCycleLR(o, 1.0, 10, anneal_strategy='none')",
        "OneCycleLR(o, [1.0, 2.0], 10)",
        "ReduceLROnPlateau(o, min_lr=[0.1, 0.2])",
    ],
)
def test_settings_that_do_not_fit_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"factor|pct_start|anneal_strategy|must have the same length"):
        eval(f"s.{text}", {"s": schedules, "o": _optimiser()})


def test_a_schedule_needs_an_optimiser_and_the_rate_that_training_began_with() -> None:
    with pytest.raises(TypeError, match="is not an Optimizer"):
        schedules.StepLR(5, 1)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="initial_lr"):
        schedules.StepLR(_optimiser(), 1, last_epoch=3)


def test_groups_may_be_added_to_what_is_reduced_on_plateaus() -> None:
    optimiser = _optimiser()
    one, several = schedules.ReduceLROnPlateau(optimiser, patience=0, min_lr=0.01), optimiser.param_groups
    each = schedules.ReduceLROnPlateau(optimiser, patience=0, min_lr=[0.01])
    optimiser.add_param_group({"params": [cuplug.nn.Parameter(cuplug.ones(2))], "lr": 0.5})
    for scheduler in (one, each):
        scheduler.step(1.0)
    one.step(2.0)
    assert several[1]["lr"] == pytest.approx(0.05)
    with pytest.raises(RuntimeError, match="The number of param groups in the"):
        each.step(2.0)
    each.min_lrs = [0.01, 0.2]
    each.step(2.0)
    assert several[1]["lr"] == pytest.approx(0.05)  # below its limit already


def test_schedulers_that_step_together_take_turns_with_others() -> None:
    """The values are those of PyTorch's own test of it."""
    optimiser = cuplug.optim.SGD([cuplug.nn.Parameter(cuplug.ones(1))], lr=0.05)
    both = schedules.ChainedScheduler(
        [
            schedules.LinearLR(optimiser, start_factor=0.1, total_iters=5),
            schedules.ConstantLR(optimiser, factor=0.1, total_iters=5),
        ]
    )
    later = schedules.ConstantLR(optimiser, factor=0.5, total_iters=5)
    whole = schedules.SequentialLR(optimiser, [both, later], [5])
    found = []
    for _ in range(10):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        whole.step()
    assert found == pytest.approx([0.0005, 0.0014, 0.0023, 0.0032, 0.0041] + [0.025] * 5)


def test_a_step_of_its_own_that_an_optimiser_gets_after_its_scheduler_is_warned_of() -> None:
    optimiser = _optimiser()
    before = optimiser.step
    optimiser.step = lambda *given: before(*given)  # type: ignore[method-assign]
    earlier = schedules.StepLR(optimiser, 3)
    optimiser.step()
    earlier.step()
    own = optimiser.step
    later = schedules.StepLR(optimiser, 3)
    optimiser.step = lambda *given: own(*given)  # type: ignore[method-assign]
    optimiser.step()
    with pytest.warns(UserWarning, match=r"`optimizer.step\(\)` has been overridden"):
        later.step()
