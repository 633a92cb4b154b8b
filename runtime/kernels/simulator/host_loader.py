"""Kernels on the simulator: what ``SimDriver`` calls for modules and launches."""

from __future__ import annotations

import sys
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from ....allocators.block import Block, Segment
from ...drivers.base import DeviceProperties, Dim3, FunctionAttributes, driver_error
from ..compile.compile_cache import Cache, decode
from .engine import Engine, HostKernel, HostModule, default_workers, engine
from .fault_reports import explained

if TYPE_CHECKING:
    from ....allocators.base import Allocator
    from ...drivers.sim import SimDriver
    from ...drivers.sim.simulated_device import Extent

Array = np.ndarray[Any, np.dtype[np.uint64]]
Arrays = tuple[Array, Array]
_POINTER = 8
_FEW = 64
"""Of so many blocks all can be looked at, to tell whether they are the same as before; of more, what was counted."""
_MOST_RESIDENT = 32
"""Blocks on a multiprocessor at once (CUDA C++ Programming Guide, "Compute Capabilities")."""


class HostLoader:
    """Loads modules compiled for the host into the engine, and queues launches as operations of the simulator."""

    def __init__(self, driver: SimDriver, cache: Cache | None = None) -> None:
        self._driver: SimDriver = weakref.proxy(driver)  # which holds this loader
        self._cache = cache
        self._modules: dict[int, HostModule] = {}
        self._functions: dict[int, HostKernel] = {}
        self._handles: dict[tuple[int, str], int] = {}
        self._next = 0x5000_0000
        self.workers = default_workers()
        """How many threads run the blocks of a kernel."""
        self._asked: list[tuple[weakref.ref[Any], Callable[[Any], list[Allocator]]]] = []
        """Runtimes, and what tells their allocators: what they hold, but is in nobody's hands, is not accessible to
        kernels, although the driver thinks it allocated. Several runtimes may share the driver."""
        self._accessible: dict[int, Accessible] = {}
        """What kernels of each device may touch, as it was last time."""
        self._memory: dict[int, DriverMemory] = {}
        self._shared_limits: dict[int, int] = {}
        """Bytes of shared memory that a block may have at most, by device."""

    @property
    def _engine(self) -> Engine:
        return engine(self._cache)

    # --- see Driver and ModuleLoader

    def module_load(self, image: bytes) -> int:
        entry = decode(image)
        if entry is None:
            raise driver_error(200, f"module_load of {len(image)} bytes: not a module compiled for the simulator")
        names = entry.facts["parameters"]
        assert isinstance(names, dict)
        module = HostModule(
            self._engine,
            entry.payload,
            names,
            source=str(entry.facts["source"]),
            checked=bool(entry.facts["checked"]),
            races=bool(entry.facts["races"]),
        )
        self._driver.add_variable(module.begin, module.end - module.begin)
        return self._add(self._modules, module)

    def module_unload(self, module: int) -> None:
        found = self._module(module)
        del self._modules[module]
        for key in [key for key in self._handles if key[0] == module]:
            del self._functions[self._handles.pop(key)]
        self._driver.remove_variable(found.begin)
        found.unload()

    def module_function(self, module: int, name: str) -> int:
        kernels = self._module(module).kernels
        if name not in kernels:
            raise driver_error(500, f"no kernel {name!r}; the module has {', '.join(sorted(kernels)) or 'none'}")
        handle = self._handles.get((module, name))
        if handle is None:
            handle = self._handles[module, name] = self._add(self._functions, kernels[name])
        return handle

    def module_global(self, module: int, name: str) -> tuple[int, int]:
        symbols = self._module(module).symbols
        if name not in symbols:
            raise driver_error(500, f"no symbol {name!r}; the module has {', '.join(sorted(symbols)) or 'none'}")
        address, nbytes, _ = symbols[name]
        return address, nbytes

    def function_attributes(self, function: int) -> FunctionAttributes:
        """See ``Driver.function_attributes``. Static shared memory is known once the kernel ran; there are no
        registers here."""
        kernel = self.kernel(function)
        return FunctionAttributes(
            max_threads_per_block=kernel.max_threads or 1024,
            shared_bytes=kernel.static_shared,
            const_bytes=0,
            local_bytes=0,
            num_regs=0,
        )

    def function_parameters(self, function: int) -> list[tuple[int, int]]:
        return [(parameter.offset, parameter.nbytes) for parameter in self.kernel(function).parameters]

    def launch(
        self,
        function: int,
        grid: Dim3,
        block: Dim3,
        *,
        shared: int,
        stream: int,
        parameters: bytes,
        device: int,
        cooperative: bool = False,
    ) -> None:
        """See ``ModuleLoader.launch``. What the kernel may touch is what is live now, not when it runs: memory that the
        program gives back meanwhile, in the order of the stream, is still the kernel's."""
        kernel = self.kernel(function)
        if len(parameters) < kernel.parameter_bytes:
            raise driver_error(
                1,
                f"launch of {kernel.name}: {len(parameters)} of {kernel.parameter_bytes} bytes of parameters",
            )
        if cooperative:
            _check_residence(self._driver.device_properties(device), kernel, grid, block, shared)
        accessible = self._find_accessible(device)
        reads, writes = _touched(kernel, parameters, accessible)
        limit = self._shared_limits.get(device)
        if limit is None:
            limit = self._shared_limits[device] = self._driver.device_properties(device).shared_memory_per_block_optin
        body = partial(self._run, kernel, grid, block, shared, limit, parameters, accessible, cooperative=cooperative)
        self._driver.launch_host(body, stream=stream, reads=reads, writes=writes, name=kernel.name)

    def watch(self, address: int, nbytes: int, *, closed: bool) -> int:
        return self._engine.watch(address, nbytes, closed=closed)

    def fail_at_exit(self) -> None:
        self._engine.fail_at_exit()

    # --- beyond that

    def serve(self, runtime: Any, ask: Callable[[Any], list[Allocator]]) -> None:
        """Let kernels touch what the allocators of a runtime have given out. ``ask`` tells them, given the runtime."""
        known = [(referred, its) for referred, its in self._asked if referred() not in (None, runtime)]
        self._asked = [*known, (weakref.ref(runtime), ask)]

    def kernel(self, function: int) -> HostKernel:
        """The kernel that a handle stands for."""
        try:
            return self._functions[function]
        except KeyError:
            raise driver_error(400, f"{function:#x} is no kernel, or its module was unloaded") from None

    def note_program(self, module: int, file: str) -> None:
        """Let messages about a module name lines of the Python file whose program called for it."""
        self._module(module).program = file

    def is_constant(self, module: int, name: str) -> bool:
        """Whether a symbol was declared const, so that nobody may write it."""
        return self._module(module).symbols[name][2]

    def _module(self, handle: int) -> HostModule:
        try:
            return self._modules[handle]
        except KeyError:
            raise driver_error(400, f"{handle:#x} is no module, or was unloaded") from None

    def _add(self, table: dict[int, HostModule] | dict[int, HostKernel], thing: HostModule | HostKernel) -> int:
        self._next += 16
        table[self._next] = thing  # type: ignore[assignment]
        return self._next

    def _find_accessible(self, device: int) -> Accessible:
        """What kernels of a device may touch: as it was last time, unless it has changed."""
        changes = self._driver.memory_changes()  # before anything is read: what changes meanwhile counts the next time
        allocators: list[Allocator] = []
        for referred, ask in self._asked:
            runtime = referred()
            if runtime is not None:
                allocators += ask(runtime)
        kept = self._accessible.get(device)
        is_much = kept is not None and len(kept.starts) > _FEW
        state = list(map(_counted if is_much else _seen, allocators))
        if kept is None or kept.state != state or kept.driver != changes:
            memory = self._find_memory(device, allocators, changes)
            kept = self._accessible[device] = Accessible(state, memory, allocators)
        return kept

    def _find_memory(self, device: int, allocators: list[Allocator], changes: int) -> DriverMemory:
        """What the driver knows of. Segments come and go by calls of the driver, which counts them in ``changes``."""
        kept = self._memory.get(device)
        if kept is None or kept.changes != changes or kept.allocators != [id(it) for it in allocators]:
            kept = self._memory[device] = DriverMemory(changes, self._driver.reachable(), allocators)
        return kept

    def _run(
        self,
        kernel: HostKernel,
        grid: Dim3,
        block: Dim3,
        shared: int,
        limit: int,
        parameters: bytes,
        accessible: Accessible,
        *,
        cooperative: bool,
    ) -> None:
        """The operation."""
        fault, printed = kernel.module.engine.run(
            kernel,
            grid,
            block,
            shared=shared,
            shared_limit=limit,
            parameters=parameters,
            ranges=accessible.pairs if kernel.module.checked else None,
            workers=self.workers,
            cooperative=cooperative,
            timeout_s=self._driver.timeout_s,
        )
        if printed:
            sys.stdout.write(printed)
            sys.stdout.flush()
        if fault is not None:
            memory = accessible.find, accessible.ranges, accessible.segments
            raise driver_error(fault.code, explained(kernel, fault, parameters, *memory))


