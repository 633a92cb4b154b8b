"""The calls of libcuda that the driver makes besides PyCUDA, through ctypes.

Why not PyCUDA for these. It is the cheapest way to call CUDA from Python, but its objects cannot keep what ``Driver``
promises (PyCUDA 2026.1, ``src/cpp/cuda.hpp``):

- Its ``Event``, ``Module`` and ``Function`` do not give their handles away, and no call takes a stream that PyCUDA did
  not make: PyTorch's and CuPy's streams, and ``CU_STREAM_PER_THREAD``, cannot be used, nor a kernel's parameters asked.
- A context is current only while it lies on PyCUDA's stack of this thread, and a thread that ends (or a process that
  exits) with something on that stack aborts. So the current context is set here, by ``cuCtxSetCurrent``.
- Its destructors need their context on that stack too: on another thread than the one that retained the context they
  warn and leak (seen: "device_allocation in out-of-thread context could not be cleaned up").
- ``mem_alloc``, the frees, ``module_from_buffer``, launches and recordings hold the interpreter lock while they wait,
  which deadlocks with a host function that needs it, and a failed free is printed to stderr instead of raised.

Why ctypes rather than cuda-bindings: it is always there, and costs the same. Median nanoseconds of one call on an
H200 (driver 580, CUDA 13.0; Python 3.12, PyCUDA 2026.1, cuda-bindings 13.3.1), handles as integers:

==============================  ======  =============  ======  ==================
call                            PyCUDA  cuda-bindings  ctypes  ctypes, lock held
==============================  ======  =============  ======  ==================
current context (get)                -            103     281                 232
current context (set the same)     556            254     206                 154
event record                       222            433     388                 334
event query                        201            364     324                 276
event create and destroy           736            443     808                 703
copy of 4 bytes to the device     1484           1795    1785                   -
memset of 4 bytes                 1028           1239    1363                   -
launch of two arguments           3534           3603    4064                4184
==============================  ======  =============  ======  ==================

(PyCUDA's 3534 is ``_launch_kernel`` with packed arguments; its ``prepared_async_call`` took 4442. Its context row is
a push and a pop. Launches have a way of their own: see ``launch.py``.) Calls that may wait release the
interpreter lock; those of the first two rows only read and write a thread's own state, and keep it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from ....allocators.errors import DriverError, OutOfMemoryError
from ..base import driver_error

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

LOST = frozenset({4, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719})
"""CUresults after which nothing can be used or need be freed any more: the context is destroyed or its errors stick."""

FORKED = (
    "Cannot re-initialize CUDA in forked subprocess: this process was forked after CUDA was initialised, which CUDA "
    "does not survive; "
    'start it with the multiprocessing method "spawn" or "forkserver"'
)

_Function = Callable[..., int]
_Pointer, _Size, _Int, _Unsigned = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint

# The suffix _v2 is part of CUDA's binary interface: the header renames the functions so. A name without one of the
# suffixes _ptds and _ptsz means the legacy default stream where it is given the stream 0.
_FUNCTIONS: dict[str, tuple[type, ...]] = {
    "cuMemAlloc_v2": (_Pointer, _Size),
    "cuMemFree_v2": (_Pointer,),
    "cuMemGetInfo_v2": (_Pointer, _Pointer),
    "cuMemHostAlloc": (_Pointer, _Size, _Unsigned),
    "cuMemAllocManaged": (_Pointer, _Size, _Unsigned),
    "cuMemFreeHost": (_Pointer,),
    "cuMemHostRegister_v2": (_Pointer, _Size, _Unsigned),
    "cuMemHostUnregister": (_Pointer,),
    "cuMemcpyHtoDAsync_v2": (_Pointer, _Pointer, _Size, _Pointer),
    "cuMemcpyDtoHAsync_v2": (_Pointer, _Pointer, _Size, _Pointer),
    "cuMemcpyDtoDAsync_v2": (_Pointer, _Pointer, _Size, _Pointer),
    "cuMemcpyPeerAsync": (_Pointer, _Pointer, _Pointer, _Pointer, _Size, _Pointer),
    "cuMemsetD8Async": (_Pointer, ctypes.c_ubyte, _Size, _Pointer),
    "cuMemsetD16Async": (_Pointer, ctypes.c_ushort, _Size, _Pointer),
    "cuMemsetD32Async": (_Pointer, _Unsigned, _Size, _Pointer),
    "cuMemcpy3DAsync_v2": (_Pointer, _Pointer),
    "cuArray3DCreate_v2": (_Pointer, _Pointer),
    "cuArrayDestroy": (_Pointer,),
    "cuTexObjectCreate": (_Pointer, _Pointer, _Pointer, _Pointer),
    "cuTexObjectDestroy": (_Pointer,),
    "cuSurfObjectCreate": (_Pointer, _Pointer),
    "cuSurfObjectDestroy": (_Pointer,),
    "cuCtxEnablePeerAccess": (_Pointer, _Unsigned),
    "cuCtxDisablePeerAccess": (_Pointer,),
    "cuCtxSynchronize": (),
    "cuProfilerStart": (),
    "cuProfilerStop": (),
    "cuCtxGetStreamPriorityRange": (_Pointer, _Pointer),
    "cuStreamCreateWithPriority": (_Pointer, _Unsigned, _Int),
    "cuStreamDestroy_v2": (_Pointer,),
    "cuStreamSynchronize": (_Pointer,),
    "cuStreamQuery": (_Pointer,),
    "cuStreamWaitEvent": (_Pointer, _Pointer, _Unsigned),
    "cuEventCreate": (_Pointer, _Unsigned),
    "cuEventDestroy_v2": (_Pointer,),
    "cuEventRecord": (_Pointer, _Pointer),
    "cuEventQuery": (_Pointer,),
    "cuEventSynchronize": (_Pointer,),
    "cuEventElapsedTime": (_Pointer, _Pointer, _Pointer),
    "cuModuleLoadDataEx": (_Pointer, ctypes.c_char_p, _Unsigned, _Pointer, _Pointer),
    "cuModuleUnload": (_Pointer,),
    "cuModuleGetFunction": (_Pointer, _Pointer, ctypes.c_char_p),
    "cuModuleGetGlobal_v2": (_Pointer, _Pointer, _Pointer, ctypes.c_char_p),
    "cuFuncGetAttribute": (_Pointer, _Int, _Pointer),
    "cuFuncSetAttribute": (_Pointer, _Int, _Int),
    "cuFuncGetParamCount": (_Pointer, _Pointer),
    "cuFuncGetParamInfo": (_Pointer, _Size, _Pointer, _Pointer),
    "cuDeviceGetAttribute": (_Pointer, _Int, _Int),
    "cuDeviceGetUuid_v2": (_Pointer, _Int),
    "cuDevicePrimaryCtxGetState": (_Int, _Pointer, _Pointer),
}
_LOCK_HELD: dict[str, tuple[type, ...]] = {
    "cuCtxGetCurrent": (_Pointer,),
    "cuCtxSetCurrent": (_Pointer,),
    "cuCtxPushCurrent_v2": (_Pointer,),
    "cuCtxPopCurrent_v2": (_Pointer,),
}
_UNCONVERTED = ("cuLaunchKernelEx",)
"""Their callers give ctypes what needs no conversion."""


class Api:
    """The functions of libcuda, by their names without the suffix ``_v2``. Each returns a CUresult.

    A function that the installed driver is too old for returns ``CUDA_ERROR_NOT_SUPPORTED``.
    """

    def __init__(self) -> None:
        """Load libcuda.

        Raises:
            DriverError: ``CUDA_ERROR_NO_DEVICE``: there is none.
        """
        try:
            waiting, brief = ctypes.CDLL(LIBRARY), ctypes.PyDLL(LIBRARY)
        except OSError as error:
            raise driver_error(100, f"NVIDIA's driver is not installed ({error})") from None
        unconverted = dict.fromkeys(_UNCONVERTED)
        for library, functions in ((waiting, _FUNCTIONS), (brief, _LOCK_HELD), (waiting, unconverted)):
            for symbol, types in functions.items():
                function: Any = getattr(library, symbol, None)
                if function is None:
                    function = _not_supported
                else:
                    function.argtypes, function.restype = types, _Int
                setattr(self, symbol.removesuffix("_v2"), function)
        self._texts = [getattr(brief, name) for name in ("cuGetErrorName", "cuGetErrorString")]
        for function in self._texts:
            function.argtypes, function.restype = (_Int, _Pointer), _Int

    def __getattr__(self, name: str) -> _Function:  # for the type checker: __init__ sets them all
        raise AttributeError(name)

    def error(self, call: str, code: int, detail: str = "") -> DriverError | OutOfMemoryError:
        """The exception for the CUresult of a call, with CUDA's own words."""
        name, reason = (self._text(function, code) for function in self._texts)
        message = f"{call} failed: {reason}"
        if detail:
            message = f"{message}; {detail}"
        if code in LOST - {4, 709}:
            message = (
                f"{message}. Queued work is at fault, perhaps long before this call, and this process cannot use the "
                "device any more; CUDA_LAUNCH_BLOCKING=1 and compute-sanitizer find the work"
            )
        return driver_error(2, message) if code == 2 else DriverError(code, name, message)

    def reason(self, code: int) -> str:
        """CUDA's description of a CUresult, for example ``out of memory``."""
        return self._text(self._texts[1], code)

    @staticmethod
    def _text(function: _Function, code: int) -> str:
        text = ctypes.c_char_p()
        function(code, ctypes.byref(text))
        return (text.value or b"CUDA_ERROR").decode()


