"""``EmbeddingBag``: the sum, mean or maximum of the rows that several indices name."""

from __future__ import annotations

from typing import Any

from ..tensor.core.dtypes import int64
from ..tensor.core.needed_tensors import layout_of, needed
from ..tensor.core.printed_names import printed_as
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import (
    ArgumentError,
    ElementTypeError,
    RangeError,
    ShapeError,
    UnsupportedError,
)
from ..tensor.ops.making.creation import empty, ones, zeros
from ..tensor.ops.making.patterns import arange
from . import init
from .embeddings import embedding, limit_rows, limits_told, row_of_padding
from .linear_layers import size_of_table
from .module import Module
from .parameter import Parameter


@printed_as("EmbeddingBagBackward0")
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """For each bag of indices what their rows are together. An empty bag gives zeros.

    Args:
        input: integers, (bags, indices of each); or (all indices), with ``offsets``.
        weight: the table, (rows, elements).
        offsets: where each bag begins, int64, (bags).
        max_norm: the largest norm of the rows that are taken, or None: those whose norm is larger are first scaled in
            ``weight`` itself.
        norm_type: of which order norms are.
        scale_grad_by_freq: whether the gradient of a row is divided by how often it is taken; not with ``max``.
        mode: ``sum``, ``mean`` or ``max``.
        sparse: makes no difference: gradients are dense.
        per_sample_weights: for ``sum``: a factor for each index, or None.
        include_last_offset: whether the last of ``offsets`` is where the last bag ends.
        padding_idx: an index that does not count, or None.

    Returns:
        (bags, elements).

    Raises:
        IndexError: on the CPU: an index is out of range.
        ValueError: there is no such mode, the shapes do not fit, there is no row ``padding_idx``, or, on the CPU, bags
            begin or end elsewhere than the indices.
        TypeError: factors are of another type than the table.
        NotImplementedError: factors are given, and the mode is not ``sum``.
    """
    _check(input, weight, offsets, mode, per_sample_weights)
    if mode == "max" and (scale_grad_by_freq or sparse):
        what = "scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights"
        raise ArgumentError(f"max mode does not support {what}")
    if padding_idx is not None:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise ArgumentError(
                f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, "
                f"but got {padding_idx}"
            )
        padding_idx %= rows
    if max_norm is not None:
        limit_rows(weight, input, max_norm, norm_type)
    if offsets is None:
        bags, length = input.shape
        bag = arange(bags, dtype=int64, device=input.device).repeat_interleave(length)
    else:
        bags = offsets.shape[0] - int(include_last_offset)
        starts = zeros(input.shape[0] + 1, dtype=int64, device=input.device)
        starts = starts.index_add(0, offsets[:bags].to(int64), ones(bags, dtype=int64, device=input.device))
        bag = starts[: input.shape[0]].cumsum(0) - 1
    indices = input.reshape(-1)
    factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    if padding_idx is not None:
        there = (indices != padding_idx).nonzero().squeeze(1)
        indices, bag = indices[there], bag[there]
        factors = None if factors is None else factors[there]
    try:
        rows = embedding(indices, weight, scale_grad_by_freq=scale_grad_by_freq)
    except RangeError as error:
        raise RangeError(f"embedding_bag: Expected idx >= 0 && idx < num_embeddings: {error}") from None
    if factors is not None:
        rows = rows * factors.unsqueeze(1)
    whole = zeros(bags, weight.shape[1], dtype=rows.dtype, device=rows.device)
    if mode == "max":
        place = bag.unsqueeze(1).expand(-1, rows.shape[1])
        return whole.scatter_reduce(0, place, rows, "amax", include_self=False)
    total = whole.index_add(0, bag, rows)
    if mode == "sum":
        return total
    counts = zeros(bags, dtype=rows.dtype, device=rows.device)
    counts = counts.index_add(0, bag, ones(bag.shape[0], dtype=rows.dtype, device=rows.device))
    made: Tensor = total / counts.clamp(min=1).unsqueeze(1)
    return made


def _check(input: Tensor, weight: Tensor, offsets: Tensor | None, mode: str, factors: Tensor | None) -> None:
    if factors is not None and layout_of(input).shape != layout_of(factors).shape:
        raise ShapeError(
            f"embedding_bag: If per_sample_weights ({list(factors.shape)}) is not None, then it must have the same "
            f"shape as the input ({list(input.shape)})"
        )
    if needed(weight).ndim != 2:
        raise ShapeError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if needed(input).ndim not in (1, 2):
        raise ShapeError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if input.ndim == 2 and offsets is not None:
        raise ArgumentError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
            f"sequences. However, found offsets of type {type(offsets).__name__}"
        )
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f"mode has to be one of sum, mean or max, not {mode!r}")
    if factors is not None and mode != "sum":
        raise UnsupportedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode={mode!r})"
        )
    if factors is not None and factors.dtype is not weight.dtype:
        raise ElementTypeError(
            f"embedding_bag: expected weight to have the same type as per_sample_weights, {factors.dtype!r}; "
            f"it is of {weight.dtype!r}"
        )
    if input.ndim == 1:
        _check_offsets(input, offsets)


def _check_offsets(input: Tensor, offsets: Tensor | None) -> None:
    if offsets is None or offsets.ndim != 1:
        raise ShapeError(f"offsets has to be a 1D Tensor{' but got None' if offsets is None else ''}")
    if offsets.device.type != "cpu" or not offsets.numel():
        return  # a device is not waited for
    if int(offsets[0]) != 0:
        raise ArgumentError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
            f"However, got {int(offsets[0])}"
        )
    if int(offsets[-1]) > input.shape[0]:
        raise ArgumentError(
            f"offsets[-1] can not be greater than input's length: {input.shape[0]} but got offsets[-1] of "
            f"{int(offsets[-1])}"
        )


class EmbeddingBag(Module):
    """A table of vectors, of which each bag of indices takes the sum, mean or maximum: ``functional.embedding_bag``,
    whose other arguments it takes.

    Args:
        num_embeddings: how many rows there are.
        embedding_dim: the length of a row.
        padding_idx: a row that begins as zeros and does not count, or None.
        device: where the table is.
        dtype: its element type.
        _weight: the table itself; None for a new one.

    Raises:
        AssertionError: there is no row ``padding_idx``.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.include_last_offset, self.sparse = include_last_offset, sparse
        self.padding_idx = padding_idx if padding_idx is None else row_of_padding(padding_idx, num_embeddings)
        if _weight is None:
            self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
            self.reset_parameters()
        else:
            self.weight = Parameter(_weight)

    def reset_parameters(self) -> None:
        """Draw new values, of a normal distribution; row ``padding_idx`` is zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **settings: Any) -> EmbeddingBag:
        """``Embedding.from_pretrained``, whose arguments and errors these are, of bags."""
        rows, elements = size_of_table(embeddings)
        made = cls(rows, elements, _weight=embeddings, **settings)
        made.weight.requires_grad_(not freeze)
        return made

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """What the rows of each bag are together, (bags, embedding_dim): see ``functional.embedding_bag``.

        Raises:
            ValueError: the shapes do not fit, or there is no such mode.
        """
        return embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        """How many rows there are, how long they are, the mode, and what is not as usual."""
        told = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{limits_told(self)}, mode={self.mode!r}{told}"
