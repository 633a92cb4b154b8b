"""The driver of real hardware."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..base import DeviceProperties
from .api import Refusal
from .memory import VIRTUAL_MEMORY_SUPPORTED, MemoryCalls
from .modules import ModuleCalls
from .state import forget_all_after_fork, open_drivers
from .streams import StreamCalls

if TYPE_CHECKING:
    from ..base import Driver

__all__ = ["CudaDriver"]


class CudaDriver(MemoryCalls, StreamCalls, ModuleCalls):
    """CUDA devices through PyCUDA, in their primary contexts, which PyTorch, CuPy, Numba and RMM share.

    PyCUDA initialises CUDA, describes the devices and retains the contexts. The calls on streams, events, memory and
    modules go to libcuda directly, with plain integer handles: ``api.py`` says why. Nothing stays on PyCUDA's context
    stack between calls; ``pycuda_context`` puts a context there for code that uses PyCUDA's own classes.

    Streams and events of other libraries are welcome in every call but those that destroy.
    """

    # --- devices and contexts

    @property
    def name(self) -> str:
        """``cuda``."""
        return "cuda"

    def device_count(self) -> int:
        """The number of visible devices."""
        self._contexts.check()
        return self._count

    def driver_version(self) -> tuple[int, int]:
        """The CUDA version that the installed driver supports, for example (13, 0)."""
        self._contexts.check()
        version = int(self._pycuda.get_driver_version())
        return version // 1000, version % 1000 // 10

    def device_properties(self, ordinal: int) -> DeviceProperties:
        """Properties of a device. Needs no current device, and retains no context."""
        device = self._device(ordinal)
        attributes = self._pycuda.device_attribute

        def of(name: str) -> int:
            return int(device.get_attribute(getattr(attributes, name)))

        def in_three(name: str) -> tuple[int, int, int]:
            return of(f"{name}_X"), of(f"{name}_Y"), of(f"{name}_Z")

        major, minor = device.compute_capability()
        return DeviceProperties(
            name=device.name(),
            major=major,
            minor=minor,
            total_memory=device.total_memory(),
            multi_processor_count=of("MULTIPROCESSOR_COUNT"),
            warp_size=of("WARP_SIZE"),
            max_threads_per_block=of("MAX_THREADS_PER_BLOCK"),
            max_block_dim=in_three("MAX_BLOCK_DIM"),
            max_grid_dim=in_three("MAX_GRID_DIM"),
            shared_memory_per_block=of("MAX_SHARED_MEMORY_PER_BLOCK"),
            shared_memory_per_block_optin=of("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            max_threads_per_multi_processor=of("MAX_THREADS_PER_MULTIPROCESSOR"),
            l2_cache_size=of("L2_CACHE_SIZE"),
            clock_rate_khz=of("CLOCK_RATE"),
            pci_bus_id=device.pci_bus_id(),
            uuid=self._uuid(ordinal),
            concurrent_kernels=bool(of("CONCURRENT_KERNELS")),
            unified_addressing=bool(of("UNIFIED_ADDRESSING")),
            virtual_memory=self._bindings is not None and bool(self._attribute(ordinal, VIRTUAL_MEMORY_SUPPORTED)),
        )

    def set_device(self, ordinal: int | None) -> None:
        """Make a device's primary context current on this thread (retaining it at first use).

        With None, what another library had made current on this thread before is current in CUDA again. If nothing was,
        device 0 stays so, if it is in use: the device that other libraries take by default.
        """
        self._contexts.set(ordinal)

    def current_device(self) -> int | None:
        """The ordinal of this thread's current device, or None. What other libraries make current does not count."""
        return self._contexts.ordinal

    def synchronize(self) -> None:
        """Wait for all work of the current device. Raises what the work did."""
        self._call("cuCtxSynchronize")

    def close(self) -> None:
        """Destroy what this driver made, and release the contexts that it retained. Idempotent, never raises.

        In a forked child, and once the interpreter is being finalised, it only forgets: CUDA must not be called there.
        """
        if isinstance(self._cuda, Refusal):
            return
        refusal = Refusal(4, "this driver was closed; make a new one")
        if sys.is_finalizing():
            self._refuse(refusal)
            self._contexts.refuse(refusal)
            return
        with suppress(Exception):
            self._destroy_everything()
        self._refuse(refusal)
        self._contexts.release(refusal)

    @contextmanager
    def pycuda_context(self, ordinal: int) -> Iterator[Any]:
        """The ``pycuda.driver.Context`` of a device, for code that uses PyCUDA's classes (``GPUArray`` and its kin).

        It lies on PyCUDA's context stack of this thread as long as the ``with`` block lasts. Drop PyCUDA's objects on
        the thread that first used the device, or within such a block: elsewhere they warn, and leak.
        """
        with self._contexts.on_pycuda_stack(ordinal) as context:
            yield context

    def _uuid(self, ordinal: int) -> str:
        value = (ctypes.c_ubyte * 16)()
        code = self._cuda.cuDeviceGetUuid(value, ordinal)
        if code:
            raise self._error("cuDeviceGetUuid", code)
        return f"GPU-{uuid.UUID(bytes=bytes(value))}"


@atexit.register
def _close_all() -> None:
    """Release the contexts while PyCUDA is alive: its destructors would do it when CUDA is gone already."""
    for driver in list(open_drivers):
        if isinstance(driver, CudaDriver):
            driver.close()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=forget_all_after_fork)

if TYPE_CHECKING:

    def _conforms(driver: CudaDriver) -> Driver:
        return driver
