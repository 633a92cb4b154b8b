"""Layers that multiply, look up, drop out or reshape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, AssertedError, ShapeError
from ..tensor.ops.making.creation import empty
from ..tensor.ops.products.products import einsum
from ..tensor.ops.shapes.reshape import flatten, unflatten
from . import init
from .activations import alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from .affine import linear
from .embeddings import embedding, limits_told, row_of_padding
from .module import Module
from .parameter import Parameter

__all__ = [
    "AlphaDropout",
    "Bilinear",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "FeatureAlphaDropout",
    "Flatten",
    "Identity",
    "Linear",
    "NonDynamicallyQuantizableLinear",
    "Unflatten",
]


class Identity(Module):
    """A layer that returns its input. It takes any arguments and ignores them."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` itself."""
        return input


class Linear(Module):
    """``input @ weight.T + bias`` along the last dimension.

    Args:
        in_features: the length of the input's last dimension.
        out_features: the length of the result's last dimension.
        bias: whether there is one.
        device: where the parameters are.
        dtype: their element type.

    ``weight`` is (out_features, in_features), ``bias`` (out_features).
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values: uniform within ``1 / sqrt(in_features)`` of 0, for ``weight`` and ``bias`` alike."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """The product of ``input``, (..., in_features), as (..., out_features).

        Raises:
            ValueError: the last dimension of ``input`` has another length.
        """
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The numbers of features, and whether there is a bias."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """How torch's attention calls and prints its last layer, and programs that name what their files hold."""


def size_of_table(embeddings: Tensor) -> tuple[int, int]:
    """How many rows a table of embeddings has, and how many elements each.

    Raises:
        ValueError: it has not two dimensions.
    """
    if embeddings.ndim != 2:
        raise ShapeError(f"Embeddings parameter is expected to be 2-dimensional, not of shape {list(embeddings.shape)}")
    rows, elements = embeddings.shape
    return rows, elements


class Embedding(Module):
    """A table of vectors: for each integer of the input the row of ``weight`` at that index, by
    ``functional.embedding``, whose other arguments it takes.

    Args:
        num_embeddings: how many rows there are.
        embedding_dim: the length of a row.
        padding_idx: a row that begins as zeros and gets no gradient, or None.
        _weight: the table itself; None for a new one.
        _freeze: whether it gets no gradients.
        device: where the table is.
        dtype: its element type.

    Raises:
        AssertionError: there is no row ``padding_idx``.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx if padding_idx is None else row_of_padding(padding_idx, num_embeddings)
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.sparse = sparse
        if _weight is None:
            self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype), not _freeze)
            self.reset_parameters()
        elif tuple(_weight.shape) != (num_embeddings, embedding_dim):
            raise AssertedError(
                f"Shape of weight does not match num_embeddings and embedding_dim: {list(_weight.shape)}"
            )
        else:
            self.weight = Parameter(_weight, not _freeze)

    def reset_parameters(self) -> None:
        """Draw new values, of a normal distribution; row ``padding_idx`` is zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, **settings: Any
    ) -> Embedding:
        """A layer whose table is ``embeddings`` itself, (rows, elements): no copy.

        Args:
            embeddings: the table.
            freeze: whether it gets no gradients.
            padding_idx: a row that gets no gradient; it stays as it is.
            settings: as for the layer.

        Raises:
            ValueError: the table has not two dimensions.
        """
        rows, elements = size_of_table(embeddings)
        return cls(rows, elements, padding_idx, _weight=embeddings, _freeze=freeze, **settings)

    def forward(self, input: Tensor) -> Tensor:
        """The rows at the integers of ``input``, (...), as (..., embedding_dim).

        Raises:
            IndexError: on the CPU: an index is out of range.
        """
        return embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        """How many rows there are, how long they are, and what is not as usual."""
        told = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        sparse = ", sparse=True" if self.sparse else ""
        return f"{self.num_embeddings}, {self.embedding_dim}{told}{limits_told(self)}{sparse}"


class _DropoutNd(Module):
    """Elements or channels are left out while training: ``Dropout`` says what the arguments are."""

    _told = ("p", "inplace")
    _function: Callable[..., Tensor]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ArgumentError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """``input`` with elements or channels left out, in the same shape.

        Raises:
            ValueError: ``p`` is no probability, or the function takes no input of so many dimensions.
        """
        return type(self)._function(input, self.p, self.training, self.inplace)


class Dropout(_DropoutNd):
    """While training, makes each element 0 with probability ``p`` and divides the others by ``1 - p``. Otherwise it
    returns its input.

    Args:
        p: the probability.
        inplace: whether to write the result to the input.

    Raises:
        ValueError: ``p`` is no probability.
    """

    _function = staticmethod(dropout)


class Dropout2d(_DropoutNd):
    """While training, makes whole channels of (n, channels, height, width) 0 with probability ``p`` and divides the
    others by ``1 - p``. Otherwise it returns its input.
    """

    _function = staticmethod(dropout2d)


class Dropout1d(_DropoutNd):
    """``Dropout2d`` of (n, channels, length) or (channels, length)."""

    _function = staticmethod(dropout1d)


class Dropout3d(_DropoutNd):
    """``Dropout2d`` of (n, channels, depth, height, width), or without n."""

    _function = staticmethod(dropout3d)


class AlphaDropout(_DropoutNd):
    """``functional.alpha_dropout`` while training. Otherwise it returns its input."""

    _function = staticmethod(alpha_dropout)


class FeatureAlphaDropout(_DropoutNd):
    """``functional.feature_alpha_dropout`` while training. Otherwise it returns its input."""

    _function = staticmethod(feature_alpha_dropout)


class Bilinear(Module):
    """``input1 @ weight @ input2 + bias`` along the last dimensions, for each feature of the result.

    Other arguments are those of ``Linear``.

    Args:
        in1_features: the length of the first input's last dimension.
        in2_features: the length of the second's.
        out_features: the length of the result's.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        bound = 1 / math.sqrt(in1_features) if in1_features else 0
        for each in self.parameters():
            init.uniform_(each, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """The products, (..., out_features).

        Raises:
            ValueError: the shapes do not fit.
        """
        made = einsum("...i,oij,...j->...o", input1, self.weight, input2)
        return made if self.bias is None else made + self.bias

    def extra_repr(self) -> str:
        """The numbers of features."""
        inside = f"in1_features={self.in1_features}, in2_features={self.in2_features}"
        return f"{inside}, out_features={self.out_features}, bias={self.bias is not None}"


class Flatten(Module):
    """Makes one dimension of those from ``start_dim`` to ``end_dim``; by default of all but the first."""

    _told = ("start_dim", "end_dim")

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """``input`` with those dimensions made one: a view where strides allow it, else a copy.

        Raises:
            IndexError: there is no such dimension.
        """
        return flatten(input, self.start_dim, self.end_dim)


class Unflatten(Module):
    """Makes several dimensions, of the lengths ``unflattened_size``, of dimension ``dim``. One length may be -1."""

    _told = ("dim", "unflattened_size")

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """A view of ``input`` with dimension ``dim`` cut into several.

        Raises:
            ValueError: the lengths do not multiply to that of the dimension.
        """
        return unflatten(input, self.dim, self.unflattened_size)
