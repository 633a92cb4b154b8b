"""Optimisers and schedulers beside PyTorch's, step by step; and what is learned."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import cuplug
import numpy as np
import pytest

OPTIMISERS = (
    "SGD(params, 0.1)",
    "SGD(params, 0.1, momentum=0.9, dampening=0.1, weight_decay=0.01)",
    "SGD(params, 0.1, momentum=0.9, nesterov=True, maximize=True)",
    "Adam(params, 0.05)",
    "Adam(params, 0.05, weight_decay=0.1, amsgrad=True)",
    "AdamW(params, 0.05, betas=(0.8, 0.9))",
    "RMSprop(params, 0.01)",
    "RMSprop(params, 0.01, momentum=0.5, centered=True, weight_decay=0.1)",
    "Adagrad(params, 0.1, lr_decay=0.1)",
    "Adadelta(params, 0.5, weight_decay=0.1)",
    "Adamax(params, 0.05, weight_decay=0.1)",
    "NAdam(params, 0.05)",
    "NAdam(params, 0.05, weight_decay=0.1, decoupled_weight_decay=True)",
    "RAdam(params, 0.05, weight_decay=0.1)",
    "RAdam(params, 0.05, betas=(0.8, 0.7), weight_decay=0.1, decoupled_weight_decay=True)",
    "LBFGS(params, 0.5, max_iter=4, history_size=2)",
    "LBFGS(params, line_search_fn='strong_wolfe')",
    "LBFGS(params, 0.01, max_iter=3, line_search_fn='strong_wolfe')",
    "LBFGS(params, 40.0, max_iter=6, history_size=3, line_search_fn='strong_wolfe')",
    "SGD([{'params': params[:1], 'lr': 0.5}, {'params': params[1:]}], lr=0.1, momentum=0.3)",
)
SCHEDULERS = (
    "StepLR(o, 3)",
    "MultiStepLR(o, [2, 5, 5], 0.5)",
    "ExponentialLR(o, 0.9)",
    "ConstantLR(o, 0.5, 3)",
    "ConstantLR(o, 0.5, 0)",
    "ConstantLR(o, 0.0, 20)",
    "LinearLR(o, total_iters=6)",
    "CosineAnnealingLR(o, 8, 0.01)",
    "LambdaLR(o, lambda n: 0.95 ** n)",
    "OneCycleLR(o, 0.4, total_steps=12)",
    "OneCycleLR(o, 0.4, total_steps=12, anneal_strategy='linear', three_phase=True)",
    "PolynomialLR(o, 6, 2.0)",
    "MultiplicativeLR(o, lambda n: 0.9)",
    "CosineAnnealingWarmRestarts(o, 3, 2, 0.01)",
    "CyclicLR(o, 0.1, 0.5, 3, 2, 'triangular2')",
    "CyclicLR(o, 0.1, 0.5, 2, mode='exp_range', gamma=0.9, cycle_momentum=False)",
    "ChainedScheduler([s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)])",
    "SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=4), s.ExponentialLR(o, 0.8)], [4])",
    "SequentialLR(o, [s.MultiplicativeLR(o, lambda n: 0.8), s.MultiplicativeLR(o, lambda n: 0.7 + n / 20)], [3])",
    "SequentialLR(o, [s.ChainedScheduler([s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)]), s.StepLR(o, 2)], [3])",
)

AT_EPOCHS = {
    "StepLR(o, 3)": [0.1, 0.1, 0.01, 1e-05, 0.1],
    "MultiStepLR(o, [2, 4, 4])": [0.1, 0.1, 0.01, 0.0001, 0.1],
    "ConstantLR(o, 0.5, 3)": [0.05, 0.05, 0.1, 0.1, 0.05],
    "LinearLR(o)": [0.04, 0.05, 0.0853333333333, 0.1, 0.0333333333333],
    "ExponentialLR(o, 0.9)": [0.0948683298051, 0.0876603371783, 0.0663049247964, 0.0276540418128, 0.1],
    "PolynomialLR(o, 8, 2)": [0.087890625, 0.07119140625, 0.026265625, 0.0, 0.1],
    "CosineAnnealingLR(o, 10)": [0.0993844170298, 0.0961939766256, 0.0669368960123, 0.0114743378612, 0.1],
    "CosineAnnealingLR(o, 5, 0.01)": [0.0977975432333, 0.0868198051534, 0.0203269040751, 0.0634321591564, 0.1],
    "LambdaLR(o, lambda n: 0.9 ** n)": [0.0948683298051, 0.0876603371783, 0.0663049247964, 0.0276540418128, 0.1],
    "MultiplicativeLR(o, lambda n: 0.95)": [0.095, 0.09025, 0.0857375, 0.081450625, 0.07737809375],
}
"""What PyTorch 2.13 makes of ``step(0.5)``, ``step(1.25)``, ``step(3.9)``, ``step(12.2)`` and ``step(0)``."""

GOING_ON = {
    "StepLR(o, 3, last_epoch=2)": [0.007, 0.007, 0.007, 0.0007],
    "ExponentialLR(o, 0.9, last_epoch=2)": [0.07, 0.063, 0.0567, 0.05103],
    "LinearLR(o, last_epoch=2)": [0.07, 0.0827272727273, 0.0954545454545, 0.0954545454545],
    "PolynomialLR(o, 8, 2, last_epoch=2)": [0.07, 0.0448, 0.0252, 0.0112],
    "CosineAnnealingLR(o, 10, last_epoch=2)": [0.07, 0.0577100646791, 0.0440865664289, 0.0304630681787],
    "MultiplicativeLR(o, lambda n: 0.95, last_epoch=2)": [0.07, 0.0665, 0.063175, 0.06001625],
    "CosineAnnealingWarmRestarts(o, 4, last_epoch=7)": [0.1, 0.0853553390593, 0.05, 0.0146446609407],
}
"""What PyTorch 2.13 makes of a rate of 0.07, when a training that began with 0.1 goes on."""


def run(torch: Any, text: str, device: str, steps: int = 5) -> list[Any]:
    params = [
        torch.linspace(-1, 2, 6, dtype=torch.float64, device=device).reshape(2, 3).clone().requires_grad_(),
        torch.ones(3, dtype=torch.float64, device=device, requires_grad=True),
        torch.ones(3, dtype=torch.float64, device=device, requires_grad=True),
    ]
    optimiser = eval(f"torch.optim.{text}", {"torch": torch, "params": params})

    def closure() -> Any:
        optimiser.zero_grad()
        loss = ((params[0] @ params[1] - 2) ** 2).sum() + params[0].sin().sum()
        loss.backward()
        return loss

    losses = [float(optimiser.step(closure).detach()) for _ in range(steps)]
    return [losses, *(each.detach().cpu().numpy() for each in params)]


@pytest.mark.needs_torch
@pytest.mark.parametrize("text", OPTIMISERS)
def test_steps_are_pytorchs(text: str, device: str) -> None:
    import torch

    near = 1e-7 if text.startswith("NAdam") else 1e-9  # torch keeps mu_product in float32
    for found, expected in zip(run(cuplug, text, device), run(torch, text, "cpu"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=near, atol=near / 1000)


def rates(torch: Any, text: str) -> list[Any]:
    optimiser = torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.2, momentum=0.9)
    scheduler = eval(f"s.{text}", {"s": torch.optim.lr_scheduler, "o": optimiser})
    found = []
    for _ in range(10):
        optimiser.step()
        group = optimiser.param_groups[0]
        found.append((group["lr"], group["momentum"], scheduler.get_last_lr()[0]))
        scheduler.step()
    return found


@pytest.mark.needs_torch
@pytest.mark.parametrize("text", SCHEDULERS)
def test_rates_are_pytorchs(text: str, running: str) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = rates(torch, text)
    np.testing.assert_allclose(rates(cuplug, text), expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", AT_EPOCHS)
def test_a_scheduler_steps_to_an_epoch_also_a_fraction(text: str) -> None:
    optimiser = cuplug.optim.SGD([cuplug.ones(1, requires_grad=True)], 0.1)
    scheduler = eval(f"s.{text}", {"s": cuplug.optim.lr_scheduler, "o": optimiser})
    found = []
    for epoch in (0.5, 1.25, 3.9, 12.2, 0):
        scheduler.step(epoch)
        assert scheduler.last_epoch == epoch
        found.append(optimiser.param_groups[0]["lr"])
    assert found == pytest.approx(AT_EPOCHS[text], rel=1e-10)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", GOING_ON)
def test_a_training_that_goes_on_keeps_the_rate_that_it_had(text: str) -> None:
    optimiser = cuplug.optim.SGD([cuplug.ones(1, requires_grad=True)], 0.07)
    optimiser.param_groups[0]["initial_lr"] = 0.1
    scheduler = eval(f"s.{text}", {"s": cuplug.optim.lr_scheduler, "o": optimiser})
    found = scheduler.get_last_lr()
    for _ in range(3):
        scheduler.step()
        found = found + scheduler.get_last_lr()
    assert found == pytest.approx(GOING_ON[text], rel=1e-10)


def test_schedulers_made_of_others_take_no_epoch() -> None:
    s = cuplug.optim.lr_scheduler
    optimiser = cuplug.optim.SGD([cuplug.ones(1, requires_grad=True)], 0.1)
    first, second = s.ConstantLR(optimiser), s.ExponentialLR(optimiser, 0.9)
    for each in (s.ChainedScheduler([first, second]), s.SequentialLR(optimiser, [first, second], [3])):
        with pytest.raises(TypeError, match="positional argument"):
            each.step(1)


def test_schedulers_of_schedulers_begin_with_a_rate_that_is_a_tensor(running: str) -> None:
    s, rate = cuplug.optim.lr_scheduler, cuplug.tensor(0.5)
    optimiser = cuplug.optim.SGD([cuplug.nn.Parameter(cuplug.ones(2))], rate)
    inner = s.SequentialLR(optimiser, [s.ConstantLR(optimiser, 0.5, 2), s.ExponentialLR(optimiser, 0.9)], [2])
    s.SequentialLR(optimiser, [inner, s.StepLR(optimiser, 2)], [4])
    assert optimiser.param_groups[0]["lr"] is rate
    assert optimiser.param_groups[0]["initial_lr"].item() == 0.5
    assert rate.item() == 0.25  # as with a number, and in PyTorch


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("ChainedScheduler([StepLR(o, 2, 0.5), LinearLR(o, 0.5, 1, 2)])", [0.5, 1, 0.5, 0.75, 0.5, 0.5, 0.25]),
        ("SequentialLR(o, [StepLR(o, 2, 0.5), ConstantLR(o, 0.1, 9)], [3])", [0.5, 1, 1, 1, 0.1, 0.1, 0.1]),
        # These two set rates when they are made, or count steps of their own. The values are PyTorch's.
        ("CyclicLR(o, 0.1, 0.5, 2)", [0.5, 1, 0.1, 0.3, 0.5, 0.3, 0.1]),
        ("CosineAnnealingWarmRestarts(o, 4)", [0.5, 1, 1, 0.853553, 0.5, 0.146447, 1]),
    ],
)
def test_any_scheduler_may_take_a_later_turn(second: str, expected: list[float]) -> None:
    s = cuplug.optim.lr_scheduler
    o = cuplug.optim.SGD([cuplug.ones(1, requires_grad=True)], 1.0, momentum=0.9)
    schedule = s.SequentialLR(o, [s.LinearLR(o, 0.5, 1, 1), eval(second, {**vars(s), "o": o})], [2])
    found = []
    for _ in expected:
        found.append(o.param_groups[0]["lr"])
        o.step()
        schedule.step()
    assert found == pytest.approx(expected, abs=1e-6)


def test_warm_restarts_begin_where_another_scheduler_has_them_begin() -> None:
    s = cuplug.optim.lr_scheduler
    o = cuplug.optim.SGD([cuplug.ones(1, requires_grad=True)], 1.0)
    s.SequentialLR(o, [s.CosineAnnealingWarmRestarts(o, 4), s.StepLR(o, 2)], [4])
    assert o.param_groups[0]["lr"] == 1.0  # as in PyTorch; it was the rate of step 1


def test_the_rate_falls_when_a_measure_stays(running: str) -> None:
    optimiser = cuplug.optim.SGD([cuplug.ones(1, requires_grad=True)], 1.0)
    scheduler = cuplug.optim.lr_scheduler.ReduceLROnPlateau(optimiser, patience=1)
    found = []
    for measure in (3.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0):
        scheduler.step(measure)
        found.append(optimiser.param_groups[0]["lr"])
    assert found == pytest.approx([1, 1, 1, 0.1, 0.1, 0.1, 0.01])


def test_a_state_goes_on_where_it_was_saved(running: str) -> None:
    def steps(count: int, saved: Any = None) -> Any:
        x = cuplug.ones(2, dtype=cuplug.float64, requires_grad=True)
        optimiser = cuplug.optim.AdamW([x], 0.1)
        if saved is not None:
            x.data.copy_(saved[0])
            optimiser.load_state_dict(saved[1])
        for _ in range(count):
            optimiser.zero_grad()
            (x**2).sum().backward()
            optimiser.step()
        return x.detach().clone(), optimiser.state_dict()

    assert cuplug.equal(steps(2, steps(3))[0], steps(5)[0])


def test_what_is_no_leaf_or_in_two_groups_is_refused(running: str) -> None:
    x = cuplug.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="leaves"):
        cuplug.optim.SGD([x * 2], 0.1)
    with pytest.raises(ValueError, match="more than one parameter group"):
        cuplug.optim.SGD([{"params": [x]}, {"params": [x]}], 0.1)
    with pytest.raises(ValueError, match="no parameters"):
        cuplug.optim.SGD([], 0.1)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_parameter_that_a_group_names_twice_is_warned_of_and_changed_twice(name: str, device: str) -> None:
    x, once = (cuplug.ones(2, device=device, requires_grad=True) for _ in range(2))
    with pytest.warns(UserWarning, match="duplicate parameters") as found:
        twice = getattr(cuplug.optim, name)([x, x], lr=0.25)
    assert [each.filename for each in found] == [__file__]
    x.grad, once.grad = cuplug.ones(2, device=device), cuplug.ones(2, device=device)
    twice.step()
    single = getattr(cuplug.optim, name)([once], lr=0.25)
    single.step()
    single.step()
    assert cuplug.equal(x, once)


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group")
def test_a_parameter_that_is_named_twice_has_no_momentum_in_its_first_step(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    optimiser = cuplug.optim.SGD([x, x], 0.25, momentum=0.5, weight_decay=0.25)
    for expected in ([0.39453125, -0.08984375], [-0.48551941, -1.67393494]):  # as PyTorch's
        x.grad = cuplug.tensor([1.0, 2.0], device=device)
        optimiser.step()
        assert x.tolist() == pytest.approx(expected, abs=1e-6)


def test_a_rate_that_has_fallen_stays_while_the_scheduler_cools_down() -> None:
    optimiser = cuplug.optim.SGD([cuplug.ones(1, requires_grad=True)], 1.0)
    scheduler = cuplug.optim.lr_scheduler.ReduceLROnPlateau(optimiser, patience=0, cooldown=2)
    found = []
    for _ in range(8):
        scheduler.step(1.0)
        found.append(optimiser.param_groups[0]["lr"])
    assert found == pytest.approx([1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001])


def test_one_cycle_turns_at_its_steps() -> None:
    optimiser = cuplug.optim.SGD([cuplug.ones(1, requires_grad=True)], 1.0, momentum=0.9)
    scheduler = cuplug.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=1.0, total_steps=11, pct_start=3 / 11, anneal_strategy="linear"
    )
    found = [optimiser.param_groups[0]["lr"]]
    for _ in range(10):
        optimiser.step()
        scheduler.step()
        found.append(optimiser.param_groups[0]["lr"])
    low = 0.04 / 1e4
    expected = [0.04, 0.52, *(1 + (low - 1) * step / 8 for step in range(9))]
    assert found == pytest.approx(expected)
    scheduler.step()  # as in torch, a loop of all the steps may end with this
    with pytest.raises(ValueError, match="step 12 of 11"):
        scheduler.step()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam"])
def test_steps_that_gradients_would_go_through_are_left_out_and_say_so(name: str) -> None:
    made = getattr(cuplug.optim, name)
    weights = [cuplug.nn.Parameter(cuplug.ones(2))]
    with pytest.raises(ValueError, match="differentiable=True is not part of cuplug"):
        made(weights, differentiable=True)
    assert made(weights, foreach=True, differentiable=False).param_groups[0]["params"] == weights


SETTINGS = {
    "SGD": "dampening: 0, differentiable: False, foreach: None, fused: None, lr: 0.001, maximize: False, momentum: 0, "
    "nesterov: False, weight_decay: 0",
    "Adam": "amsgrad: False, betas: (0.9, 0.999), capturable: False, decoupled_weight_decay: False, "
    "differentiable: False, eps: 1e-08, foreach: None, fused: None, lr: 0.001, maximize: False, weight_decay: 0",
    "AdamW": "amsgrad: False, betas: (0.9, 0.999), capturable: False, decoupled_weight_decay: True, "
    "differentiable: False, eps: 1e-08, foreach: None, fused: None, lr: 0.001, maximize: False, weight_decay: 0.01",
    "RMSprop": "alpha: 0.99, capturable: False, centered: False, differentiable: False, eps: 1e-08, foreach: None, "
    "lr: 0.01, maximize: False, momentum: 0, weight_decay: 0",
    "Adagrad": "differentiable: False, eps: 1e-10, foreach: None, fused: None, initial_accumulator_value: 0, lr: 0.01, "
    "lr_decay: 0, maximize: False, weight_decay: 0",
    "Adadelta": "capturable: False, differentiable: False, eps: 1e-06, foreach: None, lr: 1.0, maximize: False, "
    "rho: 0.9, weight_decay: 0",
    "Adamax": "betas: (0.9, 0.999), capturable: False, differentiable: False, eps: 1e-08, foreach: None, lr: 0.002, "
    "maximize: False, weight_decay: 0",
    "NAdam": "betas: (0.9, 0.999), capturable: False, decoupled_weight_decay: False, differentiable: False, "
    "eps: 1e-08, foreach: None, lr: 0.002, maximize: False, momentum_decay: 0.004, weight_decay: 0",
    "RAdam": "betas: (0.9, 0.999), capturable: False, decoupled_weight_decay: False, differentiable: False, "
    "eps: 1e-08, foreach: None, lr: 0.001, maximize: False, weight_decay: 0",
}
"""What PyTorch 2.13 prints of each optimiser."""


@pytest.mark.parametrize("name", SETTINGS)
def test_groups_keep_and_print_the_settings_that_torch_has(name: str) -> None:
    printed = repr(getattr(cuplug.optim, name)([cuplug.ones(1, requires_grad=True)]))
    assert ", ".join(line.strip() for line in printed.splitlines()[2:-1]) == SETTINGS[name]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        *(
            (f"{name}(params, weight_decy=0.1)", TypeError, "unexpected keyword argument 'weight_decy'")
            for name in SETTINGS
        ),
        ("RMSprop(params, fused=True)", TypeError, "unexpected keyword argument 'fused'"),
        ("SGD(params, foreach=True, fused=True)", RuntimeError, "cannot be `True` together"),
        ("Adam(params, lr=cuplug.ones(2))", ValueError, "Tensor lr must be 1-element"),
        ("Adagrad(params, lr_decay=-0.5)", ValueError, "lr_decay is -0.5"),
        ("AdamW(params, betas=(0.9, 1.0))", ValueError, r"AdamW: betas are within \[0, 1\), not \(0.9, 1.0\)"),
        ("NAdam(params, betas=(-0.1, 0.9))", ValueError, "NAdam: betas are within"),
        ("SGD([('w', params[0]), cuplug.nn.Parameter(cuplug.ones(1))])", ValueError, "with/without names"),
        ("SGD([{'params': [('w', params[0])]}, {'params': [cuplug.ones(1)]}])", ValueError, "with/without names"),
    ],
)
def test_settings_that_torch_refuses_are_refused(text: str, error: type[Exception], message: str) -> None:
    names = {**vars(cuplug.optim), "cuplug": cuplug, "params": [cuplug.ones(1, requires_grad=True)]}
    with pytest.raises(error, match=message):
        eval(text, names)


def test_adam_takes_the_decay_apart_and_groups_keep_names() -> None:
    weights = [cuplug.nn.Parameter(cuplug.ones(3)) for _ in range(2)]
    made = (
        cuplug.optim.Adam([("first", weights[0])], 0.1, weight_decay=0.5, decoupled_weight_decay=True),
        cuplug.optim.AdamW([("first", weights[1])], 0.1, weight_decay=0.5),
    )
    for each, optimiser in zip(weights, made, strict=True):
        each.grad = cuplug.arange(3.0)
        optimiser.step()
    assert cuplug.equal(*weights)
    assert made[0].state_dict()["param_groups"][0]["param_names"] == ["first"]
    assert cuplug.optim.SGD(weights, 0.1).state_dict()["state"] == {}
    plain = cuplug.optim.SGD(weights, 0.1)
    plain.step()
    assert plain.state_dict()["state"] == {}


def test_an_optimiser_is_printed_as_torch_prints_it() -> None:
    first, second = (cuplug.ones(1, requires_grad=True) for _ in range(2))
    optimiser = cuplug.optim.SGD([{"params": [first], "lr": 0.5}, {"params": [second]}], 0.1, momentum=0.9)
    lines = repr(optimiser).splitlines()
    assert lines[0] == "SGD ("
    assert lines[-1] == ")"
    middle = lines.index("")
    assert [lines[1], lines[middle + 1]] == ["Parameter Group 0", "Parameter Group 1"]
    settings = lines[2:middle]
    assert settings == sorted(settings)
    assert {"    lr: 0.5", "    momentum: 0.9", "    nesterov: False"} <= set(settings)
    assert lines[middle + 2 : -1] == [each.replace("0.5", "0.1") for each in settings]


def test_an_optimiser_of_the_program_finds_a_state_for_each_parameter(device: str) -> None:
    class Momentum(cuplug.optim.Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        @cuplug.no_grad()
        def step(self) -> None:
            for group in self.param_groups:
                for each in group["params"]:
                    state = self.state[each]
                    if len(state) == 0:
                        state["total"] = cuplug.zeros_like(each)
                    each.sub_(state["total"].mul_(0.5).add_(each.grad), alpha=group["lr"])

    weight = cuplug.nn.Parameter(cuplug.ones(2, device=device))
    optimizer = Momentum([weight], 0.5)
    for _ in range(2):
        weight.grad = cuplug.ones(2, device=device)
        optimizer.step()
    assert weight.tolist() == [-0.25, -0.25]
    saved = copy.deepcopy(optimizer.state_dict())
    other = Momentum([weight], 1.0)
    other.load_state_dict(saved)
    assert other.state[weight]["total"].tolist() == [1.5, 1.5]
    plain = cuplug.optim.SGD([weight], 0.5, momentum=0.5)
    plain.step()
    again = pickle.loads(pickle.dumps(plain))
    assert len(again.state[again.param_groups[0]["params"][0]]) == 1


def test_an_optimiser_takes_the_named_groups_of_another() -> None:
    first, second = (cuplug.nn.Parameter(cuplug.ones(1)) for _ in range(2))
    optimizer = cuplug.optim.SGD([{"params": [("a", first)]}, {"params": [("b", second)], "lr": 0.5}], 0.1)
    other = cuplug.optim.Adam(optimizer.param_groups)
    assert [(group["param_names"], group["lr"]) for group in other.param_groups] == [(["a"], 0.1), (["b"], 0.5)]


def test_settings_of_a_programs_own_optimiser_may_mean_anything() -> None:
    """As Adafactor's, whose rate is None where it is worked out from the step, and whose eps is a pair."""
    settings = {"lr": None, "eps": (1e-30, 1e-3), "lr_decay": -1.0, "foreach": True, "fused": True}
    optimizer = cuplug.optim.Optimizer([cuplug.nn.Parameter(cuplug.ones(2))], settings)
    assert optimizer.defaults is settings
    assert {name: optimizer.param_groups[0][name] for name in settings} == settings
    with pytest.raises(ValueError, match="lr is -1"):
        cuplug.optim.LBFGS([cuplug.nn.Parameter(cuplug.ones(2))], -1)


