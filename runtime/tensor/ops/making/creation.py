"""New tensors of a shape, uninitialised or filled. What names no device goes to the CPU, as in torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....machine.device_name import current_factory_device
from ...core.dtypes import dtype, dtype_of, get_default_dtype, scalar_dtype
from ...core.gradient_seam import required
from ...core.layout import Layout
from ...core.memory_formats import check_layout, preserve_format, strides_in
from ...core.needed_tensors import no_tensor
from ...core.shapes import Size, as_lengths, given_once, shape_of
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError, ShapeError
from ...places.dispatch import Plan
from ...places.place import Place, place_at
from ...places.registry import place_of
from ...places.tables_with_gradients.elementwise_table import COPY
from ..arguments.out_argument import resize_output
from ..arguments.promotion import common_dtype, number_of
from ..copying.copying import in_format, pinned_empty
from ..copying.copying import pin_memory as pin_memory_of
from ..elementwise.elementwise import apply_into

__all__ = ["empty", "empty_like", "empty_strided", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]

Device = Any
"""A ``device``, its text or a CUDA ordinal; None for the default."""


def factory_place(device: Device) -> Place:
    """Where a new tensor goes."""
    return place_of(current_factory_device() if device is None else device)


def empty(
    *lengths: Any,
    size: Any = None,
    dtype: Any = None,
    device: Device = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of this shape, uninitialised.

    Args:
        lengths: the shape, as integers or as one sequence; ``size`` means the same.
        dtype: the element type; the default dtype if None.
        device: where; the CPU, or the device of ``with device(...)``, if None.
        layout: how elements are kept; ``strided``, which there is alone.
        pin_memory: whether to use page-locked memory of the CPU.
        out: a tensor to give this shape and to return, instead of a new one.
        requires_grad: whether the tensor requires gradients.
        memory_format: in which order elements lie: ``contiguous_format``, if None, or ``channels_last``.

    Raises:
        OutOfMemoryError: the device has not that much memory left.
        ValueError: a length is negative, or there is no such layout or order.
    """
    if out is None and layout is None and size is None and memory_format is None and not pin_memory:
        kind = get_default_dtype() if dtype is None else dtype_of(dtype)
        place = factory_place(device)
        made = place.empty(layout_of_lengths(place, kind, lengths))
        return required(made, True) if requires_grad else made
    check_layout(layout)
    if out is not None:
        if dtype is not None and dtype_of(dtype) is not out.dtype:
            raise ElementTypeError(f"out= names a tensor of {out.dtype!r}, and the result is to be of {dtype!r}")
        resize_output(out, shape_of(given_once(lengths, size, "size")))
        return required(out, requires_grad)
    kind = get_default_dtype() if dtype is None else dtype_of(dtype)
    place = factory_place(device)
    shape = shape_of(given_once(lengths, size, "size"))
    target = Layout.of(place, kind, shape, None if memory_format is None else strides_in(memory_format, shape))
    return required(_uninitialised(target, pin_memory), requires_grad)


def _uninitialised(target: Layout, pin_memory: bool) -> Tensor:
    if not pin_memory:
        return place_at(target).empty(target)
    if place_at(target).device.type != "cpu":
        raise ArgumentError(
            f"only memory of the CPU can be pinned, and this tensor is to be on {place_at(target).device}"
        )
    return pinned_empty(target)


