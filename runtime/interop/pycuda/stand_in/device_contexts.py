"""Devices and contexts.

The simulator has one context for each device, the primary one. Every ``Context`` of a device stands for it: all of them
see the same memory, and what one of them queues, the others wait for. Which of them is current is each thread's own
matter, as in CUDA: a thread that has pushed none, or popped its last one, can do nothing that needs one.
"""

from __future__ import annotations

import atexit
import sys
import threading
from typing import TYPE_CHECKING, Any

from ....kernels.compile.compile_cache import default_cache
from ....kernels.simulator.engine import engine
from ....machine.default_runtime import default_runtime
from ....machine.runtime import Runtime
from ...library_memory import LibraryMemory
from .driver_constants import ctx_flags, device_attribute, func_cache, limit, shared_config
from .driver_errors import LogicError, lacking, translated

if TYPE_CHECKING:
    from ....drivers.base import DeviceProperties

__all__ = [
    "Context",
    "Device",
    "current_ordinal",
    "get_driver_version",
    "get_version",
    "init",
    "library_memory",
    "mem_get_info",
    "runtime",
]


def runtime() -> Runtime:
    """The runtime that everything is done by: the one of ``cuplug.cuda``."""
    return default_runtime()


def library_memory() -> LibraryMemory:
    """The memory that the program holds."""
    shared = default_runtime().shared
    memory = shared.get("pycuda")
    if memory is None:
        memory = shared.setdefault("pycuda", LibraryMemory(default_runtime(), "pycuda"))
    return memory  # type: ignore[no-any-return]


def current_ordinal() -> int:
    """The ordinal of the device whose context is current in this thread.

    Raises:
        LogicError: none is.
    """
    if not _here.contexts:
        raise LogicError(
            "invalid device context - no currently active context? This thread has pushed none, or popped its last. "
            "Import pycuda.autoinit, or call make_context() of a Device or push() of a Context: in each thread"
        )
    return _here.contexts[-1]._device.ordinal


@translated
def init(flags: int = 0) -> None:  # noqa: ARG001 - CUDA has none
    """Start the driver. Raises LogicError if there is no device."""
    runtime().driver  # noqa: B018 - raises


@translated
def get_version() -> tuple[int, int, int]:
    """The version of CUDA that is simulated, as (major, minor, revision)."""
    major, minor = runtime().driver.driver_version()
    return major, minor, 0


@translated
def get_driver_version() -> int:
    """The driver's version as CUDA numbers it: 12080 is 12.8."""
    major, minor = runtime().driver.driver_version()
    return 1000 * major + 10 * minor


@translated
def mem_get_info() -> tuple[int, int]:
    """The free and total bytes of the current device."""
    return runtime().driver.mem_info(device=current_ordinal())


