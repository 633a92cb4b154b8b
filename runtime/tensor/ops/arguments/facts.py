"""Facts about tensors, as functions: what the class itself knows."""

from __future__ import annotations

from typing import Any, TypeGuard

from ...core.needed_tensors import layout_of, needed
from ...core.tensor import Tensor

__all__ = ["is_complex", "is_floating_point", "is_same_size", "is_signed", "is_tensor", "numel", "typename"]


def is_tensor(obj: Any) -> TypeGuard[Tensor]:
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """The number of elements."""
    return layout_of(input).numel


def typename(obj: Any) -> str:
    """The name of a tensor's type, such as ``torch.FloatTensor``; of a class, function or module its own name, behind
    that of the module where it was made; and of anything else that of its class."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    named = obj if hasattr(obj, "__qualname__") or hasattr(obj, "__name__") else type(obj)
    module = getattr(named, "__module__", None)
    name: str = getattr(named, "__qualname__", None) or named.__name__
    return name if module in (None, "", "builtins") else f"{module}.{name}"


def is_floating_point(input: Tensor) -> bool:
    """Whether the element type is a floating-point one."""
    return layout_of(input).dtype.kind == "f"


def is_complex(input: Tensor) -> bool:
    """False: there are no complex types here."""
    return needed(input).is_complex()


def is_signed(input: Tensor) -> bool:
    """Whether the element type has negative numbers."""
    return layout_of(input).dtype.is_signed


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return layout_of(input).shape == layout_of(other).shape
