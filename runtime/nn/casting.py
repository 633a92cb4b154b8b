"""What mixed precision asks of networks: operands converted to the type in which an operation runs under ``autocast``.

``amp`` stands above networks; what it wants of this thread is kept here.
"""

from __future__ import annotations

import threading
from typing import Any

from ..tensor.core.dtypes import dtype, float32
from ..tensor.core.tensor import Tensor

__all__ = ["autocasting", "cast_to_fast", "cast_to_full"]


class _Casting(threading.local):
    """By the kind of device: the fast type while ``autocast`` is on, else None."""

    def __init__(self) -> None:
        self.fast: dict[str, dtype | None] = {}
        self.cache: dict[int, tuple[Tensor, int, Tensor]] | None = None
        """Weights that were converted, by identity: themselves, their version, and what came of them."""


autocasting = _Casting()


def _wanted(tensors: Any) -> dtype | None:
    if not any(autocasting.fast.values()):
        return None
    first = next((each for each in tensors if isinstance(each, Tensor)), None)
    return None if first is None else autocasting.fast.get(first.device.type)


def cast_to_fast(*tensors: Any) -> Any:
    """Operands of an operation that runs in the fast type: products of matrices and convolutions."""
    kind = _wanted(tensors)
    if kind is None:
        return tensors
    return tuple(
        _converted(each, kind) if isinstance(each, Tensor) and each.is_floating_point() else each for each in tensors
    )


def _converted(tensor: Tensor, kind: dtype) -> Tensor:
    if tensor.dtype is kind:
        return tensor
    cache = autocasting.cache
    if cache is None or not (tensor.requires_grad and tensor.is_leaf):
        return tensor.to(kind)
    found = cache.get(id(tensor))
    if found is not None and found[0] is tensor and found[1] == tensor._version:
        return found[2]
    made = tensor.to(kind)
    cache[id(tensor)] = (tensor, tensor._version, made)
    return made


def cast_to_full(*tensors: Any) -> Any:
    """Operands of an operation that runs in float32: sums, exponentials and losses."""
    if _wanted(tensors) is None:
        return tensors
    return tuple(each.to(float32) if isinstance(each, Tensor) and each.dtype.is_half else each for each in tensors)
