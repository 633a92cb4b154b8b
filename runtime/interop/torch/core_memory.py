"""A CUDA device's memory by the core alone: the driver's library, found at run time, and no package of Python's."""

from __future__ import annotations

import ctypes
from typing import Any, NoReturn

from ....allocators import _native
from ....allocators.base import Allocator
from ....allocators.errors import CuplugError
from ....allocators.upstream import VirtualMemory
from ....plugins.manager import default_manager
from ...drivers.base import driver_error


class CoreUpstream:
    """The memory of one device for native allocators, which call the driver themselves and none of the methods here."""

    granularity = 512
    virtual: VirtualMemory | None = None

    def __init__(self, ordinal: int) -> None:
        self.ordinal = self.native_ordinal = ordinal

    def native_error(self, code: int) -> CuplugError:
        """The error for a result (``CUresult``) of a call that a native allocator has made."""
        return driver_error(code, f"a call of the allocator of device {self.ordinal} failed")

    def memory_info(self) -> tuple[int, int]:
        """Free and all bytes of the device whose context is current, as PyTorch's is when it asks for memory.

        Raises:
            DriverError: no context is current.
        """
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        code = ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        if code:
            raise driver_error(code, f"the memory of device {self.ordinal} cannot be told")
        return free.value, total.value

    def reserve(self, *_: Any, **__: Any) -> NoReturn:
        """Raises CuplugError: no native allocator calls it, nor the two below."""
        raise CuplugError(
            "allocators in Python reach a CUDA device by PyCUDA, which is not installed; choose expandable or caching"
        )

    release = fence = reserve


def make_core_allocator(selection: str, ordinal: int) -> Allocator:
    """An allocator of the core over the device ``ordinal``, in its primary context.

    Raises:
        PluginError: the selection is wrong.
        CuplugError: there is no driver, or no such device; or the allocator is one in Python.
    """
    made = default_manager().make_allocator(selection, CoreUpstream(ordinal))
    if not isinstance(made, _native.NativeAllocator):
        raise CuplugError(f"the allocator {selection!r} runs in Python; choose expandable or caching")
    return made
