"""Runs the reductions of the table over dimensions: types, shapes, and plans kept as those of ``elementwise``."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.dtypes import dtype as Dtype  # noqa: N812 - a method's argument has torch's name
from ..core.dtypes import dtype_of
from ..core.layout import Layout, Shape, normal_axes, normal_axis
from ..core.tensor import TensorCore
from ..core.tensor_errors import ArgumentError, NoElementsError
from ..places.elementwise_table import BY_NAME, COPY
from ..places.reduction_table import REDUCTIONS, Reduction, ReductionRule
from .elementwise import apply, apply_into

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["ReductionMethods", "ValuesAndIndices"]

Axes = Any
"""A dimension, several, or None for all."""


class ValuesAndIndices(NamedTuple):
    """What ``max(dim)`` and ``min(dim)`` return."""

    values: Tensor
    indices: Tensor


class ReductionMethods(TensorCore):
    """The methods of a tensor that make fewer elements of it. They raise IndexError for a dimension it has not.

    ``dim`` and ``keepdim`` may also be called ``axis`` and ``keepdims``, as in NumPy.
    """

    __slots__ = ()

    def sum(
        self, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None, **axes: Any
    ) -> Tensor:
        """The sum; integers and bool add up in int64."""
        return _one(self, "sum", dim, keepdim, axes, dtype=dtype, out=out)

    def prod(
        self, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None, **axes: Any
    ) -> Tensor:
        """The product; integers and bool multiply in int64."""
        return _one(self, "prod", dim, keepdim, axes, dtype=dtype, out=out)

    def mean(
        self, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None, **axes: Any
    ) -> Tensor:
        """The arithmetic mean of floating-point elements; of none it is NaN.

        Raises:
            TypeError: the elements are integers or bool; name a floating-point ``dtype``.
        """
        return _one(self, "mean", dim, keepdim, axes, dtype=dtype, out=out)

    def var(
        self,
        dim: Axes = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: float | None = None,
        out: Any = None,
        **axes: Any,
    ) -> Tensor:
        """The variance, divided by the number of elements less ``correction`` (1; 0 if not ``unbiased``)."""
        return _spread(self, "var", dim, unbiased, keepdim, correction, out, axes)

    def std(
        self,
        dim: Axes = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: float | None = None,
        out: Any = None,
        **axes: Any,
    ) -> Tensor:
        """The standard deviation: the square root of ``var``."""
        return _spread(self, "std", dim, unbiased, keepdim, correction, out, axes)

    def norm(self, p: Any = 2, dim: Axes = None, keepdim: bool = False, *, out: Any = None, **axes: Any) -> Tensor:
        """The ``p``-norm of the elements, also for ``p`` 0 (how many differ from 0) and infinities; ``fro`` is 2.

        Raises:
            ValueError: it is a norm of matrices.
        """
        return _norm(self, p, dim, keepdim, out, axes)

    def amax(self, dim: Axes = None, keepdim: bool = False, *, out: Any = None, **axes: Any) -> Tensor:
        """The largest element; NaN if there is one.

        Raises:
            ValueError: there are no elements.
        """
        return _one(self, "amax", dim, keepdim, axes, out=out)

    def amin(self, dim: Axes = None, keepdim: bool = False, *, out: Any = None, **axes: Any) -> Tensor:
        """The smallest element, as ``amax``."""
        return _one(self, "amin", dim, keepdim, axes, out=out)

    def max(self, dim: Any = None, keepdim: bool = False, *, other: Any = None, **axes: Any) -> Any:
        """The largest element; with ``dim`` the largest ones along it and where they are, as a named tuple; with a
        tensor instead the larger of each pair.

        Raises:
            ValueError: there are no elements.
        """
        return _extreme(self, "max", dim if other is None else other, keepdim, axes)

    def min(self, dim: Any = None, keepdim: bool = False, *, other: Any = None, **axes: Any) -> Any:
        """The smallest element, as ``max``."""
        return _extreme(self, "min", dim if other is None else other, keepdim, axes)

    def argmax(self, dim: int | None = None, keepdim: bool = False, **axes: Any) -> Tensor:
        """Where the largest element is: along ``dim``, or in the flattened tensor. The first one of equals; a NaN.

        Raises:
            ValueError: there are no elements.
            TypeError: the elements are bool.
        """
        return _where(self, "argmax", dim, keepdim, axes)

    def argmin(self, dim: int | None = None, keepdim: bool = False, **axes: Any) -> Tensor:
        """Where the smallest element is, as ``argmax``."""
        return _where(self, "argmin", dim, keepdim, axes)

    def any(self, dim: Axes = None, keepdim: bool = False, *, out: Any = None, **axes: Any) -> Tensor:
        """Whether an element differs from 0."""
        return _one(self, "any", dim, keepdim, axes, out=out)

    def all(self, dim: Axes = None, keepdim: bool = False, *, out: Any = None, **axes: Any) -> Tensor:
        """Whether all elements differ from 0."""
        return _one(self, "all", dim, keepdim, axes, out=out)

    def count_nonzero(self, dim: Axes = None, **axes: Any) -> Tensor:
        """How many elements differ from 0."""
        return _one(self, "count_nonzero", dim, False, axes)


def _renamed(dim: Any, keepdim: bool, axes: dict[str, Any]) -> tuple[Any, bool]:
    """``dim`` and ``keepdim``, which may have come by NumPy's names."""
    given = dict(axes)
    found = given.pop("axis", dim), given.pop("keepdims", keepdim)
    if given:
        raise TypeError(f"a reduction got unexpected arguments: {', '.join(given)}")
    return found


