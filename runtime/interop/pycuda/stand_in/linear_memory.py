"""Device memory of ``pycuda.driver``: allocations, copies and filling."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ....machine.runtime import Runtime
from .device_contexts import current_ordinal, library_memory, runtime
from .driver_errors import LogicError, lacking, translated
from .page_locked import page_locked_base
from .queues import handle_of

__all__ = [
    "DeviceAllocation",
    "IPCMemoryHandle",
    "PointerHolderBase",
    "address_of",
    "device_address",
    "from_device",
    "from_device_like",
    "host_bytes",
    "mem_alloc",
    "mem_alloc_like",
    "mem_alloc_pitch",
    "mem_get_ipc_handle",
    "memcpy_dtod",
    "memcpy_dtod_async",
    "memcpy_dtoh",
    "memcpy_dtoh_async",
    "memcpy_htod",
    "memcpy_htod_async",
    "memcpy_peer",
    "memcpy_peer_async",
    "memset_d2d8",
    "memset_d2d8_async",
    "memset_d2d16",
    "memset_d2d16_async",
    "memset_d2d32",
    "memset_d2d32_async",
    "memset_d8",
    "memset_d8_async",
    "memset_d16",
    "memset_d16_async",
    "memset_d32",
    "memset_d32_async",
    "to_device",
]

_PITCH = 512


class PointerHolderBase:
    """What holds a device address; classes derived from it say which by ``get_pointer``."""

    def get_pointer(self) -> int:
        """The device address; derived classes have it. Raises NotImplementedError here."""
        raise NotImplementedError(f"{type(self).__name__} needs a method get_pointer, which returns the address")

    def as_buffer(self, size: int, offset: int = 0) -> memoryview:
        """``size`` bytes from ``offset`` on, as the host sees them. Waits for the work that is queued."""
        with runtime().on_device(current_ordinal()):
            runtime().driver.synchronize()
        return memoryview((ctypes.c_char * size).from_address(int(self) + offset)).cast("B")

    def __int__(self) -> int:
        return int(self.get_pointer())

    __index__ = __int__

    def __hash__(self) -> int:
        return id(self)


class DeviceAllocation(PointerHolderBase):
    """Device memory of cuplug's allocator. It goes back when nobody holds it any more."""

    def __init__(self, nbytes: int) -> None:
        """``nbytes`` bytes of the current device. Raises MemoryError if there is not that much left."""
        self._nbytes, self._device = nbytes, current_ordinal()
        memory = library_memory()
        self._address = memory.allocate_unordered(nbytes, device=self._device)
        self._memory: Any = memory
        self.holds: Any = None
        """The NumPy type of the array that was copied here last, to warn where kernels read another; else None."""

    def get_pointer(self) -> int:
        """The device address. Raises LogicError once the memory was freed."""
        if self._memory is None:
            raise LogicError("this memory was freed")
        return self._address

    def free(self) -> None:
        """Give the memory up now. Raises LogicError if that was done before."""
        if self._memory is None:
            raise LogicError("this memory was freed before")
        memory, self._memory = self._memory, None
        memory.free(self._address, device=self._device)

    def __len__(self) -> int:
        return self._nbytes

    def __bool__(self) -> bool:
        return True

    def __del__(self) -> None:
        if getattr(self, "_memory", None) is not None:
            self.free()


class IPCMemoryHandle:
    """Refused: the simulator is one process."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Refused. Raises NotImplementedError."""
        lacking("IPCMemoryHandle")


def mem_get_ipc_handle(devptr: Any) -> bytes:  # noqa: ARG001 - as PyCUDA's
    """Refused. Raises NotImplementedError."""
    lacking("mem_get_ipc_handle")


# --- allocations


@translated
def mem_alloc(bytes: int) -> DeviceAllocation:  # noqa: A002 - PyCUDA's name
    """Device memory of that many bytes.

    Raises:
        MemoryError: there is not that much left.
        LogicError: the size is 0 or negative.
    """
    nbytes = int(bytes)
    if nbytes <= 0:
        raise LogicError(f"mem_alloc({nbytes}): ask for one byte or more")
    return DeviceAllocation(nbytes)


def mem_alloc_like(ary: Any) -> DeviceAllocation:
    """Device memory of the size of an array. Raises as ``mem_alloc``."""
    return mem_alloc(ary.nbytes)


