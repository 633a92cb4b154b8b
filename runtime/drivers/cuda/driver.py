"""The driver of real hardware."""

from __future__ import annotations

import atexit
import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ....allocators.errors import DriverError
from ....allocators.upstream import VirtualMemory
from ..base import PER_THREAD_STREAM, DeviceProperties, Dim3, FunctionAttributes, driver_error
from ..forking import in_forked_child
from .api import FORKED, Api, Refusal, code_of, function_address
from .calls import Calls, Made
from .contexts import Contexts
from .launch import Slot
from .modules import function_attributes, function_parameters, launch, load_module
from .properties import device_properties, has_virtual_memory
from .registered import RegisteredMemory
from .texture_units import CudaTextures
from .virtual import CudaVirtualMemory, import_bindings

if TYPE_CHECKING:
    from ..base import Driver

_NOT_INITIALIZED, _NO_DEVICE, _NOT_READY = 3, 100, 600
_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE: page-locked for every device
_ATTACH_GLOBAL = 1  # CU_MEM_ATTACH_GLOBAL
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_DISABLE_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_MEMSETS = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}

_open_drivers: set[CudaDriver] = set()
"""Drivers that are not closed. They stay alive until then: the destructors of PyCUDA's contexts call CUDA."""
_initialised = False
_forked = False
"""Whether this process was forked from one in which a driver had initialised CUDA."""


