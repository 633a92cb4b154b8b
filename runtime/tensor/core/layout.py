"""How a tensor's elements lie in its storage: shape and strides, with the element type and the place.

Layouts are interned by their place: equal ones are one object, which carries what was worked out about it and the
*plans* of the operations that were done with it. A repeated operation is then one dictionary look-up by identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

from .dtypes import dtype
from .tensor_errors import ArgumentError, ShapeError

if TYPE_CHECKING:
    from ..places.place import Place

__all__ = [
    "Layout",
    "Shape",
    "Size",
    "broadcast_shapes",
    "broadcast_strides",
    "contiguous_strides",
    "iteration_strides",
    "normal_axes",
    "normal_axis",
    "shape_of",
]

Shape = tuple[int, ...]
_MOST_LAYOUTS = 4096
_MOST_PLANS = 512


class Size(tuple[int, ...]):
    """A tensor's shape: a tuple of its lengths.

    Raises:
        TypeError: a length is no integer.
    """

    __slots__ = ()

    def __new__(cls, lengths: Iterable[Any] = ()) -> Size:  # noqa: PYI034 - there are no classes of it
        made = tuple(lengths)
        for each in made:
            if type(each) is not int:
                return tuple.__new__(cls, map(index, made))
        return tuple.__new__(cls, made)

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return prod(self)

    def __repr__(self) -> str:
        return f"cuplug.Size({list(self)})"

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return Size(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size(super().__add__(other))

    def __radd__(self, other: Any) -> Size:
        return Size(other + tuple(self))

    def __mul__(self, count: Any) -> Size:
        return Size(super().__mul__(count))

    __rmul__ = __mul__


class _Plans(dict[Any, Any]):
    """What was prepared for one layout. Bounded: other operands' shapes may depend on data, and never come again."""

    __slots__ = ()

    def __setitem__(self, key: Any, plan: Any) -> None:
        if len(self) >= _MOST_PLANS:
            self.clear()
        super().__setitem__(key, plan)


class Layout:
    """Shape and strides in elements of one element type, at one place. Made by ``Layout.of``, never changed."""

    __slots__ = ("contiguous", "dtype", "nbytes", "numel", "place", "plans", "shape", "strides")

    def __init__(self, place: Place, dtype: dtype, shape: Size, strides: Shape) -> None:
        self.place = place
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        """In elements. The stride of a dimension of length 0 or 1 means nothing."""
        self.numel = prod(shape)
        self.nbytes = self.numel * dtype.itemsize
        """The bytes of all elements, as if they lay side by side."""
        self.contiguous = is_contiguous(shape, strides)
        """Whether the elements lie side by side in row-major order."""
        self.plans: dict[Any, Any] = _Plans()

    @staticmethod
    def of(place: Place, dtype: dtype, shape: Shape, strides: Shape | None = None) -> Layout:
        """The layout with these properties; without ``strides`` the contiguous one."""
        key = (dtype, shape, strides)
        layouts = place.layouts
        found = layouts.get(key)
        if found is None:
            if len(layouts) >= _MOST_LAYOUTS:
                layouts.clear()  # those in use live on with their tensors
            size = Size(shape)
            default = contiguous_strides(size)
            found = layouts.get((dtype, size, default))
            if strides is not None and strides != default:
                found = Layout(place, dtype, size, strides)
            elif found is None:
                found = layouts[dtype, size, default] = Layout(place, dtype, size, default)
            layouts[dtype, size, strides] = found
        return found

    def like(self, dtype: dtype | None = None, shape: Shape | None = None) -> Layout:
        """The contiguous layout at the same place, of another type or shape."""
        return Layout.of(self.place, dtype or self.dtype, self.shape if shape is None else shape)

    def span(self) -> tuple[int, int]:
        """The first and the one after the last element that is used, relative to element [0, ..., 0]."""
        if self.contiguous or not self.numel:
            return 0, self.numel
        low = high = 0
        for length, stride in zip(self.shape, self.strides, strict=True):
            if stride < 0:
                low += stride * (length - 1)
            else:
                high += stride * (length - 1)
        return low, high + 1

    def overlaps_itself(self) -> bool:
        """Whether several indices may mean one element, as in an expanded tensor. Never wrong when it says no."""
        reach = 0
        steps = sorted(
            (abs(stride), length) for length, stride in zip(self.shape, self.strides, strict=True) if length > 1
        )
        for stride, length in steps:
            if stride <= reach:
                return bool(self.numel)
            reach += stride * (length - 1)
        return False

    def kept_strides(self) -> Shape:
        """The strides of a copy: the same if these leave no gaps, else the dimensions in the same order in memory."""
        return self.dense_order() or iteration_strides(self.shape, [self.strides])

    def dense_order(self) -> Shape | None:
        """The strides, if the elements fill their span without gaps in some order of the dimensions; else None."""
        if self.contiguous:
            return self.strides
        expected = 1
        for stride, length in sorted(
            (stride, length) for length, stride in zip(self.shape, self.strides, strict=True) if length > 1
        ):
            if stride != expected:
                return None
            expected *= length
        return self.strides


