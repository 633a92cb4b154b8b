"""Functions of arrays in ``pycuda.gpuarray``: reductions, choices, indices and joining."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .device_arithmetic import queue
from .driver_errors import translated
from .gpu_array import GPUArray, common_type, elementwise

__all__ = [
    "all",
    "any",
    "concatenate",
    "dot",
    "if_positive",
    "logical_and",
    "logical_not",
    "logical_or",
    "max",
    "maximum",
    "min",
    "minimum",
    "multi_put",
    "multi_take",
    "multi_take_put",
    "reshape",
    "stack",
    "subset_dot",
    "subset_max",
    "subset_min",
    "subset_sum",
    "sum",
    "take",
    "transpose",
    "where",
]

# --- reductions: each gives an array without dimensions


def sum(a: GPUArray, dtype: Any = None, stream: Any = None, allocator: Any = None) -> GPUArray:  # noqa: A001
    """The sum of all elements, in the array's type or another."""
    return _reduced("sum", lambda x: np.sum(x, dtype=dtype or x.dtype), (a,), dtype or a.dtype, stream, allocator)


def max(a: GPUArray, stream: Any = None, allocator: Any = None) -> GPUArray:  # noqa: A001
    """The largest element."""
    return _reduced("max", np.max, (a,), a.dtype, stream, allocator)


def min(a: GPUArray, stream: Any = None, allocator: Any = None) -> GPUArray:  # noqa: A001
    """The smallest element."""
    return _reduced("min", np.min, (a,), a.dtype, stream, allocator)


def any(a: GPUArray, stream: Any = None, allocator: Any = None) -> GPUArray:  # noqa: A001
    """Whether an element is not zero."""
    return a.any(stream, allocator)


def all(a: GPUArray, stream: Any = None, allocator: Any = None) -> GPUArray:  # noqa: A001
    """Whether no element is zero."""
    return a.all(stream, allocator)


def dot(a: GPUArray, b: GPUArray, dtype: Any = None, stream: Any = None, allocator: Any = None) -> GPUArray:
    """The sum of the products of two arrays' elements."""
    dtype = np.dtype(dtype or common_type(a, b))
    return _reduced("dot", lambda x, y: np.sum(x * y, dtype=dtype), (a, b), dtype, stream, allocator)


def subset_sum(subset: GPUArray, a: GPUArray, dtype: Any = None, stream: Any = None, allocator: Any = None) -> GPUArray:
    """The sum of the elements that ``subset`` counts out."""
    dtype = np.dtype(dtype or a.dtype)
    return _reduced("subset_sum", lambda at, x: np.sum(x[at], dtype=dtype), (subset, a), dtype, stream, allocator)


def subset_dot(
    subset: GPUArray, a: GPUArray, b: GPUArray, dtype: Any = None, stream: Any = None, allocator: Any = None
) -> GPUArray:
    """The sum of the products of the elements that ``subset`` counts out."""
    dtype = np.dtype(dtype or common_type(a, b))
    return _reduced(
        "subset_dot", lambda at, x, y: np.sum(x[at] * y[at], dtype=dtype), (subset, a, b), dtype, stream, allocator
    )


def subset_max(subset: GPUArray, a: GPUArray, stream: Any = None, allocator: Any = None) -> GPUArray:
    """The largest of the elements that ``subset`` counts out."""
    return _reduced("subset_max", lambda at, x: np.max(x[at]), (subset, a), a.dtype, stream, allocator)


def subset_min(subset: GPUArray, a: GPUArray, stream: Any = None, allocator: Any = None) -> GPUArray:
    """The smallest of the elements that ``subset`` counts out."""
    return _reduced("subset_min", lambda at, x: np.min(x[at]), (subset, a), a.dtype, stream, allocator)


@translated
def _reduced(
    name: str, function: Callable[..., Any], arrays: Sequence[GPUArray], dtype: Any, stream: Any, allocator: Any
) -> GPUArray:
    made = GPUArray((), dtype, allocator or arrays[-1].allocator)
    regions = [array.region for array in arrays]
    queue(
        name, lambda out, *values: np.copyto(out, function(*values), casting="unsafe"), (made.region,), regions, stream
    )
    return made


# --- choices


def if_positive(
    criterion: GPUArray, then_: GPUArray, else_: GPUArray, out: GPUArray | None = None, stream: Any = None
) -> GPUArray:
    """``then_`` where ``criterion`` is above 0, else ``else_``.

    Raises:
        ValueError: shapes or types do not agree.
    """
    if not criterion.shape == then_.shape == else_.shape:
        raise ValueError(f"the shapes {criterion.shape}, {then_.shape} and {else_.shape} must be the same")
    if then_.dtype != else_.dtype:
        raise ValueError(f"then_ has the type {then_.dtype} and else_ {else_.dtype}: they must be the same")
    work = lambda mark, x, y: np.where(mark > 0, x, y)  # noqa: E731
    return elementwise("if_positive", work, (criterion, then_, else_), then_.dtype, out, stream)


def where(
    criterion: GPUArray, then_: GPUArray, else_: GPUArray, out: GPUArray | None = None, stream: Any = None
) -> GPUArray:
    """``then_`` where ``criterion`` is not 0, else ``else_``."""
    return elementwise("where", np.where, (criterion, then_, else_), common_type(then_, else_), out, stream)


def maximum(a: Any, b: Any, out: GPUArray | None = None, stream: Any = None) -> GPUArray:
    """The larger of each two elements; one of both may be a number."""
    return elementwise("maximum", np.maximum, (a, b), common_type(a, b), out, stream)


def minimum(a: Any, b: Any, out: GPUArray | None = None, stream: Any = None) -> GPUArray:
    """The smaller of each two elements; one of both may be a number."""
    return elementwise("minimum", np.minimum, (a, b), common_type(a, b), out, stream)


