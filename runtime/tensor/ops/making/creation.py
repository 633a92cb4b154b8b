"""New tensors: from values, filled, ranges. What names no device goes to the CPU, as in torch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import ceil, isfinite
from operator import index
from typing import Any

import numpy as np

from .....allocators.errors import CuplugError
from ....machine.device_name import current_factory_device
from ...core.dtypes import dtype, dtype_of, get_default_dtype, int64, promote_types, scalar_dtype
from ...core.dtypes import from_numpy as dtype_from_numpy
from ...core.gradient_seam import required
from ...core.layout import Layout
from ...core.memory_formats import check_layout, preserve_format, strides_in
from ...core.shapes import Size, given_once, shape_of
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError, ShapeError
from ...places.dispatch import Plan, dispatch
from ...places.elementwise_table import COPY
from ...places.place import Place, place_at
from ...places.registry import place_of
from ..arguments.numpy_arrays import adopt_array, from_numpy
from ..arguments.out_argument import resize_output
from ..arguments.promotion import common_dtype, number_of
from ..arguments.scalars import item, tolist
from ..copying.copying import copied_to, detach, in_format, pinned_empty, to
from ..copying.copying import pin_memory as pin_memory_of
from ..elementwise.elementwise import apply_into

__all__ = [
    "arange",
    "as_tensor",
    "empty",
    "empty_like",
    "empty_strided",
    "eye",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "scalar_tensor",
    "tensor",
    "zeros",
    "zeros_like",
]

Device = Any
"""A ``device``, its text or a CUDA ordinal; None for the default."""


def _place(device: Device) -> Place:
    return place_of(current_factory_device() if device is None else device)


def tensor(
    data: Any, *, dtype: Any = None, device: Device = None, pin_memory: bool = False, requires_grad: bool = False
) -> Tensor:
    """A new tensor with a copy of ``data``: a number, nested sequences of numbers, NumPy's array or a tensor.

    Without ``dtype``: integers become int64, floats the default dtype, and arrays and tensors keep their own. It has no
    history: gradients do not reach ``data``.

    Raises:
        ValueError: the sequences are ragged.
        TypeError: an element is no number.
    """
    if isinstance(data, Tensor):
        data = detach(data)
        place = place_at(data._layout) if device is None else _place(device)
        return required(copied_to(data, place, None if dtype is None else dtype_of(dtype), always=True), requires_grad)
    made = _from_values(data, None if dtype is None else dtype_of(dtype))
    if pin_memory:
        made = pin_memory_of(made)
    place = _place(device)
    return required(made if place is made._layout.place else copied_to(made, place), requires_grad)


def as_tensor(data: Any, *, dtype: Any = None, device: Device = None) -> Tensor:
    """``tensor``, but without a copy where ``data`` is a tensor or NumPy's array that fits as it is."""
    if isinstance(data, np.ndarray):
        data = from_numpy(data)
    if not isinstance(data, Tensor):
        return tensor(data, dtype=dtype, device=device)
    if device is None and dtype is None:
        return data
    return to(data, data.device if device is None else device, dtype=dtype)


def scalar_tensor(value: Any, *, dtype: Any = None, device: Device = None, requires_grad: bool = False) -> Tensor:
    """A number as a tensor without dimensions."""
    kind = get_default_dtype() if dtype is None else dtype
    return tensor(value, dtype=kind, device=device, requires_grad=requires_grad)


