"""``EmbeddingBag``: the sum, mean or maximum of the rows that several indices name."""

from __future__ import annotations

from typing import Any

from ..tensor.core.dtypes import int64
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, RangeError
from ..tensor.ops.making.creation import arange, empty, ones, zeros
from . import init
from .activations import embedding
from .linear_layers import size_of_table
from .module import Module
from .parameter import Parameter

__all__ = ["EmbeddingBag", "embedding_bag"]


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
        max_norm: not here.
        norm_type: not here.
        scale_grad_by_freq: not here.
        mode: ``sum``, ``mean`` or ``max``.
        sparse: makes no difference: gradients are dense.
        per_sample_weights: for ``sum``: a factor for each index, or None.
        include_last_offset: whether the last of ``offsets`` is where the last bag ends.
        padding_idx: an index that does not count, or None.

    Returns:
        (bags, elements).

    Raises:
        IndexError: on the CPU: an index is out of range.
        ValueError: there is no such mode, factors are given and the mode is not ``sum``, or a setting is not here.
    """
    del norm_type, sparse
    if max_norm is not None or scale_grad_by_freq:
        raise ArgumentError("embedding_bag: max_norm and scale_grad_by_freq are not part of cuplug")
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f"embedding_bag: mode is 'sum', 'mean' or 'max', not {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise ArgumentError(f"embedding_bag: per_sample_weights are for mode='sum', not {mode!r}")
    if input.ndim == 2:
        if offsets is not None:
            raise ArgumentError("embedding_bag: offsets are for indices of one dimension")
        bags, length = input.shape
        bag = arange(bags, dtype=int64, device=input.device).repeat_interleave(length)
    elif input.ndim == 1 and offsets is not None:
        bags = offsets.shape[0] - int(include_last_offset)
        starts = zeros(input.shape[0] + 1, dtype=int64, device=input.device)
        starts = starts.index_add(0, offsets[:bags].to(int64), ones(bags, dtype=int64, device=input.device))
        bag = starts[: input.shape[0]].cumsum(0) - 1
    else:
        raise ArgumentError("embedding_bag: give indices of two dimensions, or of one and offsets")
    indices = input.reshape(-1)
    factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    if padding_idx is not None:
        there = (indices != padding_idx).nonzero().squeeze(1)
        indices, bag = indices[there], bag[there]
        factors = None if factors is None else factors[there]
    try:
        rows = embedding(indices, weight)
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


class EmbeddingBag(Module):
    """A table of vectors, of which each bag of indices takes the sum, mean or maximum: ``functional.embedding_bag``.

    Args:
        num_embeddings: how many rows there are.
        embedding_dim: the length of a row.
        max_norm: not here.
        norm_type: not here.
        scale_grad_by_freq: not here.
        mode: ``sum``, ``mean`` or ``max``.
        sparse: makes no difference: gradients are dense.
        include_last_offset: whether the last offset is where the last bag ends.
        padding_idx: a row that begins as zeros and does not count, or None.
        device: where the table is.
        dtype: its element type.
        _weight: the table itself; None for a new one.

    Raises:
        ValueError: a setting is not here.
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
        del norm_type, sparse
        if max_norm is not None or scale_grad_by_freq:
            raise ArgumentError("EmbeddingBag: max_norm and scale_grad_by_freq are not part of cuplug")
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.include_last_offset, self.padding_idx = include_last_offset, padding_idx
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
        """A layer whose table is ``embeddings`` itself, (rows, elements): no copy.

        Args:
            embeddings: the table.
            freeze: whether it gets no gradients.
            settings: as for the layer.

        Raises:
            ValueError: the table has not two dimensions.
        """
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
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        """How many rows there are, how long they are, and the mode."""
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
