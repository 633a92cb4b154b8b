"""How elements keep their order in another shape: lengths, strides, and types of another size."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ..core.dtypes import dtype
from ..core.layout import Layout, Shape, Size, broadcast_shapes, contiguous_strides
from ..core.layout import shape_of as _shape_of
from ..core.tensor import TensorCore, make
from ..core.tensor_errors import ShapeError

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["broadcast_tensors", "common_shape", "completed", "given", "strides_for", "viewed_as"]


def given(lengths: tuple[Any, ...], named: dict[str, Any], name: str) -> tuple[Any, ...]:
    """``lengths``, which may have come by ``name`` instead.

    Raises:
        TypeError: something else came.
    """
    if not named:
        return lengths
    if lengths or [*named] != [name]:
        raise TypeError(f"arguments {lengths} and {named}: give {name}, and nothing else")
    return (named[name],)


def completed(size: Sequence[Any], numel: int) -> Shape:
    """The shape wanted, with -1 replaced by what makes ``numel`` elements."""
    wanted = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
    if wanted.count(-1) == 1:
        known = prod(length for length in wanted if length != -1)
        if known and numel % known == 0:
            wanted = tuple(numel // known if length == -1 else length for length in wanted)
    shape = _shape_of((tuple(wanted),)) if -1 not in wanted else wanted
    if -1 in shape or prod(shape) != numel:
        raise ShapeError(f"a tensor of {numel} elements does not take the shape {list(wanted)}")
    return shape


def strides_for(layout: Layout, shape: Shape) -> Shape | None:
    """The strides with which the elements appear in ``shape``, in order; None if they need a copy."""
    if layout.contiguous or not layout.numel:
        return contiguous_strides(shape)
    # Merge neighbouring dimensions that step evenly, then split each group over the new lengths, from the back.
    groups: list[tuple[int, int]] = []
    for length, stride in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
        if length == 1:
            continue
        if groups and stride == groups[-1][0] * groups[-1][1]:
            groups[-1] = (groups[-1][0] * length, groups[-1][1])
        else:
            groups.append((length, stride))
    strides: list[int] = []
    remaining, step = 1, 1
    upcoming = iter(groups)
    for length in reversed(shape):
        if length == 1:
            strides.append(step)
            continue
        if remaining == 1:
            remaining, step = next(upcoming)
        if remaining % length:
            return None
        strides.append(step)
        step *= length
        remaining //= length
    return tuple(reversed(strides))


def viewed_as(tensor: TensorCore, kind: dtype) -> Tensor:
    """The same bytes as elements of another type.

    Raises:
        ValueError: the types differ in size, and the last dimension's bytes do not lie side by side or do not suffice.
    """
    own = tensor._layout
    place, shape, strides, offset = own.place, own.shape, own.strides, tensor._offset
    if kind.itemsize == own.dtype.itemsize:
        return make(tensor._storage, offset, Layout.of(place, kind, shape, strides))
    smaller = kind.itemsize < own.dtype.itemsize
    ratio = max(kind.itemsize, own.dtype.itemsize) // min(kind.itemsize, own.dtype.itemsize)
    fits = bool(shape) and strides[-1] == 1
    if fits and not smaller:
        fits = not any(each % ratio for each in (shape[-1], offset, *strides[:-1]))
    if not fits:
        raise ShapeError(
            f"view: elements of {own.dtype!r} with shape {list(shape)} and strides {list(strides)} cannot be seen as "
            f"{kind!r}, of another size; .to({kind!r}) converts the values"
        )

    def scaled(number: int) -> int:
        return number * ratio if smaller else number // ratio

    lengths = (*shape[:-1], scaled(shape[-1]))
    return make(tensor._storage, scaled(offset), Layout.of(place, kind, lengths, (*map(scaled, strides[:-1]), 1)))


def common_shape(*shapes: int | Sequence[int]) -> Size:
    """``broadcast_shapes``: the shape to which all ``shapes`` broadcast; one number stands for one dimension.

    Raises:
        ValueError: they do not.
    """
    given = [Size((each,) if isinstance(each, int) else each) for each in shapes]
    return Size(broadcast_shapes(*given)) if given else Size()


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape.

    Raises:
        ValueError: they do not broadcast.
    """
    shape = broadcast_shapes(*(each.shape for each in tensors))
    return tuple(each.expand(*shape) if shape else each for each in tensors)
