"""Copies whose elements stand in another order, or several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.layout import Layout
from ...core.needed_tensors import layout_of, needed
from ...core.printed_names import printed_as
from ...core.shapes import Shape, as_lengths, contiguous_strides, existing_axis, given_once, normal_axes, shape_of
from ...core.tensor import Tensor, make_tensor, view_of
from ...core.tensor_errors import ArgumentError, ElementTypeError, ShapeError
from ...places.dispatch import Plan
from ...places.place import place_at
from ...places.tables_with_gradients.elementwise_table import COPY
from ..arguments.scalars import item
from ..copying.copying import clone
from ..elementwise.elementwise import apply_into
from ..indexing.indexing import index_select
from ..joining.joining import cat
from ..making.patterns import arange
from ..reductions.reductions import amin
from ..reductions.scans import cumsum
from ..shapes.reshape import contiguous, reshape
from ..shapes.views import expand, narrow, unsqueeze
from ..sorting.sorting import searchsorted

__all__ = ["flip", "fliplr", "flipud", "repeat_interleave", "roll", "tile"]


@printed_as("FlipBackward0")
def flip(input: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """A copy with some dimensions reversed; it has the shape of ``input``.

    Args:
        input: the tensor.
        axes: the dimensions, as integers or as one sequence; ``dims`` means the same.

    Raises:
        IndexError: there is no such dimension.
        ValueError: a dimension is named twice.
    """
    which = axes[0] if len(axes) == 1 and dims is None else None
    if type(which) is tuple and len(which) == 1:
        which = which[0]
    if type(which) is int:
        plan = layout_of(input).plans.get((flip, which))
        if plan is not None:
            return plan(input)  # type: ignore[no-any-return]
    axes = given_once(axes, dims, "dims")
    if not axes:
        raise TypeError("flip() takes the dimensions to reverse: .flip(0), or .flip(()) for none")
    if type(which) is not int:
        which = axes[0] if len(axes) == 1 else axes
    wanted = as_lengths((which,))
    reversed_axes = normal_axes(wanted, input.ndim) if wanted else ()
    offset, strides = input._offset, list(input.stride())
    for axis in reversed_axes:
        offset += max(input.shape[axis] - 1, 0) * strides[axis]
        strides[axis] = -strides[axis]
    own = input._layout
    if type(which) is int and own.numel and not own.tracked:
        own.plans[flip, which] = _plan(
            own, [(Layout.of(own.place, own.dtype, own.shape, tuple(strides)), offset - input._offset)]
        )
    out = place_at(own).empty(Layout.of(own.place, own.dtype, own.shape, own.kept_strides()))
    return apply_into(COPY, out, view_of(input, own.shape, tuple(strides), offset))


def _plan(own: Layout, parts: Sequence[tuple[Layout, int]], axis: int = 0) -> Plan:
    """What joins parts of a tensor of this layout, given by their own layouts and where they begin, to a new one of the
    same shape. One part is copied."""
    place = place_at(own)
    if len(parts) == 1:
        ((shown, start),) = parts
        target = Layout.of(own.place, own.dtype, own.shape, own.kept_strides())
        kernel = place.elementwise(COPY, (own.dtype,), target, [shown])
        new = getattr(kernel, "new", None)
        if new is not None:
            return lambda tensor: new(make_tensor(tensor._storage, tensor._offset + start, shown))
    else:
        target = Layout.of(own.place, own.dtype, own.shape)
        kernel = place.join(target, [shown for shown, _ in parts], axis)

    def plan(tensor: Tensor) -> Tensor:
        out = place.empty(target)
        kernel(out, *[make_tensor(tensor._storage, tensor._offset + start, shown) for shown, start in parts])
        return out

    return plan


@printed_as("RepeatBackward0")
def repeat(input: Tensor, *sizes: Any, repeats: Any = None) -> Tensor:
    """Each dimension one after another as often as ``sizes``, or ``repeats``, says; additional ones stand in front.

    Raises:
        ValueError: there are fewer sizes than dimensions.
    """
    counts = shape_of(given_once(sizes, repeats, "repeats"))
    added = len(counts) - input.ndim
    if added < 0:
        raise ShapeError(f"repeat: {len(counts)} sizes for a tensor of {input.ndim} dimensions")
    return _repeated(input, counts, (1,) * added + input.shape)


def tile(input: Tensor, *sizes: Any, dims: Any = None) -> Tensor:
    """``repeat``; where ``sizes``, or ``dims``, are fewer than the dimensions, they are those of the last ones."""
    counts = shape_of(given_once(sizes, dims, "dims"))
    ndim = max(len(counts), needed(input).ndim)
    return _repeated(input, (1,) * (ndim - len(counts)) + counts, (1,) * (ndim - input.ndim) + input.shape)


def _repeated(input: Tensor, counts: Shape, shape: Shape) -> Tensor:
    own = layout_of(input)
    strides = (0,) * (len(shape) - input.ndim) + own.strides
    pairs = [each for pair in zip(counts, shape, strict=True) for each in pair]
    steps = [each for stride in strides for each in (0, stride)]
    final = tuple(n * length for n, length in zip(counts, shape, strict=True))
    repeated = view_of(input, tuple(pairs), tuple(steps))
    return reshape(clone(repeated) if repeated._layout.contiguous else contiguous(repeated), final)


def fliplr(input: Tensor) -> Tensor:
    """A copy with the second dimension reversed.

    Raises:
        ValueError: there are fewer than two dimensions.
    """
    if needed(input).ndim < 2:
        raise ShapeError(f"Input must be >= 2-d., and this tensor has {input.ndim} dimensions")
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """A copy with the first dimension reversed.

    Raises:
        ValueError: there are no dimensions.
    """
    if not needed(input).ndim:
        raise ShapeError("Input must be >= 1-d., and this tensor has no dimensions")
    return flip(input, 0)


def reversed_(input: Tensor) -> Tensor:
    """A copy with the first dimension reversed: what ``reversed(tensor)`` is in torch."""
    return flip(input, 0) if input.ndim else input


@printed_as("RollBackward0")
def roll(input: Tensor, shifts: int | Sequence[int], dims: Any = None) -> Tensor:
    """A copy with elements moved along dimensions; what leaves at one end comes in at the other.

    Args:
        input: the tensor.
        shifts: by how many positions, for each of ``dims``.
        dims: the dimensions; None for the flattened tensor.

    Raises:
        IndexError: there is no such dimension.
        ValueError: there are not as many shifts as dimensions.
        TypeError: a shift or a dimension is no integer.
    """
    if type(shifts) is int and (dims is None or type(dims) is int):
        plan = input._layout.plans.get((roll, shifts, dims))
        if plan is not None:
            return plan(input)  # type: ignore[no-any-return]
        plan = _roll_plan(input._layout, shifts, dims)
        if plan is not None:
            input._layout.plans[roll, shifts, dims] = plan
            return plan(input)  # type: ignore[no-any-return]
    by, along = as_lengths((shifts,)), () if dims is None else as_lengths((dims,))
    if not by:
        raise ShapeError("`shifts` required: roll is given none")
    if not along:
        if len(by) != 1:
            raise ShapeError(f"shifts and dimensions must align. shifts: {len(by)}, dims: 0, which flatten the tensor")
        return reshape(roll(reshape(input, -1), by, 0), input.shape)
    if len(by) != len(along):
        raise ShapeError(f"shifts and dimensions must align. shifts: {len(by)}, dims: {len(along)}")
    if not input.numel():
        return clone(input)
    axes = [existing_axis(axis, input.ndim) for axis in along]
    made = input
    for shift, axis in zip(by, axes, strict=True):
        length = made.shape[axis] if made.ndim else 0
        at = -shift % length if length else 0
        if at:
            made = cat([narrow(made, axis, at, length - at), narrow(made, axis, 0, at)], axis)
    return clone(contiguous(made)) if made is input else made


def _roll_plan(own: Layout, shift: int, dim: int | None) -> Plan | None:
    """What moves the elements of plain tensors of this layout along one dimension, or in their order in memory."""
    if own.tracked or not own.numel or not own.contiguous:
        return None
    if dim is None:
        whole, axis, length, step = Layout.of(own.place, own.dtype, (own.numel,)), 0, own.numel, 1
    else:
        whole, axis = own, existing_axis(dim, len(own.shape))
        length, step = (own.shape[axis], own.strides[axis]) if own.shape else (1, 1)
    at = -shift % length
    if not at:
        return None
    strides = contiguous_strides(whole.shape)
    pieces = [
        (Layout.of(own.place, own.dtype, (*whole.shape[:axis], long, *whole.shape[axis + 1 :]), strides), start)
        for long, start in ((length - at, at * step), (at, 0))
    ]
    joined = _plan(whole, pieces, axis)
    return joined if whole is own else lambda tensor: _shown_as(joined(tensor), own)


def _shown_as(made: Tensor, layout: Layout) -> Tensor:
    made._layout, made._array = layout, None
    return made


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each element several times in succession, or each position of a dimension.

    Args:
        input: the tensor; alone, it says how often to repeat each number from 0 on.
        repeats: how often: a number, or integers, one for each position; the latter wait for a device.
        dim: the dimension; None for the flattened tensor.
        output_size: how many positions the result has, where that is known: then nothing is waited for.

    Raises:
        IndexError: there is no such dimension.
        ValueError: there are not as many repeats as positions, or one is negative.
        TypeError: ``repeats`` are not integers.
    """
    if repeats is None:
        return _positions_of(input, output_size)
    if type(repeats) is int and (dim is None or type(dim) is int):
        plans, key = input._layout.plans, (repeat_interleave, repeats, dim)
        plan: Any = plans.get(key)
        if plan is None:
            plan = plans[key] = _interleaving(input._layout, repeats, dim) or False
        if plan:
            return plan(input)
    source, axis = (reshape(input, -1), 0) if dim is None else (input, existing_axis(dim, input.ndim))
    if not source.ndim:
        source = reshape(source, 1)
    length = source.shape[axis]
    if isinstance(repeats, Tensor) and repeats.numel() == 1 and length != 1:
        repeats = int(item(repeats))
    if not isinstance(repeats, Tensor):
        if repeats < 0:
            raise ArgumentError(f"repeat_interleave: {repeats} times; repeats are 0 or more")
        shape = source.shape
        wide = expand(unsqueeze(source, axis + 1), *shape[: axis + 1], repeats, *shape[axis + 1 :])
        copied = clone(wide) if wide._layout.contiguous else contiguous(wide)
        return reshape(copied, (*shape[:axis], length * repeats, *shape[axis + 1 :]))
    if repeats.ndim > 1 or repeats.numel() != length:
        raise ShapeError(f"repeat_interleave: {repeats.numel()} repeats for a dimension of length {length}")
    return index_select(source, axis, _positions_of(reshape(repeats, -1), output_size))


