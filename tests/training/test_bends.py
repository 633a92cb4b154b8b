"""Gradients at the places where a function bends or has no finite slope, and of what is written over. The numbers are
PyTorch 2.6's."""

from __future__ import annotations

import math

import cuplug
import cuplug.nn.functional as F
import pytest


def gradient_of(function, values: list[float], device: str) -> tuple[list[float], list[float]]:
    x = cuplug.tensor(values, device=device, requires_grad=True)
    made = function(x)
    made.backward(cuplug.ones_like(made))
    return made.tolist(), x.grad.tolist()


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(
    ("function", "low", "high"), [(F.relu6, 0.0, 6.0), (F.hardtanh, -1.0, 1.0)], ids=["relu6", "hardtanh"]
)
def test_limits_pass_no_gradient(function, low: float, high: float, inplace: bool, device: str):
    values = [low - 1, low, (low + high) / 2, high, high + 1, math.nan]
    made, found = gradient_of(lambda x: function(x * 1, inplace=inplace), values, device)
    assert made[:5] == [low, low, (low + high) / 2, high, high]
    assert math.isnan(made[5])
    assert found == [0, 0, 1, 0, 0, 1]


def test_logits_of_zero_have_the_slope_between_both_sides(device: str):
    assert gradient_of(F.logsigmoid, [0.0], device)[1] == [0.5]
    for target, slope in ((0.0, 0.5), (1.0, -0.5)):
        aim = cuplug.tensor([target], device=device)
        found = gradient_of(lambda x, aim=aim: F.binary_cross_entropy_with_logits(x, aim), [0.0], device)[1]
        assert found == [slope]
    assert gradient_of(F.logsigmoid, [math.inf, -math.inf, 200.0, -200.0], device) == (
        [0, -math.inf, 0, -200],
        [0, 1, 0, 1],
    )


def test_certain_probabilities_have_finite_gradients(device: str):
    target = cuplug.tensor([0.0, 0.0, 1.0, 1.0], device=device)
    made, found = gradient_of(
        lambda x: F.binary_cross_entropy(x, target, reduction="none"), [0.0, 1.0, 0.0, 1.0], device
    )
    assert made == [0, 100, 100, 0]
    assert found == pytest.approx([0, 1e12, -1e12, 0])
    x = cuplug.tensor([120.0, -120.0, 0.0], device=device, requires_grad=True)
    F.binary_cross_entropy(x.sigmoid(), cuplug.tensor([0.0, 1.0, 1.0], device=device)).backward()
    assert x.grad.tolist() == pytest.approx([0, 0, -1 / 6], abs=1e-6)


def test_cross_entropies_differentiate_twice_and_by_the_target(device: str):
    x = cuplug.tensor([0.2, 0.7], dtype=cuplug.float64, device=device, requires_grad=True)
    target = cuplug.tensor([0.3, 0.9], dtype=cuplug.float64, device=device, requires_grad=True)
    assert cuplug.autograd.gradcheck(F.binary_cross_entropy, (x, target))
    assert cuplug.autograd.gradgradcheck(F.binary_cross_entropy, (x, target))


@pytest.mark.parametrize("name", ["celu", "elu", "hardswish", "mish", "selu", "silu"])
def test_an_activation_that_is_written_over_what_it_was_computed_of_has_its_gradient(name: str, device: str):
    function, more = getattr(F, name), {"alpha": 0.5} if name == "celu" else {}
    values = [-4.0, -1.0, -0.25, 0.5, 2.0, 5.0]
    apart = gradient_of(lambda x: function(x * 1, **more), values, device)
    over = gradient_of(lambda x: function(x * 1, inplace=True, **more), values, device)
    assert over == apart


@pytest.mark.parametrize("shape", [(1,), (), (2,), (4, 1, 2)])
def test_a_bias_of_a_layer_broadcasts_and_its_gradient_has_its_shape(shape: tuple[int, ...], device: str):
    x, weight = cuplug.ones(4, 5, 3, device=device), cuplug.ones(2, 3, device=device, requires_grad=True)
    bias = cuplug.ones(shape, device=device, requires_grad=True)
    made = F.linear(x, weight, bias)
    assert (made == 4).all()
    made.sum().backward()
    assert bias.grad.shape == bias.shape
    assert (bias.grad == 40 // bias.numel()).all()
    assert (weight.grad == 20).all()


def test_a_layer_without_features_gives_its_bias(device: str):
    weight, bias = (cuplug.ones(shape, device=device, requires_grad=True) for shape in ((2, 0), (2,)))
    made = F.linear(cuplug.ones(4, 5, 0, device=device), weight, bias)
    assert made.shape == (4, 5, 2)
    assert (made == 1).all()
    made.sum().backward()
    assert weight.grad.shape == (2, 0)
    assert bias.grad.tolist() == [20, 20]
