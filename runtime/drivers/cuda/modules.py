"""The CUDA driver's modules and launches."""

from __future__ import annotations

import ctypes

from ..base import PER_THREAD_STREAM, Dim3, FunctionAttributes
from .launch import Slot
from .state import CudaState

__all__ = ["ModuleCalls"]

_INVALID_VALUE = 1
_LOG_BYTES = 16384
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6  # CU_JIT_ERROR_LOG_BUFFER and ..._SIZE_BYTES
# CUfunction_attribute, in the order of FunctionAttributes: threads a block, shared, const, local bytes, registers.
_ATTRIBUTES = (0, 1, 2, 3, 4)
_MAX_DYNAMIC_SHARED_BYTES = 8


class ModuleCalls(CudaState):
    """See ``Driver``: the section on modules and launches."""

    def module_load(self, image: bytes) -> int:
        """Load a cubin, PTX or fatbin on the current device. PTX is compiled by the driver.

        Raises:
            DriverError: for example ``CUDA_ERROR_INVALID_PTX``, with the driver's log.
        """
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        module = ctypes.c_void_p()
        pushed = self._contexts.enter()
        try:
            # PTX ends in a NUL, as the contents of every bytes object do.
            code = self._cuda.cuModuleLoadDataEx(ctypes.byref(module), bytes(image), 2, options, values)
        finally:
            if pushed:
                self._contexts.leave()
        if code:
            detail = f"an image of {len(image)} bytes: {log.value.decode(errors='replace').strip() or 'no log'}"
            raise self._error("cuModuleLoadDataEx", code, detail)
        self._modules[module.value or 0] = self._contexts.here()
        return module.value or 0

    def module_unload(self, module: int) -> None:
        """Unload a module. None of its kernels may be queued."""
        self._destroy(self._modules, "cuModuleUnload", module, invalid=400)

    def module_function(self, module: int, name: str) -> int:
        """A kernel by its (mangled) name."""
        function = ctypes.c_void_p()
        detail = f"asked for the kernel {name!r}"
        self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode(), detail=detail)
        return function.value or 0

    def module_global(self, module: int, name: str) -> tuple[int, int]:
        """The address and size in bytes of a module's global or ``__constant__`` symbol."""
        address, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
        references = ctypes.byref(address), ctypes.byref(nbytes)
        detail = f"asked for the symbol {name!r}"
        self._call("cuModuleGetGlobal", *references, module, name.encode(), detail=detail)
        return address.value or 0, nbytes.value

    def function_attributes(self, function: int) -> FunctionAttributes:
        """What the driver knows of a kernel."""
        return FunctionAttributes(*(self._function_attribute(function, attribute) for attribute in _ATTRIBUTES))

    def function_parameters(self, function: int) -> list[tuple[int, int]]:
        """The offset and size in bytes of each parameter of a kernel.

        Raises:
            DriverError: ``CUDA_ERROR_NOT_SUPPORTED``: the installed driver is older than CUDA 12.4.
        """
        offset, nbytes = ctypes.c_size_t(), ctypes.c_size_t()
        references = ctypes.byref(offset), ctypes.byref(nbytes)
        found: list[tuple[int, int]] = []
        pushed = self._contexts.enter()
        try:
            # The count is not told: CUDA refuses the index behind the last parameter.
            while not (code := self._cuda.cuFuncGetParamInfo(function, len(found), *references)):
                found.append((offset.value, nbytes.value))
        finally:
            if pushed:
                self._contexts.leave()
        if code != _INVALID_VALUE:
            raise self._error("cuFuncGetParamInfo", code, "it needs a driver for CUDA 12.4 or later")
        return found

    def launch(self, function: int, grid: Dim3, block: Dim3, *, shared: int, stream: int, parameters: bytes) -> None:
        """Queue a kernel. ``parameters`` is the parameter block, laid out as ``function_parameters`` says.

        A kernel that asks for more dynamic shared memory than CUDA gives without asking (48 KiB) is allowed it.
        """
        if stream <= PER_THREAD_STREAM:
            self._contexts.here()
        slot = self.launch_slot(function, grid, block, shared=shared, nbytes=len(parameters))
        ctypes.memmove(slot.parameters, bytes(parameters), len(parameters))
        slot.move(stream)
        # On a default stream too: if that is another context's, CUDA refuses (400, seen), and the context is switched.
        code = slot.call()
        if not code:
            return
        self._check_retry("cuLaunchKernelEx", code)
        pushed = self._contexts.enter()
        try:
            code = slot.call()
            if code == _INVALID_VALUE and self._allow_shared(function, shared):
                code = slot.call()
        finally:
            if pushed:
                self._contexts.leave()
        if code:
            detail = f"grid {grid}, block {block}, {shared} bytes of dynamic shared memory"
            raise self._error("cuLaunchKernelEx", code, detail)

    def launch_slot(self, function: int, grid: Dim3, block: Dim3, *, shared: int, nbytes: int) -> Slot:
        """``launch`` with all but the stream and the parameters settled, for hot loops.

        Its ``call`` must not be used once the driver is closed or its process forked. Where it returns another
        CUresult than 0, ``launch`` may succeed: a kernel belongs to a context, and CUDA refuses where another one is
        current, or none.
        """
        return Slot(self._cuda.cuLaunchKernelEx, function, grid, block, shared=shared, nbytes=nbytes)

    def _allow_shared(self, function: int, shared: int) -> bool:
        """Let a kernel use more dynamic shared memory, up to the device's opt-in limit. False: it does already."""
        if shared <= self._function_attribute(function, _MAX_DYNAMIC_SHARED_BYTES):
            return False
        return not self._cuda.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED_BYTES, shared)

    def _function_attribute(self, function: int, attribute: int) -> int:
        value = ctypes.c_int()
        self._call("cuFuncGetAttribute", ctypes.byref(value), attribute, function)
        return value.value
