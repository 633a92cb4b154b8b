"""DLPack (version 0.8, unversioned capsules) both ways, by ``ctypes``: https://dmlc.github.io/dlpack/latest/c_api.html

A capsule holds a ``DLManagedTensor``, whose deleter its consumer calls when it has done with the memory.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ...backends.device_place import DevicePlace
from ...core.dtypes import ALL, UNSIGNED, dtype
from ...core.tensor import Tensor
from ...places.place import Place
from ...places.registry import place_of
from .foreign_memory import device_memory, host_memory

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_BFLOAT = 4


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))

_api = ctypes.pythonapi
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _api)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _api))
# The same for a capsule that is being destroyed, which Python must not count a reference to.
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))

_NAME, _USED = b"dltensor", b"used_dltensor"
_exported: dict[int, tuple[Any, ...]] = {}
"""What is handed out, by the address of its ``DLManagedTensor``: the tensor and the arrays that it points to."""


def _forget(address: int) -> None:
    _exported.pop(address, None)


def _forget_unused(capsule: int) -> None:
    if _raw_is_valid(capsule, _NAME):  # nobody took the contents
        _exported.pop(_raw_pointer(capsule, _NAME), None)


_delete, _drop_capsule = _Deleter(_forget), _Destructor(_forget_unused)


def device_of(tensor: Tensor) -> tuple[int, int]:
    """DLPack's type and number of the tensor's device."""
    if tensor.is_cuda:
        return _CUDA, tensor.get_device()
    return (_CUDA_HOST if tensor.is_pinned() else _CPU), 0


def export(tensor: Tensor) -> Any:
    """A capsule with the tensor's memory, which it keeps."""
    layout = tensor._layout
    ndim = len(layout.shape)
    shape, strides = (ctypes.c_int64 * ndim)(*layout.shape), (ctypes.c_int64 * ndim)(*layout.strides)
    kind = layout.dtype
    code = _BFLOAT if kind.name == "bfloat16" else _CODES[kind.kind]
    managed = _Managed()
    managed.tensor = _Tensor(
        tensor.data_ptr(),
        _Device(*device_of(tensor)),
        ndim,
        _DataType(code, 8 * kind.itemsize, 1),
        ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)),
        0,
    )
    managed.deleter = _delete
    address = ctypes.addressof(managed)
    _exported[address] = (managed, tensor, shape, strides)
    return _new_capsule(address, _NAME, ctypes.cast(_drop_capsule, ctypes.c_void_p))


class _Import:
    """Keeps the memory of a capsule's contents."""

    def __init__(self, managed: Any, address: int) -> None:
        self._managed = managed
        self._address = address

    def __del__(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(self._address)


def import_(source: Any) -> Tensor:
    """See ``exchange.from_dlpack``.

    Raises:
        TypeError: it gives no capsule, or one that was used before, or memory of neither the CPU nor CUDA.
    """
    capsule: Any = source
    place: Place | None = None
    if hasattr(source, "__dlpack__"):
        kind, index = source.__dlpack_device__()
        if kind in (_CUDA, _CUDA_MANAGED):
            place = place_of(index)
            assert isinstance(place, DevicePlace)
            capsule = source.__dlpack__(stream=place.stream_handle() or 1)
        else:
            capsule = source.__dlpack__()
    if not _is_valid(capsule, _NAME):
        raise TypeError(f"from_dlpack: {type(source).__name__} gives no DLPack capsule that is still to be used")
    address = _pointer(capsule, _NAME)
    managed = _Managed.from_address(address)
    tensor = managed.tensor
    kind = _dtype(tensor.dtype)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    device, index = tensor.device.type, tensor.device.index
    if device not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise TypeError(
            f"from_dlpack: memory of DLPack's device type {device} is neither the CPU's nor a CUDA device's"
        )
    data = (tensor.data or 0) + tensor.byte_offset
    _set_name(capsule, _USED)
    owner = _Import(managed, address)
    if device in (_CPU, _CUDA_HOST):
        return host_memory(data, kind, shape, strides, owner)
    return device_memory(place or place_of(index), data, kind, shape, strides, owner)


def _dtype(found: Any) -> dtype:
    for each in (*ALL, *UNSIGNED):
        code = _BFLOAT if each.name == "bfloat16" else _CODES[each.kind]
        if (found.code, found.bits, found.lanes) == (code, 8 * each.itemsize, 1):
            return each
    raise TypeError(
        f"from_dlpack: tensors cannot hold elements of DLPack's type code {found.code}, {found.bits} bits, "
        f"{found.lanes} lanes"
    )