class Device:
    """A device."""

    @translated
    def __init__(self, number: int | str) -> None:
        """By its ordinal, or its PCI bus id. Raises LogicError if there is none."""
        if isinstance(number, str):
            ids = [runtime().properties(each).pci_bus_id for each in range(runtime().device_count())]
            if number.upper() not in ids:
                raise LogicError(f"there is no device {number}; there are {', '.join(ids)}")
            number = ids.index(number.upper())
        self.ordinal = runtime().check_ordinal(int(number))

    @staticmethod
    @translated
    def count() -> int:
        """How many devices there are."""
        return runtime().device_count()

    def name(self) -> str:
        """Its name."""
        return self._properties.name

    def pci_bus_id(self) -> str:
        """Where it is on the bus."""
        return self._properties.pci_bus_id

    def compute_capability(self) -> tuple[int, int]:
        """Its compute capability as (major, minor)."""
        return self._properties.major, self._properties.minor

    def total_memory(self) -> int:
        """Its memory in bytes."""
        return self._properties.total_memory

    def get_attribute(self, attr: device_attribute) -> Any:
        """The value of an attribute."""
        return self.get_attributes()[device_attribute(attr)]

    def get_attributes(self) -> dict[device_attribute, Any]:
        """All attributes. What the simulator has no model of is what GPUs of its kind have."""
        device = self._properties
        bus, slot = device.pci_bus_id.split(":")[1:]
        values = {
            "MAX_THREADS_PER_BLOCK": device.max_threads_per_block,
            **{f"MAX_BLOCK_DIM_{axis}": size for axis, size in zip("XYZ", device.max_block_dim, strict=True)},
            **{f"MAX_GRID_DIM_{axis}": size for axis, size in zip("XYZ", device.max_grid_dim, strict=True)},
            "TOTAL_CONSTANT_MEMORY": 64 << 10,
            "WARP_SIZE": device.warp_size,
            "MAX_PITCH": 2**31 - 1,
            "CLOCK_RATE": device.clock_rate_khz,
            "TEXTURE_ALIGNMENT": 512,
            "GPU_OVERLAP": 1,
            "ASYNC_ENGINE_COUNT": 2,
            "MULTIPROCESSOR_COUNT": device.multi_processor_count,
            "MAX_SHARED_MEMORY_PER_BLOCK": device.shared_memory_per_block,
            "SHARED_MEMORY_PER_BLOCK": device.shared_memory_per_block,
            "MAX_REGISTERS_PER_BLOCK": 64 << 10,
            "REGISTERS_PER_BLOCK": 64 << 10,
            "MAX_THREADS_PER_MULTIPROCESSOR": device.max_threads_per_multi_processor,
            "KERNEL_EXEC_TIMEOUT": 0,
            "INTEGRATED": 0,
            "CAN_MAP_HOST_MEMORY": 1,
            "COMPUTE_MODE": 0,
            "CONCURRENT_KERNELS": int(device.concurrent_kernels),
            "ECC_ENABLED": 0,
            "PCI_BUS_ID": int(bus, 16),
            "PCI_DEVICE_ID": int(slot.partition(".")[0], 16),
            "TCC_DRIVER": 0,
            "L2_CACHE_SIZE": device.l2_cache_size,
            "UNIFIED_ADDRESSING": int(device.unified_addressing),
            "COMPUTE_CAPABILITY_MAJOR": device.major,
            "COMPUTE_CAPABILITY_MINOR": device.minor,
            "MANAGED_MEMORY": 1,
            "MULTI_GPU_BOARD": 0,
        }
        return {each: values[each.name] for each in device_attribute}

    def make_context(self, flags: int = ctx_flags.SCHED_AUTO) -> Context:  # noqa: ARG002 - nothing to schedule
        """A context of this device, which becomes current."""
        context = Context(self)
        context.push()
        return context

    def retain_primary_context(self) -> Context:
        """The device's primary context. It does not become current."""
        return Context(self)

    @translated
    def can_access_peer(self, dev: Device) -> bool:
        """Whether this device can use the other's memory."""
        return runtime().driver.can_access_peer(self.ordinal, dev.ordinal)

    @property
    def _properties(self) -> DeviceProperties:
        return runtime().properties(self.ordinal)

    def __getattr__(self, name: str) -> Any:
        if name.upper() in device_attribute.__members__:
            return self.get_attribute(device_attribute[name.upper()])
        raise AttributeError(f"a device has no {name!r} in cuplug's stand-in for PyCUDA")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.ordinal == self.ordinal

    def __hash__(self) -> int:
        return hash(self.ordinal)

    def __repr__(self) -> str:
        return f"<pycuda.driver.Device {self.ordinal}: {self.name()}>"