def logical_and(x1: Any, x2: Any, /, out: GPUArray | None = None, *, allocator: Any = None) -> GPUArray:  # noqa: ARG001
    """Whether both of each two elements are not zero, as booleans."""
    return elementwise("logical_and", np.logical_and, (x1, x2), np.bool_, out)


def logical_or(x1: Any, x2: Any, /, out: GPUArray | None = None, *, allocator: Any = None) -> GPUArray:  # noqa: ARG001
    """Whether one of each two elements is not zero, as booleans."""
    return elementwise("logical_or", np.logical_or, (x1, x2), np.bool_, out)


def logical_not(x: GPUArray, /, out: GPUArray | None = None, *, allocator: Any = None) -> GPUArray:  # noqa: ARG001
    """Whether each element is zero, as booleans."""
    return elementwise("logical_not", np.logical_not, (x,), np.bool_, out)


# --- indices


@translated
def take(a: GPUArray, indices: GPUArray, out: GPUArray | None = None, stream: Any = None) -> GPUArray:
    """The elements that ``indices`` counts out."""
    if out is None:
        out = GPUArray(indices.shape, a.dtype, a.allocator)
    queue("take", lambda to, x, at: np.copyto(to, x.reshape(-1)[at]), (out.region,), (a.region, indices.region), stream)
    return out


def multi_take(
    arrays: Sequence[GPUArray], indices: GPUArray, out: Sequence[GPUArray] | None = None, stream: Any = None
) -> list[GPUArray]:
    """``take`` of several arrays."""
    outs = [None] * len(arrays) if out is None else list(out)
    return [take(array, indices, to, stream) for array, to in zip(arrays, outs, strict=True)]


@translated
def multi_take_put(
    arrays: Sequence[GPUArray],
    dest_indices: GPUArray,
    src_indices: GPUArray,
    dest_shape: Any = None,
    out: Sequence[GPUArray] | None = None,
    stream: Any = None,
    src_offsets: Sequence[int] | None = None,
) -> list[GPUArray]:
    """The elements that ``src_indices`` counts out, from an offset on in each array, written where ``dest_indices``
    says.

    Raises:
        ValueError: neither ``out`` nor ``dest_shape`` says how large the results are.
    """
    if out is None and dest_shape is None:
        raise ValueError("say how large the results are: with dest_shape, or with out")
    outs = [GPUArray(dest_shape, each.dtype, each.allocator) for each in arrays] if out is None else list(out)
    offsets = [0] * len(arrays) if src_offsets is None else src_offsets

    def work(to: Any, x: Any, source: Any, target: Any, offset: int) -> None:
        to.reshape(-1)[target] = x.reshape(-1)[source + offset]

    for to, array, offset in zip(outs, arrays, offsets, strict=True):
        operands = (array.region, src_indices.region, dest_indices.region, int(offset))
        queue("multi_take_put", work, (to.region,), operands, stream)
    return outs


@translated
def multi_put(
    arrays: Sequence[GPUArray],
    dest_indices: GPUArray,
    dest_shape: Any = None,
    out: Sequence[GPUArray] | None = None,
    stream: Any = None,
) -> list[GPUArray]:
    """The elements of each array, written where ``dest_indices`` says.

    Raises:
        ValueError: neither ``out`` nor ``dest_shape`` says how large the results are.
    """
    if out is None and dest_shape is None:
        raise ValueError("say how large the results are: with dest_shape, or with out")
    outs = [GPUArray(dest_shape, each.dtype, each.allocator) for each in arrays] if out is None else list(out)

    def work(to: Any, x: Any, target: Any) -> None:
        to.reshape(-1)[target] = x.reshape(-1)

    for to, array in zip(outs, arrays, strict=True):
        queue("multi_put", work, (to.region,), (array.region, dest_indices.region), stream)
    return outs


# --- shapes


@translated
def concatenate(arrays: Sequence[GPUArray], axis: int = 0, allocator: Any = None) -> GPUArray:
    """The arrays one after the other along a dimension. Raises ValueError if their other lengths differ."""
    return _joined("concatenate", np.concatenate, arrays, axis, allocator)


@translated
def stack(arrays: Sequence[GPUArray], axis: int = 0, allocator: Any = None) -> GPUArray:
    """The arrays beside each other along a new dimension. Raises ValueError if their shapes differ."""
    return _joined("stack", np.stack, arrays, axis, allocator)


def _joined(name: str, function: Any, arrays: Sequence[GPUArray], axis: int, allocator: Any) -> GPUArray:
    # NumPy reads what it joins, and the elements are not on the host. So it is asked with elements of no bytes for the
    # shape, or what does not fit, and with corners of the arrays, which lie as they do, for the type and the order.
    shape = function([np.empty(array.shape, np.dtype([])) for array in arrays], axis=axis).shape
    corners = [np.zeros_like(array._stand_in()[(slice(2),) * array.ndim]) for array in arrays]
    like = function(corners, axis=axis)
    fortran = like.ndim > 1 and like.flags.f_contiguous
    made = GPUArray(shape, like.dtype, allocator or arrays[0].allocator, order="F" if fortran else "C")
    regions = [array.region for array in arrays]
    queue(name, lambda out, *values: np.copyto(out, function(values, axis=axis)), (made.region,), regions)
    return made


def transpose(a: GPUArray, axes: Any = None) -> GPUArray:
    """The array with its dimensions in another order, by default the reverse."""
    return a.transpose(axes)


def reshape(a: GPUArray, *shape: Any, **keywords: Any) -> GPUArray:
    """The array in another shape. Raises ValueError if the elements do not fit."""
    return a.reshape(*shape, **keywords)
