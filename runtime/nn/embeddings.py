"""Rows of a table at indices, and their gradient."""

from __future__ import annotations

from typing import Any

from ..autograd import Function
from ..autograd.fused import wants_history
from ..autograd.graph import plain
from ..tensor.core.dtypes import int64
from ..tensor.core.needed_tensors import layout_of
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import AssertedError, RangeError, ShapeError
from ..tensor.ops.arithmetic.arithmetic import where
from ..tensor.ops.elementwise.elementwise import common_place
from ..tensor.ops.making.creation import ones, zeros
from ..tensor.ops.shapes.reshape import contiguous
from ..tensor.places.place import place_at

__all__ = ["embedding"]


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,  # noqa: ARG001 - gradients are dense here
) -> Tensor:
    """The rows of ``weight`` at indices.

    Args:
        input: integers.
        weight: a row for each.
        padding_idx: a row without a gradient.
        max_norm: the largest norm of the rows that are taken, or None: those whose norm is larger are first scaled in
            ``weight`` itself.
        norm_type: of which order norms are.
        scale_grad_by_freq: whether the gradient of a row is divided by how often it is taken.
        sparse: makes no difference: gradients are dense.

    Raises:
        ValueError: ``weight`` has not two dimensions.
        AssertionError: there is no row ``padding_idx``.
        IndexError: on the CPU: an index is out of range.
        DeviceMismatchError: ``input`` is not where ``weight`` is.
    """
    if len(layout_of(weight).shape) != 2:
        raise ShapeError(f"'weight' must be 2-D, and has the shape {list(weight.shape)}")
    if padding_idx is not None:
        padding_idx = row_of_padding(padding_idx, weight.shape[0])
    common_place("embedding", (weight, input))
    _refuse_beside(input, weight)
    if max_norm is not None:
        limit_rows(weight, input, max_norm, norm_type)
    if not wants_history(weight):
        return rows_at(plain(weight), input)
    made: Tensor = _Rows.apply(weight, input, padding_idx, scale_grad_by_freq)
    return made


def row_of_padding(padding_idx: int, rows: int) -> int:
    """The row that ``padding_idx`` means, where negative ones count from the end.

    Raises:
        AssertionError: there is no such row.
    """
    if not -rows <= padding_idx < rows:
        raise AssertedError(f"padding_idx must be within num_embeddings, {rows}: {padding_idx}")
    return padding_idx % rows


def limits_told(layer: Any) -> str:
    """The settings of a layer's rows and their gradient that are not as usual, as they are printed."""
    told = "" if layer.max_norm is None else f", max_norm={layer.max_norm}"
    told += "" if layer.norm_type == 2 else f", norm_type={layer.norm_type}"
    return f"{told}, scale_grad_by_freq={layer.scale_grad_by_freq}" if layer.scale_grad_by_freq else told


def _refuse_beside(index: Tensor, weight: Tensor) -> None:
    if layout_of(index).numel and weight.device.type == "cpu":
        # Negative ones would count from the end, and hide a mistake of the program's. A device is not waited for.
        indices = place_at(index._layout).read(index)
        low, high = indices.min(), indices.max()
        if low < 0 or high >= weight.shape[0]:
            raise RangeError(
                f"index out of range in self: indices are {low} to {high}, and rows 0 to {weight.shape[0] - 1}"
            )


def limit_rows(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale those of the rows at indices, in ``weight`` itself, of which the norm is larger than ``max_norm``."""
    flat = contiguous(index).view(-1).to(int64)
    taken = weight.detach()[flat]
    norms = taken.norm(norm_type, 1, keepdim=True)
    factors = where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)  # torch's distance from a division by zero
    # A row that several indices name is written several times, with the same numbers.
    weight.detach().index_copy_(0, flat, taken * factors.to(taken.dtype))


def rows_at(weight: Tensor, index: Tensor) -> Tensor:
    """A copy of the rows at these indices, also of the one row at an index without dimensions."""
    found = weight[index]
    return found if index.ndim else found.clone()


class _Rows(Function):
    _title = "EmbeddingBackward0"

    @staticmethod
    def forward(ctx: Any, weight: Tensor, index: Tensor, padding: int | None, by_frequency: bool) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape, ctx.padding, ctx.by_frequency = tuple(weight.shape), padding, by_frequency
        return rows_at(weight, index)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (index,) = ctx.saved_tensors
        gradient = grad_outputs[0]
        if ctx.padding is not None:
            gradient = gradient.masked_fill((index == ctx.padding).unsqueeze(-1), 0.0)
        rows = zeros(ctx.shape, dtype=gradient.dtype, device=gradient.device)
        flat = contiguous(index).view(-1)
        parts = gradient.reshape(flat.shape[0], ctx.shape[1])
        if ctx.by_frequency:
            one = ones(flat.shape[0], dtype=gradient.dtype, device=gradient.device)
            counts = zeros(ctx.shape[0], dtype=gradient.dtype, device=gradient.device).index_add(0, flat, one)
            parts = parts / counts[flat].unsqueeze(1)
        return rows.index_add(0, flat, parts), None, None, None
