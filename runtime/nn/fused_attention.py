"""Attention by cuDNN, in one kernel forward and one back: what it keeps grows with the length, not with its square."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import enable_grad
from ..autograd.fused import by_parts, record_fused, wants_history
from ..autograd.graph import Kept, plain
from ..tensor import cudnn_switches
from ..tensor.core.dtypes import dtype, float32
from ..tensor.core.shapes import Shape
from ..tensor.core.tensor import Tensor
from ..tensor.ops.networks.library_calls import run_library
from ..tensor.places.tables_with_gradients.library_table import Attending
from . import attention_kernels


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool, compute: Callable[..., Tensor]
) -> Tensor | None:
    """``softmax(query @ key.T * scale) @ value`` by cuDNN; or None, where it does not do this.

    Args:
        query: (n, heads, queries, elements).
        key: (n, heads, keys, elements).
        value: (n, heads, keys, elements of the result).
        scale: the factor.
        causal: whether a query sees no keys behind it.
        compute: the same by single operations, of the three: for gradients of gradients.
    """
    if not _can_be_fused(query, key, value):
        return None
    rows = (*query.shape[:3], 1)
    asked = [_like(query, (*query.shape[:3], value.shape[3])), (float32, rows)]
    given = [plain(each) for each in (query, key, value)]
    found = run_library(Attending("forward", scale, causal, cudnn_switches.choosing()), asked, given)
    if found is None:
        return None
    made, logs = found
    if not wants_history(query, key, value):
        return made
    kept = [Kept(query), Kept(key), Kept(value)]
    kept_made, kept_logs = Kept(made, own=True), Kept(logs)

    def apply(node: Any, gradient: Tensor) -> Sequence[Any]:
        sources = [each.get(node) for each in kept]
        if not wants_history(gradient, *sources) and gradient.dtype is sources[0].dtype:
            work = Attending("backward", scale, causal, cudnn_switches.choosing())
            operands = [*sources, kept_made.get(node), gradient, kept_logs.get(node)]
            grown = run_library(work, [_like(each, tuple(each.shape)) for each in sources], operands)
            if grown is not None:
                return grown
        with enable_grad():
            return by_parts(compute, sources, gradient)

    return record_fused("AttentionBackward", made, (query, key, value), [*kept, kept_made, kept_logs], apply)


def _can_be_fused(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the shapes and types are such as cuDNN is asked for."""
    return (
        bool(cudnn_switches.enabled)
        and attention_kernels.is_fused_allowed
        and query.dtype.is_half
        and query.dtype is key.dtype is value.dtype
        and query.ndim == key.ndim == value.ndim == 4
        and query.shape[:2] == key.shape[:2] == value.shape[:2]
        and query.shape[3] == key.shape[3]
        and key.shape[2] == value.shape[2]
    )


def _like(tensor: Tensor, shape: Shape) -> tuple[dtype, Shape] | tuple[dtype, Shape, Shape]:
    """Type, shape and strides of a result whose dimensions lie in memory in the same order."""
    if tuple(tensor.shape) != shape:
        return tensor.dtype, shape
    return tensor.dtype, shape, tensor._layout.kept_strides()
