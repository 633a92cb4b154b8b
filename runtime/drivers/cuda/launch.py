"""Launching kernels: the hottest call of a runtime.

With cuda-bindings, since converting eleven arguments is what it does faster than ctypes. Measured in turn in one
process on an H200 (driver 580.159.04, Python 3.12, cuda-bindings 13.3.1, PyCUDA 2026.1), medians of a launch of two
arguments, their packing included: ``CudaDriver.launch`` 3.5 µs, on the default stream 3.6, PyCUDA's
``prepared_async_call`` 3.8. In another process ``CudaDriver.launch`` took 3.6 and, through ctypes, 4.3 to 4.5. Almost
all of it is cuLaunchKernel: a prototype with the arguments converted and packed ahead, into a buffer of its own,
saved less than 0.1 µs.

What a loop of launches can save is the way there: in one process on an H200, cuLaunchKernel through cuda-bindings with
everything made ahead took 3.07 µs, ``bind_launch_in_place`` 3.12, ``CudaDriver.launch`` 3.63.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from ..base import Dim3, driver_error
from .api import Api, Refusal

__all__ = [
    "BoundLauncher",
    "Launcher",
    "Slot",
    "bind",
    "calling_cuda",
    "make_launcher",
    "make_slot",
    "refuse_launches",
]

Launcher = Callable[[int, Dim3, Dim3, int, int, bytes], int]
"""``launch(function, grid, block, shared, stream, parameters)`` returns a CUresult."""

BoundLauncher = Callable[[int, bytes], int]
"""``launch(stream, parameters)`` returns a CUresult."""

Slot = tuple[Any, int, Any]
"""A writable buffer for a parameter block, the address of the array ``extra`` that points to it, and what that lies
in. Address 0: there are no parameters."""

# The array `extra` of cuLaunchKernel: CU_LAUNCH_PARAM_BUFFER_POINTER (1) and where the parameter block is,
# CU_LAUNCH_PARAM_BUFFER_SIZE (2) and where its size is, CU_LAUNCH_PARAM_END (0). CUDA driver API, "Execution Control".
_pack_extra = struct.Struct("@PPPPP").pack

_BYTES_OFFSET = bytes.__basicsize__ - 1
"""Where the contents of a ``bytes`` object lie behind its ``id`` in CPython: the last field is the array that ends in a
NUL. Reading the address in any other way costs ctypes 0.7 µs."""

_PROBE = b"where the contents are"

_sizes: dict[int, tuple[int, Any]] = {}
"""For each size of a parameter block, where a size_t of this value lies, and the size_t."""


def make_launcher(cuda: Api) -> Launcher:
    """The fastest way to launch that is installed.

    Raises:
        DriverError: ``CUDA_ERROR_NOT_SUPPORTED``: this is not CPython as we know it.
    """
    if ctypes.string_at(id(_PROBE) + _BYTES_OFFSET, len(_PROBE)) != _PROBE:
        raise driver_error(801, "cuplug's CUDA driver needs CPython, where a bytes object holds its contents itself")
    try:
        from cuda.bindings import driver as bindings
    except Exception:  # missing, or made for another Python or CUDA
        return _through_ctypes(cuda)
    return _through_bindings(bindings.cuLaunchKernel)


def refuse_launches(refusal: Refusal) -> Launcher:
    """A launcher that only returns an error."""
    code = refusal.cuLaunchKernel()
    return lambda *_: code


def bind(launcher: Launcher, function: int, grid: Dim3, block: Dim3, shared: int) -> BoundLauncher:
    """A launcher with all but the stream and the parameters settled: two calls and two unpackings fewer."""
    launch_kernel = calling_cuda(launcher)
    if launch_kernel is None:
        return lambda stream, parameters: launcher(function, grid, block, shared, stream, parameters)
    gx, gy, gz = grid
    bx, by, bz = block
    sizes, offset, pack = _sizes, _BYTES_OFFSET, _pack_extra

    def launch(stream: int, parameters: bytes) -> int:
        if parameters:
            nbytes = len(parameters)
            extra = pack(1, id(parameters) + offset, 2, (sizes.get(nbytes) or _size(nbytes))[0], 0)
            address = id(extra) + offset
        else:
            address = 0
        (code,) = launch_kernel(function, gx, gy, gz, bx, by, bz, shared, stream, 0, address)
        return int(code) if code else 0

    return launch


def make_slot(nbytes: int) -> Slot:
    """Room for a parameter block of ``nbytes`` bytes."""
    if not nbytes:
        return bytearray(), 0, None
    block, size = (ctypes.c_char * nbytes)(), ctypes.c_size_t(nbytes)
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(block), 2, ctypes.addressof(size), 0)
    return block, ctypes.addressof(extra), (extra, size)


def calling_cuda(launcher: Launcher) -> Callable[..., tuple[Any]] | None:
    """cuda-bindings' cuLaunchKernel, if that is what ``launcher`` calls."""
    found: Callable[..., tuple[Any]] | None = getattr(launcher, "launch_kernel", None)
    return found


def _through_bindings(launch_kernel: Any) -> Launcher:
    def launch(function: int, grid: Dim3, block: Dim3, shared: int, stream: int, parameters: bytes) -> int:
        gx, gy, gz = grid
        bx, by, bz = block
        if parameters:
            extra = _extra(parameters)
            address = id(extra) + _BYTES_OFFSET
        else:
            address = 0
        (code,) = launch_kernel(function, gx, gy, gz, bx, by, bz, shared, stream, 0, address)
        return int(code) if code else 0

    launch.launch_kernel = launch_kernel  # type: ignore[attr-defined]  # for bind
    return launch


def _through_ctypes(cuda: Api) -> Launcher:
    launch_kernel = cuda.cuLaunchKernel

    def launch(function: int, grid: Dim3, block: Dim3, shared: int, stream: int, parameters: bytes) -> int:
        gx, gy, gz = grid
        bx, by, bz = block
        extra = _extra(parameters) if parameters else None
        return launch_kernel(function, gx, gy, gz, bx, by, bz, shared, stream, None, extra)

    return launch


def _extra(parameters: bytes) -> bytes:
    """The array ``extra``. It points into ``parameters``, which must outlive the launch."""
    size = _sizes.get(len(parameters)) or _size(len(parameters))
    return _pack_extra(1, id(parameters) + _BYTES_OFFSET, 2, size[0], 0)


def _size(nbytes: int) -> tuple[int, Any]:
    value = ctypes.c_size_t(nbytes)
    return _sizes.setdefault(nbytes, (ctypes.addressof(value), value))
