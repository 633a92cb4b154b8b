"""CUDA's modules and launches."""

from __future__ import annotations

import ctypes

from ..base import PER_THREAD_STREAM, Dim3, FunctionAttributes
from .calls import Calls, Made
from .launch import Slot

_INVALID_VALUE = 1
_TOO_LARGE = 720  # CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
_LOG_BYTES = 16384
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6  # CU_JIT_ERROR_LOG_BUFFER and ..._SIZE_BYTES
# CUfunction_attribute, in the order of FunctionAttributes: threads a block, shared, const, local bytes, registers.
_ATTRIBUTES = (0, 1, 2, 3, 4)
_MAX_DYNAMIC_SHARED_BYTES = 8


def load_module(modules: Made, image: bytes) -> int:
    """The handle of the module that is loaded from a cubin, PTX or fatbin on the current device.

    Raises:
        DriverError: CUDA refuses it; the message has the driver's log.
    """
    log = ctypes.create_string_buffer(_LOG_BYTES)
    options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)

    def detail() -> str:
        return f"an image of {len(image)} bytes: {log.value.decode(errors='replace').strip() or 'no log'}"

    # PTX ends in a NUL, as the contents of every bytes object do.
    return modules.make(bytes(image), 2, options, values, detail=detail)


def function_attributes(calls: Calls, function: int) -> FunctionAttributes:
    """What the driver knows of a kernel."""
    return FunctionAttributes(*(_attribute(calls, function, attribute) for attribute in _ATTRIBUTES))


def function_parameters(calls: Calls, function: int) -> list[tuple[int, int]]:
    """The offset and size in bytes of each parameter of a kernel."""
    count, offset, nbytes = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
    references = ctypes.byref(offset), ctypes.byref(nbytes)
    is_counted = not calls.code("cuFuncGetParamCount", function, ctypes.byref(count))
    found: list[tuple[int, int]] = []
    while not is_counted or len(found) < count.value:
        if code := calls.code("cuFuncGetParamInfo", function, len(found), *references):
            # Drivers before CUDA 13.2 do not tell the count, but refuse the index behind the last parameter.
            if is_counted or code != _INVALID_VALUE:
                raise calls.cuda.error("cuFuncGetParamInfo", code, "it needs a driver for CUDA 12.4 or later")
            break
        found.append((offset.value, nbytes.value))
    return found


def launch(
    calls: Calls,
    function: int,
    grid: Dim3,
    block: Dim3,
    *,
    shared: int,
    stream: int,
    parameters: bytes,
    cooperative: bool,
) -> None:
    """Queue a kernel. One that asks for more dynamic shared memory than CUDA gives without asking is allowed it."""
    if stream <= PER_THREAD_STREAM:
        calls.contexts.here()
    launch_kernel, nbytes = calls.cuda.cuLaunchKernelEx, len(parameters)
    slot = Slot(launch_kernel, function, grid, block, shared=shared, nbytes=nbytes, cooperative=cooperative)
    ctypes.memmove(slot.parameters, bytes(parameters), len(parameters))
    slot.move(stream)
    # On a default stream too: if that is another context's, CUDA refuses (400, seen), and the context is switched.
    code = slot.call()
    if not code:
        return
    calls.check_retry("cuLaunchKernelEx", code)
    code = calls.run_in_context(slot.call)
    if code == _INVALID_VALUE and _allow_shared(calls, function, shared):
        code = calls.run_in_context(slot.call)
    if code:
        detail = f"grid {grid}, block {block}, {shared} bytes of dynamic shared memory"
        if code == _TOO_LARGE:
            detail += ": all blocks of a cooperative launch must fit on the device at once; launch fewer"
        raise calls.cuda.error("cuLaunchKernelEx", code, detail)


def _allow_shared(calls: Calls, function: int, shared: int) -> bool:
    """Let a kernel use more dynamic shared memory, up to the device's opt-in limit. False: it does already."""
    if shared <= _attribute(calls, function, _MAX_DYNAMIC_SHARED_BYTES):
        return False
    return not calls.code("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED_BYTES, shared)


def _attribute(calls: Calls, function: int, attribute: int) -> int:
    value = ctypes.c_int()
    calls.call("cuFuncGetAttribute", ctypes.byref(value), attribute, function)
    return value.value
