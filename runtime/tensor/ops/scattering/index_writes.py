"""Elements written where indices name whole positions of a dimension, or elements by all dimensions, or where a mask is
True."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...core.casting_seam import seam
from ...core.dtypes import bool_, int32, int64
from ...core.gradient_seam import begin_history
from ...core.needed_tensors import layout_of, needed
from ...core.printed_names import printed_as
from ...core.shapes import normal_axis
from ...core.switches import switches
from ...core.tensor import Tensor, view_of
from ...core.tensor_errors import ElementTypeError, RangeError, ShapeError
from ...places.place import Place, place_at
from ...places.tables_with_gradients.elementwise_table import BY_NAME, COPY
from ..arguments.overlap import refuse_expanded, refuse_overlap, warn_of_expanded
from ..arguments.scalars import item
from ..copying.copying import clone, to
from ..elementwise import elementwise_functions as each
from ..elementwise.elementwise import apply, apply_into, common_place
from ..elementwise.results import into
from ..indexing.index_parts import put_on, resolve
from ..indexing.indexing import index_select, masked_fill_, set_item
from ..indexing.take_and_put import arranged, put_plan
from ..making.creation import zeros
from ..reductions.along import scatter_plan
from ..reductions.reductions import sum as sum_of
from ..reductions.scans import cumsum
from ..shapes.reshape import contiguous, reshape
from ..shapes.views import broadcast_to, common_shape, expand, permute
from .scattering import copied, nothing_written, scattered

__all__ = [
    "index_add",
    "index_add_",
    "index_copy",
    "index_copy_",
    "index_fill",
    "index_fill_",
    "index_put",
    "index_put_",
    "masked_scatter",
    "masked_scatter_",
    "put_",
]


# --- by whole positions of a dimension


def _positions(name: str, input: Tensor, dim: int, index: Tensor) -> tuple[int, Tensor]:
    axis = normal_axis(dim, needed(input).ndim)
    if needed(index).ndim > 1:
        raise RangeError(f"{name}: the index has {index.ndim} dimensions, and must have one")
    if index.dtype not in (int64, int32):
        raise ElementTypeError(f"{name}: the index must be of {int64!r} or {int32!r}, and is of {index.dtype!r}")
    return axis, reshape(index, -1)


def index_add_(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: bool | float = 1) -> Tensor:
    """``alpha * source`` added at positions of a dimension, several to one position too.

    Args:
        input: the tensor to write.
        dim: the dimension.
        index: int64 or int32, of one dimension.
        source: a tensor of the same element type, with as many positions of this dimension as ``index`` has elements.
        alpha: a number.

    Raises:
        TypeError: the types do not fit.
        ValueError: the dimensions do not fit.
        IndexError: there is no such dimension; on the CPU also: an index is out of range.
    """
    if alpha == 1 and type(alpha) is int and _is_scatter(input, index, source):
        return scattered("index_add", input, dim, index, source, "add")
    plans, key = input._layout.plans, None
    if alpha == 1 and type(alpha) is type(dim) is int:
        key = ("index_add", dim, index._layout, source._layout)
        plan, storage = plans.get(key), input._storage
        if plan is not None and index._storage is not storage is not source._storage and not switches.deterministic:
            storage.version += 1
            plan(input, index, source)
            return input
    axis, flat = _positions("index_add", input, dim, index)
    if source.dtype is not input.dtype:
        raise ElementTypeError(f"index_add: the source is of {source.dtype!r} and the tensor of {input.dtype!r}")
    _fits("index_add", input, axis, flat, source)
    if not (type(alpha) is int and alpha == 1):
        source = to(apply(BY_NAME["mul"], source, alpha), input.dtype)
    if not input.ndim:
        return apply_into(COPY, input, apply(BY_NAME["add"], input, sum_of(reshape(source, -1))))
    places = _spread(flat, source, axis)
    scattered("index_add", input, axis, places, source, "add")
    plan = None if key is None else scatter_plan("scatter_sum", axis, input, places, source)
    if plan is not None:
        plans[key] = plan
    return input


def _is_scatter(input: Tensor, index: Tensor, source: Tensor) -> bool:
    """Whether the index is already one of elements: all have one dimension."""
    own, where, given = layout_of(input), layout_of(index), layout_of(source)
    alike = own.dtype is given.dtype and where.dtype is int64 and where.shape == given.shape
    return alike and len(own.shape) == len(where.shape) == 1


def _fits(name: str, input: Tensor, axis: int, flat: Tensor, source: Tensor) -> None:
    rest = (*input.shape[:axis], *input.shape[axis + 1 :])
    if (source.shape[axis] if source.ndim else 1) != flat.numel():
        raise RangeError(f"{name}: {flat.numel()} indices for a source of shape {list(source.shape)}")
    if source.ndim != input.ndim or (*source.shape[:axis], *source.shape[axis + 1 :]) != rest:
        raise ShapeError(f"{name}: a source of shape {list(source.shape)} for a tensor of shape {list(input.shape)}")


def _spread(flat: Tensor, source: Tensor, axis: int) -> Tensor:
    """An index of positions as one of elements: the same along all other dimensions."""
    shape = [1] * source.ndim
    shape[axis] = flat.numel()
    return expand(reshape(flat, shape), *source.shape)


@printed_as("IndexAddBackward0")
def index_add(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    *,
    alpha: bool | float = 1,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with ``alpha * source`` added at positions of a dimension: see ``index_add_``.

    ``out`` says where to write the result; it is given the result's shape.
    """
    return into(out, index_add_(copied(input), dim, index, source, alpha=alpha), exact=True)


