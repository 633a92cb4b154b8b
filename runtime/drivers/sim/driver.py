"""The simulated driver: what ``Driver`` asks, and what only a simulator can do."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from ....allocators.errors import DriverError
from ....allocators.upstream import VirtualMemory
from ..base import DeviceProperties, Dim3, FunctionAttributes, driver_error
from .device_table import DeviceTable
from .held_signals import run_without_signals
from .inspection import Inspection, LiveHandles, PendingAccess
from .locked_calls import (
    CALLS,
    Calls,
    Change,
    Entering,
    GivingBack,
    Nbytes,
    call,
    changing_call,
    giving_back_call,
    light_call,
    observation,
)
from .modules import ModuleLoader
from .quick_host_launch import quick_host_launch
from .schedule import make_schedule
from .simulated_device import Device, Extent
from .streams import PRIORITIES, Streams, Submission
from .transfers import Copies
from .virtual import SimVirtualMemory
from .work import Operation

_CHECKS: dict[str, bool | str] = {"accesses": True, "races": "races", "nothing": False}


class SimDriver:
    """A deterministic CUDA machine. See the package's docstring for the model.

    It states the calls and their order: each takes the lock (``Calls``), finds its device, and asks one of the parts.
    These are the devices with their memory (``DeviceTable``), the streams and events with what is queued on them
    (``Streams``), the schedule by which that runs (``Schedule``), copies (``Copies``), what loads kernels
    (``ModuleLoader``), and what looks at all of it from outside (``Inspection``).
    """

    def __init__(
        self,
        *,
        devices: Annotated[int, "number of devices, from 0 to 64"] = 1,
        memory: Annotated[int, "bytes of memory of each device"] = 24 << 30,
        host_memory: Annotated[int, "bytes of the host's memory that may stand under addresses of devices"] = 64 << 30,
        schedule: Annotated[str, "when queued work runs: eager, lazy, random or random:SEED"] = "eager",
        seed: Annotated[int, "seed of the random schedule, from 0"] = 0,
        peer_access: Annotated[bool, "whether devices can access each other's memory"] = True,
        virtual_memory: Annotated[bool, "whether the virtual-memory calls exist"] = True,
        compute_capability: Annotated[str, "what the devices say they can do, for example 9.0"] = "9.0",
        timeout: Annotated[str, "how long a kernel may run: 10s, 500ms; empty for as long as it likes"] = "",
        check: Annotated[str, "what kernels are checked for: accesses, races or nothing; empty for accesses"] = "",
        guard: Annotated[int, "bytes behind each block that are nobody's, once a program has kernels; 0: none"] = 512,
    ) -> None:
        """Make a machine, whose devices take no memory before they are used.

        Raises:
            ValueError: an option is out of its range.
        """
        if seed < 0:
            raise ValueError(f"seed={seed}: a seed is a whole number from 0")
        if check not in ("", *_CHECKS):
            raise ValueError(f"check={check!r}: say {', '.join(_CHECKS)}")
        self.check: bool | str | None = _CHECKS.get(check)
        """What modules are compiled with that do not say it themselves, as ``SourceModule`` takes it."""
        if guard < 0:
            raise ValueError(f"guard={guard}: a number of bytes from 0")
        self.guard = guard if self.check is not False else 0
        """How many bytes behind each block are to be nobody's once a program has kernels of its own, so that reaching
        beyond a block is found where another one follows. They count as allocated and not as requested."""
        self.timeout_s = _seconds(timeout) if timeout else None
        """How many seconds a kernel may run before it is ended by ``CUDA_ERROR_LAUNCH_TIMEOUT``; None for any time."""
        self._schedule = make_schedule(schedule, seed)
        self._calls = Calls(self._schedule, self._mend)
        self._streams = Streams(self._schedule)
        self._devices = DeviceTable(
            devices,
            memory,
            host_memory,
            compute_capability,
            peer_access=peer_access,
            virtual_memory=virtual_memory,
            first_use=self._streams.add_device,
        )
        self._copies = Copies(self._devices, self._streams)
        self._inspection = Inspection(self._devices, self._streams)
        self._thread = _Thread()
        self._given_back = False
        self._module_loader: ModuleLoader | None = None
        self.quick_launch_host = quick_host_launch(self.launch_host, self._calls, self._streams, self._devices)
        """``launch_host`` with all of its arguments by position, and then those of the function: in fewer steps where
        nothing is unusual."""

    @property
    def name(self) -> str:
        """``sim``."""
        return "sim"

    @property
    def simulator(self) -> SimDriver:
        """This driver itself."""
        return self

    @property
    def module_loader(self) -> ModuleLoader | None:
        """What loads and launches kernels: set by the part of cuplug that compiles kernels for the host.
        Without one, those calls raise ``CUDA_ERROR_NOT_SUPPORTED``."""
        return self._module_loader

    @module_loader.setter
    def module_loader(self, loader: ModuleLoader | None) -> None:
        self._module_loader = self._schedule.managed.host = loader

    # --- devices and contexts

    @light_call
    def device_count(self) -> int:
        """The number of visible devices."""
        return len(self._devices.visible())

    @light_call
    def driver_version(self) -> tuple[int, int]:
        """The version of CUDA whose behaviour is simulated."""
        return (12, 8)

    @light_call
    def device_properties(self, ordinal: int) -> DeviceProperties:
        """Properties of a device: those of a small data-centre GPU, with this driver's options."""
        return self._devices.properties(ordinal)

    @light_call
    def set_device(self, ordinal: int | None) -> None:
        """Make a device current on this thread, or none."""
        if ordinal is None:
            self._thread.device = None
            return
        device = self._devices.made.get(ordinal)
        self._thread.device = self._retain(ordinal) if device is None else device

    @light_call
    def current_device(self) -> int | None:
        """The ordinal of this thread's current device, or None."""
        device = self._thread.device
        return None if device is None else device.ordinal

    @call
    def synchronize(self) -> None:
        """Wait for all work of the current device. Raises what the work did."""
        self._streams.wait_for_device(self._here())

    @call
    def unseen_failure(self) -> DriverError | None:
        """Wait for all work of all devices. Returns what failed and no call has raised; None if nothing did."""
        for device in self._devices.made.values():
            known = device.told
            try:
                self._streams.wait_for_device(device)
            except DriverError as error:
                if not known:
                    return error
        return None

    @call
    def enable_profiler(self, enable: bool) -> None:  # noqa: ARG002 - no profiler looks at a simulated device
        """Let a profiler that is attached begin or stop to look at the current device."""
        self._here()

    def close(self) -> None:
        """Give all memory back and forget everything queued. Idempotent, never raises. Views become invalid."""
        if not (self._given_back or self._calls.forked or self._calls.lock._is_owned()):
            self._give_back()

    # --- memory

    @changing_call
    def mem_alloc(self, nbytes: int, *, device: int | None = None) -> Entering[int, int]:
        """Allocate device memory, aligned to 512 bytes and poisoned."""
        allocations = self._here(device).memory.allocations
        self._calls.memory_changes += 1
        address = allocations.prepare(nbytes)
        return Entering(allocations.sizes, address, Nbytes(nbytes), address)

    @giving_back_call
    def mem_free(self, address: int, *, device: int | None = None) -> GivingBack:
        """Free what ``mem_alloc`` returned, on whichever device, after all of that device's work."""
        self._here(device)
        owner = self._devices.owner(address)
        size = None if owner is None else owner.memory.allocations.sizes.get(address)
        if owner is None or size is None:
            raise driver_error(1, f"mem_free of {address:#x}: it is not an address from mem_alloc, or was freed before")
        self._streams.wait_for_device(owner)
        return GivingBack(partial(owner.memory.allocations.release, address, size))

    @call
    def mem_info(self, *, device: int | None = None) -> tuple[int, int]:
        """Free and total bytes of the device. What is not used up in whole 2 MiB pages counts as used."""
        physical = self._here(device).memory.physical
        return physical.free, physical.total

    @changing_call
    def host_alloc(
        self,
        nbytes: int,
        *,
        device: int | None = None,
        private: bool = False,  # noqa: ARG002 - there is one way to make it here
    ) -> Entering[int, int]:
        """Allocate page-locked host memory. It is limited by this machine, not by the simulator."""
        host = self._here(device).host
        self._calls.memory_changes += 1
        address = host.prepare(nbytes)
        return Entering(host.sizes, address, Nbytes(nbytes), address)

    @giving_back_call
    def host_free(self, address: int, *, device: int | None = None) -> GivingBack:
        """Free what ``host_alloc`` returned, after all work of all devices."""
        here = self._here(device)
        size = here.host.sizes.get(address)
        if size is None:
            raise driver_error(1, f"host_free of {address:#x}: it is not from host_alloc, or was freed before")
        for other in self._devices.made.values():
            self._schedule.drain(other)
        self._streams.wait_for_device(here)
        return GivingBack(partial(here.host.release, address, size))

    def managed_alloc(self, nbytes: int, *, device: int | None = None) -> int:
        """Allocate managed memory, poisoned. It is limited by this machine, not by the simulator."""

        made: list[int] = []

        def alloc() -> None:
            made.append(self.host_alloc(nbytes, device=device))
            self._schedule.managed.sizes[made[0]] = nbytes

        run_without_signals(alloc)
        return made[0]

    def managed_free(self, address: int, *, device: int | None = None) -> None:
        """Free what ``managed_alloc`` returned, after all work of all devices."""
        if address not in self._schedule.managed.sizes:
            raise driver_error(1, f"managed_free of {address:#x}: it is not from managed_alloc, or was freed before")

        def free() -> None:
            self.host_free(address, device=device)
            self._schedule.managed.forget(address)

        run_without_signals(free)

    def virtual_memory(self, ordinal: int) -> VirtualMemory | None:
        """The virtual memory of a device, or None where the option ``virtual_memory`` says so."""
        device = self._retain(ordinal)
        return SimVirtualMemory(self._calls, device) if self._devices.virtual_memory else None

    def textures(self, ordinal: int) -> None:
        """None: the engine of the kernels stands in for texture units."""

    # --- copies

    @changing_call
    def memcpy_htod(self, dst: int, src: int, nbytes: int, *, stream: int) -> Change[None]:
        """Copy from host to device. Pageable memory is read before this returns."""
        return self._copies.from_host(self._here(), dst, src, nbytes, stream)

    @changing_call
    def memcpy_dtoh(self, dst: int, src: int, nbytes: int, *, stream: int) -> Change[None]:
        """Copy from device to host. To pageable memory this waits for the copy, and raises what the work did."""
        return self._copies.to_host(self._here(), dst, src, nbytes, stream)

    @changing_call
    def memcpy_dtod(self, dst: int, src: int, nbytes: int, *, stream: int) -> Change[None]:
        """Copy within the stream's device, or between it and peers whose access is enabled."""
        return self._copies.on_device(self._here(), dst, src, nbytes, stream)

    @changing_call
    def memcpy_peer(
        self, dst: int, dst_device: int, src: int, src_device: int, nbytes: int, *, stream: int
    ) -> Change[None]:
        """Copy between two devices, with or without peer access."""
        return self._copies.between_devices(self._here(), dst, dst_device, src, src_device, nbytes, stream)

    @changing_call
    def memset(self, address: int, value: int, count: int, *, width: int = 1, stream: int) -> Change[None]:
        """Write ``count`` elements of ``width`` (1, 2 or 4) bytes. Of ``value`` the low bits count."""
        return self._copies.fill(self._here(), address, value, count, width, stream)

    # --- peers

    @call
    def can_access_peer(self, device: int, peer: int) -> bool:
        """Whether the option ``peer_access`` allows it. False for a device and itself."""
        return self._devices.can_access_peer(device, peer)

    @call
    def enable_peer_access(self, device: int, peer: int) -> None:
        """Let ``device`` access what ``mem_alloc`` returned on ``peer``. Enabling twice is not an error."""
        self._calls.memory_changes += 1
        self._devices.enable_peer_access(device, peer)

    @call
    def disable_peer_access(self, device: int, peer: int) -> None:
        """Undo ``enable_peer_access``."""
        self._calls.memory_changes += 1
        self._devices.disable_peer_access(device, peer)

    # --- streams

    @changing_call
    def stream_create(self, *, non_blocking: bool = True, priority: int = 0) -> Entering[int, int]:
        """Create a stream on the current device. Priorities are clamped, and change nothing."""
        return self._streams.make(self._here(), blocking=not non_blocking, priority=priority)

    @giving_back_call
    def stream_destroy(self, stream: int) -> GivingBack:
        """Destroy a stream. Its queued work still runs; the handle goes to the next stream that is made."""
        self._here()
        return self._streams.destroy(stream)

    @call
    def stream_priority_range(self) -> tuple[int, int]:
        """The least and the greatest priority: (0, -5)."""
        self._here()
        return PRIORITIES

    @call
    def stream_synchronize(self, stream: int) -> None:
        """Wait for the work queued on the stream. Raises what the device's work did."""
        self._streams.wait_for_stream(self._streams.of(stream, self._here()))

    @call
    def stream_query(self, stream: int) -> bool:
        """Whether all work queued on the stream has completed. Raises what the device's work did."""
        return self._streams.has_run(self._streams.of(stream, self._here()))

    @call
    def stream_wait_event(self, stream: int, event: int) -> None:
        """Let work queued on ``stream`` from now on wait for the latest recording of ``event``."""
        self._streams.let_wait(stream, event, self._here())

    # --- events

    @changing_call
    def event_create(self, *, timing: bool = False, device: int | None = None) -> Entering[int, int]:
        """Create an event on the device, unrecorded."""
        return self._streams.make_event(self._here(device), timing=timing)

    @giving_back_call
    def event_destroy(self, event: int, *, device: int | None = None) -> GivingBack:
        """Destroy an event. Waits for it that are queued stay."""
        self._here(device)
        return self._streams.destroy_event(event)

    @call
    def event_record(self, event: int, *, stream: int, device: int | None = None) -> None:
        """Mark the work queued on ``stream`` so far. Both belong to one device."""
        self._streams.record(event, stream, self._here(device))

    @call
    def event_query(self, event: int, *, device: int | None = None) -> bool:
        """Whether the marked work has completed. Raises what the device's work did."""
        self._here(device)
        return self._streams.has_passed(event)

    @call
    def event_synchronize(self, event: int, *, device: int | None = None) -> None:
        """Wait for the marked work. Raises what the device's work did."""
        self._here(device)
        self._streams.wait_for_event(event)

    @call
    def event_elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds on the simulated clock. It depends on what the program did, and not on the schedule."""
        self._here()
        return self._streams.elapsed_ms(start, end)

    # --- modules and launches: passed to ``module_loader``

    @light_call
    def module_load(self, image: bytes) -> int:
        """See ``Driver``."""
        return self._modules().module_load(image)

    @light_call
    def module_unload(self, module: int) -> None:
        """See ``Driver``."""
        self._modules().module_unload(module)

    @light_call
    def module_function(self, module: int, name: str) -> int:
        """See ``Driver``."""
        return self._modules().module_function(module, name)

    @light_call
    def module_global(self, module: int, name: str) -> tuple[int, int]:
        """See ``Driver``."""
        return self._modules().module_global(module, name)

    @light_call
    def function_attributes(self, function: int) -> FunctionAttributes:
        """See ``Driver``."""
        return self._modules().function_attributes(function)

    @light_call
    def function_parameters(self, function: int) -> list[tuple[int, int]]:
        """See ``Driver``."""
        return self._modules().function_parameters(function)

    @light_call
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
        """See ``Driver``."""
        loader, device = self._modules(), self._here().ordinal
        loader.launch(
            function,
            grid,
            block,
            shared=shared,
            stream=stream,
            parameters=parameters,
            device=device,
            cooperative=cooperative,
        )

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
        return self._inspection.live()

    @changing_call
    def launch_host(
        self,
        function: Callable[[], object],
        stream: int,
        reads: Sequence[Extent] = (),
        writes: Sequence[Extent] = (),
        name: str = "launch_host",
        device: int | None = None,
        cost_us: float = 2.0,
        repeatable: bool = False,
    ) -> Change[None]:
        """Queue a Python function as a kernel. It must not call the driver (``CUDA_ERROR_NOT_PERMITTED``).

        ``device`` is the ordinal of the device that it is to run on, by default the current one.

        ``reads`` and ``writes`` are addresses and sizes in bytes of what it touches: checked when it runs, not now.
        What it raises becomes the device's sticky error: a ``DriverError`` as it is, anything else as
        ``CUDA_ERROR_LAUNCH_FAILED`` with the exception as its cause. ``cost_us`` counts on the simulated clock.

        Signals wait while it runs, unless it is ``repeatable``, and reads nothing that it writes: a signal may then cut
        it short, and it may run again.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_HANDLE``: the stream is not that device's.
        """
        here = self._here(device)
        # Of managed memory, kernels are told by this.
        repeatable = repeatable and not self._streams.managed.sizes and _are_apart(reads, writes)
        operation = Operation(name, function, tuple(reads), tuple(writes), cost_us, repeatable)
        queue = self._streams.of(stream, here)
        if queue.device is not here:
            raise driver_error(
                400, f"{name}: stream {stream:#x} is of device {queue.device.ordinal}, not of {here.ordinal}"
            )
        return Submission(self._streams, queue, operation)

    @observation
    def reachable(self) -> list[Extent]:
        """Address and size in bytes of all that a kernel of the current device may access now, in order of address:
        its own memory, that of peers whose access is enabled, page-locked host memory."""
        return self._inspection.reachable(self._here())

    @observation
    def memory_changes(self) -> int:
        """A number that grows whenever ``reachable`` may have changed, on whichever device."""
        return self._calls.memory_changes

    @observation
    def add_variable(self, address: int, nbytes: int) -> None:
        """Let copies and kernels of the current device access a module's variable, which lies in host memory."""
        self._here().variables[address] = nbytes

    @observation
    def remove_variable(self, address: int) -> None:
        """Undo ``add_variable``, on whichever device."""
        for device in self._devices.made.values():
            device.variables.pop(address, None)

    @observation
    def view(self, address: int, nbytes: int) -> memoryview:
        """The bytes at ``address``, writable and without a copy, whatever is queued. Operations may call it.

        Touching a view after its memory was freed or unmapped, or the driver closed, kills the process as any wild
        pointer does.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_VALUE``: the range is not live device or page-locked memory.
        """
        self._calls.check_usable("view")
        return self._inspection.view(address, nbytes)

    @observation
    def pending_access(
        self, address: int, nbytes: int, *, before_stream: int | None = None
    ) -> tuple[PendingAccess, ...]:
        """Queued operations that touch the range, the oldest of each stream first.

        With ``before_stream``, a stream of the current device or a handle, only those that work queued on that stream
        from now on would *not* wait for: memory with such accesses must not be used there yet.
        """
        found = self._inspection.pending(address, nbytes)
        if found and before_stream is not None:
            stream = self._streams.of(before_stream, self._here())
            ordered = self._streams.ordered_before(stream)
            found = [(operation, access) for operation, access in found if operation not in ordered]
        return tuple(access for _, access in found)

    def fail_next(self, name: str, code: int, *, after: int = 0) -> None:
        """Let the call ``name`` (also of the virtual memory) fail with a CUresult ``code``, once.

        The call is made ``after`` more times as usual before that. A call that fails so changes nothing.

        Raises:
            ValueError: there is no such call, or it cannot fail.
        """
        if name not in CALLS:
            raise ValueError(f"there is no call {name!r} that could fail; known: {', '.join(sorted(CALLS))}")
        self._calls.fail_next(name, code, after)

    # --- used by several calls, under the lock

    @call
    def _retain(self, ordinal: int) -> Device:
        return self._devices.used(ordinal)

    def _here(self, ordinal: int | None = None) -> Device:
        """The device of this ordinal, by default the current one, as long as it has not failed."""
        devices = self._devices
        device = self._thread.device if ordinal is None else devices.made.get(ordinal) or devices.used(ordinal)
        if device is None:
            raise driver_error(201, "no device is current on this thread; call set_device first")
        if device.reported:
            device.settle(waits=ordinal is None)  # copies, launches and waits, but not what memory is given back by
        return device

    def _modules(self) -> ModuleLoader:
        self._here()
        if self.module_loader is None:
            raise driver_error(801, "no loader of kernels is attached to the simulated driver (module_loader)")
        return self.module_loader

    def _mend(self) -> None:
        """Make anew what follows from the tables of what exists, after an interrupted call."""
        self._schedule.mend()
        self._devices.mend()

    @observation
    def _give_back(self) -> None:
        """Give everything back to the system. If it is interrupted, ``close`` does it again."""
        self._calls.closed = True
        self._schedule.drop_everything()
        self._devices.close()
        self._given_back = True


def _are_apart(ranges: Sequence[Extent], others: Sequence[Extent]) -> bool:
    """Whether none of the ranges has a byte of the others."""
    for start, size in ranges:
        for other, length in others:
            if start < other + length and other < start + size:
                return False
    return True


class _Thread(threading.local):
    device: Device | None = None
    """This thread's current device."""


def _seconds(text: str) -> float:
    """What a time such as ``10s``, ``1.5s`` or ``500ms`` means in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|ms|min)", text.strip())
    seconds = float(match[1]) * {"s": 1.0, "ms": 1e-3, "min": 60.0}[match[2]] if match else 0.0
    if not seconds > 0:
        raise ValueError(f"timeout={text!r}: write a time above 0 with its unit, for example 10s, 500ms or 2min")
    return seconds
