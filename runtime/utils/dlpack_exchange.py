"""Tensors given to other libraries and taken from them by DLPack, with torch's names: ``cuplug.utils.dlpack``."""

from __future__ import annotations

from typing import Any

from ..tensor.core.tensor import Tensor
from ..tensor.ops.exchange.exchange import dlpack_capsule, from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """The tensor's memory as a DLPack capsule, for ``from_dlpack`` of any library, which takes it once."""
    return dlpack_capsule(tensor)