def _interleaving(own: Layout, repeats: int, dim: int | None) -> Plan | None:
    """What repeats each position of plain tensors of this layout, of one dimension or of all as they lie: one copy of a
    view in which the positions stand several times. None where there is nothing to repeat, or no such view."""
    if own.tracked or not own.numel or not own.shape or repeats <= 0 or (dim is None and not own.contiguous):
        return None
    flat = own if dim is not None else own.like(shape=(own.numel,))
    axis = 0 if dim is None else existing_axis(dim, len(own.shape))
    before, behind = tuple(flat.shape[: axis + 1]), tuple(flat.shape[axis + 1 :])
    strides = (*flat.strides[: axis + 1], 0, *flat.strides[axis + 1 :])
    wide = Layout.of(own.place, own.dtype, (*before, repeats, *behind), strides)
    written, made = wide.like(), own.like(shape=(*before[:-1], before[-1] * repeats, *behind))
    place = place_at(own)

    def plan(tensor: Tensor) -> Tensor:
        out = place.empty(made)
        place.copy(make_tensor(out._storage, 0, written), make_tensor(tensor._storage, tensor._offset, wide))
        return out

    return plan


def _positions_of(repeats: Tensor, size: int | None) -> Tensor:
    """Each number from 0 on as often as ``repeats`` says."""
    if needed(repeats).ndim != 1 or repeats.dtype.kind not in "iu":
        raise ElementTypeError(f"repeat_interleave: repeats are integers in one dimension, not {repeats.dtype!r}")
    if not repeats.numel():
        return arange(0, device=repeats.device)
    if item(amin(repeats)) < 0:
        raise ArgumentError("repeat_interleave: repeats are 0 or more")
    ends = cumsum(repeats, 0)
    count = int(item(ends[-1])) if size is None else size
    return searchsorted(ends, arange(count, device=repeats.device), right=True)
