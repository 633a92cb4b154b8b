"""Cuplug's memory under PyCUDA, as an allocator for its arrays and in its pool's place."""

from __future__ import annotations

import sys
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from ....allocators.base import Allocator
from ....allocators.errors import CuplugError
from ...machine.default_runtime import runtime_or_default
from ...machine.foreign_handles import stream_handle
from ...machine.runtime import Runtime
from ...machine.settings import AllocatorChoice
from ..installations import import_library, is_installed, is_served, note_installed, runtime_for
from ..library_memory import LibraryMemory
from .checked_copies import check_copies

_WHEEL = "pycuda"


def check(allocator: AllocatorChoice | None = None) -> None:
    """Find out whether cuplug can be put under PyCUDA; changes nothing.

    PyCUDA's memory can be told neither by whom nor since when it is held: what it took before stays its own.

    Args:
        allocator: the selection that ``install`` is to be given.

    Raises:
        CuplugError: PyCUDA is not installed, or allocates from cuplug with another allocator.
    """
    if is_served("pycuda", "PyCUDA", allocator):
        return
    import_library("pycuda.driver", "PyCUDA", _WHEEL)


def install(allocator: AllocatorChoice | None = None) -> None:
    """Make PyCUDA allocate from cuplug: ``pycuda.driver.mem_alloc``, hence ``In``, ``Out``, ``GPUArray`` and
    ``to_gpu`` by default, and ``pycuda.tools.DeviceMemoryPool``.

    PyCUDA has no current stream. Its memory belongs to cuplug's (``cuplug.cuda.stream``), by default the default
    stream; once freed it waits, without holding up the program, for every stream that waits for the default stream, as
    those of ``pycuda.driver.Stream`` do. Other streams that use it are named with its ``record_stream``.

    Args:
        allocator: the selection; by default that of the runtime in use (``cuplug.interop.install``).

    Raises:
        CuplugError: as ``check``, or there is no device.
        UnknownAllocatorError: no plugin contributes the allocator.
    """
    check(allocator)
    if is_installed("pycuda"):
        return
    runtime = runtime_for("PyCUDA", allocator)
    driver = import_library("pycuda.driver", "PyCUDA", _WHEEL)
    tools = import_library("pycuda.tools", "PyCUDA", _WHEEL)
    before, ours = driver.mem_alloc, _Allocator(runtime)
    driver.mem_alloc = ours
    tools.DeviceMemoryPool = DeviceMemoryPool
    for name, module in list(sys.modules.items()):
        if name.startswith("pycuda.") and isinstance(module, ModuleType):
            _replace_defaults(module, before, ours)
    check_copies(driver, ours.memory)
    note_installed("pycuda", runtime)


def allocator(*, runtime: Runtime | None = None) -> Any:
    """What ``GPUArray(allocator=...)`` takes: a function of a size in bytes that gives memory of cuplug's.

    The memory is that of the device whose primary context is current (``pycuda.autoprimaryctx``, or
    ``cuplug.cuda.set_device``).

    Args:
        runtime: by default the one that ``cuplug.cuda`` uses.

    Raises:
        CuplugError: PyCUDA is not installed, or there is no device.
    """
    return _Allocator(runtime_or_default(runtime))


class DeviceMemoryPool:
    """Stands in for ``pycuda.tools.DeviceMemoryPool``: memory comes from cuplug, which keeps what is freed."""

    def __init__(self, *, runtime: Runtime | None = None) -> None:
        """Over ``runtime``, by default the one that ``cuplug.cuda`` uses.

        Raises:
            CuplugError: PyCUDA is not installed, or there is no device.
        """
        self._allocate = _Allocator(runtime_or_default(runtime))

    def allocate(self, size: int) -> Any:
        """``size`` bytes of device memory. Raises OutOfMemoryError if there is not that much left."""
        return self._allocate(size)

    __call__ = allocate

    @property
    def active_blocks(self) -> int:
        """How many blocks of this pool are in use."""
        return self._allocate.blocks

    @property
    def active_bytes(self) -> int:
        """The bytes of this pool's blocks in use, as asked for."""
        return self._allocate.nbytes

    @property
    def managed_bytes(self) -> int:
        """The bytes that cuplug holds on the current device, for all libraries."""
        return self._allocate.current_allocator().statistics().all.reserved_bytes.current

    @property
    def held_blocks(self) -> int:
        """How many free blocks cuplug holds on the current device, for all libraries."""
        segments = self._allocate.current_allocator().segments()
        return sum(block.state == "inactive" for segment in segments for block in segment.blocks)

    def free_held(self) -> None:
        """Give back to the device what no block is using (``cuplug.cuda.empty_cache``)."""
        self._allocate.current_allocator().release_cached()

    stop_holding = free_held


