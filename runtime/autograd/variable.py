"""``Variable``: what tensors that require gradients were called before torch 0.4."""

from __future__ import annotations

from ..tensor.core.tensor import Tensor


def Variable(data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Tensor:  # noqa: N802, ARG001
    """The tensor as a view, which requires gradients if that is wanted.

    Args:
        data: a tensor.
        requires_grad: whether gradients are computed for it.
        volatile: as in old programs; changes nothing: use ``no_grad``.
    """
    return data.detach().requires_grad_(requires_grad) if requires_grad or not data.requires_grad else data
