"""What a library of NVIDIA's does where there is one: the calls that ``library_table.py`` lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.dtypes import dtype
from ...core.layout import Layout
from ...core.shapes import Shape
from ...core.tensor import Tensor
from ...places.place import place_at
from ...places.tables_with_gradients.library_table import Attending, Convolving
from ..elementwise.elementwise import common_place
from ..shapes.reshape import contiguous

LibraryPlan = Callable[..., list[Tensor]]
"""Takes the operands, and returns new tensors."""

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
    plan: LibraryPlan | bool | None = first.plans.get(key)
    if plan is None:
        plan = first.plans[key] = library_plan(work, made, operands) or False
    return plan(*operands) if callable(plan) else None


def library_plan(
    work: Convolving | Attending,
    made: Sequence[tuple[dtype, Shape] | tuple[dtype, Shape, Shape]],
    operands: Sequence[Tensor],
) -> LibraryPlan | None:
    """What ``run_library`` does with tensors of the layouts of these, as a function of them.

    Raises:
        DeviceMismatchError: the operands are on different devices.
    """
    place = common_place(work.part, operands)
    outs = [Layout.of(place, *each) for each in made]
    kept = [isinstance(work, Attending) and _has_vectors(each._layout) for each in operands]
    taken = [each._layout if as_it_is else each._layout.like() for each, as_it_is in zip(operands, kept, strict=True)]
    kernel, empty = place.library(work, [*outs, *taken]), place.empty
    if kernel is None:
        return None
    copied = [position for position, as_it_is in enumerate(kept) if not as_it_is]
    copied = [position for position in copied if not operands[position]._layout.contiguous]

    def run(*given: Tensor) -> list[Tensor]:
        results = [empty(each) for each in outs]
        ready = list(given)
        for position in copied:
            ready[position] = contiguous(given[position])
        kernel(*results, *[each if not each._address % _ALIGNMENT else _aligned(each) for each in ready])
        return results

    return run


def in_one_piece(tensor: Tensor) -> Tensor:
    """A tensor as libraries take it: contiguous, and at an address that is a multiple of 16; if need be a copy."""
    ready = contiguous(tensor)
    return _aligned(ready) if ready._address % _ALIGNMENT else ready


def _has_vectors(layout: Layout) -> bool:
    """Whether the last dimension lies side by side, and begins at multiples of 16 bytes."""
    *steps, last = layout.strides
    return last == 1 and all(step > 0 and not step * layout.dtype.itemsize % _ALIGNMENT for step in steps)


def _aligned(tensor: Tensor) -> Tensor:
    copied = place_at(tensor._layout).empty(tensor._layout)
    place_at(tensor._layout).copy(copied, tensor)
    return copied