def mem_alloc_pitch(width: int, height: int, access_size: int) -> tuple[DeviceAllocation, int]:  # noqa: ARG001
    """Device memory for ``height`` rows of ``width`` bytes, and the bytes from one row to the next."""
    pitch = -(-int(width) // _PITCH) * _PITCH
    return mem_alloc(pitch * int(height)), pitch


def to_device(buffer: Any) -> DeviceAllocation:
    """Device memory with a copy of what ``buffer`` holds. Raises as ``mem_alloc``."""
    made = mem_alloc(host_bytes(buffer)[1])
    memcpy_htod(made, buffer)
    return made


def from_device(devptr: Any, shape: Any, dtype: Any, order: str = "C") -> Any:
    """A new NumPy array with a copy of device memory."""
    made: Any = np.empty(shape, dtype, order)  # type: ignore[call-overload]
    memcpy_dtoh(made, devptr)
    return made


def from_device_like(devptr: Any, other_ary: Any) -> Any:
    """The same, with the shape, type and order of another array."""
    made = np.empty_like(other_ary)
    memcpy_dtoh(made, devptr)
    return made


# --- copies


@translated
def memcpy_htod(dest: Any, src: Any) -> None:
    """Copy all of a buffer to device memory, and wait."""
    memcpy_htod_async(dest, src)
    _wait()


@translated
def memcpy_htod_async(dest: Any, src: Any, stream: Any = None) -> None:
    """Queue a copy of all of a buffer to device memory."""
    address, nbytes, kept = host_bytes(src)
    here, queue = _here(), handle_of(stream)
    if nbytes:
        target = device_address("memcpy_htod", dest, nbytes)
        with here.on_device(current_ordinal()):
            here.driver.memcpy_htod(target, address, nbytes, stream=queue)
        _keep(kept, queue)
        if isinstance(dest, DeviceAllocation):
            dest.holds = getattr(src, "dtype", None)


@translated
def memcpy_dtoh(dest: Any, src: Any) -> None:
    """Copy from device memory to all of a buffer, and wait."""
    memcpy_dtoh_async(dest, src)
    _wait()


@translated
def memcpy_dtoh_async(dest: Any, src: Any, stream: Any = None) -> None:
    """Queue a copy from device memory to all of a buffer."""
    address, nbytes, kept = host_bytes(dest, writable=True)
    here, queue = _here(), handle_of(stream)
    if nbytes:
        source = device_address("memcpy_dtoh", src, nbytes)
        with here.on_device(current_ordinal()):
            here.driver.memcpy_dtoh(address, source, nbytes, stream=queue)
        _keep(kept, queue)


@translated
def memcpy_dtod(dest: Any, src: Any, size: int) -> None:
    """Copy ``size`` bytes between places in device memory."""
    memcpy_dtod_async(dest, src, size)


@translated
def memcpy_dtod_async(dest: Any, src: Any, size: int, stream: Any = None) -> None:
    """Queue a copy of ``size`` bytes between places in device memory."""
    here, nbytes = _here(), int(size)
    if nbytes:
        target, source = (device_address("memcpy_dtod", each, nbytes) for each in (dest, src))
        with here.on_device(current_ordinal()):
            here.driver.memcpy_dtod(target, source, nbytes, stream=handle_of(stream))


@translated
def memcpy_peer(dest: Any, src: Any, size: int, dest_context: Any = None, src_context: Any = None) -> None:
    """Copy ``size`` bytes between devices, and wait."""
    memcpy_peer_async(dest, src, size, dest_context, src_context)
    _wait()


@translated
def memcpy_peer_async(
    dest: Any, src: Any, size: int, dest_context: Any = None, src_context: Any = None, stream: Any = None
) -> None:
    """Queue a copy of ``size`` bytes between devices, by default both the current one."""
    here, current, nbytes = _here(), current_ordinal(), int(size)
    to, of = (current if each is None else each._device.ordinal for each in (dest_context, src_context))
    target, source = (device_address("memcpy_peer", each, nbytes) for each in (dest, src))
    with here.on_device(current):
        here.driver.memcpy_peer(target, to, source, of, nbytes, stream=handle_of(stream))


# --- filling


@translated
def _fill(dest: Any, data: int, count: int, width: int, stream: Any = None) -> None:
    here = _here()
    value = int(data) % (1 << 8 * width)
    target = device_address(f"memset_d{8 * width}", dest, int(count) * width)
    with here.on_device(current_ordinal()):
        here.driver.memset(target, value, int(count), width=width, stream=handle_of(stream))


def _fill_rows(dest: Any, pitch: int, data: int, width: int, height: int, size: int, stream: Any = None) -> None:
    if int(height) > 0 and int(width) > 0:
        _check_rows(f"memset_d2d{8 * size}", dest, (int(height) - 1) * int(pitch) + int(width) * size)
    for row in range(int(height)):
        _fill(address_of(dest) + row * int(pitch), data, width, size, stream)


@translated
def _check_rows(call: str, dest: Any, nbytes: int) -> None:
    device_address(call, dest, nbytes)


def _filling(size: int) -> tuple[Callable[..., None], ...]:
    """``memset_d8`` and its kin, of elements of ``size`` bytes: at once and queued, and both of rows."""

    def fill(dest: Any, data: int, count: int) -> None:
        _fill(dest, data, count, size)

    def fill_async(dest: Any, data: int, count: int, stream: Any = None) -> None:
        _fill(dest, data, count, size, stream)

    def rows(dest: Any, pitch: int, data: int, width: int, height: int) -> None:
        _fill_rows(dest, pitch, data, width, height, size)

    def rows_async(dest: Any, pitch: int, data: int, width: int, height: int, stream: Any = None) -> None:
        _fill_rows(dest, pitch, data, width, height, size, stream)

    name, elements = f"d{8 * size}", "bytes" if size == 1 else f"elements of {size} bytes"
    fill.__doc__ = f"Fill ``count`` {elements}."
    fill_async.__doc__ = f"Queue filling ``count`` {elements}."
    rows.__doc__ = f"Fill ``height`` rows of ``width`` {elements}, ``pitch`` bytes apart."
    rows_async.__doc__ = f"Queue what ``memset_d2{name}`` does."
    made: dict[str, Callable[..., None]] = {f"memset_{name}": fill, f"memset_{name}_async": fill_async}
    made |= {f"memset_d2{name}": rows, f"memset_d2{name}_async": rows_async}
    for called, function in made.items():
        function.__name__ = function.__qualname__ = called
    return tuple(made.values())


memset_d8, memset_d8_async, memset_d2d8, memset_d2d8_async = _filling(1)
memset_d16, memset_d16_async, memset_d2d16, memset_d2d16_async = _filling(2)
memset_d32, memset_d32_async, memset_d2d32, memset_d2d32_async = _filling(4)


# --- helpers


def address_of(pointer: Any) -> int:
    """The device address that something stands for: a number, an allocation, an array."""
    interface = getattr(pointer, "__cuda_array_interface__", None)
    return int(pointer) if interface is None else int(interface["data"][0])


def device_address(call: str, pointer: Any, nbytes: int) -> int:
    """The same, where ``nbytes`` bytes from there on are to be touched by ``call``. Raises DriverError if they leave
    the allocation that they begin in.
    """
    address = address_of(pointer)
    if not (isinstance(pointer, DeviceAllocation) and nbytes <= len(pointer)):
        library_memory().check(call, address, nbytes)
    return address


def host_bytes(buffer: Any, *, writable: bool = False) -> tuple[int, int, Any]:
    """Address and size in bytes of host memory, and what keeps it alive.

    Raises:
        ValueError: its elements are not contiguous, or it is read-only and is to be written.
        TypeError: it has no buffer protocol.
    """
    try:
        array = np.asarray(buffer) if isinstance(buffer, (np.generic, np.ndarray)) else np.frombuffer(buffer, np.uint8)
    except TypeError:
        raise TypeError(
            f"{type(buffer).__name__} is no memory of the host: pass a NumPy array. Copies take the destination first"
        ) from None
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError("the array is not contiguous: copy it first, with numpy.ascontiguousarray")
    if writable and not array.flags.writeable:
        raise ValueError("the buffer is read-only, and is to be written")
    return array.ctypes.data, array.nbytes, array


def _here() -> Runtime:
    current_ordinal()  # raises where there is no context
    found = runtime()
    found.current.have_context()
    return found


def _wait() -> None:
    with runtime().on_device(current_ordinal()):
        runtime().driver.stream_synchronize(0)


def _keep(array: Any, queue: int) -> None:
    """Page-locked memory stays usable by the copy when the program drops it meanwhile."""
    base = page_locked_base(array)
    if base is not None:
        base.used_by(current_ordinal(), queue)
