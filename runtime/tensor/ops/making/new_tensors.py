"""Tensors like another one: ``new_full`` and its kin, the older ``new``, and ``type``."""

from __future__ import annotations

from typing import Any

from ....machine.device_name import device as torch_device
from ...core.gradient_seam import required
from ...core.shapes import Size, given_once, shape_of
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError
from ..copying.copying import to
from ..elementwise.filling import fill_, zero_
from .creation import empty, empty_strided
from .from_values import tensor
from .legacy_types import LegacyType, legacy_name, legacy_tensor, named_type


def new_empty(
    input: Tensor,
    *lengths: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """An uninitialised tensor of this shape, with the type and on the device of ``input`` unless told otherwise.

    Raises:
        OutOfMemoryError: the device has not that much memory left.
        ValueError: a length is negative.
    """
    shape = shape_of(given_once(lengths, size, "size"))
    return required(
        empty(shape, dtype=_type(input, dtype), device=_device(input, device), layout=layout, pin_memory=pin_memory),
        requires_grad,
    )


def new_zeros(
    input: Tensor,
    *lengths: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``new_empty``, with 0 everywhere."""
    return required(
        zero_(new_empty(input, *lengths, size=size, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory)),
        requires_grad,
    )


def new_ones(
    input: Tensor,
    *lengths: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``new_empty``, with 1 everywhere."""
    return required(
        fill_(
            new_empty(input, *lengths, size=size, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory), 1
        ),
        requires_grad,
    )


def new_full(
    input: Tensor,
    size: Any,
    fill_value: Any,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of this shape with ``fill_value`` everywhere."""
    return required(
        fill_(new_empty(input, size, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory), fill_value),
        requires_grad,
    )


def new_tensor(input: Tensor, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of ``data``."""
    return tensor(data, dtype=_type(input, dtype), device=_device(input, device), requires_grad=requires_grad)


def new_empty_strided(
    input: Tensor, size: Any, stride: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``empty_strided``, with the type and on the device of ``input`` unless told otherwise."""
    made = empty_strided(size, stride, dtype=_type(input, dtype), device=_device(input, device))
    return required(made, requires_grad)


def new(input: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """As the legacy constructor of this type: ``new(2, 3)``, ``new(size=(2, 3))``, ``new([[1, 2]])``, ``new()``.

    Raises:
        ValueError: ``device`` is of another kind than the tensor's.
    """
    if device is not None and torch_device(device).type != input.device.type:
        raise ArgumentError(f"new() of a tensor on {input.device} makes tensors there, not on {device}")
    given = args if size is None else (Size(shape_of(given_once(args, size, "size"))),)
    return legacy_tensor(input.dtype, input.device if device is None else device, given)


def as_type(input: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the legacy type, such as ``torch.cuda.FloatTensor``; or the tensor as another type, given as a
    dtype, a legacy class or its name."""
    if dtype is None:
        return legacy_name(input)
    if isinstance(dtype, str) and dtype.endswith("Tensor"):
        dtype = named_type(dtype)
    elif dtype is Tensor:
        dtype = named_type("Tensor")
    if isinstance(dtype, LegacyType):
        device = "cuda" if dtype.device == "cuda" and not input.is_cuda else None
        device = "cpu" if dtype.device == "cpu" else device
        return to(input, input.device if device is None else device, dtype.dtype, non_blocking=non_blocking)
    return to(input, dtype=dtype, non_blocking=non_blocking)


def _type(input: Tensor, dtype: Any) -> Any:
    return input._layout.dtype if dtype is None else dtype


def _device(input: Tensor, device: Any) -> Any:
    return input._layout.place.device if device is None else device
