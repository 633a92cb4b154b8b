"""Tensors side by side and in parts, by the names that NumPy gave to dimensions: h, v, d."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from ...core.dtypes import LEGACY_NAMES, int64
from ...core.needed_tensors import layout_of, needed
from ...core.shapes import existing_axis
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, RangeError, ShapeError
from ..arguments.scalars import tolist
from ..elementwise.results import into
from ..shapes.reshape import reshape
from ..shapes.views import expand, split, unsqueeze
from .joining import cat

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "column_stack",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "meshgrid",
    "tensor_split",
    "vsplit",
    "vstack",
]


def atleast_1d(*tensors: Any) -> Any:
    """Each tensor with one dimension at least: a tensor for one, a tuple for several or a sequence."""
    return _each(tensors, _one)


def atleast_2d(*tensors: Any) -> Any:
    """Each tensor with two dimensions at least; elements of one dimension become a row."""
    return _each(tensors, _two)


def atleast_3d(*tensors: Any) -> Any:
    """Each tensor with three dimensions at least; a matrix becomes one of depth 1."""
    return _each(tensors, _three)


def _each(tensors: tuple[Any, ...], form: Any) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return form(tensors[0])
    return tuple(form(each) for each in (tensors[0] if len(tensors) == 1 else tensors))


def _one(tensor: Tensor) -> Tensor:
    return tensor if layout_of(tensor).shape else reshape(tensor, 1)


def _two(tensor: Tensor) -> Tensor:
    return tensor if len(layout_of(tensor).shape) > 1 else unsqueeze(_one(tensor), 0)


def _three(tensor: Tensor) -> Tensor:
    return tensor if len(layout_of(tensor).shape) > 2 else unsqueeze(_two(tensor), -1)


def _sequence(name: str, tensors: Any) -> Sequence[Tensor]:
    if isinstance(tensors, (list, tuple)) and all(isinstance(each, Tensor) for each in tensors):
        return tensors
    found = type(tensors).__name__
    raise TypeError(
        f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {found}"
        + (" with something else in it" if isinstance(tensors, (list, tuple)) else "")
    )


def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors side by side along the second dimension; those of one dimension one after the other.

    Raises:
        ValueError: there are none, or their other dimensions differ.
        TypeError: one tensor is given in place of a sequence, or something that is no tensor.
    """
    given = [_one(each) for each in _sequence("hstack", tensors)]
    return into(out, cat(given, 0 if given and given[0].ndim == 1 else 1))


def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors one below the other along the first dimension; elements of one dimension are a row. Raises as
    ``hstack``."""
    return into(out, cat([_two(each) for each in _sequence("vstack", tensors)], 0))


def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors one behind the other along the third dimension; elements of one dimension are a row. Raises as
    ``hstack``."""
    return into(out, cat([_three(each) for each in _sequence("dstack", tensors)], 2))


def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """As ``hstack``, but elements of one dimension are a column."""
    given = _sequence("column_stack", tensors)
    return into(out, cat([each if each.ndim > 1 else reshape(each, -1, 1) for each in given], 1))


