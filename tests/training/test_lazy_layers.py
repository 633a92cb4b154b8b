"""Layers that take the number of features or channels from their first input."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import cuplug
import pytest

CASES = {
    "Linear": ((5,), (3, 4), "in_features"),
    "Conv1d": ((5, 3), (2, 4, 7), "in_channels"),
    "Conv2d": ((6, 3), (4, 7, 7), "in_channels"),
    "Conv3d": ((5, 2), (2, 4, 3, 3, 3), "in_channels"),
    "ConvTranspose2d": ((5, 3), (2, 4, 3, 3), "in_channels"),
    "BatchNorm1d": ((), (3, 4), "num_features"),
    "BatchNorm2d": ((), (2, 4, 3, 3), "num_features"),
    "InstanceNorm2d": ((), (2, 4, 3, 3), "num_features"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_lazy_layer_becomes_the_one_that_its_first_input_asks_for(name: str, device: str) -> None:
    arguments, shape, counted = CASES[name]
    x = cuplug.randn(*shape, device=device)
    lazy = getattr(cuplug.nn, f"Lazy{name}")(*arguments)
    assert repr(lazy).startswith(f"Lazy{name}(")
    parameters = list(lazy.to(device).parameters())
    cuplug.manual_seed(1)
    made = lazy(x)
    cuplug.manual_seed(1)
    usual = getattr(cuplug.nn, name)(4, *arguments).to(device)
    assert type(lazy) is type(usual)
    assert repr(lazy) == repr(usual)
    assert getattr(lazy, counted) == 4
    assert [id(each) for each in lazy.parameters()] == [id(each) for each in parameters]
    assert cuplug.equal(made, usual(x))
    assert list(lazy.state_dict()) == list(usual.state_dict())
    assert not lazy._forward_pre_hooks


def test_an_optimiser_made_before_trains_lazy_layers_and_copies_learn_by_themselves() -> None:
    net = cuplug.nn.Sequential(cuplug.nn.LazyLinear(4), cuplug.nn.ReLU(), cuplug.nn.LazyLinear(1))
    other = copy.deepcopy(net)
    optimizer = cuplug.optim.SGD(net.parameters(), lr=0.1)
    net(cuplug.ones(2, 3)).sum().backward()
    before = net[2].bias.item()
    optimizer.step()
    assert net[2].bias.item() == pytest.approx(before - 0.2)
    assert pickle.loads(pickle.dumps(other))(cuplug.ones(2, 5)).shape == (2, 1)
    assert other(cuplug.ones(2, 7)).shape == (2, 1)
    assert other[0].weight.shape == (4, 7)


def test_a_hook_of_the_program_stays_and_no_random_numbers_are_drawn_before() -> None:
    seen: list[Any] = []
    cuplug.manual_seed(3)
    lazy = cuplug.nn.LazyLinear(2)
    assert cuplug.equal(cuplug.rand(2), cuplug.rand(2, generator=cuplug.Generator().manual_seed(3)))
    lazy.register_forward_pre_hook(lambda module, args: seen.append(tuple(module.weight.shape)))
    lazy(cuplug.ones(1, 3))
    lazy(cuplug.ones(1, 3))
    assert seen == [(2, 3), (2, 3)]


@pytest.mark.parametrize("name", CASES)
def test_a_lazy_layer_becomes_the_one_whose_state_it_loads(name: str) -> None:
    arguments, shape, _ = CASES[name]
    usual = getattr(cuplug.nn, name)(4, *arguments)
    lazy = getattr(cuplug.nn, f"Lazy{name}")(*arguments)
    lazy.load_state_dict(usual.state_dict())
    x = cuplug.randn(*shape)
    assert cuplug.equal(lazy.eval()(x), usual.eval()(x))


@pytest.mark.parametrize("name", CASES)
def test_a_lazy_layer_that_loads_the_state_of_another_lazy_one_stays_lazy(name: str) -> None:
    arguments, shape, counted = CASES[name]
    lazy, other = (getattr(cuplug.nn, f"Lazy{name}")(*arguments) for _ in range(2))
    lazy.load_state_dict(other.state_dict())
    assert type(lazy) is type(other)
    lazy(cuplug.randn(*shape))
    assert getattr(lazy, counted) == 4


@pytest.mark.parametrize("name", CASES)
def test_a_lazy_layer_learns_from_a_named_input_too_and_from_a_file(name: str) -> None:
    arguments, shape, counted = CASES[name]
    file = io.BytesIO()
    cuplug.save(getattr(cuplug.nn, f"Lazy{name}")(*arguments), file)
    file.seek(0)
    lazy = cuplug.load(file, weights_only=False)
    lazy(input=cuplug.randn(*shape))
    assert getattr(lazy, counted) == 4
    assert not lazy._forward_pre_hooks
    assert not lazy._forward_pre_hooks_with_kwargs


def test_a_lazy_transposed_convolution_takes_the_size_of_its_output_with_its_first_input() -> None:
    lazy = cuplug.nn.LazyConvTranspose2d(5, 3, stride=2)
    assert lazy(cuplug.randn(2, 4, 3, 3), [8, 8]).shape == (2, 5, 8, 8)


@pytest.mark.parametrize(("name", "shape"), [("Conv2d", (3,)), ("Conv2d", (1, 2, 4, 5, 5)), ("BatchNorm2d", (4,))])
def test_an_input_that_a_lazy_layer_cannot_take_is_told_as_of_the_usual_one_and_teaches_nothing(
    name: str, shape: tuple[int, ...]
) -> None:
    arguments, good, counted = CASES[name]
    lazy = getattr(cuplug.nn, f"Lazy{name}")(*arguments)
    with pytest.raises(ValueError, match=r"[Ee]xpected \d"):
        lazy(cuplug.randn(*shape))
    with pytest.raises(TypeError, match="must be Tensor, not str"):
        lazy("image")
    lazy(cuplug.randn(*good))
    assert getattr(lazy, counted) == 4
