"""Updates of whole lists of tensors at once, in place: what optimisers do to all parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.tensor import Tensor
from ...places.optimizer_table import UPDATES
from ...places.place import place_at
from ..copying.copying import copied_to
from ..reductions.reductions import sum as sum_of
from ..shapes.reshape import contiguous


def update(name: str, rows: Sequence[Sequence[Tensor]], *numbers: float, shared: Tensor | None = None) -> None:
    """Do to the tensors of each row what a line of the table of updates says, on their device.

    Args:
        name: the line.
        rows: for each the tensors that the line names, of one number of elements. Gradients are not recorded.
        numbers: those that the line names.
        shared: where the line wants one, a tensor of one float32, on the device of all rows.
    """
    line = UPDATES[name]
    written = len(line.written)
    for (place, kind), found in _groups(rows).items():
        ready = [_alike(row, kind) for row in found]
        place.update(line, kind, ready, numbers, shared)
        for row, made in zip(found, ready, strict=True):
            for each, one in zip(row[:written], made, strict=False):
                if one is each:
                    each._storage.version += 1
                else:
                    each.copy_(one)


def sum_of_squares(rows: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """The sums of the squares of all elements of tensors, each given as a row of its own: one for each device and
    type, in the type that it computes in. There is one tensor with elements at least."""
    return [
        sum_of(place.squares(kind, [_alike(row, kind) for row in found]))
        for (place, kind), found in _groups(rows).items()
    ]


def _groups(rows: Sequence[Sequence[Tensor]]) -> dict[tuple[Any, Any], list[Sequence[Tensor]]]:
    groups: dict[tuple[Any, Any], list[Sequence[Tensor]]] = {}
    for row in rows:
        layout = row[0]._layout
        if layout.numel:
            groups.setdefault((layout.place, layout.dtype), []).append(row)
    return groups


def _alike(row: Sequence[Tensor], kind: Any) -> Sequence[Tensor]:
    """The tensors as ones whose elements lie side by side in one order: themselves, where they do."""
    place = row[0]._layout.place
    for each in row:
        layout = each._layout
        if not layout.contiguous or layout.dtype is not kind or layout.place is not place:
            there = place_at(row[0]._layout)
            return [contiguous(copied_to(one.detach(), there, kind)) for one in row]
    return row
