"""Tensors and other libraries' arrays in the same memory: NumPy, the CUDA Array Interface, DLPack; and streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ....machine.callers import warn_program
from ....machine.foreign_handles import device_of as ordinal_of
from ...backends.device_place import DevicePlace
from ...core.dtypes import dtype_of, get_default_dtype
from ...core.dtypes import from_numpy as dtype_from_numpy
from ...core.gradient_seam import required
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError
from ...places.registry import place_of
from ..arguments.dlpack import device_of, export, import_
from ..arguments.foreign_memory import device_memory
from ..arguments.numpy_arrays import from_numpy, sharing
from ..copying.copying import clone, cpu, detach
from ..making.creation import Device
from ..making.from_values import as_tensor, tensor


def numpy(input: Tensor, *, force: bool = False) -> npt.NDArray[Any]:
    """The elements as NumPy's array, in the same memory.

    Args:
        force: copy to the CPU first, where the tensor is on a device.

    Raises:
        TypeError: the tensor is on a device, and not ``force``.
    """
    if input.is_cpu:
        shown: npt.NDArray[Any] = input._host.view()
        return shown
    if force:
        return numpy(cpu(input))
    raise TypeError(f"NumPy cannot use memory of {input.device}; copy it with .cpu() first")


def as_array(input: Tensor, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
    """What ``numpy.asarray`` makes of a CPU tensor: an array in the same memory, or a copy of another type.

    Raises:
        TypeError: the tensor is on a device.
        ValueError: ``copy`` is False, and the type asked for takes a copy.
    """
    array = numpy(input)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError(f"elements of {input.dtype!r} become {dtype} only by a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def wrap_array(  # NumPy passes all these
    input: Tensor,  # noqa: ARG001
    array: Any,
    context: Any = None,  # noqa: ARG001
    return_scalar: bool = False,  # noqa: ARG001
) -> Tensor:
    """A tensor of what one of NumPy's functions gives for tensors, as in torch."""
    return sharing(np.asarray(array))


def cuda_array_interface(input: Tensor) -> dict[str, Any]:
    """The memory by version 3 of the CUDA Array Interface. What it names is ordered after the current stream.

    Raises:
        AttributeError: the tensor is on the CPU, or of bfloat16.
    """
    place = input._layout.place
    if not isinstance(place, DevicePlace):
        raise AttributeError(  # noqa: TRY004 - so that hasattr says no
            f"the tensor is on {input.device}: only CUDA tensors have __cuda_array_interface__"
        )
    layout = input._layout
    if layout.dtype.name == "bfloat16":
        raise AttributeError("the CUDA Array Interface has no bfloat16; exchange it by DLPack")
    strides = None if layout.contiguous else tuple(stride * input.itemsize for stride in layout.strides)
    return {
        "version": 3,
        "shape": tuple(layout.shape),
        "typestr": layout.dtype.numpy.str,
        "data": (input.data_ptr(), False),
        "strides": strides,
        "stream": place.stream_handle() or 1,  # 0 is forbidden; 1 is the legacy one
    }


def dlpack_capsule(
    input: Tensor, *, stream: Any = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None, **_: Any
) -> Any:
    """The memory as a DLPack capsule. What is queued on ``stream`` later comes after what makes the elements.

    Args:
        stream: the consumer's stream as the array API standard says: a handle, 1 or None for the legacy stream, 2
            for the per-thread one, -1 for no order.
        dl_device: DLPack's type and number of the device where the consumer wants the elements: here or on the CPU.
        copy: whether a copy must be made, or must not be.

    Raises:
        TypeError: the stream is no integer.
        BufferError: it would take a copy that must not be made, or to another device.
    """
    if stream is not None and not isinstance(stream, int):
        raise TypeError(f"stream must be ``int`` or ``none``, not {type(stream).__name__}: a stream's handle")
    shown = clone(input) if copy else input
    wanted = None if dl_device is None else tuple(map(int, dl_device))
    if wanted not in (None, device_of(shown)) and not (input.is_cpu and wanted == (1, 0)):
        if copy is False or wanted != (1, 0):
            raise BufferError(f"the tensor is on {input.device}; to use it elsewhere takes a copy, .to(...)")
        return export(cpu(shown))
    place = input._layout.place
    if isinstance(place, DevicePlace) and stream != -1:
        place.hand_over(shown, 0 if stream in (None, 0, 1) else stream)
    return export(shown)


def dlpack_device(input: Tensor) -> tuple[int, int]:
    """DLPack's type and number of the tensor's device."""
    return device_of(input)


def record_stream(input: Tensor, stream: Any) -> None:
    """Say that ``stream`` uses the memory too: once given up, it is not used again before the work that is queued
    on ``stream`` at that time is done. Needed for each stream but the one that the tensor was made on.

    Raises:
        TypeError: the tensor is on the CPU.
    """
    if not input.is_cuda:
        raise TypeError("record_stream() is for CUDA tensors; this one is on the CPU")
    if input._storage.length:
        input._storage.owner.record_stream(stream)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """The memory of another library's array as a tensor, by DLPack.

    Args:
        ext_tensor: an object with ``__dlpack__`` and ``__dlpack_device__``, or a capsule, whose contents then must be
            ready.

    Raises:
        TypeError: the elements or the device are of a kind that tensors do not have.
    """
    return import_(ext_tensor)