def layout_of_lengths(place: Place, kind: dtype, lengths: tuple[Any, ...]) -> Layout:
    """The contiguous layout of the shape that ``lengths`` mean, in few steps where it is known already."""
    asked = lengths[0] if len(lengths) == 1 and type(lengths[0]) in (tuple, Size) else lengths
    for each in asked:
        if type(each) is not int:
            return Layout.of(place, kind, shape_of(lengths))
    return place.layouts.get((kind, asked, None)) or Layout.of(place, kind, shape_of(lengths))


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Any = None,
    device: Device = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """An uninitialised tensor with these strides, in elements.

    Raises:
        ValueError: there are not as many strides as lengths.
    """
    if len(size) != len(stride):
        raise ShapeError(
            f"empty_strided: dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    check_layout(layout)
    kind = get_default_dtype() if dtype is None else dtype_of(dtype)
    target = Layout.of(factory_place(device), kind, shape_of((tuple(size),)), as_lengths((stride,)))
    return required(_uninitialised(target, pin_memory), requires_grad)


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Device = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of this shape with ``fill_value`` everywhere; without ``dtype`` of the value's type.

    ``out`` says which tensor to give this shape and to fill, instead of a new one.
    """
    value = fill_value if isinstance(fill_value, Tensor) else number_of(fill_value)
    kind = dtype
    if dtype is None and out is None:
        kind = common_dtype((value,)) if isinstance(value, Tensor) else scalar_dtype(type(value))
    made = empty(size, dtype=kind, device=device, layout=layout, pin_memory=pin_memory, out=out)
    return required(apply_into(COPY, made, value), requires_grad)


def zeros(
    *lengths: Any,
    size: Any = None,
    dtype: Any = None,
    device: Device = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of this shape with 0 everywhere. Arguments and errors are those of ``empty``; ``out`` is filled."""
    if size is None and layout is None and out is None and not pin_memory:
        return required(_filled_new(0, lengths, dtype, device), requires_grad)
    made = empty(*lengths, size=size, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory, out=out)
    return required(apply_into(COPY, made, 0), requires_grad)


def ones(
    *lengths: Any,
    size: Any = None,
    dtype: Any = None,
    device: Device = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of this shape with 1 everywhere. Arguments and errors are those of ``empty``; ``out`` is filled."""
    if size is None and layout is None and out is None and not pin_memory:
        return required(_filled_new(1, lengths, dtype, device), requires_grad)
    made = empty(*lengths, size=size, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory, out=out)
    return required(apply_into(COPY, made, 1), requires_grad)


def empty_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Device = None,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """An uninitialised tensor with the shape, type and device of another.

    Args:
        input: the other.
        dtype: another element type.
        device: another device.
        layout: None or ``strided``.
        pin_memory: whether to use page-locked memory of the CPU.
        memory_format: the order of dimensions in memory; that of ``input`` if None.
        requires_grad: whether the tensor requires gradients.

    Raises:
        ValueError: ``pin_memory`` on a device.
    """
    try:
        own = input._layout
    except AttributeError:
        raise no_tensor(input) from None
    if dtype is None and device is None and layout is None and memory_format is None and not pin_memory:
        alike = own.plans.get(empty_like)
        if alike is None:
            alike = own.plans[empty_like] = Layout.of(own.place, own.dtype, own.shape, own.kept_strides())
        made = place_at(own).empty(alike)
        return required(made, True) if requires_grad else made
    check_layout(layout)
    kind = own.dtype if dtype is None else dtype_of(dtype)
    place = place_at(own) if device is None else place_of(device)
    kept = own.kept_strides() if memory_format in (None, preserve_format) else None
    made = in_format(place.empty(Layout.of(place, kind, own.shape, kept)), memory_format)
    return required(pin_memory_of(made) if pin_memory else made, requires_grad)


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Device = None,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with the shape, type and device of another and ``fill_value`` everywhere."""
    x = empty_like(input, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory, memory_format=memory_format)
    return required(apply_into(COPY, x, fill_value), requires_grad)


def _filled_new(value: Any, lengths: tuple[Any, ...], dtype: Any, device: Device) -> Tensor:
    """A new tensor that is filled with 0 or 1, in few steps."""
    kind = get_default_dtype() if dtype is None else dtype_of(dtype)
    place = factory_place(device)
    target = layout_of_lengths(place, kind, lengths)
    new: Plan | None = target.plans.get(("filled", type(value)))
    if new is None:
        new = target.plans["filled", type(value)] = _prepare_filled(place, target)
    return new(value)  # type: ignore[no-any-return]


def _prepare_filled(place: Place, target: Layout) -> Plan:
    kernel = place.elementwise(COPY, (target.dtype,), target, [None]) if target.numel else None
    new: Plan | None = getattr(kernel, "new", None)
    if new is not None:
        return new

    def filled(value: Any) -> Tensor:
        made = place.empty(target)
        if kernel is not None:
            kernel(made, value)
        return made

    return filled


def zeros_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Device = None,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with the shape, type and device of another and 0 everywhere."""
    x = empty_like(input, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory, memory_format=memory_format)
    return required(apply_into(COPY, x, 0), requires_grad)


def ones_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Device = None,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with the shape, type and device of another and 1 everywhere."""
    x = empty_like(input, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory, memory_format=memory_format)
    return required(apply_into(COPY, x, 1), requires_grad)
