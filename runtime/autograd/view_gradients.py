"""Gradients of views, all of one kind: a view is a way to lay indices over memory, and its gradient goes the way back.

A *geometry* is how a view lies in what it is a view of: both layouts, and the distance of their first elements.
``show`` takes a tensor to a view of this geometry, ``unshow`` a view's gradient back; each is the other's gradient, so
that views can be differentiated as often as wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..tensor.core.kept_views import shown_as
from ..tensor.core.layout import Layout
from ..tensor.core.shapes import Shape
from ..tensor.core.tensor import Tensor, view_of
from ..tensor.ops.arithmetic.arithmetic import div
from ..tensor.ops.copying.copying import clone, copy_
from ..tensor.ops.elementwise.elementwise_functions import clamp_min
from ..tensor.ops.joining.joining import cat
from ..tensor.ops.making.creation import full, zeros
from ..tensor.ops.making.patterns import arange
from ..tensor.ops.reductions.reductions import sum as sum_of
from ..tensor.ops.scattering.scattering import scatter_add_
from ..tensor.ops.shapes.reshape import contiguous, reshape
from ..tensor.ops.shapes.views import permute
from .grad_mode import recording
from .graph import Node, attach, edge_of, plain


class Geometry(NamedTuple):
    """How a view lies in its source; all in elements."""

    source: Layout
    view: Layout
    distance: int
    """From the source's first element to the view's."""

    def node(self, source: Tensor, title: str) -> Node:
        """The node of a view of ``source``."""
        return Node(title, (edge_of(source),), lambda _, gradient: (unshow(gradient, self),))


_UNSHOWN = "unshown"
"""Under this a source's layout keeps how the gradients of its views are seen as its own, where nothing is copied."""


def geometry_of(source: Tensor, made: Tensor) -> Geometry:
    """How ``made``, a view of ``source``, lies in it."""
    return Geometry(source._layout.plain, made._layout.plain, made._offset - source._offset)


def unshow(gradient: Tensor, geometry: Geometry) -> Tensor:
    """The gradient of the source out of that of a view."""
    source, view, distance = geometry
    key = _UNSHOWN, view, distance, gradient._layout
    known = source.plans.get(key)
    if known is not None:
        return shown_as(gradient, known)
    given, shape, strides = gradient, tuple(view.shape), view.strides
    repeated = [axis for axis, (n, step) in enumerate(zip(shape, strides, strict=True)) if n > 1 and not step]
    if repeated and not _repeats(source):
        gradient = sum_of(gradient, repeated, True)
        shape = tuple(1 if axis in repeated else n for axis, n in enumerate(shape))
    own: Shape = tuple(source.shape)
    if not distance and gradient.numel() == source.numel:
        order = _order(shape, strides, own, source.strides)
        if order is not None:
            made: Tensor = reshape(permute(gradient, *order) if order != sorted(order) else gradient, own)
            if made._storage is given._storage and made._offset == given._offset:
                source.plans[key] = made._layout.plain
            return made
    return _recorded(
        "UnshowBackward", _unshown(plain(gradient), geometry, shape), gradient, lambda g: show(g, geometry, shape)
    )


def joined_by(source: Layout, pieces: Sequence[Layout]) -> Callable[[Sequence[Tensor | None]], Tensor] | None:
    """What joins the gradients of pieces of one dimension, of which some may be None, to that of the source. None where
    the pieces are single indices, or are of sources that repeat elements."""
    lengths = tuple(source.shape)
    if _repeats(source) or any(len(each.shape) != len(lengths) for each in pieces):
        return None
    axes = [axis for axis, n in enumerate(lengths) if any(n != each.shape[axis] for each in pieces)]
    if len(axes) != 1:
        return None
    axis = axes[0]

    def join(gradients: Sequence[Tensor | None]) -> Tensor:
        first = next(each for each in gradients if each is not None)
        parts = [
            zeros(tuple(layout.shape), dtype=first.dtype, device=first.device) if each is None else each
            for each, layout in zip(gradients, pieces, strict=True)
        ]
        return cat(parts, axis)

    return join


def show(tensor: Tensor, geometry: Geometry, shape: Shape | None = None) -> Tensor:
    """A view of this geometry of ``tensor``, which has the source's shape and lies anyhow; a copy where it must be."""
    wanted = tuple(geometry.view.shape) if shape is None else shape
    made = _shown(plain(tensor), geometry, wanted)
    return _recorded("ShowBackward", made, tensor, lambda g: unshow(g, _narrowed(geometry, wanted)))


