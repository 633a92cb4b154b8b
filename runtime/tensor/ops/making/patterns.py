"""New tensors that a rule fills: ranges of numbers, and the identity matrix."""

from __future__ import annotations

from math import ceil, isfinite
from operator import index
from typing import Any

from ....machine.callers import warn_program
from ...core.dtypes import dtype, dtype_of, get_default_dtype, int64
from ...core.gradient_seam import required
from ...core.memory_formats import check_layout
from ...core.needed_tensors import layout_of
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError
from ...places.dispatch import Plan, dispatch
from ...places.place import place_at
from ...places.registry import place_of
from ...places.tables_with_gradients.elementwise_table import COPY
from ..arguments.promotion import number_of
from ..arguments.scalars import item
from ..elementwise.elementwise import apply_into
from .creation import Device, empty, factory_place, layout_of_lengths

__all__ = ["arange", "eye", "linspace"]


def arange(
    *limits: Any,
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    dtype: Any = None,
    device: Device = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``arange(end)``, ``arange(start, end)`` or ``arange(start, end, step)``: the numbers up to but without ``end``.

    ``out`` says which tensor to give this shape and to fill, instead of a new one.

    Raises:
        ValueError: the step is 0 or leads away from ``end``, or a limit is not finite.
    """
    plainly = dtype is end is out is layout is None and not pin_memory and type(step) is int and step == 1
    if plainly and len(limits) == 1 and type(limits[0]) is int and limits[0] >= 0:  # the most usual, in fewer steps
        place = factory_place(device)
        made = place.empty(layout_of_lengths(place, int64, limits))
        if limits[0]:
            dispatch("arange_int", prepare_fill, (made,), 0, 1)
        return required(made, requires_grad)
    if end is not None and len(limits) < 2:
        limits = (*(limits or (start,)), end)
    if not 1 <= len(limits) <= 3:
        raise TypeError(f"arange() takes an end, a start and an end, or both and a step; got {limits}")
    values = [item(each) if isinstance(each, Tensor) else number_of(each) for each in limits]
    start, end, step = (0, *values, step) if len(values) == 1 else (*values, step)[:3]
    floating = any(isinstance(each, float) for each in (start, end, step))
    kind = dtype_of(dtype) if dtype is not None else get_default_dtype() if floating else int64
    _check_out_type("arange", dtype, out)
    if out is not None:
        kind = out.dtype
    if kind is int64:  # torch counts in it from the beginning, whatever the limits are
        if all(map(isfinite, (start, end, step))):
            start, end, step = int(start), int(end), int(step)
        floating = False
    if not step:
        raise ArgumentError(f"step must be nonzero: from {start} to {end} there is no way in steps of {step}")
    if not all(map(isfinite, (start, end, step))):
        raise ArgumentError(f"unsupported range: {start} -> {end} in steps of {step}")
    if (end - start) * step < 0:
        raise ArgumentError(
            f"upper bound and lower bound inconsistent with step sign: from {start} to {end} there is no way in steps "
            f"of {step}"
        )
    count = ceil((end - start) / step) if floating else -((start - end) // step)
    if floating and kind.kind in "ui":  # torch counts in floats, and steps in integers
        start, step, floating = int(start), int(step), False
    if out is not None and out.numel() not in (0, count):
        warn_program(
            f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()} which does not "
            f"match the computed number of elements {count}. Note that this may occur as a result of rounding error. "
            f"The out tensor will be resized to a tensor of shape ({count},).",
        )
        out.resize_(count)
    pattern = "arange_float" if floating else "arange_int"
    return required(
        _filled(pattern, (count,), kind, device, layout, start, step, pin_memory=pin_memory, out=out), requires_grad
    )


def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: Any = None,
    device: Device = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``steps`` numbers at equal distances, the first ``start`` and the last ``end``.

    ``out`` says which tensor to give this shape and to fill, instead of a new one.

    Raises:
        ArgumentError: ``steps`` is negative.
    """
    _check_out_type("linspace", dtype, out)
    kind = layout_of(out).dtype if out is not None else get_default_dtype() if dtype is None else dtype_of(dtype)
    if isinstance(start, complex) or isinstance(end, complex):
        raise ElementTypeError("complex is not part of cuplug; use two tensors, of real and of imaginary parts")
    steps, start, end = index(steps), float(start), float(end)
    if steps < 0:
        raise ArgumentError(f"linspace: {steps} steps; there must be 0 or more")
    if kind.kind in "ui":  # torch converts the ends first
        start, end = float(int(start)), float(int(end))
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    parameters = start, end, step, float(steps)
    return required(
        _filled("linspace", (steps,), kind, device, layout, *parameters, pin_memory=pin_memory, out=out), requires_grad
    )


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Device = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The identity matrix of ``n`` rows and ``m`` (by default ``n``) columns.

    ``out`` says which tensor to give this shape and to fill, instead of a new one.

    Raises:
        ArgumentError: a number is negative.
    """
    columns = n if m is None else m
    for name, count in (("n", n), ("m", columns)):
        if count < 0:
            raise ArgumentError(f"{name} must be greater or equal to 0, got {count}")
    _check_out_type("eye", dtype, out)
    kind = get_default_dtype() if dtype is None else dtype_of(dtype)
    return required(
        _filled("eye", (n, columns), kind, device, layout, columns, pin_memory=pin_memory, out=out), requires_grad
    )


def _check_out_type(name: str, asked: Any, out: Tensor | None) -> None:
    if out is not None and asked is not None and out.dtype is not dtype_of(asked):
        raise ElementTypeError(f"{name}: dtype= says {dtype_of(asked)!r} and out= names a tensor of {out.dtype!r}")


def _filled(
    pattern: str,
    shape: tuple[int, ...],
    kind: dtype,
    device: Device,
    layout: Any,
    *parameters: Any,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    check_layout(layout)
    if out is not None and not (device is None or place_of(device) is out._layout.place):
        raise ArgumentError(f"out= names a tensor on {out.device}, and the result is to be on {device}")
    if out is not None and len(shape) == 1 and layout_of(out).numel == shape[0]:
        made = out  # it keeps its shape
    else:
        made = empty(shape, dtype=kind if out is None else None, device=device, pin_memory=pin_memory, out=out)
    if not made.numel():
        return made
    filled = made if made._layout.contiguous else empty(made.shape, dtype=made.dtype, device=made.device)
    dispatch(pattern, prepare_fill, (filled,), *parameters)
    return made if filled is made else apply_into(COPY, made, filled)


def prepare_fill(pattern: str, out: Tensor) -> Plan:
    """What fills a tensor of this layout with a line of the table of patterns."""
    return place_at(out._layout).fill(pattern, out._layout)