class CudaDriver:
    """CUDA devices through PyCUDA, in their primary contexts, which PyTorch, CuPy, Numba and RMM share.

    ``Driver`` says what each call does. A docstring here says what a call does besides on CUDA.

    PyCUDA initialises CUDA, describes the devices and retains the contexts (``Contexts``). The calls on streams,
    events, memory and modules go to libcuda directly (``Calls``), with plain integer handles: ``api.py`` says why. What
    was made and is to be given back is kept by kind (``Made``). Nothing stays on PyCUDA's context stack between calls;
    ``pycuda_context`` puts a context there for code that uses PyCUDA's own classes.

    Streams and events of other libraries are welcome in every call but those that destroy.
    """

    simulator = None

    def __init__(self) -> None:
        """Import PyCUDA and initialise CUDA. Where CUDA sees no device, ``device_count`` is 0.

        Raises:
            DriverError: ``CUDA_ERROR_NO_DEVICE``: NVIDIA's driver is not installed. ``CUDA_ERROR_NOT_INITIALIZED``:
                PyCUDA cannot be imported, or this process was forked after CUDA was initialised.
        """
        if _forked:
            raise driver_error(3, f"cuInit: {FORKED}")
        self._pycuda = _import_pycuda()
        api = Api()
        self._count = _initialise(api, self._pycuda)
        self._contexts = Contexts(api, self._pycuda, self._count)
        self._calls = calls = Calls(api, self._contexts)
        self._bindings = import_bindings()
        self._memory = Made(calls, "cuMemAlloc", "cuMemFree", invalid=1)
        self._host = Made(calls, "cuMemHostAlloc", "cuMemFreeHost", invalid=1)
        self._managed = Made(calls, "cuMemAllocManaged", "cuMemFree", invalid=1)
        self._registered = RegisteredMemory(calls)
        self._streams = Made(calls, "cuStreamCreateWithPriority", "cuStreamDestroy", invalid=400)
        self._events = Made(calls, "cuEventCreate", "cuEventDestroy", invalid=400)
        self._modules = Made(calls, "cuModuleLoadDataEx", "cuModuleUnload", invalid=400)
        self._virtual: dict[int, CudaVirtualMemory] = {}
        self._textures: dict[int, CudaTextures] = {}
        self._acquainted: set[tuple[int, int]] = set()
        """Pairs of devices between which something was copied."""
        _open_drivers.add(self)

    @property
    def name(self) -> str:
        """``cuda``."""
        return "cuda"

    # --- devices and contexts

    def device_count(self) -> int:
        self._contexts.check()
        return self._count

    def driver_version(self) -> tuple[int, int]:
        """The CUDA version that the installed driver supports, for example (13, 0)."""
        self._contexts.check()
        version = int(self._pycuda.get_driver_version())
        return version // 1000, version % 1000 // 10

    def device_properties(self, ordinal: int) -> DeviceProperties:
        """Properties of a device. Needs no current device, and retains no context."""
        return device_properties(self._calls, self._pycuda, ordinal, bindings=self._bindings is not None)

    def set_device(self, ordinal: int | None) -> None:
        """Make a device's primary context current on this thread (retaining it at first use).

        With None, what another library had made current on this thread before is current in CUDA again. If nothing was,
        device 0 stays so, if it is in use: the device that other libraries take by default.
        """
        self._contexts.set(ordinal)

    def current_device(self) -> int | None:
        """The ordinal of this thread's current device, or None. What other libraries make current does not count."""
        return self._contexts.ordinal

    def primary_context(self, ordinal: int) -> int:
        """CUDA's handle of a device's primary context, retained. Raises ``CUDA_ERROR_INVALID_DEVICE``."""
        return self._contexts.retain(ordinal)

    def synchronize(self) -> None:
        self._calls.call("cuCtxSynchronize")

    def enable_profiler(self, enable: bool) -> None:
        """Let a profiler that is attached begin or stop to look at the current device."""
        self._calls.call("cuProfilerStart" if enable else "cuProfilerStop")

    def close(self) -> None:
        """Destroy what this driver made, and release the contexts that it retained. Idempotent, never raises.

        In a forked child, and once the interpreter is being finalised, it only forgets: CUDA must not be called there.
        """
        if isinstance(self._calls.cuda, Refusal):
            return
        refusal = Refusal(4, "this driver was closed; make a new one")
        if sys.is_finalizing():
            self._refuse(refusal)
            self._contexts.refuse(refusal)
            return
        with suppress(Exception):
            for textures in self._textures.values():
                textures.close()
            for ordinal in self._virtual:  # queued work faults where pages are unmapped, and CUDA does not wait for it
                self._calls.code("cuCtxSynchronize", ordinal=ordinal)
            for virtual in self._virtual.values():
                virtual.close()
            for made in (
                self._modules,
                self._events,
                self._streams,
                self._memory,
                self._host,
                self._managed,
                self._registered,
            ):
                made.destroy_all()
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

    # --- memory

    def mem_alloc(self, nbytes: int, *, device: int | None = None) -> int:
        if nbytes <= 0:
            raise driver_error(1, f"mem_alloc of {nbytes} bytes: ask for one byte or more")
        return self._memory.make(nbytes, device=device, detail=f"{nbytes} bytes were asked for")

    def mem_free(self, address: int, *, device: int | None = None) -> None:
        """Free what ``mem_alloc`` returned, on whichever device. CUDA waits for all work of that device first."""
        self._memory.destroy(address, device=device)

    def mem_info(self, *, device: int | None = None) -> tuple[int, int]:
        """Free and total bytes of the device, as the driver sees them: other processes count."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._calls.call("cuMemGetInfo", ctypes.byref(free), ctypes.byref(total), ordinal=device)
        return free.value, total.value

    def host_alloc(self, nbytes: int, *, device: int | None = None, private: bool = False) -> int:
        """Allocate page-locked host memory, usable by every device. What is private is made faster, if it is large."""
        if nbytes <= 0:
            raise driver_error(1, f"host_alloc of {nbytes} bytes: ask for one byte or more")
        detail = f"{nbytes} bytes of page-locked memory were asked for"
        if private and self._registered.suits(nbytes):
            with suppress(DriverError):  # where CUDA locks no pages but its own
                return self._registered.make(nbytes, device=device, detail=detail)
        return self._host.make(nbytes, _PORTABLE, device=device, detail=detail)

    def host_free(self, address: int, *, device: int | None = None) -> None:
        (self._registered if address in self._registered else self._host).destroy(address, device=device)

    def managed_alloc(self, nbytes: int, *, device: int | None = None) -> int:
        """Allocate managed memory, which every device may use."""
        if nbytes <= 0:
            raise driver_error(1, f"managed_alloc of {nbytes} bytes: ask for one byte or more")
        detail = f"{nbytes} bytes of managed memory were asked for"
        return self._managed.make(nbytes, _ATTACH_GLOBAL, device=device, detail=detail)

    def managed_free(self, address: int, *, device: int | None = None) -> None:
        """Free what ``managed_alloc`` returned. CUDA waits for the work that may use it."""
        self._managed.destroy(address, device=device)

    def virtual_memory(self, ordinal: int) -> VirtualMemory | None:
        """The virtual memory of a device, or None where the device lacks it or cuda-bindings is not installed."""
        if self._bindings is None or not has_virtual_memory(self._calls, ordinal):
            return None
        self._contexts.retain(ordinal)
        if ordinal not in self._virtual:
            made = CudaVirtualMemory(self._bindings, self._contexts.api, self._contexts, ordinal)
            self._virtual.setdefault(ordinal, made)
        return self._virtual[ordinal]

    def textures(self, ordinal: int) -> CudaTextures:
        """The texture units of a device."""
        self._contexts.retain(ordinal)
        if ordinal not in self._textures:
            self._textures.setdefault(ordinal, CudaTextures(self._calls, ordinal))
        return self._textures[ordinal]

    # --- copies. CUDA documents only that it *may* have read, or written, pageable memory when these return ("API
    # synchronization behavior"). It had for all sizes tried (4 bytes to 16 MiB, driver 580), and a test keeps watch.

    def memcpy_htod(self, dst: int, src: int, nbytes: int, *, stream: int) -> None:
        if _moves("memcpy_htod", dst, src, nbytes):
            self._calls.queue("cuMemcpyHtoDAsync", dst, src, nbytes, stream=stream)

    def memcpy_dtoh(self, dst: int, src: int, nbytes: int, *, stream: int) -> None:
        if _moves("memcpy_dtoh", dst, src, nbytes):
            self._calls.queue("cuMemcpyDtoHAsync", dst, src, nbytes, stream=stream)

    def memcpy_dtod(self, dst: int, src: int, nbytes: int, *, stream: int) -> None:
        """Copy within a device, or between peers whose access is enabled."""
        if (nbytes > 0 and dst and src) or _moves("memcpy_dtod", dst, src, nbytes):
            self._calls.queue("cuMemcpyDtoDAsync", dst, src, nbytes, stream=stream)

    def memcpy_peer(self, dst: int, dst_device: int, src: int, src_device: int, nbytes: int, *, stream: int) -> None:
        """Copy between two devices, with or without peer access.

        The first copy between two devices lets both use each other's memory, if they can, as PyTorch does: without it
        CUDA takes the way through host memory.
        """
        if _moves("memcpy_peer", dst, src, nbytes):
            if (dst_device, src_device) not in self._acquainted:
                self._acquaint(dst_device, src_device)
            homes = self._contexts.retain(dst_device), self._contexts.retain(src_device)
            self._calls.queue("cuMemcpyPeerAsync", dst, homes[0], src, homes[1], nbytes, stream=stream)

    def memset(self, address: int, value: int, count: int, *, width: int = 1, stream: int) -> None:
        """Write ``count`` elements of ``width`` (1, 2 or 4) bytes. Of ``value`` the low bits count."""
        if width not in _MEMSETS or count < 0 or address % width:
            raise driver_error(1, f"memset of {count} elements of {width} bytes at {address:#x}: width is 1, 2 or 4")
        if count:
            self._calls.queue(_MEMSETS[width], address, value, count, stream=stream)

    # --- peers

    def can_access_peer(self, device: int, peer: int) -> bool:
        for ordinal in (device, peer):
            self._contexts.check_ordinal(ordinal)
        here, there = self._pycuda.Device(device), self._pycuda.Device(peer)
        return device != peer and bool(here.can_access_peer(there))

    def enable_peer_access(self, device: int, peer: int) -> None:
        """Let ``device`` read and write ``peer``'s memory. It is not an error if that, or PyTorch, did so before."""
        if not self.can_access_peer(device, peer):
            raise driver_error(217, f"device {device} cannot access the memory of device {peer}")
        self._switch_peer("cuCtxEnablePeerAccess", device, peer, 0, allowed=704)

    def _acquaint(self, device: int, peer: int) -> None:
        """Enable peer access both ways, where devices can have it."""
        for pair in ((device, peer), (peer, device)):
            if self.can_access_peer(*pair):
                self.enable_peer_access(*pair)
            self._acquainted.add(pair)

    def disable_peer_access(self, device: int, peer: int) -> None:
        if device == peer:
            raise driver_error(705, f"device {device} needs no access to its own memory, so none can be taken away")
        self._switch_peer("cuCtxDisablePeerAccess", device, peer)

    def _switch_peer(self, name: str, device: int, peer: int, *flags: int, allowed: int = 0) -> None:
        code = self._calls.code(name, self._contexts.retain(peer), *flags, ordinal=device)
        if code not in (0, allowed):
            raise self._calls.cuda.error(name, code, f"device {device}, peer {peer}")

    # --- streams

    def stream_create(self, *, non_blocking: bool = True, priority: int = 0) -> int:
        """Create a stream on the current device. CUDA clamps the priority to the device's range."""
        return self._streams.make(_NON_BLOCKING if non_blocking else 0, priority)

    def stream_destroy(self, stream: int) -> None:
        self._streams.destroy(stream)

    def stream_priority_range(self) -> tuple[int, int]:
        least, greatest = ctypes.c_int(), ctypes.c_int()
        self._calls.call("cuCtxGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
        return least.value, greatest.value

    def stream_synchronize(self, stream: int) -> None:
        self._calls.queue("cuStreamSynchronize", stream=stream)

    def stream_query(self, stream: int) -> bool:
        calls = self._calls
        code = calls.cuda.cuStreamQuery(stream) if stream > PER_THREAD_STREAM else calls.code("cuStreamQuery", stream)
        if code and code != _NOT_READY:
            raise calls.cuda.error("cuStreamQuery", code)
        return not code

    def stream_wait_event(self, stream: int, event: int) -> None:
        if stream > PER_THREAD_STREAM:
            code = self._calls.cuda.cuStreamWaitEvent(stream, event, 0)
            if not code:
                return
            self._calls.check_retry("cuStreamWaitEvent", code)
        self._calls.call("cuStreamWaitEvent", stream, event, 0)

    # --- events. Most calls need no context: the event names its own.

    def event_create(self, *, timing: bool = False, device: int | None = None) -> int:
        return self._events.make(0 if timing else _DISABLE_TIMING, device=device)

    def event_destroy(self, event: int, *, device: int | None = None) -> None:
        self._events.destroy(event, device=device or 0)

    def event_record(self, event: int, *, stream: int, device: int | None = None) -> None:
        if stream <= PER_THREAD_STREAM:
            if device is not None and device != self._contexts.ordinal:
                self._calls.call("cuEventRecord", event, stream, ordinal=device)
                return
            self._contexts.here()
        # On a default stream too: if that is another context's, CUDA refuses (400, seen), and the context is switched.
        code = self._calls.cuda.cuEventRecord(event, stream)
        if code:
            if device is None:
                self._calls.check_retry("cuEventRecord", code)
            self._calls.call("cuEventRecord", event, stream, ordinal=device)

    def event_query(self, event: int, *, device: int | None = None) -> bool:  # noqa: ARG002 - the event says which
        code = self._calls.cuda.cuEventQuery(event)
        if not code:
            return True
        if code == _NOT_READY:
            return False
        raise self._calls.cuda.error("cuEventQuery", code)

    def event_synchronize(self, event: int, *, device: int | None = None) -> None:  # noqa: ARG002 - the event says which
        code = self._calls.cuda.cuEventSynchronize(event)
        if code:
            raise self._calls.cuda.error("cuEventSynchronize", code)

    def event_elapsed_ms(self, start: int, end: int) -> float:
        if not (start and end):
            raise driver_error(400, "event_elapsed_ms: 0 is no event")
        milliseconds = ctypes.c_float()
        code = self._calls.cuda.cuEventElapsedTime(ctypes.byref(milliseconds), start, end)
        if code:
            detail = "wait for both events first" if code == _NOT_READY else "record both, made with timing=True"
            raise self._calls.cuda.error("cuEventElapsedTime", code, detail)
        return milliseconds.value

    # --- modules and launches

    def module_load(self, image: bytes) -> int:
        """Load a cubin, PTX or fatbin on the current device. PTX is compiled by the driver.

        Raises:
            DriverError: for example ``CUDA_ERROR_INVALID_PTX``, with the driver's log.
        """
        return load_module(self._modules, image)

    def module_unload(self, module: int) -> None:
        self._modules.destroy(module)

    def module_function(self, module: int, name: str) -> int:
        function = ctypes.c_void_p()
        detail = f"asked for the kernel {name!r}"
        self._calls.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode(), detail=detail)
        return function.value or 0

    def module_global(self, module: int, name: str) -> tuple[int, int]:
        address, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
        references = ctypes.byref(address), ctypes.byref(nbytes)
        detail = f"asked for the symbol {name!r}"
        self._calls.call("cuModuleGetGlobal", *references, module, name.encode(), detail=detail)
        return address.value or 0, nbytes.value

    def function_attributes(self, function: int) -> FunctionAttributes:
        return function_attributes(self._calls, function)

    def function_parameters(self, function: int) -> list[tuple[int, int]]:
        """The offset and size in bytes of each parameter of a kernel.

        Raises:
            DriverError: ``CUDA_ERROR_NOT_SUPPORTED``: the installed driver is older than CUDA 12.4.
        """
        return function_parameters(self._calls, function)

    def launch(
        self,
        function: int,
        grid: Dim3,
        block: Dim3,
        *,
        shared: int,
        stream: int,
        parameters: bytes,
        cooperative: bool = False,
    ) -> None:
        """Queue a kernel. ``parameters`` is the parameter block, laid out as ``function_parameters`` says.

        A kernel that asks for more dynamic shared memory than CUDA gives without asking (48 KiB) is allowed it.
        """
        launch(
            self._calls,
            function,
            grid,
            block,
            shared=shared,
            stream=stream,
            parameters=parameters,
            cooperative=cooperative,
        )

    def launch_slot(
        self, function: int, grid: Dim3, block: Dim3, *, shared: int, nbytes: int, cooperative: bool = False
    ) -> Slot:
        """``launch`` with all but the stream and the parameters settled, for hot loops.

        Its ``call`` must not be used once the driver is closed or its process forked. Where it returns another
        CUresult than 0, ``launch`` may succeed: a kernel belongs to a context, and CUDA refuses where another one is
        current, or none.
        """
        launch_kernel = self._calls.cuda.cuLaunchKernelEx
        return Slot(launch_kernel, function, grid, block, shared=shared, nbytes=nbytes, cooperative=cooperative)

    def function_address(self, name: str) -> int:
        """Where a function of CUDA's is in memory, for callers in C; 0 where the installed driver has none.

        It must not be called once the driver is closed or its process forked.
        """
        return function_address(getattr(self._calls.cuda, name))

    def _refuse(self, refusal: Refusal) -> None:
        """From now on raise instead of calling CUDA."""
        self._calls.cuda = refusal
        _open_drivers.discard(self)


