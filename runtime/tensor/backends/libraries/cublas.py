"""NVIDIA's cuBLAS by its C interface, through ``ctypes``: the few calls that products of matrices need.

The library comes with the wheel ``nvidia-cublas`` or the CUDA toolkit. NVIDIA's ``cuda-pathfinder``, which
``cuda-bindings`` brings, finds it; without it the usual names are tried. Its C interface has been stable since CUDA 11.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from .....allocators.errors import CuplugError
from .....plugins.tracing.training_scope import outside_modules
from ....drivers.device_upstream import on_device
from ...core.layout import Layout
from ...core.switches import switches
from ...core.tensor import Tensor
from ..device_place import DevicePlace

_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # cudaDataType
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_32F_FAST_TF32 = 68, 70, 77  # cublasComputeType_t
_DEFAULT_ALGORITHM = -1
_NO, _TRANSPOSED = 0, 1
_ON_HOST, _ON_DEVICE = 0, 1  # cublasPointerMode_t: where a result without dimensions goes
_POINTER, _INTEGER, _WIDE = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
_WORKSPACE = 32 << 20
"""Bytes of scratch memory for each thread and stream: NVIDIA's advice for Hopper (cuBLAS, "cublasSetWorkspace")."""
_VERSIONS = (13, 12, 11)


@cache
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
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.cublasCreate_v2.argtypes = (pointer,)
    library.cublasDestroy_v2.argtypes = (pointer,)
    library.cublasSetStream_v2.argtypes = (pointer, pointer)
    library.cublasSetWorkspace_v2.argtypes = (pointer, pointer, size)
    library.cublasSetPointerMode_v2.argtypes = (pointer, _INTEGER)
    vector = pointer, _INTEGER, _INTEGER
    library.cublasDotEx.argtypes = (pointer, _INTEGER, *vector, *vector, pointer, _INTEGER, _INTEGER)
    library.cublasGetStatusString.restype = ctypes.c_char_p
    return library


