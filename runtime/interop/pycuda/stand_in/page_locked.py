"""Host memory of ``pycuda.driver``: page-locked, aligned, registered and managed."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from ....memory.managed import ManagedBuffer, alloc_managed
from ....memory.pinned import PinnedMemory, pinned_allocator
from .device_contexts import current_ordinal, runtime
from .driver_errors import LogicError, lacking, translated

__all__ = [
    "AlignedHostAllocation",
    "HostAllocation",
    "HostPointer",
    "ManagedAllocation",
    "PagelockedHostAllocation",
    "RegisteredHostMemory",
    "aligned_empty",
    "aligned_empty_like",
    "aligned_zeros",
    "aligned_zeros_like",
    "managed_base",
    "managed_empty",
    "managed_empty_like",
    "managed_zeros",
    "managed_zeros_like",
    "page_locked_base",
    "pagelocked_empty",
    "pagelocked_empty_like",
    "pagelocked_zeros",
    "pagelocked_zeros_like",
    "register_host_memory",
]


class HostPointer:
    """Host memory that arrays are views of: their ``base``."""

    _address: int
    _seen_as: dict[str, Any]
    """What the array on it looks like: its part of ``__array_interface__``."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "data": (self._address, False), **self._seen_as}

    def get_device_pointer(self) -> int:
        """The address by which kernels use the memory: the same as the host's."""
        return self._address


class PagelockedHostAllocation(HostPointer):
    """Page-locked memory. It goes back when the last array on it is gone."""

    def __init__(self, nbytes: int, flags: int = 0) -> None:
        """``nbytes`` bytes, with flags out of ``host_alloc_flags``."""
        self._flags = flags
        current_ordinal()  # raises where there is no context
        self._memory: PinnedMemory | None = PinnedMemory.allocate(pinned_allocator(runtime()), nbytes, stream=0)
        self._address = self._memory.block.address

    def free(self) -> None:
        """Give the memory up now: its arrays must not be used any more. Raises LogicError if that was done before."""
        if self._memory is None:
            raise LogicError("this memory was freed before")
        self._memory = None

    def get_flags(self) -> int:
        """The flags that it was made with."""
        return self._flags

    def used_by(self, device: int, stream: int) -> None:
        """Work queued on a stream uses the memory: it serves nothing else before that is done."""
        if self._memory is not None:
            self._memory.used_by(device, stream)


HostAllocation = PagelockedHostAllocation