def _one(
    tensor: Any,
    name: str,
    dim: Axes,
    keepdim: bool,
    named: dict[str, Any] | None = None,
    *,
    dtype: Any = None,
    parameter: float | None = None,
    out: Any = None,
) -> Tensor:
    if named:
        dim, keepdim = _renamed(dim, keepdim, named)
    key = (name, dim if type(dim) is not list else tuple(dim), keepdim, dtype)
    plan = tensor._layout.plans.get(key)
    if plan is None:
        asked = None if dtype is None else dtype_of(dtype)
        plan = tensor._layout.plans[key] = _Plan(tensor, REDUCTIONS[name], dim, keepdim, asked)
    result = plan(tensor, parameter)[0]
    return result if out is None else apply_into(COPY, out, result)


def _spread(
    tensor: Any,
    name: str,
    dim: Axes,
    unbiased: Any,
    keepdim: bool,
    correction: float | None,
    out: Any,
    named: dict[str, Any],
) -> Tensor:
    if isinstance(dim, bool):  # std(unbiased), as in old programs
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased else 0
    return _one(tensor, name, dim, keepdim, named, parameter=float(correction), out=out)


def _norm(tensor: Any, p: Any, dim: Axes, keepdim: bool, out: Any, named: dict[str, Any]) -> Tensor:
    if isinstance(p, str) and p != "fro":
        raise ArgumentError(f"norm: there are norms of vectors here, by numbers and 'fro'; {p!r} is none of them")
    order = 2.0 if p in ("fro", None) else float(p)
    if order not in (0.0, -inf):
        return _one(tensor, "norm", dim, keepdim, named, parameter=order, out=out)
    REDUCTIONS["norm"].types(tensor.dtype)
    if order:
        return _one(tensor.abs(), "amin", dim, keepdim, named, out=out)
    return _one((tensor != 0).to(tensor.dtype), "sum", dim, keepdim, named, out=out)


def _extreme(tensor: Any, name: str, dim: Any, keepdim: bool, named: dict[str, Any]) -> Any:
    if named:
        dim, keepdim = _renamed(dim, keepdim, named)
    if isinstance(dim, TensorCore):
        return apply(BY_NAME["maximum" if name == "max" else "minimum"], tensor, dim)
    if dim is None:
        return _one(tensor, "amax" if name == "max" else "amin", None, False)
    key = (name, dim, keepdim)
    plan = tensor._layout.plans.get(key)
    if plan is None:
        axis = (normal_axis(dim, tensor.ndim),)
        plan = tensor._layout.plans[key] = _Plan(tensor, REDUCTIONS[name], axis, keepdim)
    return ValuesAndIndices(*plan(tensor, None))


def _where(tensor: Any, name: str, dim: int | None, keepdim: bool, named: dict[str, Any]) -> Tensor:
    if named:
        dim, keepdim = _renamed(dim, keepdim, named)
    if dim is None:
        flat = _one(tensor.reshape(-1), name, 0, False)
        return flat.reshape((1,) * tensor.ndim) if keepdim else flat
    return _one(tensor, name, normal_axis(dim, tensor.ndim), keepdim)


class _Plan:
    """A reduction of tensors of one layout over given dimensions."""

    def __init__(
        self, tensor: Tensor, reduction: Reduction, dim: Axes, keepdim: bool, asked: Dtype | None = None
    ) -> None:
        layout = tensor._layout
        # Of no dimensions at all torch tests each element; sums and the like are of all.
        each = reduction.rule is ReductionRule.TEST and dim == ()
        axes = () if each else normal_axes(dim, len(layout.shape))
        if not reduction.empty and any(layout.shape[axis] == 0 for axis in axes):
            raise NoElementsError(
                f"{reduction.name}() of no elements has no result: the tensor's shape is {list(layout.shape)} and "
                f"dimensions {list(axes)} are reduced"
            )
        computed, results = reduction.types(layout.dtype, asked)
        self._empty = layout.place.empty
        kept = tuple(1 if axis in axes else length for axis, length in enumerate(layout.shape))
        outs = [Layout.of(layout.place, each, kept) for each in results]
        shape: Shape = kept
        if not keepdim:
            shape = tuple(length for axis, length in enumerate(layout.shape) if axis not in axes)
        self._layouts = [(out, Layout.of(layout.place, out.dtype, shape)) for out in outs]
        self._kernel = layout.place.reduction(reduction, computed, outs, layout, axes) if outs[0].numel else None

    def __call__(self, tensor: Tensor, parameter: float | None) -> list[Tensor]:
        outs = [self._empty(kept) for kept, _ in self._layouts]
        if self._kernel is not None:
            self._kernel(*outs, tensor, parameter)
        for out, (_, final) in zip(outs, self._layouts, strict=True):
            if out._layout is not final:
                out._layout, out._array = final, None
        return outs
