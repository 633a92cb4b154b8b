"""A gradient is made the type of what it is the gradient of, wherever the program gives one in another type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuplug
import pytest
from cuplug import nn
from cuplug.nn import functional as F

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "instance_norm": F.instance_norm,
    "rms_norm": lambda x: F.rms_norm(x, (6,)),
    "softmax": lambda x: x.softmax(-1),
    "linear": lambda x: F.linear(x, cuplug.ones(3, 6, device=x.device), cuplug.ones(3, device=x.device)),
    "matmul": lambda x: x @ cuplug.ones(6, 2, device=x.device),
    "conv1d": lambda x: F.conv1d(x, cuplug.ones(3, 4, 3, device=x.device)),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "sort": lambda x: x.sort()[0],
    "cumsum": lambda x: x.cumsum(1),
    "tanh": lambda x: x.tanh(),
}
WAYS = ["backward", "hook", "function"]


class Widened(cuplug.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, dtype: Any) -> Any:
        ctx.dtype = dtype
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return grad_outputs[0].to(ctx.dtype), None


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest, running: str) -> str:
    del running
    return str(request.param)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_gradient_of_another_type_is_converted(name: str, way: str, device: str) -> None:
    def gradient(dtype: Any) -> Any:
        x = (cuplug.arange(48.0, device=device) * 0.7).cos().reshape(2, 4, 6).requires_grad_()
        y = OPERATIONS[name](x)
        weights = (cuplug.arange(float(y.numel()), device=device) * 0.3).sin().reshape(*y.shape)
        if way == "hook":
            y.register_hook(lambda given: given.to(dtype))
        elif way == "function":
            y = Widened.apply(y, dtype)
        y.backward(weights.to(dtype) if way == "backward" else weights)
        return x.grad

    wanted = gradient(cuplug.float32)
    for dtype in (cuplug.float64, cuplug.float16, cuplug.bfloat16):
        found = gradient(dtype)
        assert found.dtype is cuplug.float32
        assert (found - wanted).abs().max().item() < 0.05


def test_a_batch_without_elements_keeps_its_type() -> None:
    for count in (0, 2):
        made = nn.BatchNorm1d(4)(cuplug.zeros(count, 4).half())
        assert made.dtype is cuplug.float16
        assert made.shape == (count, 4)


def test_a_single_row_of_an_embedding_is_a_copy() -> None:
    table = nn.Embedding(4, 3)
    before = table.weight.detach().clone()
    with cuplug.no_grad():
        table(cuplug.tensor(2)).fill_(99.0)
    F.embedding(cuplug.tensor(1), table.weight.detach()).fill_(99.0)
    assert cuplug.equal(table.weight, before)


def test_the_scale_of_attention_may_be_a_tensor() -> None:
    q = cuplug.arange(24.0).reshape(1, 1, 6, 4).sin()
    made = F.scaled_dot_product_attention(q, q, q, scale=cuplug.tensor(0.5))
    assert cuplug.equal(made, F.scaled_dot_product_attention(q, q, q, scale=0.5))


def test_a_class_that_does_not_count_has_no_gradient_whatever_the_weight_of_another_is() -> None:
    x = cuplug.full((3, 2), -1.0, requires_grad=True)
    F.nll_loss(x, cuplug.tensor([1, 1, -100]), cuplug.tensor([float("nan"), 1.0])).backward()
    assert x.grad[2].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("made", [nn.GroupNorm(2, 4), nn.RMSNorm(4)])
def test_norms_that_were_saved_before_they_had_all_settings_can_be_printed(made: Any) -> None:
    for name in ("affine", "elementwise_affine"):
        made.__dict__.pop(name, None)
    assert "affine=True" in repr(made)
