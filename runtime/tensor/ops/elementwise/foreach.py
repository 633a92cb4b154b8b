"""``_foreach_add_(tensors, others)`` and its kin: one operation for each of several tensors, as optimisers call it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from ...core.tensor import Tensor

_SCALED = ("addcmul", "addcdiv")
"""Operations whose last argument, given by position, is ``value``."""


def for_each(name: str) -> Callable[..., Sequence[Tensor]]:
    """The function ``name``, such as ``_foreach_mul_``: it calls the method of that name of each tensor.

    Other arguments are one for all, or a list of one for each. What writes in place gives the tensors.

    Raises:
        AttributeError: tensors have no such method.
    """
    own = name.removeprefix("_foreach_")
    method = getattr(Tensor, own, None)
    if method is None:
        raise AttributeError(f"{name} is not part of cuplug: tensors have no method {own}; use one that they have")
    scaled = own.rstrip("_") in _SCALED

    def called(tensors: Sequence[Tensor], *others: Any, **settings: Any) -> Sequence[Tensor]:
        rows = [other if isinstance(other, (list, tuple)) else repeat(other) for other in others]
        made = []
        for tensor, *row in zip(tensors, *rows, strict=False):
            more = {**settings, "value": row.pop()} if scaled and len(row) == 3 else settings
            made.append(method(tensor, *row, **more))
        return tensors if name.endswith("_") else tuple(made)

    called.__name__ = called.__qualname__ = name
    return called
