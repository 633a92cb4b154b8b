"""What a library of NVIDIA's does where there is one: the calls of ``places/library_table.py``."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dtypes import dtype
from ..core.layout import Layout
from ..core.shapes import Shape
from ..core.tensor import Tensor
from ..places.library_table import Convolving
from ..places.place import place_at
from .elementwise import common_place
from .reshape import contiguous

__all__ = ["run_library"]

_ALIGNMENT = 16
"""Bytes: libraries read vectors."""


def run_library(
    work: Convolving, made: Sequence[tuple[dtype, Shape]], operands: Sequence[Tensor]
) -> list[Tensor] | None:
    """New tensors, contiguous and of these types and shapes, made of tensors that require no gradients; or None, where
    no library does this.

    Raises:
        DeviceMismatchError: the operands are on different devices.
    """
    first = operands[0]._layout
    key = (work, "library", tuple(made), *[each._layout for each in operands[1:]])
    plan = first.plans.get(key, first)
    if plan is first:
        place = common_place(work.part, operands)
        outs = [Layout.of(place, *each) for each in made]
        kernel = place.library(work, [*outs, *[each._layout.like() for each in operands]])
        plan = first.plans[key] = None if kernel is None else (kernel, outs)
    if plan is None:
        return None
    kernel, outs = plan
    empty = place_at(outs[0]).empty
    results = [empty(each) for each in outs]
    ready = [contiguous(each) for each in operands]
    kernel(*results, *[_aligned(each) for each in ready])
    return results


def _aligned(tensor: Tensor) -> Tensor:
    return tensor if not tensor._address % _ALIGNMENT else place_at(tensor._layout).contiguous_copy(tensor)