class _Stack(threading.local):
    """The contexts that this thread has pushed, the current one last."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []


_here = _Stack()


@atexit.register  # before any other of the stand-in's, so that it comes last
def _tell_contexts_left() -> None:
    """Tell of a program that PyCUDA would abort at its end."""
    if _here.contexts:
        print(
            "cuplug: the program ends with a current context: here PyCUDA aborts the process ('the context stack was "
            "not empty upon module cleanup'). Call Context.pop() before the end, or import pycuda.autoinit",
            file=sys.stderr,
        )


class Context:
    """A device's context; made by ``Device.make_context``."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._attached = True

    @property
    def handle(self) -> int:
        """A number that tells the contexts of different devices apart."""
        return self._device.ordinal + 1

    @translated
    def push(self) -> None:
        """Make this context current. Raises LogicError if it was detached."""
        if not self._attached:
            raise LogicError("this context was detached: make another one")
        runtime().current.set_device(self._device.ordinal)
        _here.contexts.append(self)

    @staticmethod
    @translated
    def pop() -> None:
        """Leave the current context for the one before. Raises LogicError if there is none."""
        if not _here.contexts:
            raise LogicError("cannot pop non-current context: none is current in this thread")
        _here.contexts.pop()
        if _here.contexts and runtime().usable:
            runtime().current.set_device(_here.contexts[-1]._device.ordinal)

    @translated
    def detach(self) -> None:
        """Give this context up, and leave it if it is current. Raises LogicError if that was done before."""
        if not self._attached:
            raise LogicError("cannot detach from invalid context: this one was detached before")
        if _here.contexts and _here.contexts[-1] is self:
            self.pop()
        while self in _here.contexts:
            _here.contexts.remove(self)
        self._attached = False

    @staticmethod
    def get_current() -> Context | None:
        """The current context, if any."""
        return _here.contexts[-1] if _here.contexts else None

    @staticmethod
    @translated
    def get_device() -> Device:
        """The device of the current context."""
        return Device(current_ordinal())

    @staticmethod
    @translated
    def synchronize() -> None:
        """Wait for all work of the current device. Raises LaunchError for what the work did."""
        with runtime().on_device(current_ordinal()):
            runtime().driver.synchronize()

    @staticmethod
    def set_limit(limit: limit, value: int) -> None:
        """Set a limit. That of the heap counts; the simulator has room for what kernels print in any case."""
        _limits[limit] = int(value)
        if limit.name == "MALLOC_HEAP_SIZE":
            engine(default_cache()).set_heap(int(value))

    @staticmethod
    def get_limit(limit: limit) -> int:
        """What ``set_limit`` said, else what GPUs have."""
        return _limits[limit]

    @staticmethod
    def set_cache_config(cc: func_cache) -> None:
        """Note a preference, which the simulator has no use for."""
        _preferences["cache"] = cc

    @staticmethod
    def get_cache_config() -> Any:
        """What ``set_cache_config`` said."""
        return _preferences["cache"]

    @staticmethod
    def set_shared_config(sc: shared_config) -> None:
        """Note a preference, which the simulator has no use for."""
        _preferences["shared"] = sc

    @staticmethod
    def get_shared_config() -> Any:
        """What ``set_shared_config`` said."""
        return _preferences["shared"]

    def get_api_version(self) -> int:
        """The version of the driver's interface."""
        return get_driver_version()

    @translated
    def enable_peer_access(self, peer: Context, flags: int = 0) -> None:  # noqa: ARG002 - CUDA has none
        """Let this device use the memory of the peer's. Raises LogicError where it cannot."""
        self._peers(peer, enable=True)

    @translated
    def disable_peer_access(self, peer: Context, flags: int = 0) -> None:  # noqa: ARG002 - CUDA has none
        """Undo ``enable_peer_access``."""
        self._peers(peer, enable=False)

    def _peers(self, peer: Context, *, enable: bool) -> None:
        pair = self._device.ordinal, peer._device.ordinal
        driver = runtime().driver
        (driver.enable_peer_access if enable else driver.disable_peer_access)(*pair)
        (runtime().peers.add if enable else runtime().peers.discard)(pair)

    @staticmethod
    def attach(flags: int = 0) -> None:  # noqa: ARG004 - as PyCUDA's
        """Refused: CUDA gave it up. Raises NotImplementedError."""
        lacking("Context.attach", "use Device.retain_primary_context")


_limits = {limit.STACK_SIZE: 1024, limit.PRINTF_FIFO_SIZE: 1 << 20, limit.MALLOC_HEAP_SIZE: 8 << 20}
_limits |= {limit.DEV_RUNTIME_SYNC_DEPTH: 2, limit.DEV_RUNTIME_PENDING_LAUNCH_COUNT: 2048}
_preferences: dict[str, Any] = {"cache": func_cache.PREFER_NONE, "shared": shared_config.DEFAULT_BANK_SIZE}