def index_copy_(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``source`` written at positions of a dimension. It takes and raises what ``index_add_`` does, but for
    ``alpha``."""
    axis, flat = _positions("index_copy", input, dim, index)
    if source.dtype is not input.dtype:
        raise ElementTypeError(f"index_copy: the source is of {source.dtype!r} and the tensor of {input.dtype!r}")
    if not flat.numel() and not source.numel():
        return nothing_written(input, source)
    if not input.ndim or not source.ndim:
        source = reshape(source, input.shape) if source.numel() == 1 else source
    if source.ndim:
        _fits("index_copy", input, axis, flat, source)
        return scattered("index_copy", input, axis, _spread(flat, source, axis), source, None)
    return apply_into(COPY, input, source)


@printed_as("IndexCopyBackward0")
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy with ``source`` written at positions of a dimension: see ``index_copy_``.

    ``out`` says where to write the result; it is given the result's shape.
    """
    return into(out, index_copy_(copied(input), dim, index, source), exact=True)


def index_fill_(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """``value``, a number or a tensor without dimensions, written at positions of a dimension.

    Raises:
        TypeError: ``index`` is not of an integer type.
        ValueError: ``value`` has dimensions.
        IndexError: there is no such dimension; on the CPU also: an index is out of range.
    """
    axis, flat = _positions("index_fill", input, dim, index)
    if isinstance(value, Tensor):
        if value.ndim:
            raise ShapeError(f"index_fill: the value has {value.ndim} dimensions, and must have none")
        if value._layout.tracked:  # each element counts once for its gradient, also where indices are repeated
            chosen = zeros(*input.shape, dtype=bool_, device=input.device)
            return masked_fill_(input, index_fill_(chosen, dim, index, True), value)
        value = item(value)
    warn_of_expanded("index_fill_", input)
    refuse_overlap(input, flat)
    if not input.ndim:
        return apply_into(COPY, input, value) if flat.numel() else input
    if flat.numel() and input.numel():
        set_item(input, (*(slice(None),) * axis, to(flat, int64)), value)
    return input


@printed_as("IndexFillBackward0")
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy with ``value`` written at positions of a dimension: see ``index_fill_``."""
    return index_fill_(copied(input), dim, index, value)


# --- by indices of all dimensions


def index_put_(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """``input[indices] = values``; with ``accumulate`` values are added, several to one place too.

    Args:
        input: the tensor to write.
        indices: integer tensors or masks for the first dimensions, or None where all positions are meant.
        values: a tensor of the same element type, which broadcasts to what the indices name.
        accumulate: whether values are added to what is there.

    Raises:
        TypeError: the types differ.
        ValueError: the shapes do not broadcast.
        IndexError: there are more indices than dimensions; on the CPU also: an index is out of range.
    """
    index = indices[0] if len(indices) == 1 else None
    if isinstance(index, Tensor) and isinstance(values, Tensor):
        apart = index._storage is not input._storage is not values._storage
        if apart and not accumulate and not seam.on:
            plans, key = input._layout.plans, (index_put_, index._layout, values._layout)
            plan: Any = plans.get(key)
            if plan is None:
                plan = plans[key] = put_plan(input, index, values) or False
            if plan:
                input._storage.version += 1
                plan(input, values, index)
                return input
    if layout_of(values).dtype is not layout_of(input).dtype:
        raise ElementTypeError(f"index_put_: the values are of {values.dtype!r} and the tensor of {input.dtype!r}")
    warn_of_expanded("index_put_", input)
    refuse_overlap(input, values, *indices)
    asked = tuple(slice(None) if one is None else one for one in indices)
    if not accumulate:
        set_item(input, asked[0] if len(asked) == 1 and isinstance(asked[0], Tensor) else asked, values)
        return input
    begin_history(input, values)
    view, named = resolve(input, asked, writing=True)
    if named is None:  # numbers alone
        apply_into(COPY, view, apply(BY_NAME["add"], view, values))
    else:
        _add_at(view, named, values)
    return input


def _add_at(view: Tensor, indices: list[Tensor | None], values: Tensor) -> None:
    """Add ``values``, which broadcast, to the elements of ``view`` at index tensors: one for each dimension, or None
    where all positions are meant. It takes memory in proportion to what is added, and copies a view that is none of
    rows."""
    target, ready, shape, first = arranged(view, indices)
    lengths, count = tuple(target.shape), len(shape)
    rest = lengths[len(ready) :]
    wanted = *rest[:first], *shape, *rest[first:]
    added = values if values._layout.shape == wanted else broadcast_to(values, wanted)
    if first and count:
        behind = range(first + count, added.ndim)
        added = permute(added, *range(first, first + count), *range(first), *behind)
    place, flat, row = place_at(target._layout), contiguous(target), prod(rest)
    if not added.numel():  # there is nothing to add, but a history, in which the gradient of ``values`` is 0
        if added._layout.tracked:
            places = put_on(place, np.empty(0, np.int64))
            scattered("index_put_", view_of(flat, (flat.numel(),), (1,)), 0, places, reshape(added, -1), "add")
            if flat is not target:
                apply_into(COPY, target, flat)
        return
    by_row = bool(rest) and not (place.numpy_indices and added.numel() <= _FEW)
    places = _places(place, ready, lengths, shape, 1 if by_row else row)
    if by_row:
        rows = view_of(flat, (prod(lengths) // row, row), (row, 1))
        places = broadcast_to(reshape(places, -1, 1), (places.numel(), row))
    else:
        rows = view_of(flat, (prod(lengths),), (1,))
    scattered("index_put_", rows, 0, places, reshape(added, places.shape), "add")
    if flat is not target:
        apply_into(COPY, target, flat)


_FEW = 16384
"""So many elements NumPy adds one by one, each at a place of its own: rows of them take longer to lay out."""


def _places(place: Place, indices: list[Tensor], lengths: Sequence[int], shape: Sequence[int], row: int) -> Tensor:
    """The places that indices of the first dimensions, of these lengths, name together, one after the other, on
    ``place``. Where NumPy indexes, an IndexError says what is out of range, and each place is one of ``row`` elements,
    all of which are named."""
    found: Any = None
    for axis, (index, length) in enumerate(zip(indices, lengths, strict=False)):
        own: Any
        if place.numpy_indices:
            own = place_at(index._layout).read(index)
            if own.size and not -length <= own.min() <= own.max() < length:
                wrong = own[(own < -length) | (own >= length)][0]
                raise IndexError(f"index {wrong} is out of bounds for dimension {axis} with size {length}")
            own = own.astype(np.int64) % length
            found = own if found is None else found * length + own
        else:
            turned = apply(BY_NAME["add"], index, length)
            own = apply(BY_NAME["where"], apply(BY_NAME["lt"], index, 0), turned, index)
            before = None if found is None else apply(BY_NAME["mul"], found, length)
            found = own if before is None else apply(BY_NAME["add"], before, own)
    if place.numpy_indices:
        every = np.broadcast_to(found, shape).reshape(-1)
        return put_on(place, every if row == 1 else (every[:, None] * row + np.arange(row)).reshape(-1))
    return reshape(broadcast_to(found, shape), -1)


def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with ``values`` at ``indices``: see ``index_put_``, whose arguments and errors these are."""
    if seam.on:
        input, values = seam.convert(("index_put",), (input, values))
    return index_put_(copied(input), indices, values, accumulate)


def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """``source`` written (or added) at indices of the flattened tensor; negative ones count from the end.

    Raises:
        TypeError: the types do not fit.
        ValueError: there are not as many indices as elements.
        IndexError: on the CPU: an index is out of range.
    """
    if layout_of(index).dtype is not int64:
        raise ElementTypeError(f"put_: the index must be of {int64!r}, and is of {index.dtype!r}")
    if layout_of(index).numel != layout_of(source).numel:
        raise ShapeError(f"put_: {index.numel()} indices for {source.numel()} elements")
    refuse_expanded(input)
    refuse_overlap(input, index, source)
    begin_history(input, source)
    flat = contiguous(input)
    index_put_(view_of(flat, (flat.numel(),), (1,)), [reshape(index, -1)], reshape(source, -1), accumulate)
    if flat is not input:
        apply_into(COPY, input, flat)
    return input


def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of ``source``, in order, written where ``mask``, which broadcasts, is True.

    Raises:
        TypeError: ``mask`` is not of bool, or the element types differ.
        ValueError: ``mask`` does not broadcast, or ``source`` has too few elements: that waits for a device.
    """
    if layout_of(mask).dtype is not bool_:
        raise ElementTypeError(f"masked_scatter_: the mask must be of {bool_!r}, and is of {mask.dtype!r}")
    if layout_of(source).dtype is not layout_of(input).dtype:
        raise ElementTypeError(f"masked_scatter_: the source is of {source.dtype!r} and the tensor of {input.dtype!r}")
    common_place("masked_scatter_", (reshape(input, -1), reshape(mask, -1), reshape(source, -1)))
    flags = reshape(broadcast_to(mask, tuple(input.shape)), -1)
    if not flags.numel():
        return nothing_written(input, source)
    upto = cumsum(flags, 0)
    wanted = item(upto[-1])
    if wanted > source.numel():
        raise ShapeError(f"masked_scatter_: {source.numel()} elements for {wanted} places")
    if wanted:
        picked = index_select(reshape(source, -1), 0, each.clamp_min(apply(BY_NAME["sub"], upto, 1), 0))
        made = apply(BY_NAME["where"], reshape(flags, input.shape), reshape(picked, input.shape), input)
        return apply_into(COPY, input, made)
    return nothing_written(input, source)


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy, of the shape to which both broadcast, with the elements of ``source`` where ``mask`` is True."""
    shape = common_shape(layout_of(input).shape, layout_of(mask).shape)
    return masked_scatter_(clone(contiguous(broadcast_to(input, *shape) if shape else input)), mask, source)
