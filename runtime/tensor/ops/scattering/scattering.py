"""Elements taken from and written to the places that a tensor of indices names along a dimension."""

from __future__ import annotations

from typing import Any

from ...core.casting_seam import seam
from ...core.dtypes import int32, int64
from ...core.gradient_seam import begin_history
from ...core.needed_tensors import layout_of
from ...core.printed_names import printed_as
from ...core.shapes import normal_axis
from ...core.switches import switches
from ...core.tensor import Tensor, make_tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError, RangeError, ShapeError
from ...places.dispatch import Plan
from ...places.tables_with_gradients.elementwise_table import BY_NAME, COPY
from ..arguments.overlap import refuse_expanded, refuse_overlap
from ..arguments.scalars import item
from ..arithmetic.arithmetic import where
from ..copying.copying import clone, to
from ..elementwise import elementwise_functions as each
from ..elementwise.elementwise import apply, apply_into, common_place
from ..elementwise.results import into
from ..indexing.indexing import get_item, index_select, masked_select
from ..indexing.take_and_put import take_plan
from ..making.creation import full
from ..making.patterns import arange
from ..reductions.along import are_rows, as_rows, as_they_lie, from_rows, rows_as_they_lie, run_rows, scatter_rows
from ..reductions.reductions import max as max_of
from ..reductions.reductions import sum as sum_of
from ..shapes.reshape import contiguous, reshape
from ..shapes.views import broadcast_to, common_shape, narrow, unsqueeze

__all__ = [
    "gather",
    "scatter",
    "scatter_",
    "scatter_add",
    "scatter_add_",
    "scatter_reduce",
    "scatter_reduce_",
    "take",
    "take_along_dim",
]


@printed_as("GatherBackward0")
def gather(
    input: Tensor,
    dim: int,
    index: Tensor,
    *,
    sparse_grad: bool = False,  # noqa: ARG001 - gradients are dense here
    out: Tensor | None = None,
) -> Tensor:
    """``out[i][j] = input[index[i][j]][j]`` for two dimensions and ``dim`` 0: the elements at indices of a dimension.

    Args:
        input: the tensor.
        dim: the dimension.
        index: int64 or int32, with as many dimensions, and no longer than ``input`` in the others.
        sparse_grad: makes no difference: gradients are dense here.
        out: where to write the result; it is given the shape of ``index``.

    Raises:
        TypeError: ``index`` is not of an integer type.
        ValueError: the dimensions do not fit.
        IndexError: there is no such dimension; on the CPU also: an index is out of range.
    """
    plans, key = layout_of(input).plans, None
    if type(dim) is int and isinstance(index, Tensor):
        key = ("gather", dim, index._layout)
    plan = plans.get(key) if out is None else None
    if plan is not None:
        return plan(input, index)[0]  # type: ignore[no-any-return]
    axis = normal_axis(dim, input.ndim)
    index = to(_index("gather", index, input, axis), int64)
    source = _trimmed(input, index, axis)
    if key is not None and source is input and index._layout is key[2] and are_rows(axis, input._layout, index._layout):
        plans[key] = rows_as_they_lie("gather", [(input.dtype, index.shape)], [input._layout, index._layout])
    if not index.numel():
        return into(out, clone(reshape(narrow(reshape(input, -1), 0, 0, 0), index.shape)), exact=True)
    rows = as_rows(index, axis)
    made = run_rows("gather", (input.dtype,), tuple(rows.shape), [as_rows(source, axis), rows])[0]
    return into(out, from_rows(made, index.shape, axis), exact=True)