def from_interface(source: Any) -> Tensor:
    """The memory of another library's array on a device as a tensor, by the CUDA Array Interface. It comes after the
    work on the stream that the array names.

    Raises:
        TypeError: the elements are of a kind that tensors do not have, or masked.
        CuplugError: there is no such device.
    """
    interface = source.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise TypeError("tensors have no masks; take the array apart first")
    kind = dtype_from_numpy(interface["typestr"])
    shape, given = tuple(interface["shape"]), interface.get("strides")
    if given is not None and any(stride % kind.itemsize for stride in given):
        raise ValueError(
            f"the array's strides {given} are no multiples of an element of {kind.itemsize} bytes; copy it"
        )
    strides = None if given is None else tuple(stride // kind.itemsize for stride in given)
    ordinal = ordinal_of(source)
    place = place_of("cuda" if ordinal is None else ordinal)
    stream = interface.get("stream")
    if stream is not None and isinstance(place, DevicePlace):
        place.take_over(stream)
    return device_memory(place, interface["data"][0], kind, shape, strides, source)


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """The bytes of an object that shows them by Python's buffer protocol, as elements, in the same memory.

    Args:
        buffer: the object: bytes, a bytearray, a memoryview, an array of the module ``array``.
        dtype: the element type.
        count: how many elements; -1 for all that are there.
        offset: how many bytes to leave out at the beginning.

    Raises:
        ValueError: there are not so many bytes, or none; or what is left is no whole number of elements; or the object
            has no buffer.
    """
    kind = dtype_of(dtype)
    if not _is_buffer(buffer):
        raise ArgumentError(
            f"frombuffer: object does not implement Python buffer protocol: it is a {type(buffer).__name__}"
        )
    array = np.frombuffer(buffer, np.uint8)
    if not array.flags.writeable:
        warn_program(
            "frombuffer: The given buffer is not writable. Tensors are; to write to this one, copy the buffer first",
        )
    left = array.size - offset
    size = f"buffer length ({array.size} bytes)"
    if not array.size or not count:
        raise ArgumentError(f"frombuffer: both buffer length ({array.size}) and count ({count}) must not be 0")
    if not 0 <= offset < array.size:
        raise ArgumentError(f"frombuffer: offset ({offset} bytes) must be non-negative and no greater than {size} - 1")
    if count < 0 and left % kind.itemsize:
        raise ArgumentError(
            f"frombuffer: buffer length ({left} bytes) after offset ({offset} bytes) must be a multiple of element "
            f"size ({kind.itemsize})"
        )
    wanted = (left // kind.itemsize if count < 0 else count) * kind.itemsize
    if wanted > left:
        raise ArgumentError(
            f"frombuffer: requested buffer length ({count} * {kind.itemsize} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual {size}"
        )
    return required(sharing(array[offset : offset + wanted].view(kind.numpy)), requires_grad)


def _is_buffer(obj: Any) -> bool:
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Device = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``obj`` as a tensor, sharing memory where it can: also by DLPack, the CUDA Array Interface and Python's buffers.

    Args:
        obj: a tensor, an array, what exports one, a buffer, nested sequences or a number.
        dtype: the element type; that of ``obj`` if None.
        device: where; where ``obj`` is, if None.
        copy: True for a copy in any case, False for none in any case, None for one where it is needed.
        requires_grad: whether the tensor requires gradients, which then flow on to those of ``obj``.

    Raises:
        ValueError: ``copy`` is False, and a copy is needed.
    """
    source = obj
    if not isinstance(obj, (Tensor, np.ndarray)):
        if hasattr(obj, "__cuda_array_interface__"):
            source = from_interface(obj)
        elif hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
            source = from_dlpack(obj)
        elif not isinstance(obj, np.generic) and _is_buffer(obj):
            source = frombuffer(obj, dtype=get_default_dtype() if dtype is None else dtype)
    if copy and not isinstance(source, Tensor):
        return tensor(source, dtype=dtype, device=device, requires_grad=requires_grad)
    if isinstance(source, np.ndarray):
        source = from_numpy(source)
    if copy is False and isinstance(obj, np.generic):
        raise ArgumentError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray")
    made = as_tensor(source, dtype=dtype, device=device)
    if copy is False and isinstance(source, Tensor) and made.device != source.device:
        raise ArgumentError(f"can't alias tensor from device '{source.device}' to '{made.device}'; copy is False")
    if copy is False and isinstance(source, Tensor) and made.dtype is not source.dtype:
        raise ArgumentError(
            f"can't alias tensor with dtype '{source.dtype!r}' into dtype '{made.dtype!r}'; copy is False"
        )
    if copy is False and (not isinstance(source, Tensor) or made._storage is not source._storage):
        what = "arbitrary sequence into a tensor" if isinstance(obj, Sequence) else f"a {type(obj).__name__}"
        raise ArgumentError(f"can't alias {what}: it becomes this tensor only by a copy, and copy is False")
    if copy and made._storage is source._storage:
        made = clone(made)
    if bool(requires_grad) is not made.requires_grad:
        made = required(detach(made), requires_grad)
    return made