def contiguous_strides(shape: Shape) -> Shape:
    """The strides, in elements, of a row-major array without gaps. Lengths 0 count as 1, as in torch."""
    strides = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= length or 1
    return tuple(reversed(strides))


def iteration_strides(shape: Shape, operands: Sequence[Shape]) -> Shape:
    """The strides of a new result without gaps, whose dimensions lie in memory in the order in which the first operand
    has them that tells: torch's rule (``reorder_dimensions`` in ``aten/src/ATen/TensorIterator.cpp``).

    ``operands`` are strides for this shape, 0 in dimensions that are repeated.
    """
    order = list(range(len(shape)))[::-1]  # the dimension that is walked fastest comes first
    for position in range(1, len(order)):
        moving = position
        for before in range(position - 1, -1, -1):
            verdict = _compared(order[before], order[moving], shape, operands)
            if verdict < 0:
                break
            if verdict > 0:
                order[before], order[moving] = order[moving], order[before]
                moving = before
    strides = [0] * len(shape)
    step = 1
    for axis in order:
        strides[axis] = step
        step *= shape[axis] or 1
    return tuple(strides)


def _compared(a: int, b: int, shape: Shape, operands: Sequence[Shape]) -> int:
    """Negative if dimension ``a`` belongs before ``b``, positive if after, 0 if no operand tells."""
    for strides in operands:
        step_a, step_b = abs(strides[a]), abs(strides[b])
        if step_a and step_b:
            if step_a != step_b:
                return -1 if step_a < step_b else 1
            if shape[a] > shape[b]:
                return 1
    return 0


def is_contiguous(shape: Shape, strides: Shape) -> bool:
    """Whether the elements lie side by side in row-major order."""
    expected = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length == 0:
            return True
        if length != 1:
            if stride != expected:
                return False
            expected *= length
    return True


def shape_of(size: Sequence[Any]) -> Shape:
    """The shape that ``f(2, 3)``, ``f((2, 3))`` or ``f(2)`` means.

    Raises:
        TypeError: a length is no integer.
        ValueError: a length is negative.
    """
    if len(size) == 1 and isinstance(size[0], Iterable):
        size = tuple(size[0])
    try:
        shape = tuple(map(index, size))
    except TypeError:
        raise TypeError(f"a shape is made of integers; got {tuple(size)!r}") from None
    if shape and min(shape) < 0:
        raise ArgumentError(f"a shape has no negative lengths; got {shape}")
    return shape


def normal_axis(axis: int, ndim: int) -> int:
    """``axis`` counted from the front.

    Raises:
        IndexError: a tensor of ``ndim`` dimensions has no such axis.
    """
    bound = ndim or 1  # a tensor without dimensions accepts 0 and -1, as in torch
    found = index(axis)
    if not -bound <= found < bound:
        raise IndexError(f"dimension {axis} was asked for; it must lie in [{-bound}, {bound - 1}]")
    return found % bound


def normal_axes(axes: int | Iterable[int] | None, ndim: int) -> Shape:
    """``axes`` counted from the front, in order; None means all.

    Raises:
        IndexError: there is no such axis.
        ValueError: one is named twice.
    """
    if axes is None:
        return tuple(range(ndim))
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    if not given:
        return tuple(range(ndim))
    found = [normal_axis(axis, ndim) for axis in given]
    if len(set(found)) != len(found):
        raise ArgumentError(f"a dimension is named twice in {given}")
    return tuple(sorted(found)) if ndim else ()


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape to which all ``shapes`` broadcast.

    Raises:
        ValueError: they do not.
    """
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    ndim = max(map(len, shapes))
    result = [1] * ndim
    for shape in shapes:
        for position, length in enumerate(shape, ndim - len(shape)):
            if length != 1:
                if result[position] not in (1, length):
                    listed = " and ".join(str(list(shape)) for shape in shapes)
                    raise ShapeError(
                        f"shapes {listed} do not broadcast together: at dimension {position} the lengths are "
                        f"{result[position]} and {length}, and neither is 1"
                    )
                result[position] = length
    return tuple(result)


def broadcast_strides(shape: Shape, strides: Shape, target: Shape) -> Shape:
    """The strides with which a tensor reads as if it had the shape ``target``, to which it broadcasts."""
    if shape == target:
        return strides
    added = len(target) - len(shape)
    own = tuple(
        0 if length == 1 != wanted else stride
        for length, stride, wanted in zip(shape, strides, target[added:], strict=True)
    )
    return (0,) * added + own