@printed_as("TakeBackward0")
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements at indices of the flattened tensor; negative ones count from the end.

    ``out`` says where to write the result; it is given the shape of ``index``.

    Raises:
        TypeError: ``index`` is not of int64.
        IndexError: on the CPU: an index is out of range.
    """
    if layout_of(index).dtype is not int64:
        raise ElementTypeError(f"take: the index must be of {int64!r}, and is of {index.dtype!r}")
    own, asked = layout_of(input), layout_of(index)
    if out is None and not seam.on:
        plan: Any = own.plans.get((take, asked))
        if plan is None:
            plan = own.plans[take, asked] = _taking(input, index) or False
        if plan:
            return plan(input, index)  # type: ignore[no-any-return]
    flat = reshape(input, -1)
    common_place("take", (input, reshape(index, -1)))
    if index.numel() and not flat.numel():
        raise RangeError("take: there are no elements to take")
    return into(out, reshape(get_item(flat, reshape(index, -1)), index.shape), exact=True)


def _taking(input: Tensor, index: Tensor) -> Plan | None:
    """What takes elements of a tensor of this layout as it lies; None where there are gradients, or gaps in either."""
    own, asked = input._layout, index._layout
    if own.tracked or not (own.contiguous and asked.contiguous and own.numel and asked.numel and asked.shape):
        return None
    if own.place is not asked.place:
        return None
    flat = own.like(shape=(own.numel,))
    picked = take_plan(make_tensor(input._storage, input._offset, flat), index)
    return lambda tensor, index: picked(make_tensor(tensor._storage, tensor._offset, flat), index)


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """``gather``, whose shapes broadcast in the other dimensions; without ``dim`` of the flattened tensors. It raises
    as that does.

    ``indices`` are of int64, as ``argsort`` and ``argmax`` give them; negative ones count from the end.
    """
    if dim is None:
        return take_along_dim(reshape(input, -1), reshape(indices, -1), 0, out=out)
    if layout_of(indices).dtype is not int64:
        raise ElementTypeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype!r}, which is not {int64!r}"
        )
    if input.ndim != indices.ndim:
        raise ShapeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    axis = normal_axis(dim, input.ndim)
    shape = common_shape(
        (*input.shape[:axis], 1, *input.shape[axis + 1 :]), (*indices.shape[:axis], 1, *indices.shape[axis + 1 :])
    )
    own = (*shape[:axis], input.shape[axis], *shape[axis + 1 :])
    asked = (*shape[:axis], indices.shape[axis], *shape[axis + 1 :])
    from_end = apply(BY_NAME["add"], indices, input.shape[axis])
    counted = apply(BY_NAME["where"], each.lt(indices, 0), from_end, indices)
    return gather(broadcast_to(input, own), axis, broadcast_to(counted, asked), out=out)


def _index(name: str, index: Tensor, input: Tensor, axis: int, *, exact: bool = False) -> Tensor:
    """An index for a tensor, of int64 or int32, checked."""
    if layout_of(index).numel and index.dtype not in (int64, int32):
        raise ElementTypeError(f"{name}: the index must be of {int64!r} or {int32!r}, and is of {index.dtype!r}")
    _check_place(name, input, index)
    if index.numel() and (index.ndim or 1) != (input.ndim or 1):
        raise ShapeError(f"{name}: the index has {index.ndim} dimensions and the tensor {input.ndim}")
    if index.numel() and not exact:
        for position in range(index.ndim if input.ndim else 0):
            if position != axis and index.shape[position] > input.shape[position]:
                raise ShapeError(
                    f"{name}: the index, of shape {list(index.shape)}, is longer than the tensor, of shape "
                    f"{list(input.shape)}, in dimension {position}"
                )
    return index


def _check_place(name: str, a: Tensor, b: Tensor) -> None:
    """Raise DeviceMismatchError where they are on different devices, also without dimensions."""
    if a._layout.place is not b._layout.place:
        common_place(name, (reshape(a, -1), reshape(b, -1)))


def _trimmed(input: Tensor, index: Tensor, axis: int) -> Tensor:
    """The part of a tensor that the index covers in the other dimensions."""
    if not input.ndim or not index.ndim:
        return reshape(input, 1) if index.ndim else input
    for position in range(input.ndim):
        if position != axis and index.shape[position] < input.shape[position]:
            input = narrow(input, position, 0, index.shape[position])
    return input


_REDUCES = {
    None: "scatter",
    "add": "scatter_sum",
    "multiply": "scatter_prod",
    "sum": "scatter_sum",
    "prod": "scatter_prod",
    "amax": "scatter_amax",
    "amin": "scatter_amin",
}


def nothing_written(target: Tensor, source: Any) -> Tensor:
    """The tensor to which no element of ``source`` was written: its gradient there is zeros, and not missing."""
    if isinstance(source, Tensor) and source._layout.tracked:
        none = sum_of(narrow(reshape(source, -1), 0, 0, 0))
        apply_into(BY_NAME["add"], target, target, none)
    return target


def scattered(name: str, target: Tensor, dim: int, index: Tensor, src: Any, reduce: str | None) -> Tensor:
    """Write ``src`` to ``target`` itself at indices of a dimension.

    Raises:
        ElementTypeError: the source is of another element type than the tensor.
        ShapeError: the index and the source differ in dimensions, or the index is longer somewhere.
        ArgumentError: the tensor is expanded, or the index or the source lies over it.
    """
    plans, line, key = layout_of(target).plans, _REDUCES[reduce], None
    if type(dim) is int and isinstance(index, Tensor) and isinstance(src, Tensor):
        key = (line, dim, index._layout, src._layout)
        plan = plans.get(key)
        storage = target._storage
        if plan is not None and index._storage is not storage is not src._storage and not switches.deterministic:
            storage.version += 1
            plan(target, index, src)
            return target
    axis = normal_axis(dim, target.ndim)
    if isinstance(src, Tensor) and src.dtype is not target.dtype:
        raise ElementTypeError(f"{name}: the source is of {src.dtype!r} and the tensor of {target.dtype!r}")
    index = _index(name, index, target, axis)
    if not index.numel():
        return nothing_written(target, src)
    refuse_expanded(target)
    refuse_overlap(target, index, src)
    begin_history(target, src)
    if isinstance(src, Tensor) and (src.ndim or not index.ndim):
        _check_place(name, target, src)
        if (src.ndim or 1) != (index.ndim or 1):
            raise ShapeError(f"{name}: the index has {index.ndim} dimensions and the source {src.ndim}")
        for position in range(index.ndim if src.ndim else 0):
            if index.shape[position] > src.shape[position]:
                raise ShapeError(
                    f"{name}: the index, of shape {list(index.shape)}, is longer than the source, of shape "
                    f"{list(src.shape)}, in dimension {position}"
                )
            src = narrow(src, position, 0, index.shape[position])
        values = src if src.ndim == index.ndim else reshape(src, index.shape)
    else:
        value = item(src) if isinstance(src, Tensor) else src
        values = full(index.shape, value, dtype=target.dtype, device=target.device)
    part = _trimmed(target, index, axis)
    in_order = switches.deterministic and part.is_cuda and reduce not in ("amax", "amin")
    apart = index._storage is not target._storage is not values._storage
    moved = as_they_lie(line, axis, part, index, values) if apart and not in_order else None
    if moved is not None:
        scatter_rows(line, *moved)
        return target
    index = to(index, int64)
    layouts = index._layout, values._layout
    fits = key is not None and key[2:] == layouts and part is target and index.shape == values.shape
    if fits and are_rows(axis, target._layout, *layouts):
        plans[key] = rows_as_they_lie(line, (), (target._layout, *layouts))
    if target._storage is values._storage:
        values = clone(values)
    rows = as_rows(part, axis)
    if in_order:
        _scatter_in_order(line, rows, as_rows(index, axis), as_rows(values, axis))
    else:
        scatter_rows(line, rows, as_rows(index, axis), as_rows(values, axis))
    if rows._storage is not target._storage:
        apply_into(COPY, part, from_rows(rows, part.shape, axis))
    return target


def _scatter_in_order(line: str, rows: Tensor, index: Tensor, values: Tensor) -> None:
    """Scatter so that what goes to one place goes there in the order in which it stands, and not as threads come.

    In each round every place is written at most once, so there are as many rounds as values for the place with the
    most; how many that are, the device is asked.
    """
    count, length = rows.shape
    places = reshape(index + unsqueeze(arange(count, device=index.device) * length, 1), -1)
    given = reshape(values, -1)
    shape = (1, places.numel())
    ordered, order = (each[0] for each in run_rows("sort", (int64, int64), shape, [unsqueeze(places, 0)], 0))
    numbers = arange(places.numel(), device=index.device)
    begins = clone(numbers)
    begins[1:] = where(ordered[1:] == ordered[:-1], 0, numbers[1:])
    turns = numbers - run_rows("cummax", (int64, int64), shape, [unsqueeze(begins, 0)])[0][0]
    flat = reshape(rows, 1, -1)
    for turn in range(int(item(max_of(turns))) + 1):
        chosen = masked_select(order, turns == turn)
        part = index_select(places, 0, chosen)
        scatter_rows(line, flat, unsqueeze(part, 0), unsqueeze(index_select(given, 0, chosen), 0))


def scatter_(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, reduce: str | None = None, value: Any = None
) -> Tensor:
    """``input[index[i][j]][j] = src[i][j]`` for two dimensions and ``dim`` 0: elements written at indices.

    Args:
        input: the tensor to write.
        dim: the dimension.
        index: int64, with as many dimensions; no longer than ``src``, nor than ``input`` in the other dimensions.
        src: a tensor of the same element type, or a number; ``value`` means the same.
        reduce: ``add`` or ``multiply``, instead of writing over what is there.
        value: a number.

    Raises:
        TypeError: the types do not fit.
        ValueError: the dimensions do not fit, or there is no such ``reduce``.
        IndexError: there is no such dimension; on the CPU also: an index is out of range.
    """
    if reduce not in (None, "add", "multiply"):
        raise ArgumentError(f"scatter_: reduce is 'add' or 'multiply', not {reduce!r}")
    return scattered("scatter", input, dim, index, value if src is None else src, reduce)


@printed_as("ScatterBackward0")
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    reduce: str | None = None,
    value: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with elements written at indices: see ``scatter_``, whose arguments and errors these are.

    ``out`` says where to write the result; it is given the result's shape.
    """
    return into(out, scatter_(copied(input), dim, index, src, reduce=reduce, value=value), exact=True)