class Refusal:
    """Stands in for ``Api`` where CUDA must not be called any more: every function returns the same CUresult."""

    def __init__(self, code: int, why: str) -> None:
        self._code = code
        self._why = why

    def __getattr__(self, name: str) -> _Function:
        return lambda *_: self._code

    def error(self, call: str, code: int, detail: str = "") -> DriverError | OutOfMemoryError:  # noqa: ARG002
        """The exception that says why CUDA is not called."""
        return driver_error(self._code, f"{call}: {self._why}")


def code_of(api: Api, error: Exception) -> int:
    """The CUresult behind an exception of PyCUDA, which carries it only in words: "cuMemAlloc failed: out of memory".

    The words are CUDA's own (``cuGetErrorString``), so the codes are searched for the same words. 999
    (``CUDA_ERROR_UNKNOWN``) if none has them.
    """
    reason = str(error).partition(" failed: ")[2].partition(" - ")[0]
    return next((code for code in range(1000) if reason and api.reason(code) == reason), 999)


def function_address(function: _Function) -> int:
    """Where a function of ``Api`` is in memory; 0 if it stands in for one of CUDA's."""
    pointer: Any = function
    return (ctypes.cast(pointer, ctypes.c_void_p).value or 0) if hasattr(function, "argtypes") else 0


def _not_supported(*_: object) -> int:
    return 801