class Blas:
    """cuBLAS on one device. A handle must not serve two threads at once, so each thread has its own."""

    def __init__(self, library: Any, place: DevicePlace) -> None:
        self.library = library
        self.gemm = library["cublasGemmStridedBatchedEx"]
        """The function, of our own: its arguments need no conversion."""
        self.place = place
        self._local = threading.local()
        self._handles: list[int] = []
        place.runtime.at_close(self._close)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of cuBLAS.

        Raises:
            CuplugError: it failed.
        """
        self.check(name, getattr(self.library, name)(*arguments))

    def check(self, name: str, status: int) -> None:
        """Raise CuplugError if what a function of cuBLAS returned says that it failed."""
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
                with outside_modules():  # the layer that multiplies first does not save it
                    storage = workspaces[stream] = self.place.allocate(_WORKSPACE)
            self.call("cublasSetWorkspace_v2", handle, storage.address, _WORKSPACE)
            local.stream = stream
        return int(handle)

    def _close(self) -> None:
        with on_device(self.place.driver, self.place.ordinal):  # the runtime itself is closed already
            while self._handles:
                self.library.cublasDestroy_v2(self._handles.pop())


class Dot:
    """The scalar product of two vectors of given layouts, which a product of matrices takes longer for."""

    def __init__(self, blas: Blas, out: Layout, a: Layout, b: Layout) -> None:
        kind = _TYPES[out.dtype.name]
        self._blas = blas
        self._before, self._between = (a.shape[2],), (kind, a.strides[2])
        self._after, self._end = (kind, b.strides[1]), (kind, kind if kind == _TYPES["float64"] else _TYPES["float32"])
        self.by_address = True

    @staticmethod
    def takes(out: Layout, a: Layout, b: Layout) -> bool:
        """Whether this is the product of one row and one column."""
        steps = a.strides[2], b.strides[1], a.shape[2]
        return out.numel == 1 and out.dtype.name in _TYPES and all(0 < each < 2**31 for each in steps)

    def __call__(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        blas, driver, ordinal = self._blas, self._blas.place.driver, self._blas.place.ordinal
        before = driver.current_device()
        driver.set_device(ordinal)  # also where another library has made its own context current
        try:
            handle = blas.handle(blas.place.stream_handle())
            blas.library.cublasSetPointerMode_v2(handle, _ON_DEVICE)
            try:
                vectors = (*self._before, a._address, *self._between, b._address, *self._after)
                blas.check("cublasDotEx", blas.library.cublasDotEx(handle, *vectors, out._address, *self._end))
            finally:
                blas.library.cublasSetPointerMode_v2(handle, _ON_HOST)
        finally:
            if before != ordinal:
                driver.set_device(before)
        if blas.place.runtime.launch_blocking:
            blas.place.launched()


class Gemm:
    """The product of batches of matrices of given layouts, by one call of cuBLAS.

    cuBLAS thinks in columns: what is row-major to us is the transposed matrix to it. So it is asked for the product of
    the transposed matrices in reverse order.
    """

    def __init__(self, blas: Blas, out: Layout, a: Layout, b: Layout) -> None:
        self.blas = blas
        self._size = out.dtype.itemsize
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
        self.by_address = not any(self.copies)
        """Whether only the operands' addresses matter, not their layouts, which were those given here."""
        if max(columns, rows, inner, a_step, b_step, count) >= 2**31:
            raise CuplugError(f"matmul: {a.shape} @ {b.shape}: cuBLAS takes lengths below 2**31")

        def arguments(computed: int) -> tuple[int, ...]:
            return (
                *(0, _TRANSPOSED if b_turned else _NO, _TRANSPOSED if a_turned else _NO),
                *(columns, rows, inner, ctypes.addressof(self._one)),
                *(0, kind, b_step, b_batch, 0, kind, a_step, a_batch, ctypes.addressof(self._zero)),
                *(0, kind, columns, rows * columns, count, computed, _DEFAULT_ALGORITHM),
            )

        self._exact = arguments(_COMPUTE_64F if double else _COMPUTE_32F)
        self._rounded = arguments(_COMPUTE_32F_FAST_TF32) if out.dtype.name == "float32" else self._exact
        # One product at a time has a slot; taking and giving back are single operations of a list.
        self._exact_slots: list[_Slot] = []
        self._rounded_slots: list[_Slot] = []

    def __call__(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        blas = self.blas
        place = blas.place
        if self.copies[0]:
            a = place.contiguous_copy(a)
        if self.copies[1]:
            b = place.contiguous_copy(b)
        driver, ordinal, exact = place.driver, place.ordinal, switches.precision == "highest"
        slots = self._exact_slots if exact else self._rounded_slots
        try:
            slot = slots.pop()
        except IndexError:
            slot = _Slot(blas.gemm, self._exact if exact else self._rounded)
        size = self._size
        slot.a.value = a._storage.address + a._offset * size
        slot.b.value = b._storage.address + b._offset * size
        slot.out.value = out._storage.address + out._offset * size
        before = driver.current_device()
        driver.set_device(ordinal)  # also where another library has made its own context current
        try:
            slot.handle.value = blas.handle(place.stream_handle())
            status = slot.call()
        finally:
            if before != ordinal:
                driver.set_device(before)
        slots.append(slot)
        if status:
            blas.check("cublasGemmStridedBatchedEx", status)
        if place.runtime.launch_blocking:
            place.launched()


_GEMM = (
    *(_POINTER, _INTEGER, _INTEGER, _INTEGER, _INTEGER, _INTEGER, _POINTER),
    *(_POINTER, _INTEGER, _INTEGER, _WIDE),
    *(_POINTER, _INTEGER, _INTEGER, _WIDE),
    *(_POINTER, _POINTER, _INTEGER, _INTEGER, _WIDE, _INTEGER, _INTEGER, _INTEGER),
)
"""The parameters of ``cublasGemmStridedBatchedEx``."""


class _Slot:
    """The arguments of one product, so that ctypes converts none of them: as ``drivers/cuda/launch.py`` launches."""

    __slots__ = ("a", "b", "call", "handle", "out")

    def __init__(self, function: Any, values: Sequence[int]) -> None:
        arguments: list[Any] = [kind(value) for kind, value in zip(_GEMM, values, strict=True)]
        self.handle, self.b, self.a, self.out = (arguments[place] for place in (0, 7, 11, 16))
        self.call: Callable[[], int] = partial(function, *arguments)


def _ordered(layout: Layout) -> tuple[bool, int] | None:
    """Whether the matrices lie by columns, and the step from one row (or column) to the next; None if by neither."""
    _, rows, columns = layout.shape
    _, down, right = layout.strides
    if (right == 1 or columns == 1) and (rows == 1 or down >= columns):
        return False, max(columns, 1) if rows == 1 else down
    if (down == 1 or rows == 1) and (columns == 1 or right >= rows):
        return True, max(rows, 1) if columns == 1 else right
    return None
