"""The simulated driver: devices and contexts, modules, and what only a simulator can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....allocators.errors import DriverError
from ..base import DeviceProperties, Dim3, FunctionAttributes, driver_error
from .machine import CALLS, call, light_call, observation
from .memory_calls import MemoryCalls, memory_at
from .modules import ModuleLoader
from .operations import Operation, Range, Stream
from .stream_calls import StreamCalls
from .visible import device_uuid

__all__ = ["LiveHandles", "PendingAccess", "SimDriver"]


@dataclass(frozen=True, slots=True)
class PendingAccess:
    """A queued operation that touches memory."""

    operation: str
    device: int
    stream: int
    """The handle at the time when the stream was made."""
    address: int
    nbytes: int
    writes: bool


@dataclass(frozen=True, slots=True)
class LiveHandles:
    """How many of each kind of thing exist. A careful program has brought them to zero before it closes the driver."""

    allocations: int
    host_allocations: int
    streams: int
    events: int
    ranges: int
    pages: int
    """Handles from ``create_page``."""
    mappings: int


class SimDriver(MemoryCalls, StreamCalls):
    """A deterministic CUDA machine. See the package's docstring for the model."""

    # --- devices and contexts

    @property
    def name(self) -> str:
        """``sim``."""
        return "sim"

    @light_call
    def device_count(self) -> int:
        """The number of visible devices."""
        return len(self._indices())

    @light_call
    def driver_version(self) -> tuple[int, int]:
        """The version of CUDA whose behaviour is simulated."""
        return (12, 8)

    @light_call
    def device_properties(self, ordinal: int) -> DeviceProperties:
        """Properties of a device: those of a small data-centre GPU, with this driver's options."""
        index = self._index(ordinal)
        major, minor = self._capability
        return DeviceProperties(
            name="cuplug simulated device",
            major=major,
            minor=minor,
            total_memory=self._capacity,
            multi_processor_count=16,
            warp_size=32,
            max_threads_per_block=1024,
            max_block_dim=(1024, 1024, 64),
            max_grid_dim=(2**31 - 1, 65535, 65535),
            shared_memory_per_block=48 << 10,
            shared_memory_per_block_optin=99 << 10,
            max_threads_per_multi_processor=2048,
            l2_cache_size=4 << 20,
            clock_rate_khz=1_000_000,
            pci_bus_id=f"0000:{index + 1:02X}:00.0",
            uuid=device_uuid(index),
            concurrent_kernels=True,
            unified_addressing=True,
            virtual_memory=self._has_virtual_memory,
        )

    @light_call
    def set_device(self, ordinal: int | None) -> None:
        """Make a device current on this thread, or none."""
        if ordinal is None:
            self._thread.device = None
            return
        device = self._devices.get(ordinal)
        self._thread.device = self._retain(ordinal) if device is None else device

    @light_call
    def current_device(self) -> int | None:
        """The ordinal of this thread's current device, or None."""
        device = self._thread.device
        return None if device is None else device.ordinal

    @call
    def synchronize(self) -> None:
        """Wait for all work of the current device. Raises what the work did."""
        self._drain(self._here())

    def close(self) -> None:
        """Give all memory back and forget everything queued. Idempotent, never raises. Views become invalid."""
        machine = self._machine
        try:
            machine.enter("close")
        except DriverError:  # closed before, a forked child, or within an operation
            return
        try:
            machine.closed = True
            self._schedule.drop_everything()
            for device in self._devices.values():
                device.memory.close()
            if self._host is not None:
                self._host.close()
        finally:
            machine.leave()

    # --- modules and launches

    def module_load(self, image: bytes) -> int:
        """Passed to ``module_loader``, as the other calls about modules are."""
        return self._modules().module_load(image)

    def module_unload(self, module: int) -> None:
        """See ``module_load``."""
        self._modules().module_unload(module)

    def module_function(self, module: int, name: str) -> int:
        """See ``module_load``."""
        return self._modules().module_function(module, name)

    def module_global(self, module: int, name: str) -> tuple[int, int]:
        """See ``module_load``."""
        return self._modules().module_global(module, name)

    def function_attributes(self, function: int) -> FunctionAttributes:
        """See ``module_load``."""
        return self._modules().function_attributes(function)

    def function_parameters(self, function: int) -> list[tuple[int, int]]:
        """See ``module_load``."""
        return self._modules().function_parameters(function)

    def launch(self, function: int, grid: Dim3, block: Dim3, *, shared: int, stream: int, parameters: bytes) -> None:
        """See ``module_load``."""
        self._modules().launch(function, grid, block, shared=shared, stream=stream, parameters=parameters)

    @light_call
    def _modules(self) -> ModuleLoader:
        self._here()
        if self.module_loader is None:
            raise driver_error(801, "no loader of kernels is attached to the simulated driver (module_loader)")
        return self.module_loader

    # --- what only a simulator can do

    @property
    def schedule(self) -> str:
        """The schedule, as the option says it: ``eager``, ``lazy`` or ``random:SEED``."""
        return str(self._schedule)

    @property
    def operations_executed(self) -> int:
        """How many operations have run."""
        return self._schedule.executed

    @property
    @observation
    def log(self) -> list[tuple[int, int, str]]:
        """The operations executed last (65,536 at most), oldest first: the device, the stream's number on its device
        (its legacy stream is 0, others count up as they are made) and the operation's name."""
        return list(self._schedule.log)

    @property
    @observation
    def live(self) -> LiveHandles:
        """How many of each kind of thing exist: now, or when the driver was closed."""
        memories = [device.memory for device in self._devices.values()]
        return LiveHandles(
            allocations=sum(len(memory.allocations.sizes) for memory in memories),
            host_allocations=len(self._host.sizes) if self._host else 0,
            streams=len(self._streams),
            events=len(self._events),
            ranges=sum(len(memory.ranges.sizes) for memory in memories),
            pages=len(self._pages),
            mappings=sum(len(memory.ranges.mappings) for memory in memories),
        )

    @call
    def launch_host(
        self,
        function: Callable[[], object],
        *,
        stream: int,
        reads: Sequence[Range] = (),
        writes: Sequence[Range] = (),
        name: str = "launch_host",
        cost_us: float = 2.0,
    ) -> None:
        """Queue a Python function as a kernel. It must not call the driver (``CUDA_ERROR_NOT_PERMITTED``).

        ``reads`` and ``writes`` are addresses and sizes in bytes of what it touches: checked when it runs, not now.
        What it raises becomes the device's sticky error: a ``DriverError`` as it is, anything else as
        ``CUDA_ERROR_LAUNCH_FAILED`` with the exception as its cause. ``cost_us`` counts on the simulated clock.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_HANDLE``: the stream is not the current device's.
        """
        device = self._here()
        queue = self._stream(stream)
        if queue.device is not device:
            raise driver_error(400, f"{name}: stream {stream:#x} is of device {queue.device.ordinal}, not the current")
        self._submit(Operation(name, queue, function, reads=tuple(reads), writes=tuple(writes), cost_us=cost_us))

    @observation
    def reachable(self) -> list[Range]:
        """Address and size in bytes of all that a kernel of the current device may access now, in order of address:
        its own memory, that of peers whose access is enabled, page-locked host memory."""
        device = self._here()
        found = [*device.memory.live(), *device.host.sizes.items()]
        for peer in device.peers:
            found += peer.memory.allocations.sizes.items()
        return sorted(found)

    @observation
    def add_variable(self, address: int, nbytes: int) -> None:
        """Let copies and kernels of the current device access a module's variable, which lies in host memory."""
        self._here().variables[address] = nbytes

    @observation
    def remove_variable(self, address: int) -> None:
        """Undo ``add_variable``, on whichever device."""
        for device in self._devices.values():
            device.variables.pop(address, None)

    @observation
    def view(self, address: int, nbytes: int) -> memoryview:
        """The bytes at ``address``, writable and without a copy, whatever is queued. Operations may call it.

        Touching a view after its memory was freed or unmapped, or the driver closed, kills the process as any wild
        pointer does.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_VALUE``: the range is not live device or page-locked memory.
        """
        self._machine.check_usable("view")
        device = self._owner(address)
        if device is not None:
            fault = device.memory.touch(address, nbytes)
        else:
            fault = self._host.fault(address, nbytes) if self._host else "no device was used yet"
        if fault is not None:
            raise driver_error(1, f"view of {nbytes} bytes at {address:#x}: {fault}")
        return memory_at(address, nbytes)

    @observation
    def pending_access(
        self, address: int, nbytes: int, *, before_stream: int | None = None
    ) -> tuple[PendingAccess, ...]:
        """Queued operations that touch the range, the oldest of each stream first.

        With ``before_stream``, a stream of the current device or a handle, only those that work queued on that stream
        from now on would *not* wait for: memory with such accesses must not be used there yet.
        """
        end = address + nbytes
        found = [
            (operation, _access(operation, start, size, writes))
            for operation in self._schedule.queued()
            for ranges, writes in ((operation.reads, False), (operation.writes, True))
            for start, size in ranges
            if start < end and address < start + size
        ]
        if found and before_stream is not None:
            ordered = self._ordered_before(self._stream(before_stream))
            found = [(operation, access) for operation, access in found if operation not in ordered]
        return tuple(access for _, access in found)

    def _ordered_before(self, stream: Stream) -> set[Operation]:
        """The queued operations that an operation queued on ``stream`` now would wait for."""
        reached: set[Operation] = set()
        ends = [*list(stream.queue)[-1:], *self._predecessors(stream)]
        while ends:
            end = ends.pop()
            for operation in end.stream.queue:
                if operation not in reached:
                    reached.add(operation)
                    ends.extend(earlier for earlier in operation.after if not earlier.done)
                if operation is end:
                    break
        return reached

    def fail_next(self, name: str, code: int, *, after: int = 0) -> None:
        """Let the call ``name`` (also of the virtual memory) fail with a CUresult ``code``, once.

        The call is made ``after`` more times as usual before that. A call that fails so changes nothing.

        Raises:
            ValueError: there is no such call, or it cannot fail.
        """
        if name not in CALLS:
            raise ValueError(f"there is no call {name!r} that could fail; known: {', '.join(sorted(CALLS))}")
        self._machine.fail_next(name, code, after)


def _access(operation: Operation, address: int, nbytes: int, writes: bool) -> PendingAccess:
    stream = operation.stream
    return PendingAccess(operation.name, stream.device.ordinal, stream.handle, address, nbytes, writes)
