"""Whole networks: they learn, they load PyTorch's states by the same names, and they learn in mixed precision."""

from __future__ import annotations

import math
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.tools.benchmarks.networks import gpt2, resnet18


def outcome(torch: Any, net: Any, x: Any, target: Any) -> dict[str, Any]:
    logits = net(x)
    torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1)).backward()
    found = {"logits": logits, **{name: each.grad for name, each in net.named_parameters()}}
    return {name: each.detach().cpu().numpy() for name, each in found.items()}


def compare(theirs: Any, ours: Any, x: Any, target: Any, device: str) -> None:
    import torch

    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({name: each.numpy() for name, each in theirs.state_dict().items()})
    ours.to(device)
    given = torch.tensor(x), torch.tensor(target), cuplug.tensor(x, device=device), cuplug.tensor(target, device=device)
    single = [outcome(torch, theirs, *given[:2]), outcome(cuplug, ours, *given[2:])]
    np.testing.assert_allclose(single[1]["logits"], single[0]["logits"], rtol=1e-4, atol=1e-4)
    # In single precision a rectifier may decide otherwise; what is compared to many digits is computed to many.
    theirs.double().zero_grad()
    ours.double().zero_grad()
    wide = [each.double() if each.is_floating_point() else each for each in given]
    expected, found = outcome(torch, theirs, *wide[:2]), outcome(cuplug, ours, *wide[2:])
    for name, each in expected.items():
        np.testing.assert_allclose(found[name], each, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.needs_torch
def test_a_resnet_18_loads_pytorchs_state_and_gives_its_logits_and_gradients(device: str) -> None:
    import torch

    torch.manual_seed(0)
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 3, 64, 64)).astype(np.float32)
    compare(resnet18(torch.nn, 8, 10), resnet18(cuplug.nn, 8, 10), x, random.integers(0, 10, 4), device)


@pytest.mark.needs_torch
def test_a_gpt_2_loads_pytorchs_state_and_gives_its_logits_and_gradients(device: str) -> None:
    import torch

    torch.manual_seed(0)
    words = np.random.default_rng(0).integers(0, 50, (3, 13))
    compare(gpt2(torch), gpt2(cuplug), words[:, :-1].copy(), words[:, 1:].copy(), device)


def digits() -> tuple[Any, Any]:
    found = pytest.importorskip("sklearn.datasets").load_digits()
    return found.images.astype(np.float32)[:, None] / 16, found.target.astype(np.int64)


@pytest.mark.parametrize(("device", "mixed"), [("cpu", False), ("cuda", True)], indirect=["device"])
def test_a_small_network_learns_digits(device: str, mixed: bool) -> None:
    images, classes = digits()
    mixed_up = np.random.default_rng(0).permutation(len(classes))
    images, classes = images[mixed_up], classes[mixed_up]
    torch, nn = cuplug, cuplug.nn
    torch.manual_seed(0)
    x, y = torch.tensor(images, device=device), torch.tensor(classes, device=device)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)
    ).to(device)
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.02)
    scaler = torch.amp.GradScaler(enabled=mixed)
    order = torch.randperm(1500, generator=torch.Generator().manual_seed(1)).tolist()
    for start in range(0, 1500 * 6, 125):
        chosen = torch.tensor([order[each % 1500] for each in range(start, start + 125)], device=device)
        optimiser.zero_grad()
        with torch.amp.autocast(device, enabled=mixed):
            loss = nn.functional.cross_entropy(net(x[chosen]), y[chosen])
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
    net.eval()
    with torch.no_grad():
        right = (net(x[1500:]).argmax(1) == y[1500:]).float().mean()
    assert float(right) >= 0.97
    assert math.isfinite(float(loss.detach()))


def test_autocast_computes_layers_in_a_half_type_and_losses_in_float32(device: str) -> None:
    layer = cuplug.nn.Linear(4, 3).to(device)
    x = cuplug.ones(2, 4, device=device)
    with cuplug.amp.autocast(device, cuplug.bfloat16):
        made = layer(x)
        assert made.dtype is cuplug.bfloat16
        assert cuplug.nn.functional.softmax(made, 1).dtype is cuplug.float32
        with cuplug.amp.autocast(device, enabled=False):
            assert layer(x).dtype is cuplug.float32
    assert layer(x).dtype is cuplug.float32
    made.float().sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype is cuplug.float32


def test_a_step_that_overflows_is_left_out_and_the_scale_falls(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    optimiser = cuplug.optim.SGD([x], 1.0)
    scaler = cuplug.amp.GradScaler(init_scale=8.0, growth_interval=1)
    scaler.scale((x * float("inf")).sum()).backward()
    scaler.step(optimiser)
    scaler.update()
    assert x.tolist() == [1.0, 1.0]
    assert scaler.get_scale() == 4.0
    optimiser.zero_grad()
    scaler.scale((x * 0.5).sum()).backward()
    assert x.grad.tolist() == [2.0, 2.0]
    scaler.step(optimiser)
    scaler.update()
    assert x.tolist() == [0.5, 0.5]
    assert scaler.get_scale() == 8.0


def test_the_loop_of_mixed_precision_in_old_programs_runs(running: str) -> None:
    from cuplug.cuda.amp import GradScaler, autocast

    model, scaler = cuplug.nn.Linear(2, 1).cuda(), GradScaler()
    optimizer = cuplug.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        with autocast():
            loss = cuplug.nn.functional.mse_loss(model(cuplug.ones(4, 2).cuda()), cuplug.ones(4, 1).cuda())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    assert cuplug.cuda.amp.autocast is autocast


def test_a_scale_that_fell_to_zero_leaves_steps_out_for_ever(device: str) -> None:
    layer = cuplug.nn.Linear(2, 1).to(device)
    optimiser = cuplug.optim.SGD(layer.parameters(), 0.1)
    scaler = cuplug.amp.GradScaler(device, init_scale=2.0**-1073)
    before = layer.weight.detach().clone()
    for _ in range(4):
        optimiser.zero_grad()
        scaler.scale(layer(cuplug.ones(1, 2, device=device)).sum() * float("inf")).backward()
        scaler.step(optimiser)
        scaler.update()
    assert scaler.get_scale() == 0
    assert cuplug.equal(layer.weight.detach(), before)


def test_a_step_without_gradients_is_refused(device: str) -> None:
    optimiser = cuplug.optim.SGD(cuplug.nn.Linear(2, 1).to(device).parameters(), 0.1)
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        cuplug.amp.GradScaler(device).step(optimiser)
