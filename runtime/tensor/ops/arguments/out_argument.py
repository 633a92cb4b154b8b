"""Tensors that ``out=`` names: they take the result's shape, as in torch."""

from __future__ import annotations

from ....machine.callers import warn_program
from ...core.layout import Layout
from ...core.needed_tensors import layout_of
from ...core.shapes import Shape
from ...core.tensor import Tensor
from ...places.place import place_at


def resize_output(out: Tensor, shape: Shape, strides: Shape | None = None) -> None:
    """Give ``out`` this shape, contiguous or with ``strides``, if it has another one; in the same memory if that does.

    A tensor that has elements is resized with a warning: who passes one usually means the shape it has.
    """
    layout = layout_of(out)
    if layout.shape == shape:
        return
    if layout.numel:
        warn_program(
            f"An output with one or more elements was resized since it had shape {list(layout.shape)}, which does not "
            f"match the required output shape {list(shape)}; pass an empty tensor to have it resized, or one of "
            "that shape",
        )
    place = place_at(layout)
    target = Layout.of(place, layout.dtype, shape, strides)
    if out._offset * layout.dtype.itemsize + target.nbytes > out._storage.length:
        out._storage, out._offset = place.allocate(target.nbytes), 0
    out._layout, out._array = target, None