class _Allocator:
    """Allocates for PyCUDA on the device whose context is current."""

    def __init__(self, runtime: Runtime) -> None:
        import_library("pycuda.driver", "PyCUDA", _WHEEL)
        self.memory = LibraryMemory(runtime, "pycuda")
        self.blocks = 0
        self.nbytes = 0
        self._contexts: dict[int, int] = {}
        """Device ordinals by the handles of primary contexts."""

    def __call__(self, nbytes: int) -> Any:
        """``nbytes`` bytes of memory, for whatever PyCUDA does with a ``DeviceAllocation``."""
        nbytes, device = int(nbytes), self.current_device()
        return _allocation_type()(self, self.memory.allocate_unordered(nbytes, device=device), nbytes, device)

    def current_allocator(self) -> Allocator:
        """The allocator of the device whose context is current."""
        return self.memory.runtime.allocator(self.current_device())

    def current_device(self) -> int:
        """The ordinal of the device whose context is current for PyCUDA, else of cuplug's current one.

        Raises:
            CuplugError: PyCUDA's current context is not a device's primary one.
        """
        if self.memory.runtime.driver.simulator is not None:
            return self._own_device()  # the stand-in's contexts make it so
        driver = import_library("pycuda.driver", "PyCUDA", _WHEEL)
        context = driver.Context.get_current()
        if context is None:
            return self._own_device()
        handle = int(context.handle)
        device = self._contexts.get(handle)
        return self._find_device(handle) if device is None else device

    def _own_device(self) -> int:
        """cuplug's current device, with its context current for what PyCUDA does next."""
        runtime = self.memory.runtime
        device = runtime.current.device
        if runtime.driver.current_device() is None:
            runtime.driver.set_device(device)
        return device

    def _find_device(self, handle: int) -> int:
        runtime = self.memory.runtime
        driver: Any = runtime.driver
        for ordinal in range(runtime.device_count()):
            if driver.primary_context(ordinal) == handle:
                self._contexts[handle] = ordinal
                return ordinal
        raise CuplugError(
            "PyCUDA works in a context of its own, in which cuplug's memory cannot be used: import "
            "pycuda.autoprimaryctx in place of pycuda.autoinit, or retain the device's primary context"
        )


@cache
def _allocation_type() -> type[Any]:
    """The class of allocations, which derives from one of PyCUDA's."""
    base = import_library("pycuda.driver", "PyCUDA", _WHEEL).PointerHolderBase

    class Allocation(base):  # type: ignore[misc, valid-type]
        """Memory of cuplug's in the place of PyCUDA's ``DeviceAllocation``. Goes back when nobody holds it any more."""

        def __init__(self, home: _Allocator, address: int, nbytes: int, device: int) -> None:
            super().__init__()
            self._address, self._nbytes, self._device = address, nbytes, device
            home.blocks += 1
            home.nbytes += nbytes
            self._home: _Allocator | None = home

        def get_pointer(self) -> int:
            """The device address."""
            return self._address

        __int__ = __index__ = get_pointer

        def __len__(self) -> int:
            return self._nbytes

        def __bool__(self) -> bool:
            return True

        def free(self) -> None:
            """Give the memory up now. Raises CuplugError if it was given up before."""
            if self._home is None:
                raise CuplugError("this memory was freed before")
            home, self._home = self._home, None
            home.blocks -= 1
            home.nbytes -= self._nbytes
            home.memory.free(self._address, device=self._device)

        def record_stream(self, stream: Any) -> None:
            """Say that ``stream`` uses the memory too: it is not used again before the work queued there when it is
            freed is done."""
            if self._home is None:
                raise CuplugError("this memory was freed before")
            self._home.memory.record_stream(self._address, stream_handle(stream), device=self._device)

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {"version": 3, "shape": (self._nbytes,), "typestr": "|u1", "data": (self._address, False)}

        def __del__(self) -> None:
            if getattr(self, "_home", None) is not None:
                self.free()

    return Allocation


def _replace_defaults(module: ModuleType, before: Any, after: Any) -> None:
    """Functions and methods of a module that have ``before`` as an argument's default get ``after``."""
    found = [each for each in vars(module).values() if isinstance(each, FunctionType)]
    for kind in [each for each in vars(module).values() if isinstance(each, type)]:
        found += [each for each in vars(kind).values() if isinstance(each, FunctionType)]
    for function in found:
        if function.__defaults__ and before in function.__defaults__:
            function.__defaults__ = tuple(after if each is before else each for each in function.__defaults__)
        keywords = function.__kwdefaults__ or {}
        for name in [name for name, value in keywords.items() if value is before]:
            keywords[name] = after
