"""Work along one dimension: tensors brought into the form of rows that ``places/row_table.py`` wants, and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..core.dtypes import dtype
from ..core.layout import Layout
from ..core.shapes import Shape
from ..core.tensor import Tensor, view_of
from ..places.dispatch import Plan, dispatch
from ..places.row_table import ROWS
from .elementwise import common_place
from .reshape import contiguous
from .views import movedim

__all__ = ["as_rows", "from_rows", "run_rows", "scatter_rows"]


def as_rows(input: Tensor, axis: int) -> Tensor:
    """The tensor as (rows, elements along ``axis``), contiguous: a view if it lies so, else a copy."""
    if not input.ndim:
        return view_of(contiguous(input), (1, 1), (1, 1))
    moved = contiguous(movedim(input, axis, -1) if axis != input.ndim - 1 else input)
    length = moved._layout.shape[-1]
    return view_of(moved, (prod(moved._layout.shape[:-1]), length), (length, 1))


def from_rows(made: Tensor, shape: Shape, axis: int) -> Tensor:
    """What ``as_rows`` makes of a tensor of this shape, as a contiguous tensor of this shape."""
    if not shape:
        return view_of(made, (), ())
    if axis == len(shape) - 1:
        return view_of(made, tuple(shape), Layout.of(made._layout.place, made.dtype, tuple(shape)).strides)
    moved = (*shape[:axis], *shape[axis + 1 :], shape[axis])
    back = view_of(made, moved, Layout.of(made._layout.place, made.dtype, moved).strides)
    return contiguous(movedim(back, -1, axis))


def run_rows(
    name: str, kinds: Sequence[dtype], shape: Shape, operands: Sequence[Tensor], *parameters: float
) -> list[Tensor]:
    """New tensors of the types ``kinds`` and of one shape, (rows, elements), made by a line of the table of rows.

    Raises:
        DeviceMismatchError: the operands are on different devices.
        IndexError: on the CPU, an index is out of range.
    """
    return dispatch((name, "rows", tuple(kinds), shape), _prepare, operands, *parameters)  # type: ignore[no-any-return]


def _prepare(asked: tuple[Any, ...], *operands: Tensor) -> Plan:
    name, _, kinds, shape = asked
    place = common_place(name, operands)
    targets = [Layout.of(place, kind, shape) for kind in kinds]
    empty = place.empty
    kernel = None
    if targets[0].numel:
        kernel = place.rows(ROWS[name], targets, [each._layout for each in operands])

    def plan(*given: Any) -> list[Tensor]:
        outs = [empty(each) for each in targets]
        if kernel is not None:
            kernel(*outs, *given)
        return outs

    return plan


def scatter_rows(name: str, target: Tensor, index: Tensor, values: Tensor) -> None:
    """Write to the rows of ``target``, contiguous, at indices; all three have two dimensions."""
    if index._layout.numel:
        target._storage.version += 1
        dispatch((name, "scatter"), _prepare_scatter, (target, index, values))


def _prepare_scatter(asked: tuple[str, str], target: Tensor, index: Tensor, values: Tensor) -> Plan:
    place = common_place(asked[0], (target, index, values))
    return place.rows(ROWS[asked[0]], [target._layout], [index._layout, values._layout])
