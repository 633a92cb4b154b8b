"""``autocast``: which operation runs in which type, with and without networks, and the weights that it keeps."""

from __future__ import annotations

from typing import Any

import cuplug
import pytest
from cuplug.runtime.nn import casting

FAST = ["x @ y", "torch.mm(x, y)", "torch.matmul(x, y)", "torch.addmm(z, x, y)", "torch.einsum('ij,jk->ik', x, y)"]
FULL = [
    *("h.exp()", "h.log()", "h.pow(2)", "2 ** h", "1 / h", "h.rsqrt()", "h.sum()", "h.prod()", "h.cumsum(0)"),
    *("h.norm()", "torch.softmax(h, 0)", "h.tan()", "h.log_softmax(0)", "torch.logsumexp(h, 0)"),
]
SAME = ["h + h", "h * x", "h.mean()", "h.tanh()", "h.sum(dtype=torch.float64)", "h.relu()", "h.max()"]
"""What runs in the type that it would run in without ``autocast``."""


def values(torch: Any, device: str) -> dict[str, Any]:
    x, y, z = (torch.rand(3, 3, device=device) + 0.5 for _ in range(3))
    return {"torch": torch, "x": x, "y": y, "z": z, "h": (torch.rand(3, 3, device=device) + 0.5).bfloat16()}


@pytest.mark.parametrize("expression", FAST + FULL + SAME)
def test_operations_of_tensors_run_in_the_type_of_torchs_lists_for_cuda(expression: str, running: str) -> None:
    given = values(cuplug, "cuda")
    plain = eval(expression, given).dtype
    wanted = cuplug.bfloat16 if expression in FAST else cuplug.float32 if expression in FULL else plain
    with cuplug.autocast("cuda", cuplug.bfloat16):
        assert eval(expression, given).dtype is wanted
        with cuplug.autocast("cuda", enabled=False):
            assert eval(expression, given).dtype is plain
    assert eval(expression, given).dtype is plain


@pytest.mark.needs_torch
@pytest.mark.parametrize("expression", FAST + FULL + SAME)
def test_the_types_on_the_cpu_are_pytorchs(expression: str, running: str) -> None:
    import torch

    with torch.autocast("cpu", torch.bfloat16), cuplug.autocast("cpu", cuplug.bfloat16):
        expected = eval(expression, values(torch, "cpu")).dtype
        found = eval(expression, values(cuplug, "cpu")).dtype
    assert repr(found).rpartition(".")[2] == repr(expected).rpartition(".")[2]


def test_what_is_written_in_place_and_doubles_keep_their_types(device: str) -> None:
    half, double = cuplug.ones(2, dtype=cuplug.bfloat16, device=device), cuplug.ones(2, 2, device=device).double()
    with cuplug.autocast(device, cuplug.bfloat16):
        assert half.exp_().dtype is cuplug.bfloat16
        assert (double @ double).dtype is cuplug.float64


def test_gradients_come_back_in_the_type_of_the_weights(device: str) -> None:
    weight = cuplug.rand(3, 3, device=device, requires_grad=True)
    x = cuplug.rand(2, 3, device=device)
    with cuplug.autocast(device, cuplug.bfloat16):
        made = (x @ weight).exp().sum()
        assert made.dtype is cuplug.float32 or device == "cpu"
        made.backward()  # within the context too, a pass runs in the types of its operations
    assert weight.grad.dtype is cuplug.float32
    expected = cuplug.autograd.grad((x @ weight).exp().sum(), weight)[0]
    assert cuplug.allclose(weight.grad, expected, rtol=0.05, atol=0.05)


LAYERS = {"linear": ("Linear(3, 3, bias=False)", (2, 3)), "filters": ("Conv2d(3, 3, 1, bias=False)", (2, 3, 2, 2))}


