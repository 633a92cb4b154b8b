"""Layers that multiply, look up, drop out or reshape."""

from __future__ import annotations

import math
from typing import Any

from ..tensor.core.tensor import Tensor
from ..tensor.ops.creation import empty
from ..tensor.ops.reshape import flatten, unflatten
from . import init
from .activations import dropout, embedding
from .affine import linear
from .module import Module
from .parameter import Parameter

__all__ = ["Dropout", "Dropout2d", "Embedding", "Flatten", "Identity", "Linear", "Unflatten"]


class Identity(Module):
    """Its argument."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The argument."""
        return input


class Linear(Module):
    """``input @ weight.T + bias``."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.bias = Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None
        if not bias:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Give first values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """The product along the last dimension."""
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The lengths."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """A row of ``weight`` for each integer."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        init.normal_(self.weight)
        if padding_idx is not None:
            init.zeros_(self.weight.detach()[padding_idx])

    def forward(self, input: Tensor) -> Tensor:
        """The rows."""
        return embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """The lengths."""
        return f"{self.num_embeddings}, {self.embedding_dim}"


class Dropout(Module):
    """Elements made 0 with probability ``p`` while training."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """What is left."""
        return dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout2d(Dropout):
    """Whole channels made 0 with probability ``p`` while training."""

    def forward(self, input: Tensor) -> Tensor:
        """What is left."""
        if not self.training or not self.p:
            return input
        mask = input.detach().new_ones(*input.shape[:2], *[1] * (input.ndim - 2))
        return input * dropout(mask, self.p)


class Flatten(Module):
    """Dimensions made one; by default all but the first."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """The same elements."""
        return flatten(input, self.start_dim, self.end_dim)


class Unflatten(Module):
    """A dimension made several."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """The same elements."""
        return unflatten(input, self.dim, self.unflattened_size)
