"""Attention: each position takes from all others as much as a product of vectors says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..tensor.core.dtypes import bool_
from ..tensor.core.needed_tensors import layout_of
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, AssertedError
from ..tensor.ops.joining.joining import cat
from ..tensor.ops.making.creation import empty, ones
from ..tensor.ops.rearranging.triangles import tril
from . import init
from .activations import activation_named, dropout, softmax
from .affine import linear
from .attention_kernels import SDPBackend, sdpa_kernel
from .casting import cast_to_fast
from .fused_attention import fused_attention
from .fused_losses import attention_shares
from .linear_layers import Dropout, Linear, NonDynamicallyQuantizableLinear
from .module import Module
from .normalisation_layers import LayerNorm
from .parameter import Parameter
from .pooled_windows import pad

__all__ = [
    "MultiheadAttention",
    "SDPBackend",
    "TransformerEncoderLayer",
    "TransformerLayer",
    "scaled_dot_product_attention",
    "sdpa_kernel",
]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(query @ key.T * scale + mask) @ value``, along the last two dimensions.

    Args:
        query: (..., queries, length of a vector).
        key: (..., keys, length of a vector).
        value: (..., keys, length of a value).
        attn_mask: bool, where True takes part; or what is added before ``softmax``.
        dropout_p: with which probability an attention is left out.
        is_causal: whether a query sees no keys behind it.
        scale: one by the root of the vectors' length, if None.
        enable_gqa: whether several queries share a key, by the third dimension from the end.

    Raises:
        ValueError: a mask is given, and ``is_causal``.
    """
    if is_causal and attn_mask is not None:
        raise ArgumentError("scaled_dot_product_attention: give a mask or is_causal, not both")
    query, key, value = cast_to_fast(query, key, value)
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (each.repeat_interleave(times, -3) for each in (key, value))
    factor = 1 / math.sqrt(layout_of(query).shape[-1]) if scale is None else float(scale)
    if attn_mask is None and layout_of(query).numel and layout_of(key).numel:

        def compute(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            shares = attention_shares(query @ key.transpose(-2, -1), factor, causal=is_causal)
            return dropout(shares, dropout_p) @ value

        found = None if dropout_p else fused_attention(query, key, value, factor, is_causal, compute)
        return compute(query, key, value) if found is None else found
    scores = (query * factor) @ key.transpose(-2, -1)
    if is_causal:
        attn_mask = tril(ones(query.shape[-2], key.shape[-2], dtype=bool_, device=query.device))
    if attn_mask is not None:
        if layout_of(attn_mask).dtype is bool_:
            scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
        else:
            scores = scores + attn_mask
    shares = softmax(scores, -1).to(value.dtype)
    return dropout(shares, dropout_p) @ value


class MultiheadAttention(Module):
    """Attention by several heads, each on a part of the vectors.

    Args:
        embed_dim: elements of a query, and of a result.
        num_heads: how many heads.
        dropout: with which probability a share is left out, in training.
        bias: whether numbers are added where vectors are projected.
        add_bias_kv: whether a key and a value that are trained come behind the others.
        add_zero_attn: whether a key and a value of zeros come behind the others.
        kdim: elements of a key, if they are not those of a query.
        vdim: elements of a value, likewise.
        batch_first: whether tensors are (n, positions, elements).
        device: where parameters are made.
        dtype: their type.

    Raises:
        ValueError: the vectors cannot be divided among the heads.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ArgumentError(f"MultiheadAttention: {embed_dim} elements cannot be divided among {num_heads} heads")

        def made(*lengths: int) -> Parameter:
            return Parameter(empty(*lengths, device=device, dtype=dtype))

        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.add_zero_attn = add_zero_attn
        self._qkv_same_embed_dim = alike = self.kdim == self.vdim == embed_dim
        self.in_proj_weight = made(3 * embed_dim, embed_dim) if alike else None
        for name, length in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            self.register_parameter(f"{name}_proj_weight", None if alike else made(embed_dim, length))
        self.in_proj_bias = made(3 * embed_dim) if bias else None
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.bias_k, self.bias_v = (made(1, 1, embed_dim) if add_bias_kv else None for _ in "kv")
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if bias:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for added in (self.bias_k, self.bias_v):
            if added is not None:
                init.xavier_normal_(added)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """What each query takes, and how much it takes of each key, if that is asked for.

        Args:
            query: (queries, n, elements), or (n, queries, elements) with ``batch_first``, or without n.
            key: as ``query``.
            value: as ``query``.
            key_padding_mask: (n, keys): True where a key does not take part; or what is added.
            need_weights: whether to give the shares, too.
            attn_mask: (queries, keys) or (n * heads, queries, keys): True where a key does not take part; or what is
                added.
            average_attn_weights: whether shares are the means of all heads.
            is_causal: says of ``attn_mask`` that it hides what is behind; the mask decides.

        Raises:
            AssertionError: the dimensions do not fit.
            ValueError: ``is_causal`` without ``attn_mask``.
        """
        if is_causal and attn_mask is None:
            raise ArgumentError("Need attn_mask if specifying the is_causal hint.")
        _check(query, key, value, key_padding_mask, attn_mask, self.num_heads)
        single = query.ndim == 2
        if single:
            query, key, value = (each.unsqueeze(0) for each in (query, key, value))
        elif not self.batch_first:
            query, key, value = (each.transpose(0, 1) for each in (query, key, value))
        size, heads = self.embed_dim, self.num_heads
        q, k, v = self._by_head(query, key, value)
        more = k.shape[-2] - key.shape[1]
        if more:  # what comes behind the others is hidden from nobody
            attn_mask, key_padding_mask = (
                None if each is None else pad(each, (0, more)) for each in (attn_mask, key_padding_mask)
            )
        factor = 1 / math.sqrt(size // heads)
        bare = attn_mask is None and key_padding_mask is None and q.numel() and k.numel()
        scores = q @ k.transpose(-2, -1) if bare else (q * factor) @ k.transpose(-2, -1)
        if attn_mask is not None:
            mask = attn_mask.view(-1, heads, *attn_mask.shape[1:]) if attn_mask.ndim == 3 else attn_mask
            scores = _masked(scores, mask)
        if key_padding_mask is not None:
            padding = key_padding_mask if key_padding_mask.ndim == 2 else key_padding_mask.unsqueeze(0)
            scores = _masked(scores, padding.unsqueeze(1).unsqueeze(1))
        shares = attention_shares(scores, factor, causal=False) if bare else softmax(scores, -1)
        shares = dropout(shares, self.dropout, self.training)
        taken = shares.to(v.dtype) @ v  # (n, heads, queries, elements of a head)
        taken = taken.transpose(1, 2) if self.batch_first or single else taken.permute(2, 0, 1, 3)
        made = self.out_proj(taken.reshape(taken.shape[0], taken.shape[1], size))
        weights = None
        if need_weights:
            weights = shares.mean(1) if average_attn_weights else shares
        if single:
            return made.squeeze(0), None if weights is None else weights.squeeze(0)
        return made, weights

    def _by_head(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Queries, keys and values (n, heads, positions, elements of a head), with what comes behind the others."""
        size, heads, n = self.embed_dim, self.num_heads, query.shape[0]
        apart = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        found = []
        for number, each in enumerate((query, key, value)):
            rows = slice(number * size, (number + 1) * size)
            bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
            weight = apart[number] if self.in_proj_weight is None else self.in_proj_weight[rows]
            made = linear(each, weight, bias)
            added = (None, self.bias_k, self.bias_v)[number]
            if added is not None:
                made = cat([made, added.expand(n, 1, size)], 1)
            made = made.reshape(n, made.shape[1], heads, size // heads).transpose(1, 2)
            found.append(pad(made, (0, 0, 0, 1)) if number and self.add_zero_attn else made)
        return found


def _check(query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None, heads: int) -> None:
    """Refuse tensors of which the number of dimensions does not fit that of the queries."""
    if query.ndim not in (2, 3):
        raise AssertedError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    kind = f"For {'batched (3-D)' if query.ndim == 3 else 'unbatched (2-D)'} `query`, expected"
    if not key.ndim == value.ndim == query.ndim:
        raise AssertedError(
            f"{kind} `key` and `value` to be {query.ndim}-D but found {key.ndim}-D and {value.ndim}-D tensors "
            "respectively"
        )
    if padding is not None and padding.ndim != query.ndim - 1:
        raise AssertedError(
            f"{kind} `key_padding_mask` to be `None` or {query.ndim - 1}-D but found {padding.ndim}-D tensor instead"
        )
    if mask is not None and mask.ndim not in (2, 3):
        raise AssertedError(f"{kind} `attn_mask` to be `None`, 2-D or 3-D but found {mask.ndim}-D tensor instead")
    if mask is not None and mask.ndim == 3 and query.ndim == 2:
        wanted = (heads, query.shape[0], key.shape[0])
        if tuple(mask.shape) != wanted:
            raise AssertedError(f"Expected `attn_mask` shape to be {wanted} but got {tuple(mask.shape)}")


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(mask, float("-inf")) if mask.dtype is bool_ else scores + mask


class TransformerLayer(Module):
    """Attention once or several times, and two linear layers, each around a short cut.

    Raises:
        ValueError: the vectors cannot be divided among the heads, or there is no such activation.
    """

    _attentions: tuple[str, ...] = ("self_attn",)

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made = {"device": device, "dtype": dtype}
        for name in self._attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **made))
        self.linear1 = Linear(d_model, dim_feedforward, bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **made)
        self.norm_first = norm_first
        numbers = range(1, len(self._attentions) + 2)
        for number in numbers:
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias, **made))
        for number in numbers:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = activation_named(type(self).__name__, activation)

    def _around(self, x: Tensor, *parts: Callable[[Tensor], Tensor]) -> Tensor:
        """What the parts make of a sequence in turn, and the linear layers last, each around a short cut."""

        def think(x: Tensor) -> Tensor:
            return self.linear2(self.dropout(self.activation(self.linear1(x))))  # type: ignore[no-any-return]

        for (norm, drop), part in zip(_AROUND, (*parts, think)):  # noqa: B905 - of three pairs as many as there are
            normed, dropped = getattr(self, norm), getattr(self, drop)
            x = x + dropped(part(normed(x))) if self.norm_first else normed(x + dropped(part(x)))
        return x


_AROUND = (("norm1", "dropout1"), ("norm2", "dropout2"), ("norm3", "dropout3"))
"""What stands around the parts of a layer."""


class TransformerEncoderLayer(TransformerLayer):
    """Attention and two linear layers, each around a short cut.

    Raises:
        ValueError: the vectors cannot be divided among the heads, or there is no such activation.
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """What the layer makes of a sequence: see ``MultiheadAttention.forward``."""

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]  # type: ignore[no-any-return]

        return self._around(src, attend)
