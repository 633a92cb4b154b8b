"""How a line of the table of reductions is run: types, shapes, and what is kept of them for the next time."""

from __future__ import annotations

from typing import Any

from ...core.casting_seam import seam
from ...core.dtypes import bool_, dtype, dtype_of, uint8
from ...core.layout import Layout
from ...core.needed_tensors import layout_of, no_tensor
from ...core.shapes import Shape, as_lengths, normal_axes
from ...core.tensor import Tensor
from ...core.tensor_errors import ElementTypeError, NoElementsError, ShapeError
from ...places.dispatch import Plan, dispatch
from ...places.place import place_at
from ...places.tables_with_gradients.reduction_table import REDUCTIONS, Reduction, ReductionRule
from ..elementwise.results import into

Axes = Any
"""A dimension, several, or None for all."""


def reduced(
    name: str,
    input: Tensor,
    dim: Axes,
    keepdim: bool,
    parameter: float | None = None,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The first result of a line of the table of reductions, written to ``out`` if that is given.

    Raises:
        ElementTypeError: the result is of type bool, and ``out`` of another.
    """
    asked = (name, dim if dim is None or type(dim) is int else as_lengths((dim,)), keepdim, dtype)
    if out is None:
        try:
            plan = input._layout.plans.get((asked,))
        except AttributeError:
            raise no_tensor(input) from None
        if plan is not None and not seam.on:
            return plan(input, parameter)[0]  # type: ignore[no-any-return]
        return dispatch(asked, _prepare, (input,), parameter)[0]  # type: ignore[no-any-return]
    if name in ("any", "all") and out.dtype not in (bool_, uint8):
        raise ElementTypeError(f"{name} only supports bool tensor for result, got a tensor of {out.dtype!r} by out=")
    if dtype is None and (name in ("sum", "prod", "nansum") or (name == "mean" and input.dtype.kind == "f")):
        asked = (*asked[:3], layout_of(out).dtype)  # torch computes in the type that is wanted
    result: Tensor = dispatch(asked, _prepare, (input,), parameter)[0]
    return into(out, result, exact=name in ("amax", "amin", "argmax", "argmin"))


def reduced_to_all(name: str, input: Tensor, dim: Axes, keepdim: bool, parameter: float | None = None) -> list[Tensor]:
    """The results of a line of the table of reductions.

    Args:
        name: of the line.
        input: the tensor.
        dim: a dimension, several, or None for all.
        keepdim: whether reduced dimensions stay, with length 1.
        parameter: what the line takes besides: the correction of a variance, the order of a norm.

    Raises:
        IndexError: there is no such dimension.
        ValueError: there are no elements, and the line needs some.
        TypeError: the line does not take elements of this type.
    """
    asked = dim if dim is None or type(dim) is int else as_lengths((dim,))
    return dispatch((name, asked, keepdim, None), _prepare, (input,), parameter)  # type: ignore[no-any-return]


def reduction_plan(name: str, input: Tensor, dim: Axes) -> Plan:
    """What computes the first result of a line of the table of reductions, without a parameter, in the tensor's own
    type, of tensors of this layout that require no gradients. Raises as ``reduced_to_all``."""
    plan = _prepare((name, dim, False, input.dtype), input)
    return lambda tensor: plan(tensor, None)[0]


def _prepare(asked: tuple[str, Axes, bool, Any], input: Tensor) -> Plan:
    name, dim, keepdim, kind = asked
    return _Reduction(input, REDUCTIONS[name], dim, keepdim, None if kind is None else dtype_of(kind))


class _Reduction:
    """A reduction of tensors of one layout over given dimensions."""

    def __init__(self, tensor: Tensor, reduction: Reduction, dim: Axes, keepdim: bool, asked: dtype | None) -> None:
        layout = tensor._layout
        if len(layout.shape) > 64:
            raise ShapeError(
                f"{reduction.name}() takes tensors of up to 64 dimensions; this one has {len(layout.shape)}"
            )
        # Of no dimensions at all torch tests each element; sums and the like are of all.
        each = reduction.rule is ReductionRule.TEST and dim == ()
        axes = () if each else normal_axes(dim, len(layout.shape))
        if not reduction.empty and 0 in [layout.shape[axis] for axis in axes]:
            empty = next(axis for axis in axes if not layout.shape[axis])
            raise NoElementsError(
                f"{reduction.name}(): Expected reduction dim {empty} to have non-zero size. Of no elements there "
                f"is no result, and the tensor's shape is {list(layout.shape)}"
            )
        computed, results = reduction.types(layout.dtype, asked)
        place = place_at(layout)
        self._empty = place.empty
        kept = tuple(1 if axis in axes else length for axis, length in enumerate(layout.shape))
        outs = [Layout.of(place, each, kept) for each in results]
        shape: Shape = kept
        if not keepdim:
            shape = tuple(length for axis, length in enumerate(layout.shape) if axis not in axes)
        self._layouts = [(out, Layout.of(place, out.dtype, shape)) for out in outs]
        self._kernel = place.reduction(reduction, computed, outs, layout, axes) if outs[0].numel else None

    def __call__(self, tensor: Tensor, parameter: float | None) -> list[Tensor]:
        if len(self._layouts) == 1 and self._kernel is not None:  # the most usual case, in fewer steps
            ((kept, final),) = self._layouts
            out = self._empty(kept)
            self._kernel(out, tensor, parameter)
            if kept is not final:
                out._layout, out._array = final, None
            return [out]
        outs = [self._empty(kept) for kept, _ in self._layouts]
        if self._kernel is not None:
            self._kernel(*outs, tensor, parameter)
        for out, (_, final) in zip(outs, self._layouts, strict=True):
            if out._layout is not final:
                out._layout, out._array = final, None
        return outs
