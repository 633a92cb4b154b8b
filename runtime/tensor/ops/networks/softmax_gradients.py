"""Gradients along rows by one kernel where nothing is to be recorded: see ``fused_table.py``."""

from __future__ import annotations

from ...core.shapes import contiguous_strides
from ...core.tensor import Tensor, view_of
from ..elementwise.elementwise_functions import exp
from ..reductions.along import run_fused
from ..reductions.reductions import sum as sum_of
from ..shapes.reshape import contiguous


def softmax_gradient(gradient: Tensor, result: Tensor, factor: float = 1.0) -> Tensor:
    """The gradient of ``softmax(factor * input)`` along the last dimension, by its result and that of it."""
    if _by_one_kernel(gradient, result):
        return _of_rows("softmax_gradient", gradient, result, factor)
    made = result * (gradient - sum_of(gradient * result, -1, True))
    return made if factor == 1 else made * factor


def log_softmax_gradient(gradient: Tensor, result: Tensor) -> Tensor:
    """The gradient of ``log_softmax`` along the last dimension, by its result and that of it."""
    if _by_one_kernel(gradient, result):
        return _of_rows("log_softmax_gradient", gradient, result)
    return gradient - exp(result) * sum_of(gradient, -1, True)


def _by_one_kernel(gradient: Tensor, result: Tensor) -> bool:
    """Whether both lie at one place with elements, and nothing is to be recorded."""
    mine, its = result._layout, gradient._layout
    return not (mine.tracked or its.tracked) and bool(mine.numel) and its.place is mine.place and bool(mine.shape)


def _of_rows(name: str, gradient: Tensor, result: Tensor, *numbers: float) -> Tensor:
    shape = tuple(result.shape)
    rows = (result.numel() // shape[-1], shape[-1])
    flat = [view_of(contiguous(each), rows, contiguous_strides(rows)) for each in (gradient, result)]
    (made,) = run_fused(name, [(result.dtype, rows)], flat, *numbers)
    return view_of(made, shape, contiguous_strides(shape))
