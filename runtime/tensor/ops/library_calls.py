"""What a library of NVIDIA's does where there is one: the calls of ``places/library_table.py``."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dtypes import dtype
from ..core.layout import Layout
from ..core.shapes import Shape
from ..core.tensor import Tensor
from ..places.library_table import Attending, Convolving
from ..places.place import place_at
from .elementwise import common_place
from .reshape import contiguous

__all__ = ["run_library"]

_ALIGNMENT = 16
"""Bytes: libraries read vectors."""


def run_library(
    work: Convolving | Attending,
    made: Sequence[tuple[dtype, Shape] | tuple[dtype, Shape, Shape]],
    operands: Sequence[Tensor],
) -> list[Tensor] | None:
    """New tensors of these types, shapes and strides, made of tensors that require no gradients; or None, where no
    library does this. Operands are copied where they are not contiguous; those of attention only where vectors are not.

    Raises:
        DeviceMismatchError: the operands are on different devices.
    """
    first = operands[0]._layout
    key = (work, "library", tuple(made), *[each._layout for each in operands[1:]])
    plan = first.plans.get(key, first)
    if plan is first:
        place = common_place(work.part, operands)
        outs = [Layout.of(place, *each) for each in made]
        kept = [isinstance(work, Attending) and _has_vectors(each._layout) for each in operands]
        taken = [
            each._layout if as_it_is else each._layout.like() for each, as_it_is in zip(operands, kept, strict=True)
        ]
        kernel = place.library(work, [*outs, *taken])
        plan = first.plans[key] = None if kernel is None else (kernel, outs, kept)
    if plan is None:
        return None
    kernel, outs, kept = plan
    empty = place_at(outs[0]).empty
    results = [empty(each) for each in outs]
    ready = [each if as_it_is else contiguous(each) for each, as_it_is in zip(operands, kept, strict=True)]
    kernel(*results, *[_aligned(each) for each in ready])
    return results


def _has_vectors(layout: Layout) -> bool:
    """Whether the last dimension lies side by side, and begins at multiples of 16 bytes."""
    *steps, last = layout.strides
    return last == 1 and all(step > 0 and not step * layout.dtype.itemsize % _ALIGNMENT for step in steps)


def _aligned(tensor: Tensor) -> Tensor:
    if not tensor._address % _ALIGNMENT:
        return tensor
    copied = place_at(tensor._layout).empty(tensor._layout)
    place_at(tensor._layout).copy(copied, tensor)
    return copied