def conversions(kind: str, device: str, monkeypatch: pytest.MonkeyPatch, cached: bool, change: bool = False) -> int:
    """How often a weight is converted that is used three times within one context."""
    text, shape = LAYERS[kind]
    layer, x = eval(text, vars(cuplug.nn)).to(device), cuplug.ones(*shape, device=device)
    seen = []
    copied_to = casting.copied_to
    monkeypatch.setattr(casting, "copied_to", lambda tensor, *args: seen.append(tensor) or copied_to(tensor, *args))
    with cuplug.autocast(device, cuplug.bfloat16, cache_enabled=cached):
        for _ in range(3):
            layer(x)
            if change:
                with cuplug.no_grad():
                    layer.weight.add_(1.0)
    return sum(each._storage is layer.weight._storage for each in seen)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_weight_is_converted_once_in_a_context(kind: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert conversions(kind, device, monkeypatch, cached=True) == 1


@pytest.mark.parametrize("kind", LAYERS)
def test_a_weight_that_was_changed_is_converted_again(kind: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert conversions(kind, device, monkeypatch, cached=True, change=True) == 3


@pytest.mark.parametrize("kind", LAYERS)
def test_without_the_cache_it_is_converted_each_time(kind: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert conversions(kind, device, monkeypatch, cached=False) == 3


def test_filters_that_were_converted_have_gradients_and_gradients_of_gradients(device: str) -> None:
    x, weight = (cuplug.rand(2, 3, 5, 5, device=device, requires_grad=True) for _ in range(2))

    def gradients(fast: bool) -> list[Any]:
        with cuplug.autocast(device, cuplug.bfloat16, enabled=fast):
            made = cuplug.nn.functional.conv2d(x, weight, padding=2).float().pow(2).mean()
        first = cuplug.autograd.grad(made, (x, weight), create_graph=True)
        return [*first, *cuplug.autograd.grad(sum(each.pow(2).sum() for each in first), (x, weight))]

    for found, expected in zip(gradients(fast=True), gradients(fast=False), strict=True):
        assert found.dtype is cuplug.float32
        assert (found - expected).abs().max() < 0.05 * expected.abs().max()


def test_a_weight_converted_without_gradients_is_not_used_with_them(device: str) -> None:
    layer, x = cuplug.nn.Linear(3, 3).to(device), cuplug.ones(2, 3, device=device)
    with cuplug.autocast(device, cuplug.bfloat16):
        with cuplug.no_grad():
            layer(x)
        layer(x).float().sum().backward()
    assert layer.weight.grad is not None


def test_some_operations_take_the_wider_type(device: str) -> None:
    half, single = cuplug.full((3,), 1.25, dtype=cuplug.bfloat16, device=device), cuplug.ones(3, device=device)
    with cuplug.autocast(device, cuplug.bfloat16):
        assert cuplug.dot(half, single).dtype is cuplug.dot(single, single).dtype is cuplug.float32
        assert half.dot(half).dtype is cuplug.bfloat16
        index = cuplug.tensor([2, 0, 0], device=device)
        assert cuplug.scatter_add(half, 0, index, single).tolist() == [3.25, 1.25, 2.25]
        assert single.index_put((index[:1],), half[:1]).tolist() == [1, 1, 1.25]
        tracked = half.clone().requires_grad_()
        tracked.dot(single).backward()
    assert tracked.grad.tolist() == [1, 1, 1]
    assert tracked.grad.dtype is cuplug.bfloat16


def test_logsumexp_computes_in_float32_from_its_first_step(running: str) -> None:
    x = (cuplug.rand(9, device="cuda") * 9).bfloat16()
    with cuplug.autocast("cuda", cuplug.bfloat16):
        assert cuplug.logsumexp(x, 0).item() == cuplug.logsumexp(x.float(), 0).item()


def test_what_autocast_does_can_be_asked(device: str) -> None:
    kind = cuplug.device(device).type
    usual = cuplug.float16 if kind == "cuda" else cuplug.bfloat16
    other = cuplug.bfloat16 if kind == "cuda" else cuplug.float16
    assert not cuplug.is_autocast_enabled(kind)
    assert cuplug.get_autocast_dtype(kind) is usual
    with cuplug.autocast(kind, other):
        assert cuplug.is_autocast_enabled(kind)
        assert cuplug.get_autocast_dtype(kind) is other
        with cuplug.autocast(kind, enabled=False):
            assert not cuplug.is_autocast_enabled(kind)
    with pytest.raises(ValueError, match="'cuda' or 'cpu'"):
        cuplug.is_autocast_enabled("tpu")


def test_own_functions_run_in_the_types_that_they_ask_for(device: str) -> None:
    kind = cuplug.device(device).type
    seen: list[Any] = []

    class Converted(cuplug.autograd.Function):
        @staticmethod
        @cuplug.amp.custom_fwd(device_type=kind, cast_inputs=cuplug.float32)
        def forward(ctx: Any, x: Any, others: Any) -> Any:
            seen.append((x.dtype, others[0]["y"].dtype, cuplug.is_autocast_enabled(kind)))
            ctx.save_for_backward(others[0]["y"])
            return x @ others[0]["y"]

        @staticmethod
        @cuplug.amp.custom_bwd(device_type=kind)
        def backward(ctx: Any, gradient: Any) -> Any:
            seen.append(cuplug.is_autocast_enabled(kind))
            return gradient @ ctx.saved_tensors[0].t(), None

    class AsItComes(cuplug.autograd.Function):
        @staticmethod
        @cuplug.amp.custom_fwd(device_type=kind)
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        @cuplug.amp.custom_bwd(device_type=kind)
        def backward(ctx: Any, gradient: Any) -> Any:
            seen.append((cuplug.is_autocast_enabled(kind), cuplug.get_autocast_dtype(kind)))
            return gradient * 2

    half = cuplug.bfloat16
    x = cuplug.ones(2, 2, dtype=half, device=device, requires_grad=True)
    y = cuplug.ones(2, 2, dtype=half, device=device)
    with cuplug.autocast(kind, half):
        made = Converted.apply(x, ({"y": y},))
    assert made.dtype is cuplug.float32
    made.sum().backward()
    assert seen == [(cuplug.float32, cuplug.float32, False), False]
    assert Converted.apply(x, ({"y": y},)).dtype is half
    seen.clear()
    with cuplug.autocast(kind, half):
        made = AsItComes.apply(x)
    made.sum().backward()
    AsItComes.apply(x).sum().backward()
    assert [enabled for enabled, _ in seen] == [True, False]
    assert seen[0][1] is half


def test_a_loss_of_probabilities_is_refused_under_autocast_as_torch_refuses_it(device: str) -> None:
    inside = cuplug.full((2,), 0.5, device=device)
    with cuplug.autocast(device, dtype=cuplug.bfloat16):
        if device == "cpu":
            assert float(cuplug.nn.BCELoss()(inside, inside)) == pytest.approx(0.6931, abs=1e-3)
            return
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            cuplug.nn.BCELoss()(inside, inside)


def test_a_type_that_is_no_half_type_is_told_and_changes_nothing(device: str) -> None:
    x = cuplug.rand(3, 3, device=device)
    with pytest.warns(UserWarning, match="float16 or bfloat16"):
        context = cuplug.autocast(x.device.type, cuplug.float32)
    with context:
        assert not cuplug.is_autocast_enabled(x.device.type)
        assert (x @ x).dtype is cuplug.float32
