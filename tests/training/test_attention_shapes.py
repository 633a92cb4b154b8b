"""What attention says of tensors whose dimensions do not fit: PyTorch's sentences."""

from __future__ import annotations

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
