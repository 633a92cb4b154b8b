"""Work along one dimension: tensors brought to the form that ``scan_and_sort_table.py`` wants, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

from ....kernels.launch.unrolling import Unroller
from ...core.dtypes import dtype
from ...core.layout import Layout
from ...core.shapes import Shape
from ...core.tensor import Tensor, make_tensor, view_of
from ...places.dispatch import Plan, dispatch, plan_for
from ...places.place import place_at
from ...places.tables_with_gradients.fused_table import FUSED
from ...places.tables_with_gradients.scan_and_sort_table import ROWS
from ..elementwise.elementwise import common_place
from ..shapes.reshape import contiguous
from ..shapes.views import permute


def as_rows(input: Tensor, axis: int) -> Tensor:
    """The tensor as (rows, elements along ``axis``), contiguous: a view if it lies so, else a copy."""
    if not input.ndim:
        return view_of(contiguous(input), (1, 1), (1, 1))
    there, _ = _orders(input.ndim, axis)
    moved = contiguous(permute(input, *there) if axis != input.ndim - 1 else input)
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
    return contiguous(permute(back, *_orders(len(shape), axis)[1]))


@cache
def _orders(ndim: int, axis: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The orders of dimensions that move one to the end, and back."""
    rest = [each for each in range(ndim) if each != axis]
    return (*rest, axis), (*range(axis), ndim - 1, *range(axis, ndim - 1))


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

    own: Plan | None = getattr(kernel, "new", None)
    if own is not None:
        return own

    def plan(*given: Any) -> list[Tensor]:
        outs = [empty(each) for each in targets]
        if kernel is not None:
            kernel(*outs, *given)
        return outs

    return plan


def run_fused(
    name: str, made: Sequence[tuple[dtype, Shape] | Tensor], operands: Sequence[Tensor], *numbers: float
) -> list[Tensor]:
    """What a line of the table of fused kernels makes of contiguous tensors that require no gradients.

    Args:
        name: the line.
        made: for each result its type and shape, or a tensor to write to.
        operands: the tensors.
        numbers: those that the line takes.
    """
    place = place_at(operands[0]._layout)
    layouts = [each._layout if isinstance(each, Tensor) else Layout.of(place, *each) for each in made]
    layouts += [each._layout for each in operands]
    plans, key = layouts[0].plans, (name, "fused", len(made), *layouts)
    kernel = plans.get(key)
    if kernel is None:
        kernel = plans[key] = place.rows(FUSED[name], layouts[: len(made)], layouts[len(made) :])
    own = getattr(kernel, "new", None)
    if own is not None and not any(isinstance(each, Tensor) for each in made):
        return own(*operands, *numbers)  # type: ignore[no-any-return]
    outs = [each if isinstance(each, Tensor) else place.empty(one) for each, one in zip(made, layouts, strict=False)]
    kernel(*outs, *operands, *numbers)
    for each, out in zip(made, outs, strict=True):
        if each is out:
            out._storage.version += 1
    return outs


def fused(name: str, made: Sequence[Layout], operands: Sequence[Layout]) -> Plan:
    """``run_fused``, with all that layouts settle settled: a function of the operands and numbers.

    Args:
        name: the line.
        made: the layouts of the results, which are new tensors.
        operands: those of the operands.
    """
    place = place_at(operands[0])
    empty, kernel = place.empty, place.rows(FUSED[name], made, operands)
    own: Plan | None = getattr(kernel, "new", None)
    if own is not None:
        return own

    def run(*given: Any) -> list[Tensor]:
        outs = [empty(each) for each in made]
        kernel(*outs, *given)
        return outs

    return run


def are_rows(axis: int, *layouts: Layout) -> bool:
    """Whether plain tensors of these layouts, of one place, are rows along ``axis`` as they lie, with elements."""
    first = layouts[0]
    last = len(first.shape) - 1
    return axis == last and all(
        each.contiguous
        and len(each.shape) == last + 1
        and each.numel
        and each.place is first.place
        and not each.tracked
        for each in layouts
    )