def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """Views of parts of a dimension: as many as asked for, as equal as can be, or before and behind given positions.

    Args:
        input: the tensor.
        indices_or_sections: how many parts, or the positions where parts begin, as a sequence or a CPU tensor.
        dim: the dimension.
        indices: the positions, by a name of their own.
        sections: how many parts, by a name of its own.

    Raises:
        IndexError: there is no such dimension.
        ValueError: there are no parts.
        TypeError: neither is given, or several.
    """
    if not needed(input).ndim:
        raise RangeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    axis = existing_axis(dim, input.ndim)
    length = input.shape[axis]
    given = _one_of("tensor_split", indices_or_sections, indices, sections)
    if isinstance(given, Tensor):
        positions = "tensor_split expected tensor_indices_or_sections to"
        if not given.is_cpu:
            raise ArgumentError(f"{positions} be on cpu, but it's on {given.device}")
        if given.dtype is not int64:
            kinds = {kind: name.removesuffix("Tensor") for name, kind in LEGACY_NAMES.items()}
            raise ArgumentError(f"{positions} have dtype of long, but got {kinds.get(given.dtype, given.dtype)}")
        if given.ndim > 1:
            raise ArgumentError(
                f"{positions} be a zero-dimensional or one-dimensional tensor, but got a tensor with {given.ndim} dims"
            )
        given = tolist(given)
    if not isinstance(given, (list, tuple)):
        try:
            given = index(given)
        except TypeError:
            raise TypeError(
                f"tensor_split: a number of parts or a sequence of positions is needed, not {given!r}"
            ) from None
        if given < 1:
            raise ArgumentError(f"number of sections must be larger than 0, got {given}")
        small, more = divmod(length, given)
        return split(input, [small + 1] * more + [small] * (given - more), axis)
    parts = []
    start = 0
    for position in (*given, length):
        # As slices do: a position before the last one makes an empty part.
        key = (*(slice(None),) * axis, slice(start, position))
        parts.append(input[key])
        start = position
    return tuple(parts)


def _one_of(name: str, either: Any, indices: Any, sections: Any) -> Any:
    if indices is None and sections is None and either is not None:
        return either  # as a rule, in fewer steps
    there = [each for each in (either, indices, sections) if each is not None]
    if len(there) != 1:
        raise TypeError(f"{name}() takes one of indices_or_sections, indices and sections; got {len(there)}")
    return there[0]


def _split_at(name: str, input: Tensor, given: Any, axis: int, ndim: int) -> tuple[Tensor, ...]:
    if input.ndim < ndim:
        raise ShapeError(
            f"torch.{name} requires a tensor with at least {ndim} dimension{'s' * (ndim > 1)}, but got a tensor with "
            f"{input.ndim} dimensions!"
        )
    if isinstance(given, int) and given > 0 and input.shape[axis] % given:
        raise ShapeError(
            f"torch.{name} attempted to split along dimension {axis}, but the size of the dimension "
            f"{input.shape[axis]} is not divisible by the split_size {given}!"
        )
    return tensor_split(input, given, axis)


def hsplit(
    input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """``tensor_split`` along the second dimension, or the only one; parts must be equal."""
    return _split_at(
        "hsplit", input, _one_of("hsplit", indices_or_sections, indices, sections), 0 if input.ndim == 1 else 1, 1
    )


def vsplit(
    input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """``tensor_split`` along the first dimension of two or more; parts must be equal."""
    return _split_at("vsplit", input, _one_of("vsplit", indices_or_sections, indices, sections), 0, 2)


def dsplit(
    input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """``tensor_split`` along the third dimension; parts must be equal."""
    return _split_at("dsplit", input, _one_of("dsplit", indices_or_sections, indices, sections), 2, 3)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """The coordinates of a grid: each tensor of one dimension, expanded along all others'.

    Args:
        tensors: of one dimension or none, as arguments or as one sequence.
        indexing: ``ij``, or ``xy`` for the first two dimensions exchanged.

    Raises:
        ValueError: there are none, one has more dimensions, or there is no such ``indexing``.
    """
    given = list(tensors[0]) if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else list(tensors)
    if indexing not in ("ij", "xy"):
        raise ArgumentError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if not given:
        raise ShapeError("meshgrid expects a non-empty TensorList")
    for each in given:
        if needed(each).ndim > 1:
            raise ShapeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got shape {each.shape}")
    if any(each.dtype is not given[0].dtype for each in given):
        raise ArgumentError("torch.meshgrid expects all tensors to have the same dtype")
    swapped = indexing == "xy" and len(given) > 1
    if swapped:
        given[0], given[1] = given[1], given[0]
    shape = tuple(each.numel() for each in given)
    made = []
    for axis, each in enumerate(given):
        sizes = [1] * len(shape)
        sizes[axis] = shape[axis]
        made.append(expand(reshape(each, sizes), *shape))
    if swapped:
        made[0], made[1] = made[1], made[0]
    return tuple(made)
