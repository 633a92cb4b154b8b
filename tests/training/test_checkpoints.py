"""Checkpoints: what is computed a second time instead of being kept gives the same gradients."""

from __future__ import annotations

from typing import Any

import cuplug
import pytest
from cuplug import nn
from cuplug.utils.checkpoint import checkpoint, checkpoint_sequential


def net() -> Any:
    cuplug.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Dropout(0.5), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 1))


@pytest.mark.parametrize("mixed", [False, True])
def test_checkpoint_gives_the_same_gradients_with_the_same_random_numbers(device: str, mixed: bool) -> None:
    plain, saving = net().to(device), net().to(device)
    x = cuplug.randn(5, 8, device=device)
    for one in (plain, saving):
        cuplug.manual_seed(7)
        with cuplug.autocast(device, cuplug.bfloat16, enabled=mixed):
            made = checkpoint(one, x) if one is saving else one(x)  # no argument requires gradients
        made.sum().backward()
    for a, b in zip(plain.parameters(), saving.parameters(), strict=True):
        assert cuplug.equal(a.grad, b.grad)


def test_checkpoint_keeps_less(running: str) -> None:
    held = []
    for saves in (False, True):
        model, x = net().cuda(), cuplug.randn(512, 8).cuda()
        before = cuplug.cuda.memory_allocated()
        made = checkpoint_sequential(model, 2, x) if saves else model(x)
        held.append(cuplug.cuda.memory_allocated() - before)
        made.sum().backward()
        del made, x, model
    assert held[1] < held[0] - 512 * 64 * 4


def test_checkpoint_passes_gradients_to_arguments_and_through_grad(device: str) -> None:
    x = cuplug.rand(3, device=device, requires_grad=True)
    (found,) = cuplug.autograd.grad(checkpoint(lambda a, factor: (a.exp() * factor).sin(), x, factor=2.0).sum(), x)
    (expected,) = cuplug.autograd.grad((x.exp() * 2.0).sin().sum(), x)
    assert cuplug.equal(found, expected)


def test_what_computes_something_else_the_second_time_is_an_error(device: str) -> None:
    x, times = cuplug.rand(3, device=device, requires_grad=True), []

    def changing(a: Any) -> Any:
        times.append(1)
        return a.exp().sin() if len(times) == 1 else a.exp()

    with pytest.raises(cuplug.CuplugError, match=r"kept 2 tensors .* and 1 when it ran again"):
        checkpoint(changing, x).sum().backward()
    assert not cuplug.autograd.grad(x.exp().sum(), x)[0].requires_grad


def test_a_checkpoint_may_leave_the_check_of_shapes_out() -> None:
    calls = []

    def other(x: Any) -> Any:
        calls.append(x)
        return x.exp() if len(calls) == 1 else x.repeat(2).exp()

    x = cuplug.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="kept a tensor of shape"):
        checkpoint(other, x, determinism_check="default").sum().backward()
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(other, x, determinism_check="all")
    calls.clear()
    one = cuplug.ones(1, requires_grad=True)
    checkpoint(other, one, determinism_check="none").sum().backward()
    assert one.grad.shape == (1,)