def rows_as_they_lie(name: str, made: Sequence[tuple[dtype, Shape]], operands: Sequence[Layout]) -> Plan:
    """The plan of a line of the table of rows for operands that are rows along their last dimension: see ``are_rows``.
    ``run_rows``, with all that layouts settle settled. It takes the operands, and the line's parameters.

    Args:
        name: the line.
        made: the types and shapes of the results, of which there are none where the first operand is written to.
        operands: the layouts of the operands.
    """
    place = place_at(operands[0])
    results = [Layout.of(place, kind, shape) for kind, shape in made]
    rows = [each.like(shape=(each.numel // each.shape[-1], each.shape[-1])) for each in (*results, *operands)]
    outs = len(made) or 1
    kernel = place.rows(ROWS[name], rows[:outs], rows[outs:])
    return _planner("m" * len(made) + "g" * len(operands))(place.empty, kernel, results, rows)


@cache
def _planner(kinds: str) -> Callable[..., Plan]:
    """Makes the function that makes results and runs a kernel with everything as rows. It is written out: loops over
    the operands take as long as the launch.

    Args:
        kinds: a letter for each tensor, ``m`` for those that are made, which come first, and ``g`` for given ones.
    """
    tensors = Unroller(kinds)
    rows = {"m": "make_tensor(t{k}._storage, 0, r{k}), ", "g": "make_tensor(t{k}._storage, t{k}._offset, r{k}), "}
    source = f"""
def planner(empty, kernel, results, rows):
    [{tensors.each("m{k}, ", only="m")}] = results
    [{tensors.each("r{k}, ")}] = rows
    def plan({tensors.each("t{k}, ", only="g")}*parameters):
        pass{tensors.each("; t{k} = empty(m{k})", only="m")}
        kernel({tensors.each(rows)}*parameters)
        return [{tensors.each("t{k}, ", only="m")}]
    return plan
"""
    return tensors.function(source, "planner", {"make_tensor": make_tensor})


def as_they_lie(name: str, axis: int, target: Tensor, index: Tensor, values: Tensor) -> tuple[Tensor, ...] | None:
    """Views of what is to be scattered along ``axis``, as ``scatter_rows`` takes them without copies; None where the
    place wants rows, or they are rows already."""
    layout, last = target._layout, len(target._layout.shape) - 1
    together = target, index, values
    if last < 0 or (axis == last and all(each._layout.contiguous for each in together)):
        return None
    if not place_at(layout).scatters_as_it_lies(ROWS[name], layout):
        return None
    there, _ = _orders(last + 1, axis)
    return together if axis == last else tuple(permute(each, *there) for each in together)


def scatter_rows(name: str, target: Tensor, index: Tensor, values: Tensor) -> None:
    """Write to the rows of ``target``, contiguous, at indices; all have two dimensions, or are ``as_they_lie``."""
    if index._layout.numel:
        target._storage.version += 1
        dispatch((name, "scatter"), _prepare_scatter, (target, index, values))


def scatter_plan(name: str, axis: int, target: Tensor, index: Tensor, values: Tensor) -> Plan | None:
    """What ``scatter_rows`` does with tensors like these along ``axis``, wherever they begin: all that counts are their
    layouts. None where there are gradients, or no elements, or they are not taken ``as_they_lie``, or by NumPy, which
    takes arrays and not addresses."""
    by_address = index._layout.numel and not place_at(target._layout).numpy_indices
    moved = as_they_lie(name, axis, target, index, values) if by_address else None
    if moved is None or target._layout.tracked or values._layout.tracked:
        return None
    return plan_for((name, "scatter"), _prepare_scatter, moved)


def _prepare_scatter(asked: tuple[str, str], target: Tensor, index: Tensor, values: Tensor) -> Plan:
    place = common_place(asked[0], (target, index, values))
    return place.rows(ROWS[asked[0]], [target._layout], [index._layout, values._layout])
