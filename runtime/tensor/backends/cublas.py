"""NVIDIA's cuBLAS by its C interface, through ``ctypes``: the few calls that products of matrices need.

The library comes with the wheel ``nvidia-cublas`` or the CUDA toolkit. NVIDIA's ``cuda-pathfinder``, which
``cuda-bindings`` brings, finds it; without it the usual names are tried. Its C interface has been stable since CUDA 11.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

from ....allocators.errors import CuplugError
from ...drivers.device_upstream import on_device
from ..core.layout import Layout
from ..core.switches import switches
from ..core.tensor import Tensor
from .device_place import DevicePlace

__all__ = ["Blas", "Gemm", "cublas"]

_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # cudaDataType
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_32F_FAST_TF32 = 68, 70, 77  # cublasComputeType_t
_DEFAULT_ALGORITHM = -1
_NO, _TRANSPOSED = 0, 1
_WORKSPACE = 32 << 20
"""Bytes of scratch memory for each thread and stream: NVIDIA's advice for Hopper (cuBLAS, "cublasSetWorkspace")."""
_VERSIONS = (13, 12, 11)


@functools.cache
def cublas() -> Any | None:
    """The library, or None where it is not installed."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return _typed(ctypes.CDLL(load_nvidia_dynamic_lib("cublas").abs_path))
    except Exception:  # not installed, or it does not find the library: it says so in several ways
        pass
    for version in _VERSIONS:
        try:
            return _typed(ctypes.CDLL(f"libcublas.so.{version}"))
        except OSError:
            continue
    return None


def _typed(library: Any) -> Any:
    pointer, size, integer, wide = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_longlong
    library.cublasCreate_v2.argtypes = (pointer,)
    library.cublasDestroy_v2.argtypes = (pointer,)
    library.cublasSetStream_v2.argtypes = (pointer, pointer)
    library.cublasSetWorkspace_v2.argtypes = (pointer, pointer, size)
    library.cublasGetStatusString.restype = ctypes.c_char_p
    shared = (pointer, integer, integer)
    library.cublasGemmStridedBatchedEx.argtypes = (
        *(*shared, integer, integer, integer, pointer),
        *(pointer, integer, integer, wide),
        *(pointer, integer, integer, wide),
        *(pointer, pointer, integer, integer, wide, integer, integer, integer),
    )
    return library


class Blas:
    """cuBLAS on one device. A handle must not serve two threads at once, so each thread has its own."""

    def __init__(self, library: Any, place: DevicePlace) -> None:
        self.library = library
        self.place = place
        self._local = threading.local()
        self._handles: list[int] = []
        place.runtime.at_close(self._close)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of cuBLAS.

        Raises:
            CuplugError: it failed.
        """
        status = getattr(self.library, name)(*arguments)
        if status:
            reason = self.library.cublasGetStatusString(status).decode()
            raise CuplugError(f"{name} failed on {self.place.device}: {reason}")

    def handle(self, stream: int) -> int:
        """This thread's handle, set to work on ``stream``. The device must be current in CUDA."""
        local = self._local
        try:
            handle, workspaces, before = local.handle, local.workspaces, local.stream
        except AttributeError:
            made = ctypes.c_void_p()
            self.call("cublasCreate_v2", ctypes.byref(made))
            handle = local.handle = made.value or 0
            workspaces, before = {}, None
            local.workspaces = workspaces
            self._handles.append(handle)
        if before != stream:
            self.call("cublasSetStream_v2", handle, stream)
            # Of our allocator: cuBLAS would allocate some itself. Setting the stream takes the workspace away.
            storage = workspaces.get(stream)
            if storage is None:
                storage = workspaces[stream] = self.place.allocate(_WORKSPACE)
            self.call("cublasSetWorkspace_v2", handle, storage.address, _WORKSPACE)
            local.stream = stream
        return int(handle)

    def _close(self) -> None:
        with on_device(self.place.driver, self.place.ordinal):  # the runtime itself is closed already
            while self._handles:
                self.library.cublasDestroy_v2(self._handles.pop())


class Gemm:
    """The product of batches of matrices of given layouts, by one call of cuBLAS.

    cuBLAS thinks in columns: what is row-major to us is the transposed matrix to it. So it is asked for the product of
    the transposed matrices in reverse order.
    """

    def __init__(self, blas: Blas, out: Layout, a: Layout, b: Layout) -> None:
        self.blas = blas
        count, rows, columns = out.shape
        inner = a.shape[2]
        kind = _TYPES[out.dtype.name]
        double = out.dtype.name == "float64"
        scalar = ctypes.c_double if double else ctypes.c_float
        self._one, self._zero = scalar(1), scalar(0)
        self.copies = (_ordered(a) is None, _ordered(b) is None)
        a_turned, a_step = _ordered(a) or (False, max(inner, 1))
        b_turned, b_step = _ordered(b) or (False, max(columns, 1))
        a_batch = a.strides[0] if not self.copies[0] else rows * inner
        b_batch = b.strides[0] if not self.copies[1] else inner * columns
        self._before = (
            *(_TRANSPOSED if b_turned else _NO, _TRANSPOSED if a_turned else _NO),
            *(columns, rows, inner, ctypes.addressof(self._one)),
        )
        self._b, self._a = (kind, b_step, b_batch), (kind, a_step, a_batch)
        after = kind, columns, rows * columns, count
        self._after = (*after, _COMPUTE_64F if double else _COMPUTE_32F, _DEFAULT_ALGORITHM)
        single = out.dtype.name == "float32"
        self._after_rounded = (*after, _COMPUTE_32F_FAST_TF32, _DEFAULT_ALGORITHM) if single else self._after
        if max(columns, rows, inner, a_step, b_step, count) >= 2**31:
            raise CuplugError(f"matmul: {a.shape} @ {b.shape}: cuBLAS takes lengths below 2**31")

    def __call__(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        if self.copies[0]:
            a = self.blas.place.contiguous_copy(a)
        if self.copies[1]:
            b = self.blas.place.contiguous_copy(b)
        blas, place = self.blas, self.blas.place
        stream = place.stream_handle()
        driver = place.driver
        before = driver.current_device()
        driver.set_device(place.ordinal)  # also where another library has made its own context current
        try:
            blas.call(
                "cublasGemmStridedBatchedEx",
                blas.handle(stream),
                *self._before,
                *(b._address, *self._b),
                *(a._address, *self._a),
                *(ctypes.addressof(self._zero), out._address),
                *(self._after if switches.precision == "highest" else self._after_rounded),
            )
        finally:
            if before != place.ordinal:
                driver.set_device(before)
        place.launched()


def _ordered(layout: Layout) -> tuple[bool, int] | None:
    """Whether the matrices lie by columns, and the step from one row (or column) to the next; None if by neither."""
    _, rows, columns = layout.shape
    _, down, right = layout.strides
    if (right == 1 or columns == 1) and (rows == 1 or down >= columns):
        return False, max(columns, 1) if rows == 1 else down
    if (down == 1 or rows == 1) and (columns == 1 or right >= rows):
        return True, max(rows, 1) if columns == 1 else right
    return None