def _check_residence(device: DeviceProperties, kernel: HostKernel, grid: Dim3, block: Dim3, shared: int) -> None:
    """Refuse a cooperative launch of more blocks than the device holds at once."""
    warps = -(-block[0] * block[1] * block[2] // device.warp_size)
    beside = min(_MOST_RESIDENT, device.max_threads_per_multi_processor // (warps * device.warp_size))
    used = shared + kernel.static_shared
    if used:
        beside = min(beside, max(1, device.shared_memory_per_block_optin // used))
    blocks, most = grid[0] * grid[1] * grid[2], beside * device.multi_processor_count
    if blocks > most:
        raise driver_error(
            720,
            f"cooperative launch of {kernel.name}: {blocks} blocks of {block}; the device holds {most} of them at once "
            f"({beside} on each of its {device.multi_processor_count} multiprocessors). Launch fewer",
        )


class DriverMemory:
    """The memory that a driver lets kernels of one device touch, at one time."""

    def __init__(self, changes: int, reachable: list[Extent], allocators: list[Allocator]) -> None:
        self.changes = changes
        """``SimDriver.memory_changes`` at that time."""
        self.allocators = [id(allocator) for allocator in allocators]
        self.reachable = _as_arrays(reachable)
        """Addresses and sizes, in order of address."""
        segments = [part for it in allocators for part in it.segments()]
        self.segments = [range(part.address, part.address + part.nbytes) for part in segments]
        """Addresses that allocators hold."""
        self.outside = _as_arrays(_without(reachable, segments))
        """Of it, what no allocator holds."""


class Accessible:
    """The memory that kernels of one device may touch, at one time."""

    def __init__(self, state: list[tuple[object, ...]], memory: DriverMemory, allocators: list[Allocator]) -> None:
        """What no allocator holds, and the blocks that are in the program's hands."""
        self.state = state
        """Of each allocator what tells whether the same blocks are live still."""
        self.driver = memory.changes
        self.segments = memory.segments
        blocks = [block for allocator in allocators for block in allocator.live_blocks()]
        live = _inside((_column(blocks, "address"), _column(blocks, "requested")), memory.reachable)
        starts, sizes = (np.concatenate(both) for both in zip(memory.outside, live, strict=True))
        order = np.argsort(starts, kind="stable")
        self.starts, self.sizes = starts[order], sizes[order]
        """Address and size of each piece, in order of address."""
        self.pairs = array("Q", np.column_stack((self.starts, self.sizes)).tobytes())
        """The same for the engine: addresses and sizes in turn."""

    def find(self, address: int) -> Extent | None:
        """The piece in which ``address`` lies."""
        position = int(self.starts.searchsorted(np.uint64(address), side="right")) - 1
        if position < 0 or address >= int(self.starts[position] + self.sizes[position]):
            return None
        return int(self.starts[position]), int(self.sizes[position])

    def ranges(self) -> list[Extent]:
        """Address and size of each piece, in order of address."""
        return list(zip(self.starts.tolist(), self.sizes.tolist(), strict=True))


def _as_arrays(ranges: list[Extent]) -> Arrays:
    flat = np.fromiter(chain.from_iterable(ranges), dtype=np.uint64, count=2 * len(ranges))
    return flat[0::2], flat[1::2]


def _column(blocks: list[Block], name: str) -> Array:
    return np.fromiter(map(attrgetter(name), blocks), dtype=np.uint64, count=len(blocks))


def _inside(ranges: Arrays, reachable: Arrays) -> Arrays:
    """Those that have a size and begin in what is ``reachable``: blocks of another device do not."""
    position = reachable[0].searchsorted(ranges[0], side="right")
    ends = np.concatenate((np.zeros(1, np.uint64), reachable[0] + reachable[1]))
    inside = (ranges[0] < ends[position]) & (ranges[1] > 0)
    return ranges[0][inside], ranges[1][inside]


def _seen(allocator: Allocator) -> tuple[object, ...]:
    """What differs whenever other blocks of an allocator are live than before, if they are few."""
    return id(allocator), *map(_extent, allocator.live_blocks())


_extent = attrgetter("address", "requested")


def _counted(allocator: Allocator) -> tuple[object, ...]:
    """The same, if they are many."""
    statistics = allocator.statistics()
    blocks, requested = statistics.all.allocation, statistics.all.requested_bytes
    return (
        id(allocator),
        blocks.allocated,
        blocks.freed,
        blocks.current,
        requested.current,
        statistics.num_device_alloc,
        statistics.num_device_free,
    )


def _without(ranges: list[Extent], segments: list[Segment]) -> list[Extent]:
    """The ranges that begin in no segment."""
    held = sorted((segment.address, segment.nbytes) for segment in segments)
    starts = [address for address, _ in held]
    kept = []
    for address, nbytes in ranges:
        position = bisect_right(starts, address) - 1
        if position < 0 or address >= sum(held[position]):
            kept.append((address, nbytes))
    return kept


def _touched(kernel: HostKernel, parameters: bytes, accessible: Accessible) -> tuple[list[Extent], list[Extent]]:
    """The memory that the pointers among the parameters lie in: read through const ones, written through others."""
    reads: list[Extent] = []
    writes: list[Extent] = []
    for parameter in kernel.parameters:
        if parameter.kind != "p":
            continue
        found = accessible.find(int.from_bytes(parameters[parameter.offset : parameter.offset + _POINTER], "little"))
        if found is not None:
            (reads if parameter.constant else writes).append(found)
    return reads, writes
