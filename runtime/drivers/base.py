"""Everything that the runtime asks of hardware, in the terms of the CUDA driver API.

Handles (streams, events, modules, functions) are integers, and addresses are integers: what the driver API passes as
pointers. Device ordinals count the visible devices (``CUDA_VISIBLE_DEVICES``). As in CUDA, most calls act on the
*current* device of the calling thread; without one they raise ``DriverError`` ``CUDA_ERROR_INVALID_CONTEXT``.

Errors of queued work are asynchronous and sticky: the first call that synchronises after the work has failed raises
``DriverError`` (for example ``CUDA_ERROR_ILLEGAL_ADDRESS``), and so does every later call on that device.

**Interrupts.** An exception that is no error of the driver's (Ctrl-C, exhausted host memory, too deep a recursion) may
arrive at any point of any call, and leaves the driver usable:

- A call that raises has changed nothing: what it was to make or to queue is not there, and what it was to give back
  still is. (What a copy or kernel was to write is then undefined: it may have been under way.)
- What a call returns is the caller's at once: no interrupt comes between its return and the line that uses the value.
- A call that waits and raises has only stopped waiting.

In a process forked after ``device_count`` or later calls, every call raises ``CUDA_ERROR_NOT_INITIALIZED``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...allocators.errors import DriverError, OutOfMemoryError
from ...allocators.upstream import VirtualMemory
from .textures import Textures

__all__ = [
    "LEGACY_STREAM",
    "PER_THREAD_STREAM",
    "DeviceProperties",
    "Driver",
    "FunctionAttributes",
    "Modules",
    "Simulator",
    "driver_error",
]

LEGACY_STREAM = 0
"""The default stream. It waits for all blocking streams of its device, and they wait for it."""
PER_THREAD_STREAM = 2
"""``CU_STREAM_PER_THREAD``: one handle, a stream of its own in every thread."""

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What a device can do. Names follow ``cudaDeviceProp`` and ``torch.cuda.get_device_properties``; sizes bytes."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_block_dim: Dim3
    max_grid_dim: Dim3
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    max_threads_per_multi_processor: int
    l2_cache_size: int
    clock_rate_khz: int
    pci_bus_id: str
    uuid: str
    concurrent_kernels: bool
    unified_addressing: bool
    virtual_memory: bool
    """Whether the virtual-memory calls can be used here (device and installation)."""


@dataclass(frozen=True, slots=True)
class FunctionAttributes:
    """What the driver knows of a loaded kernel. Sizes are bytes."""

    max_threads_per_block: int
    shared_bytes: int
    const_bytes: int
    local_bytes: int
    num_regs: int


class Modules(Protocol):
    """What a driver does with compiled modules, their kernels and their symbols."""

    def module_load(self, image: bytes) -> int:
        """Load a compiled module (cubin, PTX, fatbin; the simulator's own form there) on the current device."""

    def module_unload(self, module: int) -> None:
        """Unload a module. None of its kernels may be queued."""

    def module_function(self, module: int, name: str) -> int:
        """A kernel by its (mangled) name.

        Raises:
            DriverError: ``CUDA_ERROR_NOT_FOUND``.
        """

    def module_global(self, module: int, name: str) -> tuple[int, int]:
        """The address and size in bytes of a module's global or ``__constant__`` symbol."""

    def function_attributes(self, function: int) -> FunctionAttributes:
        """What the driver knows of a kernel."""

    def function_parameters(self, function: int) -> list[tuple[int, int]]:
        """The offset and size in bytes of each parameter of a kernel."""


class Driver(Modules, Protocol):
    """One kind of hardware. All calls may be made from any thread and release the interpreter lock while they wait.

    Calls with the argument ``device`` act on the device of that ordinal, whichever is current, if any. Without it they
    act on the current one as all others do.
    """

    @property
    def name(self) -> str:
        """``cuda`` or ``sim``, or a third party's."""

    @property
    def simulator(self) -> Simulator | None:
        """What a simulated device can do besides, or None where there is hardware."""

    # --- devices and contexts

    def device_count(self) -> int:
        """The number of visible devices."""

    def driver_version(self) -> tuple[int, int]:
        """The CUDA version that the driver supports, for example (13, 0)."""

    def device_properties(self, ordinal: int) -> DeviceProperties:
        """Properties of a device. Needs no current device.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_DEVICE``.
        """

    def set_device(self, ordinal: int | None) -> None:
        """Make a device's primary context current on this thread (retaining it at first use), or none."""

    def current_device(self) -> int | None:
        """The ordinal of this thread's current device, or None."""

    def synchronize(self) -> None:
        """Wait for all work of the current device. Raises what the work did."""

    def enable_profiler(self, enable: bool) -> None:
        """Let a profiler that is attached begin or stop to look at the current device; nothing where none is."""

    def close(self) -> None:
        """Release every context that this driver retained, and what it still holds. Idempotent, never raises."""

    # --- memory

    def mem_alloc(self, nbytes: int, *, device: int | None = None) -> int:
        """Allocate device memory, aligned to 512 bytes.

        Raises:
            OutOfMemoryError: not that much is left in one piece.
        """

    def mem_free(self, address: int, *, device: int | None = None) -> None:
        """Free what ``mem_alloc`` returned. CUDA waits for all work of the device first.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_VALUE`` for any other address, or one freed before.
        """

    def mem_info(self, *, device: int | None = None) -> tuple[int, int]:
        """Free and total bytes of the device."""

    def host_alloc(self, nbytes: int, *, device: int | None = None, private: bool = False) -> int:
        """Allocate page-locked host memory, usable by every device, and return its address.

        What is ``private`` no forked child needs: it may be made in a faster way that leaves it out of them.
        """

    def host_free(self, address: int, *, device: int | None = None) -> None:
        """Free what ``host_alloc`` returned."""

    def managed_alloc(self, nbytes: int, *, device: int | None = None) -> int:
        """Allocate managed memory, whose address the program and every device use (``cuMemAllocManaged``, global).

        Raises:
            OutOfMemoryError: there is not that much.
        """

    def managed_free(self, address: int, *, device: int | None = None) -> None:
        """Free what ``managed_alloc`` returned. CUDA waits for all work of the device first."""

    def virtual_memory(self, ordinal: int) -> VirtualMemory | None:
        """The virtual memory of a device, or None where the device or the installation lacks it."""

    def textures(self, ordinal: int) -> Textures | None:
        """The texture units of a device, or None where kernels' own engine stands in for them: on the simulator."""

    # --- copies. Asynchronous on ``stream`` as CUDA's are: from page-locked host memory they only queue; from pageable
    # memory they return once the source was read, and to pageable memory once the copy is done. The caller keeps host
    # memory alive until a queued copy has run.

    def memcpy_htod(self, dst: int, src: int, nbytes: int, *, stream: int) -> None:
        """Copy from the host address ``src`` to the device address ``dst``."""

    def memcpy_dtoh(self, dst: int, src: int, nbytes: int, *, stream: int) -> None:
        """Copy from the device address ``src`` to the host address ``dst``."""

    def memcpy_dtod(self, dst: int, src: int, nbytes: int, *, stream: int) -> None:
        """Copy within the current device, or between peers whose access is enabled."""

    def memcpy_peer(self, dst: int, dst_device: int, src: int, src_device: int, nbytes: int, *, stream: int) -> None:
        """Copy between two devices, with or without peer access. ``stream`` is the current device's."""

    def memset(self, address: int, value: int, count: int, *, width: int = 1, stream: int) -> None:
        """Write ``count`` elements of ``width`` (1, 2 or 4) bytes, each ``value``."""

    # --- peers

    def can_access_peer(self, device: int, peer: int) -> bool:
        """Whether ``device`` could read and write ``peer``'s memory directly. False for a device and itself."""

    def enable_peer_access(self, device: int, peer: int) -> None:
        """Let ``device`` read and write ``peer``'s memory directly. Enabling twice is not an error.

        Raises:
            DriverError: ``CUDA_ERROR_PEER_ACCESS_UNSUPPORTED``.
        """

    def disable_peer_access(self, device: int, peer: int) -> None:
        """Undo ``enable_peer_access``.

        Raises:
            DriverError: ``CUDA_ERROR_PEER_ACCESS_NOT_ENABLED``.
        """

    # --- streams and events

    def stream_create(self, *, non_blocking: bool = True, priority: int = 0) -> int:
        """Create a stream on the current device. A non-blocking one does not order itself with the legacy stream."""

    def stream_destroy(self, stream: int) -> None:
        """Destroy a stream. Its queued work still runs. The handle may be given to a later stream."""

    def stream_priority_range(self) -> tuple[int, int]:
        """The least and the greatest priority, for example (0, -5)."""

    def stream_synchronize(self, stream: int) -> None:
        """Wait for the work queued on the stream. Raises what the work did."""

    def stream_query(self, stream: int) -> bool:
        """Whether all work queued on the stream has completed. Raises what the work did."""

    def stream_wait_event(self, stream: int, event: int) -> None:
        """Let work queued on ``stream`` from now on wait for the latest recording of ``event`` (none: no wait)."""

    def event_create(self, *, timing: bool = False, device: int | None = None) -> int:
        """Create an event on the device, unrecorded. ``timing`` lets ``event_elapsed_ms`` use it."""

    def event_destroy(self, event: int, *, device: int | None = None) -> None:
        """Destroy an event, also while a recording is pending."""

    def event_record(self, event: int, *, stream: int, device: int | None = None) -> None:
        """Mark the work queued on ``stream`` so far. Both belong to one device."""

    def event_query(self, event: int, *, device: int | None = None) -> bool:
        """Whether the marked work has completed. True for an unrecorded event."""

    def event_synchronize(self, event: int, *, device: int | None = None) -> None:
        """Wait for the marked work. Raises what the work did."""

    def event_elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds between two recorded, completed events created with ``timing``.

        Raises:
            DriverError: ``CUDA_ERROR_NOT_READY`` or ``CUDA_ERROR_INVALID_HANDLE``.
        """

    # --- launches

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
        """Queue a kernel, with ``shared`` bytes of dynamic shared memory. ``parameters`` is the parameter block, laid
        out as ``function_parameters`` says.

        The blocks of a ``cooperative`` launch are all resident at once, so that they may wait for one another.

        Raises:
            DriverError: ``CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE``: the device cannot hold as many at once.
        """


class Simulator(Protocol):
    """What a driver offers besides whose device is simulated in this process's own memory."""

    module_loader: Any
    """What loads and launches kernels compiled for the host, or None."""
    guard: int
    """How many bytes behind each block are to be nobody's once a program has kernels of its own."""
    quick_launch_host: Callable[..., None]
    """``launch_host`` with all of its arguments by position, and then those of the function: in fewer steps where
    nothing is unusual."""

    def launch_host(
        self,
        function: Callable[[], object],
        stream: int,
        reads: Sequence[tuple[int, int]] = (),
        writes: Sequence[tuple[int, int]] = (),
        name: str = "launch_host",
        device: int | None = None,
        cost_us: float = 2.0,
        repeatable: bool = False,
    ) -> None:
        """Queue a Python function as a kernel on the device of that ordinal, by default the current one.

        ``reads`` and ``writes`` are addresses and sizes in bytes of what it touches; ``cost_us`` is its duration in
        simulated microseconds. Signals wait while it runs, unless it is ``repeatable`` and reads nothing that it
        writes: then they may cut it short, and it may run again.
        """

    def unseen_failure(self) -> DriverError | None:
        """Wait for all work of all devices. Returns what failed and no call has raised; None if nothing did."""


_ERROR_NAMES = {
    1: "CUDA_ERROR_INVALID_VALUE",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    4: "CUDA_ERROR_DEINITIALIZED",
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    200: "CUDA_ERROR_INVALID_IMAGE",
    201: "CUDA_ERROR_INVALID_CONTEXT",
    217: "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
    400: "CUDA_ERROR_INVALID_HANDLE",
    500: "CUDA_ERROR_NOT_FOUND",
    600: "CUDA_ERROR_NOT_READY",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS",
    701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    702: "CUDA_ERROR_LAUNCH_TIMEOUT",
    704: "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
    705: "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
    709: "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    710: "CUDA_ERROR_ASSERT",
    715: "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    716: "CUDA_ERROR_MISALIGNED_ADDRESS",
    717: "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    718: "CUDA_ERROR_INVALID_PC",
    719: "CUDA_ERROR_LAUNCH_FAILED",
    720: "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
    801: "CUDA_ERROR_NOT_SUPPORTED",
    999: "CUDA_ERROR_UNKNOWN",
}
"""Names of the CUresult codes that drivers raise (CUDA driver API, ``cuda.h``)."""


def driver_error(code: int, message: str) -> DriverError | OutOfMemoryError:
    """The exception for a CUresult: OutOfMemoryError for code 2, else DriverError with the code's CUDA name."""
    if code == 2:
        return OutOfMemoryError(message)
    return DriverError(code, _ERROR_NAMES.get(code, "CUDA_ERROR"), message)
