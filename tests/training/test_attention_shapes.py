"""Attention of tensors whose dimensions differ: what is computed, and where they do not fit, PyTorch's sentences."""

from __future__ import annotations

import importlib

import cuplug
import pytest

MANY, ONE = ((3, 2, 4),) * 3, ((3, 4),) * 3
"""Queries, keys and values of several sequences, and of one."""


@pytest.mark.parametrize(
    ("shapes", "masks", "match"),
    [
        (((4,), (4,), (4,)), {}, "query should be unbatched 2D or batched 3D tensor but received 1-D query tensor"),
        (((3, 2, 4), (2, 4), (3, 2, 4)), {}, "expected `key` and `value` to be 3-D but found 2-D and 3-D tensors"),
        (((3, 4), (3, 4), (3, 1, 4)), {}, "expected `key` and `value` to be 2-D but found 2-D and 3-D tensors"),
        (MANY, {"key_padding_mask": (3,)}, "expected `key_padding_mask` to be `None` or 2-D but found 1-D tensor"),
        (ONE, {"key_padding_mask": (1, 3)}, "expected `key_padding_mask` to be `None` or 1-D but found 2-D tensor"),
        (MANY, {"attn_mask": (3,)}, "expected `attn_mask` to be `None`, 2-D or 3-D but found 1-D tensor instead"),
        (ONE, {"attn_mask": (1, 3, 3)}, r"Expected `attn_mask` shape to be \(2, 3, 3\) but got"),
    ],
)
def test_attention_says_which_dimensions_it_needs(
    shapes: tuple[tuple[int, ...], ...], masks: dict[str, tuple[int, ...]], match: str
) -> None:
    layer = cuplug.nn.MultiheadAttention(4, 2)
    with pytest.raises(AssertionError, match=match):
        layer(*(cuplug.ones(*each) for each in shapes), **{name: cuplug.ones(*each) for name, each in masks.items()})


def test_one_sequence_takes_a_mask_for_each_head() -> None:
    layer = cuplug.nn.MultiheadAttention(4, 2)
    x = cuplug.randn(3, 4)
    hidden = cuplug.ones(3, 3).triu(1).bool()
    one, _ = layer(x, x, x, attn_mask=hidden)
    each, _ = layer(x, x, x, attn_mask=cuplug.stack([hidden] * 2))
    assert cuplug.allclose(one, each)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("more", [{}, {"add_bias_kv": True}, {"add_zero_attn": True, "add_bias_kv": True}])
def test_keys_and_values_have_lengths_of_their_own_and_others_behind_them(more: dict[str, bool], bias: bool) -> None:
    layer = cuplug.nn.MultiheadAttention(4, 2, kdim=3, vdim=5, bias=bias, batch_first=True, **more)
    layer.load_state_dict({name: cuplug.randn(*each.shape) for name, each in layer.state_dict().items()})
    query, key, value = cuplug.randn(2, 3, 4), cuplug.randn(2, 6, 3), cuplug.randn(2, 6, 5)
    hidden = cuplug.ones(3, 6).triu(2).bool()
    made, shares = layer(query, key, value, attn_mask=hidden, average_attn_weights=False)
    weights = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    q, k, v = (each @ weight.t() for each, weight in zip((query, key, value), weights, strict=True))
    if bias:
        q, k, v = (each + part for each, part in zip((q, k, v), layer.in_proj_bias.chunk(3), strict=True))
    count = len(more)
    if count:
        k, v = (cuplug.cat([each, last.expand(2, 1, 4)], 1) for each, last in ((k, layer.bias_k), (v, layer.bias_v)))
    if count == 2:
        k, v = (cuplug.cat([each, cuplug.zeros(2, 1, 4)], 1) for each in (k, v))
    hidden = cuplug.cat([hidden, cuplug.zeros(3, count).bool()], 1)
    for head, part in enumerate((slice(0, 2), slice(2, 4))):
        scores = q[..., part] @ k[..., part].transpose(1, 2) / 2**0.5
        expected = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        assert cuplug.allclose(shares[:, head], expected, atol=1e-6)
    whole = cuplug.cat([shares[:, head] @ v[..., part] for head, part in enumerate((slice(0, 2), slice(2, 4)))], -1)
    assert cuplug.allclose(made, layer.out_proj(whole), atol=1e-5)
    made.sum().backward()
    assert all(each.grad is not None for each in layer.parameters())


def test_the_names_of_parameters_are_those_of_pytorchs_files() -> None:
    alike = cuplug.nn.MultiheadAttention(4, 2, add_bias_kv=True)
    assert list(alike.state_dict()) == [
        *("in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj.weight", "out_proj.bias")
    ]
    apart = cuplug.nn.MultiheadAttention(4, 2, kdim=3, bias=False)
    assert list(apart.state_dict()) == ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"]


def test_kernels_of_attention_are_chosen_by_torchs_names() -> None:
    attention = importlib.import_module("cuplug.nn.attention")
    assert attention is cuplug.nn.attention
    kinds = [(each.name, each.value) for each in attention.SDPBackend]
    assert kinds[:4] == [("ERROR", -1), ("MATH", 0), ("FLASH_ATTENTION", 1), ("EFFICIENT_ATTENTION", 2)]
    x = cuplug.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    with attention.sdpa_kernel([attention.SDPBackend.FLASH_ATTENTION]):
        made = cuplug.nn.functional.scaled_dot_product_attention(x, x, x, scale=1.0)
    assert made.flatten().tolist() == pytest.approx([0.731059, 0.268941, 0.268941, 0.731059], abs=1e-6)
    for wrong in ("MATH", [2], None):
        with pytest.raises(AssertionError, match="Backend must be an SDPBackend"), attention.sdpa_kernel(wrong):
            pass
