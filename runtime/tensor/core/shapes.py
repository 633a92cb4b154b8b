"""Shapes and strides: their arithmetic, as torch does it. Strides count elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from operator import index
from typing import Any

from .printed_names import package_name
from .tensor_errors import ArgumentError, RangeError, ShapeError

Shape = tuple[int, ...]


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
        return f"{package_name()}.Size({list(self)})"

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return tuple.__new__(Size, found) if type(found) is tuple else found

    def __add__(self, other: Any) -> Size:
        return Size(super().__add__(other))

    def __radd__(self, other: Any) -> Size:
        return Size(other + tuple(self))

    def __mul__(self, count: Any) -> Size:
        return Size(super().__mul__(count))

    __rmul__ = __mul__


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
    if 0 in shape:
        return True
    expected = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1:
            if stride != expected:
                return False
            expected *= length
    return True


def as_lengths(size: Sequence[Any]) -> Shape:
    """The integers of ``f(2, 3)``, ``f((2, 3))`` or ``f(2)``; each may be NumPy's, or a tensor without dimensions.

    Raises:
        TypeError: one is no integer.
    """
    if len(size) == 1:
        only = size[0]
        kind = type(only)
        if kind is tuple or kind is list:  # as a rule; asking whether it can be iterated takes as long as all the rest
            size = only
        elif kind is not int and isinstance(only, Iterable) and getattr(only, "ndim", None) != 0:
            size = tuple(only)
    for each in size:
        if type(each) is not int:
            return tuple(map(index, size))
    return tuple(size)


def shape_of(size: Sequence[Any]) -> Shape:
    """The shape that ``f(2, 3)``, ``f((2, 3))`` or ``f(2)`` means.

    Raises:
        TypeError: a length is no integer.
        ValueError: a length is negative.
    """
    try:
        shape = as_lengths(size)
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
        raise IndexError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {axis})")
    return found % bound


def normal_axes(axes: int | Iterable[int] | None, ndim: int) -> Shape:
    """``axes`` counted from the front, in order; None means all.

    Raises:
        IndexError: there is no such axis.
        ValueError: one is named twice.
    """
    if axes is None:
        return tuple(range(ndim))
    given = as_lengths((axes,))
    if not given:
        return tuple(range(ndim))
    found = [normal_axis(axis, ndim) for axis in given]
    if len(set(found)) != len(found):
        twice = next(each for each in found if found.count(each) > 1)
        raise ArgumentError(f"dim {twice} appears multiple times in the list of dims {given}")
    return tuple(sorted(found)) if ndim else ()


def existing_axis(dim: int, ndim: int) -> int:
    """``dim`` counted from the front.

    Raises:
        IndexError: a tensor of ``ndim`` dimensions has no such axis, or none at all.
    """
    if not ndim:
        raise RangeError(f"dimension {dim} was asked for; the tensor has none")
    return normal_axis(dim, ndim)


def given_once(lengths: tuple[Any, ...], named: Any, name: str) -> tuple[Any, ...]:
    """``lengths``, which may have come by ``name`` instead.

    Raises:
        TypeError: both came.
    """
    if named is None:
        return lengths
    if lengths:
        raise TypeError(f"{name} is given twice: as {lengths} and as {name}={named}")
    return (named,)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape to which all ``shapes`` broadcast.

    Raises:
        ValueError: they do not.
    """
    first = shapes[0]
    for shape in shapes:
        if shape != first:
            break
    else:
        return first
    ndim = max(map(len, shapes))
    result = [1] * ndim
    for shape in shapes:
        for position, length in enumerate(shape, ndim - len(shape)):
            if length != 1:
                if result[position] not in (1, length):
                    listed = " and ".join(str(list(shape)) for shape in shapes)
                    raise ShapeError(
                        f"The size of tensor a ({result[position]}) must match the size of tensor b ({length}) at "
                        f"non-singleton dimension {position}: the shapes are {listed}"
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