def _moves(name: str, dst: int, src: int, nbytes: int) -> bool:
    """Whether a copy has anything to do."""
    if nbytes < 0 or (nbytes and not (dst and src)):
        raise driver_error(1, f"{name} of {nbytes} bytes from {src:#x} to {dst:#x}: give addresses and a size")
    return nbytes > 0


def _initialise(api: Api, pycuda: Any) -> int:
    """Initialise CUDA and count the visible devices."""
    global _initialised
    try:
        pycuda.init()
        _initialised = True
        return int(pycuda.Device.count())
    except pycuda.Error as error:
        code = code_of(api, error)
        if code == _NO_DEVICE:
            return 0
        if code == _NOT_INITIALIZED:
            raise driver_error(code, f"cuInit: {FORKED}") from None
        raise api.error("cuInit", code, 'no device can be used; driver="sim" simulates one') from None


def _import_pycuda() -> Any:
    try:
        import pycuda.driver
    except Exception as error:  # a PyCUDA that was built for another CUDA, or another NumPy, fails in several ways
        if find_spec("pycuda") is not None:
            Api()  # where NVIDIA's driver is missing, that is the reason to give
        raise driver_error(
            3,
            f"PyCUDA cannot be imported ({error}); install cuplug[cuda], which builds it against a CUDA toolkit, "
            'or simulate a device with driver="sim"',
        ) from None
    return pycuda.driver


@atexit.register
def _close_all() -> None:
    """Release the contexts while PyCUDA is alive: its destructors would do it when CUDA is gone already."""
    for driver in list(_open_drivers):
        driver.close()


@in_forked_child
def _forget_all() -> None:
    """No call of CUDA may happen in a forked child any more, not even from a destructor."""
    global _forked
    _forked = _initialised
    for driver in list(_open_drivers):
        refusal = Refusal(3, FORKED)
        driver._refuse(refusal)
        driver._contexts.refuse(refusal)


if TYPE_CHECKING:

    def _conforms(driver: CudaDriver) -> Driver:
        return driver