def _from_values(data: Any, wanted: dtype | None) -> Tensor:
    if isinstance(data, _NUMPYS):
        array = np.asarray(data)
    else:
        data, own = _without_typed(data)
        array = _array_of(data, wanted)
        if wanted is None and own:
            wanted = reduce(promote_types, own)
        if wanted is None:
            if array.dtype.kind == "f":
                wanted = get_default_dtype()
            elif array.dtype.kind == "i":
                wanted = int64
        if not array.size:
            wanted = wanted or get_default_dtype()
        if wanted is not None and wanted.kind in "ui" and array.size and array.dtype.kind in "uif":
            check = COPY.check(wanted)
            assert check is not None
            check(array.min().item())
            check(array.max().item())
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        if array.dtype.kind == "c":
            raise TypeError(
                f"tensor(): {array.dtype} is not part of cuplug; use two tensors, of real and imaginary parts"
            )
        raise TypeError(
            f"tensor(): invalid data type: the elements must be numbers; NumPy makes {array.dtype} of what was given"
        )
    kind = wanted or dtype_from_numpy(array.dtype)
    with np.errstate(all="ignore"):
        return adopt_array(np.array(array, dtype=kind.numpy, order="K", copy=True))


def _array_of(data: Any, wanted: dtype | None) -> Any:
    try:
        array = np.array(data)
    except ValueError:
        if any(isinstance(each, str) for each in _leaves(data)):
            raise ElementTypeError(
                "tensor(): invalid data type: the elements must be numbers, and one of them is text"
            ) from None
        uneven = _ragged(data, _lengths_of_first(data))
        if uneven is None:  # NumPy refuses it for another reason, and says which
            raise
        raise uneven from None
    except OverflowError:
        array = np.array(data, dtype=object)
    if array.dtype.kind in "uO" and all(isinstance(each, (int, float)) for each in array.ravel().tolist()):
        if array.min() >= -(2**63) and array.max() < 2**63:
            return array.astype(np.int64)
        if wanted is None and not any(isinstance(each, float) for each in array.ravel().tolist()):
            raise ArgumentError("tensor(): a number is beyond the range of int64; name a floating-point dtype for it")
        try:
            return array.astype(np.float64)
        except OverflowError:
            raise ArgumentError("tensor(): a number is beyond the range of float64") from None
    return array


def _lengths_of_first(data: Any) -> list[int]:
    """The lengths of a sequence, its first item and so on: those that all others must have."""
    if not _is_sequence(data):
        return []
    return [len(data), *(_lengths_of_first(data[0]) if len(data) else ())]


def _is_sequence(data: Any) -> bool:
    """As NumPy takes it: of what has a length and items, all but texts, mappings and arrays without dimensions."""
    if isinstance(data, (str, bytes, bytearray, Mapping)) or getattr(data, "ndim", 1) == 0:
        return False
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")


def _ragged(data: Any, lengths: Sequence[int], depth: int = 0) -> CuplugError | None:
    """The error, in torch's words, for the first sequence that has another length than the first of its level."""
    if depth == len(lengths):
        return ElementTypeError(f"must be real number, not {type(data).__name__}") if _is_sequence(data) else None
    if not _is_sequence(data):
        return ElementTypeError(f"not a sequence: {type(data).__name__} at dim {depth}, where the first item is one")
    if len(data) != lengths[depth]:
        return ArgumentError(f"expected sequence of length {lengths[depth]} at dim {depth} (got {len(data)})")
    return next(filter(None, (_ragged(each, lengths, depth + 1) for each in data)), None)


def _without_typed(data: Any) -> tuple[Any, set[dtype]]:
    """``data`` with numbers in place of tensors; and the types of all elements, if any has one of its own."""
    if not _holds_typed(data):
        return data, set()
    kinds: set[dtype] = set()

    def plain(part: Any) -> Any:
        if isinstance(part, Tensor):
            kinds.add(part.dtype)
            return item(part) if part.numel() == 1 else tolist(part)
        if isinstance(part, (list, tuple)):
            return [plain(each) for each in part]
        kinds.add(dtype_from_numpy(part.dtype) if isinstance(part, _NUMPYS) else scalar_dtype(type(part)))
        return part

    return plain(data), kinds


def _leaves(data: Any) -> Iterator[Any]:
    for each in data:
        if isinstance(each, (list, tuple)):
            yield from _leaves(each)
        else:
            yield each