def test_an_optimiser_whose_states_are_in_a_plain_dictionary_goes_on() -> None:
    """As one that was pickled before states were made where they are asked for."""
    weight = cuplug.nn.Parameter(cuplug.ones(2))
    optimizer = cuplug.optim.SGD([weight], 0.5, momentum=0.5)
    optimizer.state = {}  # type: ignore[assignment]
    weight.grad = cuplug.ones(2)
    optimizer.step()
    assert weight.tolist() == [0.5, 0.5]
    assert list(optimizer.state) == [weight]


@pytest.mark.parametrize("kind", ["SGD", "LBFGS"])
def test_hooks_stand_before_and_after_a_step(kind: str) -> None:
    weight, other = (cuplug.nn.Parameter(cuplug.ones(2)) for _ in range(2))
    weight.grad = other.grad = cuplug.ones(2)
    optimizer, plain = (getattr(cuplug.optim, kind)([each], 1.0) for each in (weight, other))
    said: list[Any] = []

    def loss() -> Any:
        return (weight.grad * weight).sum()

    first = optimizer.register_step_pre_hook(lambda *given: said.append(("before", given, weight.tolist())))
    optimizer.register_step_pre_hook(lambda _, args, kwargs: (args, {**kwargs, "closure": loss}))
    last = optimizer.register_step_post_hook(lambda *given: said.append(("after", given)))
    assert float(optimizer.step()) == 2
    assert said == [
        ("before", (optimizer, (optimizer,), {}), [1, 1]),
        ("after", (optimizer, (optimizer,), {"closure": loss})),
    ]
    first.remove()
    last.remove()
    optimizer.step()
    plain.step(loss)
    assert len(said) == 2
    optimizer.register_step_pre_hook(lambda *_: 3)
    with pytest.raises(cuplug.CuplugError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3"):
        optimizer.step()


def test_copies_and_pickles_of_an_optimiser_have_no_hooks() -> None:
    weight = cuplug.nn.Parameter(cuplug.ones(2))
    optimizer = cuplug.optim.SGD([weight], 0.5, momentum=0.9)
    weight.grad = cuplug.ones(2)
    said: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: said.append("before"))
    optimizer.register_step_post_hook(lambda *_: said.append("after"))
    optimizer.step()
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (parameter,) = other.param_groups[0]["params"]
        parameter.grad = cuplug.ones(2)
        other.step()
        assert said == ["before", "after"]
        assert other.state[parameter]["momentum_buffer"].tolist() == pytest.approx([1.9, 1.9])
        assert other.param_groups[0]["momentum"] == 0.9
        handle = other.register_step_pre_hook(lambda *_: said.append("other"))
        other.step()
        handle.remove()
        assert said.pop() == "other"