def _narrowed(geometry: Geometry, shape: Shape) -> Geometry:
    view = geometry.view
    return (
        geometry
        if tuple(view.shape) == shape
        else geometry._replace(view=Layout.of(view.place, view.dtype, shape, view.strides))
    )


def _recorded(title: str, made: Tensor, source: Tensor, back: Any) -> Tensor:
    if not (recording.enabled and source._layout.tracked):
        return made
    return attach(made, Node(title, (edge_of(source),), lambda _, gradient: (back(gradient),)))


def _repeats(layout: Layout) -> bool:
    return any(n > 1 and not step for n, step in zip(layout.shape, layout.strides, strict=True))


def _order(shape: Shape, strides: Shape, own: Shape, own_strides: Shape) -> list[int] | None:
    """In which order the view's dimensions are the source's, but for lengths of 0 and 1; None if they are others."""
    known = [(n, step) for n, step in zip(own, own_strides, strict=True) if n > 1]
    if len({step for _, step in known}) != len(known):
        return None
    ones = [axis for axis, n in enumerate(shape) if n <= 1]
    axes = {(n, strides[axis]): axis for axis, n in enumerate(shape) if n > 1}
    if len(axes) == len(known) and all(each in axes for each in known):
        return [axes[each] for each in known] + ones
    if _runs(shape, strides) == _runs(own, own_strides):
        return list(range(len(shape)))
    return None


def _runs(shape: Shape, strides: Shape) -> list[tuple[int, int]]:
    """Lengths and strides, with dimensions made one where they go on in memory as one would: equal ones of two layouts
    say that both count the same elements in the same order."""
    runs: list[tuple[int, int]] = []
    for n, step in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * step:
            runs[-1] = (runs[-1][0] * n, step)
        else:
            runs.append((n, step))
    return runs


def _range(geometry: Geometry) -> tuple[int, int]:
    low, high = geometry.source.span()
    view_low, view_high = geometry.view.span()
    return min(low, view_low + geometry.distance), max(high, view_high + geometry.distance)


def _places(layout: Layout, shape: Shape, offset: int, count: int) -> Tensor:
    """The positions in flat memory of the elements of a layout, in order."""
    everywhere = arange(count, device=layout.place.device)
    return reshape(contiguous(view_of(everywhere, shape, layout.strides, offset)), -1)


def _unshown(gradient: Tensor, geometry: Geometry, shape: Shape) -> Tensor:
    source, view, distance = geometry
    low, high = _range(geometry)
    flat = zeros(high - low, dtype=gradient.dtype, device=gradient.device)
    narrowed = _narrowed(geometry, shape).view
    if narrowed.overlaps_itself():
        at = _places(view, shape, distance - low, high - low)
        scatter_add_(flat, 0, at, reshape(contiguous(gradient), -1))
    elif gradient.numel():
        copy_(view_of(flat, shape, view.strides, distance - low), gradient)
    if source.overlaps_itself():
        flat = div(flat, _counts(source, low, high, gradient))
    return view_of(flat, tuple(source.shape), source.strides, -low)


def _counts(source: Layout, low: int, high: int, like: Tensor) -> Tensor:
    """How many elements of the source lie at each place of flat memory, and 1 where there is none."""
    counts = zeros(high - low, dtype=like.dtype, device=like.device)
    at = _places(source, tuple(source.shape), -low, high - low)
    scatter_add_(counts, 0, at, full(at.shape, 1, dtype=like.dtype, device=like.device))
    return clamp_min(counts, 1)


def _shown(tensor: Tensor, geometry: Geometry, shape: Shape) -> Tensor:
    source, view, distance = geometry
    own = tuple(source.shape)
    low, high = _range(geometry)
    inside = not low and high <= source.numel
    if inside and source.contiguous and tensor._layout.contiguous:
        return view_of(tensor, shape, view.strides, tensor._offset + distance)
    flat = zeros(high - low, dtype=tensor.dtype, device=tensor.device)
    if source.overlaps_itself():
        at = _places(source, own, -low, high - low)
        scatter_add_(flat, 0, at, reshape(contiguous(tensor), -1))
        flat = div(flat, _counts(source, low, high, tensor))
    elif tensor.numel():
        copy_(view_of(flat, own, source.strides, -low), tensor)
    made = view_of(flat, shape, view.strides, distance - low)
    return clone(made) if made._layout.overlaps_itself() else made