def _holds_typed(data: Any, depth: int = 0) -> bool:
    if not isinstance(data, (list, tuple)):
        return False
    if depth > _DEEPEST:
        raise ElementTypeError(
            f"tensor(): the sequences are nested in more than {_DEEPEST} levels, or in themselves: self-referential "
            "lists are incompatible"
        )
    kinds = set(map(type, data))  # of few kinds, however many there are
    if any(issubclass(each, (Tensor, *_NUMPYS)) for each in kinds):
        return True
    return not kinds.isdisjoint((list, tuple)) and any(_holds_typed(each, depth + 1) for each in data)


_DEEPEST = 64
_NUMPYS = (np.ndarray, np.generic)


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
        place = _place(device)
        made = place.empty(_layout_of(place, kind, lengths))
        return required(made, True) if requires_grad else made
    check_layout(layout)
    if out is not None:
        if dtype is not None and dtype_of(dtype) is not out.dtype:
            raise ElementTypeError(f"out= names a tensor of {out.dtype!r}, and the result is to be of {dtype!r}")
        resize_output(out, shape_of(given_once(lengths, size, "size")))
        return required(out, requires_grad)
    kind = get_default_dtype() if dtype is None else dtype_of(dtype)
    place = _place(device)
    shape = shape_of(given_once(lengths, size, "size"))
    target = Layout.of(place, kind, shape, None if memory_format is None else strides_in(memory_format, shape))
    if pin_memory:
        if place.device.type != "cpu":
            raise ArgumentError(f"only memory of the CPU can be pinned, and this tensor is to be on {place.device}")
        return required(pinned_empty(target), requires_grad)
    return required(place.empty(target), requires_grad)


def _layout_of(place: Place, kind: dtype, lengths: tuple[Any, ...]) -> Layout:
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
    made = _place(device).empty(Layout.of(_place(device), kind, shape_of((tuple(size),)), tuple(stride)))
    return required(made, requires_grad)


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
    own = input._layout
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
    return required(
        apply_into(
            COPY,
            empty_like(
                input, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory, memory_format=memory_format
            ),
            fill_value,
        ),
        requires_grad,
    )


def _filled_new(value: Any, lengths: tuple[Any, ...], dtype: Any, device: Device) -> Tensor:
    """A new tensor that is filled with 0 or 1, in few steps."""
    kind = get_default_dtype() if dtype is None else dtype_of(dtype)
    place = _place(device)
    target = _layout_of(place, kind, lengths)
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
    return required(
        full_like(
            input, 0, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory, memory_format=memory_format
        ),
        requires_grad,
    )


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
    return required(
        full_like(
            input, 1, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory, memory_format=memory_format
        ),
        requires_grad,
    )


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
        place = _place(device)
        made = place.empty(_layout_of(place, int64, limits))
        if limits[0]:
            dispatch("arange_int", _prepare_fill, (made,), 0, 1)
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
        warnings.warn(
            f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()} which does not "
            f"match the computed number of elements {count}. Note that this may occur as a result of rounding error. "
            f"The out tensor will be resized to a tensor of shape ({count},).",
            stacklevel=2,
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
    kind = out.dtype if out is not None else get_default_dtype() if dtype is None else dtype_of(dtype)
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
    if out is not None and len(shape) == 1 and out.numel() == shape[0]:
        made = out  # it keeps its shape
    else:
        made = empty(shape, dtype=kind if out is None else None, device=device, pin_memory=pin_memory, out=out)
    if not made.numel():
        return made
    filled = made if made._layout.contiguous else empty(made.shape, dtype=made.dtype, device=made.device)
    dispatch(pattern, _prepare_fill, (filled,), *parameters)
    return made if filled is made else apply_into(COPY, made, filled)


def _prepare_fill(pattern: str, out: Tensor) -> Plan:
    return place_at(out._layout).fill(pattern, out._layout)
