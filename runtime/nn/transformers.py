"""``Transformer``: stacks of layers of attention that read a sequence, and that write one."""

from __future__ import annotations

import copy
from typing import Any

from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ShapeError
from ..tensor.ops.making.creation import full
from ..tensor.ops.rearranging.triangles import triu
from . import init
from .attention import TransformerEncoderLayer, TransformerLayer
from .containers import ModuleList
from .module import Module
from .normalisation_layers import LayerNorm

__all__ = ["Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder"]


class TransformerEncoder(Module):
    """Layers one after the other, each a copy of ``encoder_layer``.

    Args:
        encoder_layer: a ``TransformerEncoderLayer``.
        num_layers: how many copies of it there are.
        norm: a module for what the last one makes, or None.
        enable_nested_tensor: as torch's; makes no difference.
        mask_check: as torch's; makes no difference.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        del enable_nested_tensor, mask_check
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """What the last layer makes of a sequence: see ``MultiheadAttention.forward``."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoderLayer(TransformerLayer):
    """Attention to the sequence that is written, attention to ``memory``, and two linear layers, each around a short
    cut.

    Raises:
        ValueError: the vectors cannot be divided among the heads, or there is no such activation.
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """What the layer makes of the sequence ``tgt`` beside ``memory``: see ``MultiheadAttention.forward``."""

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]  # type: ignore[no-any-return]

        def look(x: Tensor) -> Tensor:
            return self.multihead_attn(  # type: ignore[no-any-return]
                x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal
            )[0]

        return self._around(tgt, attend, look)


class TransformerDecoder(Module):
    """``TransformerEncoder``, whose arguments these are, with copies of ``decoder_layer``, a
    ``TransformerDecoderLayer``."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """What the last layer makes of the sequence ``tgt`` beside ``memory``."""
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of one sequence, and a decoder that writes another beside it.

    Raises:
        ValueError: the vectors cannot be divided among the heads, or there is no such activation.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made = {"device": device, "dtype": dtype}
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **made)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*settings, **made), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*settings, **made), num_decoder_layers, norm()
        )
        for weight in self.parameters():
            if weight.ndim > 1:
                init.xavier_uniform_(weight)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """What the decoder makes of ``tgt`` beside what the encoder makes of ``src``.

        Raises:
            ValueError: the sequences have vectors of another length, or differ in number.
        """
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(
                f"Transformer: vectors of {src.shape[-1]} and {tgt.shape[-1]} elements, and d_model is {self.d_model}"
            )
        number = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[number] != tgt.shape[number]:
            raise ShapeError(f"Transformer: {src.shape[number]} sequences to read and {tgt.shape[number]} to write")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)  # type: ignore[no-any-return]

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """A mask (sz, sz) to add that hides what is behind: ``-inf`` above the diagonal, 0 elsewhere."""
        return triu(full((sz, sz), float("-inf"), device=device, dtype=dtype), 1)