class AlignedHostAllocation(HostPointer):
    """Host memory whose address is a multiple of a number."""

    def __init__(self, nbytes: int, alignment: int) -> None:
        self._memory: Any = np.empty(nbytes + alignment, np.uint8)
        self._address = -(-self._memory.ctypes.data // alignment) * alignment

    def free(self) -> None:
        """Give the memory up now: its arrays must not be used any more."""
        self._memory = None


class RegisteredHostMemory(HostPointer):
    """Refused: the simulator cannot lock memory that is there already."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Refused. Raises NotImplementedError."""
        lacking("RegisteredHostMemory", "use pagelocked_empty")


class ManagedAllocation(HostPointer):
    """Managed memory, which program and kernels use alike. It goes back when the last array on it is gone."""

    def __init__(self, nbytes: int, flags: int = 0) -> None:
        """``nbytes`` bytes, with flags out of ``mem_attach_flags``."""
        self._flags = flags
        self._memory: ManagedBuffer | None = alloc_managed(nbytes, runtime=runtime())
        self._address = self._memory.address

    def free(self) -> None:
        """Give the memory up now: its arrays must not be used any more. Raises LogicError if that was done before."""
        if self._memory is None:
            raise LogicError("this memory was freed before")
        self._memory.close()
        self._memory = None

    def attach(self, mem_flags: int, stream: Any = None) -> None:
        """Say who uses it. Here whoever has waited for its kernels may."""

    def __int__(self) -> int:
        return self._address

    def __index__(self) -> int:
        return self._address


def _others(empty: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """What goes with a function that makes arrays of a kind of memory: its ``zeros``, ``empty_like`` and
    ``zeros_like``, which take its last argument too."""

    def zeros(shape: Any, dtype: Any, order: str = "C", *setting: Any, **named: Any) -> Any:
        """The same, filled with zeros."""
        return _cleared(empty(shape, dtype, order, *setting, **named))

    def empty_like(array: Any, *setting: Any, **named: Any) -> Any:
        """The same, with the shape, type and order of another array."""
        return empty(array.shape, array.dtype, _order(array), *setting, **named)

    def zeros_like(array: Any, *setting: Any, **named: Any) -> Any:
        """The same, filled with zeros."""
        return _cleared(empty_like(array, *setting, **named))

    whole = signature(empty)
    shape, *_, last = whole.parameters.values()
    alike = whole.replace(parameters=[shape.replace(name="array"), last])
    for function, told in ((zeros, whole), (empty_like, alike), (zeros_like, alike)):
        function.__name__ = function.__qualname__ = empty.__name__.replace("empty", function.__name__)
        vars(function)["__signature__"] = told
    return zeros, empty_like, zeros_like


@translated
def pagelocked_empty(shape: Any, dtype: Any, order: str = "C", mem_flags: int = 0) -> Any:
    """A NumPy array in page-locked memory. Raises MemoryError if no more can be locked."""
    return _array(lambda nbytes: PagelockedHostAllocation(nbytes, mem_flags), shape, dtype, order)


def aligned_empty(shape: Any, dtype: Any, order: str = "C", alignment: int = 4096) -> Any:
    """A NumPy array at an address that is a multiple of ``alignment``."""
    return _array(lambda nbytes: AlignedHostAllocation(nbytes, alignment), shape, dtype, order)


@translated
def managed_empty(shape: Any, dtype: Any, order: str = "C", mem_flags: int = 0) -> Any:
    """A NumPy array in managed memory, which kernels are given as it is. Raises MemoryError without room."""
    return _array(lambda nbytes: ManagedAllocation(nbytes, mem_flags), shape, dtype, order)


pagelocked_zeros, pagelocked_empty_like, pagelocked_zeros_like = _others(pagelocked_empty)
aligned_zeros, aligned_empty_like, aligned_zeros_like = _others(aligned_empty)
managed_zeros, managed_empty_like, managed_zeros_like = _others(managed_empty)


def register_host_memory(ary: Any, flags: int = 0) -> Any:  # noqa: ARG001 - as PyCUDA's
    """Refused. Raises NotImplementedError."""
    return RegisteredHostMemory()


def managed_base(array: Any) -> ManagedAllocation | None:
    """The managed memory that an array is a view of, if it is."""
    while array is not None and not isinstance(array, ManagedAllocation):
        array = getattr(array, "base", None)
    return array


def page_locked_base(array: Any) -> PagelockedHostAllocation | None:
    """The page-locked memory that an array is a view of, if it is."""
    while array is not None and not isinstance(array, PagelockedHostAllocation):
        array = getattr(array, "base", None)
    return array


def _array(allocate: Callable[[int], HostPointer], shape: Any, dtype: Any, order: str) -> Any:
    dtype = np.dtype(dtype)
    shape = tuple(int(size) for size in shape) if isinstance(shape, (tuple, list)) else (int(shape),)
    count = int(np.prod(shape, dtype=np.int64))
    if not count:
        return np.empty(shape, dtype, order)  # type: ignore[call-overload]
    memory = allocate(count * dtype.itemsize)
    strides = np.ndarray(shape, np.dtype("V1"), order="F" if order == "F" else "C").strides
    memory._seen_as = {
        "shape": shape,
        "typestr": dtype.str,
        "descr": dtype.descr,
        "strides": tuple(stride * dtype.itemsize for stride in strides),
    }
    return np.asarray(memory)


def _cleared(array: Any) -> Any:
    array.fill(0)
    return array


def _order(array: Any) -> str:
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
