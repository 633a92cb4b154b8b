"""Modules in files: which classes and functions a file that ``load`` reads may name."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from ..tensor.core.tensor import Tensor
from ..tensor.ops.exchange.loading import admitting
from .module import Module
from .parameter import Parameter

_OWN = f"{__package__}."


def admit_modules() -> None:
    """Let files name classes of modules that are imported already, the functions of this package, and parameters."""
    if _admitted not in admitting:
        admitting.append(_admitted)


def _admitted(module: str, name: str) -> Any:
    if (module, name) == ("torch._utils", "_rebuild_parameter"):
        return _rebuilt
    found = getattr(sys.modules.get(module), name, None)
    if isinstance(found, type) and issubclass(found, Module):
        return found
    own = module.startswith(_OWN) and not name.startswith("_")
    return found if own and isinstance(found, FunctionType) else None


def _rebuilt(data: Tensor, requires_grad: bool, _: Any = None) -> Parameter:
    return Parameter(data, requires_grad)