def scatter_add_(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Elements added at indices of a dimension, several to one place too: see ``scatter_``.

    On a CUDA device sums of floating-point numbers that go to one place may differ in the last bits from run to run.
    """
    return scattered("scatter_add", input, dim, index, src, "add")


@printed_as("ScatterAddBackward0")
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy with elements added at indices of a dimension: see ``scatter_add_``.

    ``out`` says where to write the result; it is given the result's shape.
    """
    if seam.on:
        input, src = seam.convert(("scatter_add",), (input, src))
    return into(out, scatter_add_(copied(input), dim, index, src), exact=True)


def scatter_reduce_(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Elements combined at indices of a dimension. Other arguments are those of ``scatter_``; it raises as that does.

    Args:
        reduce: ``sum``, ``prod``, ``mean``, ``amax`` or ``amin``.
        include_self: whether what is there is combined, too; otherwise it is written over.
    """
    if reduce not in _STARTS:
        raise ArgumentError(f"scatter_reduce: reduce is one of {', '.join(_STARTS)}, not {reduce!r}")
    if reduce == "mean" and input.dtype.kind == "b":
        raise ElementTypeError("scatter_reduce: there is no mean of bool; convert the tensor first, with .to()")
    if not layout_of(index).numel:
        return nothing_written(input, src)
    if not include_self:
        start = _STARTS[reduce]
        if isinstance(start, str):
            start = _limit(input, lowest=start == "lowest")
        scattered("scatter_reduce", input, dim, index, start, None)
    scattered("scatter_reduce", input, dim, index, src, "sum" if reduce == "mean" else reduce)
    if reduce == "mean":
        counts = full(input.shape, 1 if include_self else 0, dtype=int64, device=input.device)
        added = full(index.shape, 1, dtype=int64, device=input.device)
        scatter_add_(counts, dim, index, added)
        counts = each.clamp_min(counts, 1)
        made = each.floor_divide(input, counts) if input.dtype.kind != "f" else apply(BY_NAME["div"], input, counts)
        apply_into(COPY, input, made)
    return input


_STARTS: dict[str, Any] = {"sum": 0, "prod": 1, "mean": 0, "amax": "lowest", "amin": "highest"}


def _limit(input: Tensor, *, lowest: bool) -> Any:
    kind = input.dtype
    if kind.kind == "f":
        return float("-inf") if lowest else float("inf")
    return kind.minimum if lowest else kind.maximum


def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with elements combined at indices of a dimension: see ``scatter_reduce_``.

    ``out`` says where to write the result; it is given the result's shape.
    """
    made = scatter_reduce_(copied(input), dim, index, src, reduce, include_self=include_self)
    return into(out, made, exact=True)


def copied(input: Tensor) -> Tensor:
    """A copy without gaps, to write to."""
    return clone(contiguous(input))