def test_an_optimiser_of_the_program_adds_settings_to_what_it_takes_over() -> None:
    class Mine(cuplug.optim.SGD):
        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("factor", 7)

    mine = Mine([cuplug.ones(2, requires_grad=True)], 0.1)
    assert "factor" not in mine.param_groups[0]
    assert copy.deepcopy(mine).param_groups[0]["factor"] == 7
    mine.load_state_dict(mine.state_dict())
    assert mine.param_groups[0]["factor"] == 7


def test_loaded_groups_have_the_settings_that_were_saved_and_no_others() -> None:
    class Mine(cuplug.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1, "late": 1})

        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("late", "missing")

    mine = Mine([cuplug.ones(2, requires_grad=True)])
    mine.param_groups[0]["initial_lr"] = 3
    old = {"state": {"all": 5}, "param_groups": [{"lr": [0.5], "params": [0]}]}
    mine.load_state_dict(old)
    (group,) = mine.param_groups
    assert group["late"] == "missing"
    assert "initial_lr" not in group
    group["lr"].append(1)
    assert old["param_groups"][0]["lr"] == [0.5]
    assert mine.state["all"] == 5
    mine.state["each"] = {"seen": 2}
    assert mine.state_dict()["state"] == {"all": 5, "each": {"seen": 2}}


def test_settings_that_old_files_lack_mean_what_they_meant() -> None:
    x = cuplug.ones(2, requires_grad=True)
    adam = cuplug.optim.Adam([x], 0.1, amsgrad=True, maximize=True)
    group = {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "params": [0]}
    adam.load_state_dict({"state": {}, "param_groups": [group]})
    (found,) = adam.param_groups
    assert found["amsgrad"] is found["maximize"] is False
    assert found["foreach"] is None
    x.grad = cuplug.ones(2)
    adam.step()
    assert x.tolist() == pytest.approx([0.9, 0.9])


def test_tensors_within_what_was_remembered_are_copied() -> None:
    x = cuplug.ones(2, requires_grad=True)
    optimiser = cuplug.optim.LBFGS([x], max_iter=3)

    def closure() -> Any:
        optimiser.zero_grad()
        loss = (x**4).sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    other = cuplug.optim.LBFGS([x], max_iter=3)
    saved = optimiser.state_dict()
    other.load_state_dict(saved)
    mine, theirs = other.state[x]["old_dirs"], saved["state"][0]["old_dirs"]
    assert [each.tolist() for each in mine] == [each.tolist() for each in theirs]
    assert mine[0] is not theirs[0]
