"""Copies whose elements stand in another order, or several times."""

from __future__ import annotations

from typing import Any

from ..core.layout import Layout
from ..core.shapes import Shape, given_once, normal_axes, shape_of
from ..core.tensor import Tensor, view_of
from ..core.tensor_errors import ShapeError
from ..places.elementwise_table import COPY
from ..places.place import place_at
from .elementwise import apply_into
from .reshape import view

__all__ = ["flip", "repeat", "tile"]


def flip(input: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """A copy with some dimensions reversed; it has the shape of ``input``.

    Args:
        input: the tensor.
        axes: the dimensions, as integers or as one sequence; ``dims`` means the same.

    Raises:
        IndexError: there is no such dimension.
        ValueError: a dimension is named twice.
    """
    axes = given_once(axes, dims, "dims")
    if not axes:
        raise TypeError("flip() takes the dimensions to reverse: .flip(0), or .flip(()) for none")
    which = axes[0] if len(axes) == 1 else axes
    reversed_axes = normal_axes(which, input.ndim) if isinstance(which, int) or which else ()
    offset, strides = input._offset, list(input.stride())
    for axis in reversed_axes:
        offset += max(input.shape[axis] - 1, 0) * strides[axis]
        strides[axis] = -strides[axis]
    own = input._layout
    out = place_at(own).empty(Layout.of(own.place, own.dtype, own.shape, own.kept_strides()))
    return apply_into(COPY, out, view_of(input, own.shape, tuple(strides), offset))


def repeat(input: Tensor, *sizes: Any) -> Tensor:
    """Each dimension one after another as often as ``sizes`` says; additional ones stand in front.

    Raises:
        ValueError: there are fewer sizes than dimensions.
    """
    counts = shape_of(sizes)
    added = len(counts) - input.ndim
    if added < 0:
        raise ShapeError(f"repeat: {len(counts)} sizes for a tensor of {input.ndim} dimensions")
    return _repeated(input, counts, (1,) * added + input.shape)


def tile(input: Tensor, *dims: Any) -> Tensor:
    """``repeat``; where ``dims`` are fewer than the dimensions, it says how often to repeat the last ones."""
    counts = shape_of(dims)
    ndim = max(len(counts), input.ndim)
    return _repeated(input, (1,) * (ndim - len(counts)) + counts, (1,) * (ndim - input.ndim) + input.shape)


def _repeated(input: Tensor, counts: Shape, shape: Shape) -> Tensor:
    own = input._layout
    strides = (0,) * (len(shape) - input.ndim) + own.strides
    pairs = [each for pair in zip(counts, shape, strict=True) for each in pair]
    steps = [each for stride in strides for each in (0, stride)]
    final = Layout.of(own.place, own.dtype, tuple(n * length for n, length in zip(counts, shape, strict=True)))
    out = place_at(own).empty(final)
    apply_into(COPY, view(out, *pairs) if pairs else out, view_of(input, tuple(pairs), tuple(steps)))
    return out
