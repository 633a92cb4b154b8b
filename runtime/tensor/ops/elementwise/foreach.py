"""``_foreach_add_(tensors, others)`` and its kin: one operation for each of several tensors, as optimisers call it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError

_SCALED = ("addcmul", "addcdiv")
"""Operations whose last argument, given by position, is ``value``."""
_IN_PLACE = {"maximum_": "clamp_min_", "minimum_": "clamp_max_"}
"""Operations that tensors have in place under other names alone."""


def for_each(name: str) -> Callable[..., Sequence[Tensor]]:
    """The function ``name``, such as ``_foreach_mul_``: it calls the method of that name of each tensor.

    Other arguments are one for all, or a list of one for each. What writes in place gives the tensors.

    Raises:
        AttributeError: tensors have no such method.
        ValueError: when it is called, lists differ in length.
    """
    own = name.removeprefix("_foreach_")
    own = _IN_PLACE.get(own, own)
    method = getattr(Tensor, own, None)
    if method is None:
        raise AttributeError(f"{name} is not part of cuplug: tensors have no method {own}; use one that they have")
    scaled = own.rstrip("_") in _SCALED

    def called(tensors: Sequence[Tensor], *others: Any, **settings: Any) -> Sequence[Tensor]:
        lists = [other if isinstance(other, (list, tuple)) else [other] * len(tensors) for other in others]
        if any(len(each) != len(tensors) for each in lists):
            raise ArgumentError(f"{name}: lists must be as long as each other, not {[len(tensors), *map(len, lists)]}")
        made = []
        for tensor, *row in zip(tensors, *lists, strict=True):
            more = {**settings, "value": row.pop()} if scaled and len(row) == 3 else settings
            made.append(method(tensor, *row, **more))
        return tensors if name.endswith("_") else tuple(made)

    called.__name__ = called.__qualname__ = name
    return called
