"""``cuplug.interop.numba``: cuplug's memory under Numba, as a plugin of its external memory management."""

from __future__ import annotations

from ctypes import c_void_p
from typing import Any

from ...allocators.errors import CuplugError
from ..machine.default_runtime import runtime_or_default
from ..machine.foreign_handles import stream_handle
from ..machine.runtime import Runtime
from ..machine.settings import AllocatorChoice
from ..memory.memory_stats import mem_get_info
from .installations import import_library, is_installed, is_served, note_installed, runtime_for
from .library_memory import LibraryMemory

__all__ = ["check", "install", "memory_manager", "record_stream"]

_WHEEL = "numba-cuda[cu13]"


def check(allocator: AllocatorChoice | None = None) -> None:
    """Find out whether cuplug can be put under Numba; changes nothing.

    Args:
        allocator: the selection that ``install`` is to be given.

    Raises:
        CuplugError: Numba or its CUDA part is not installed, sees no device, or has a context already; or Numba
            allocates from cuplug with another allocator.
    """
    if is_served("numba", "Numba", allocator):
        return
    cuda = _cuda()
    if getattr(cuda, "simulator_init", None) is not None or not cuda.is_available():
        raise CuplugError("cuplug cannot be put under this Numba, which sees no CUDA device, or simulates one")
    if getattr(import_library("numba.cuda.cudadrv.driver", "Numba", _WHEEL), "_memory_manager", None) is not None:
        raise CuplugError(
            "Numba has a context and a memory manager already: put cuplug under it before the first array or kernel"
        )


def install(allocator: AllocatorChoice | None = None) -> None:
    """Make Numba allocate device memory from cuplug (``numba.cuda.set_memory_manager``).

    Numba has no current stream. Its memory belongs to cuplug's (``cuplug.cuda.stream``), by default the default stream;
    once freed it waits, without holding up the program, for every stream that waits for the default stream, as those of
    ``numba.cuda.stream()`` do. Other streams that use an array are named with ``record_stream``.

    Args:
        allocator: the selection; by default that of the runtime in use (``cuplug.interop.install``).

    Raises:
        CuplugError: as ``check``, or there is no device.
        UnknownAllocatorError: no plugin contributes the allocator.
    """
    check(allocator)
    if is_installed("numba"):
        return
    runtime = runtime_for("Numba", allocator)
    _cuda().set_memory_manager(memory_manager(runtime=runtime))
    note_installed("numba", runtime)


def record_stream(array: Any, stream: Any) -> None:
    """Say that ``stream`` uses a Numba array too: its memory is not used again before the work queued there when it is
    freed is done.

    Args:
        array: an array that Numba allocated from cuplug, or a view of one.
        stream: a stream of any library, or a handle.

    Raises:
        CuplugError: the array is none of cuplug's.
        TypeError: that is no stream.
    """
    manager: Any = getattr(array.gpu_data.context, "memory_manager", None)
    memory: LibraryMemory | None = getattr(manager, "cuplug_memory", None)
    if memory is None:
        raise CuplugError(f"{array!r} was not allocated from cuplug")
    base = getattr(array.gpu_data, "owner", array.gpu_data)
    memory.record_stream(_address(base), stream_handle(stream), device=manager.context.device.id)


def memory_manager(*, runtime: Runtime | None = None) -> Any:
    """The class that ``numba.cuda.set_memory_manager`` takes, over a runtime's memory.

    Args:
        runtime: by default the one that ``cuplug.cuda`` uses.

    Raises:
        CuplugError: Numba's CUDA part is not installed, or there is no device.
    """
    cuda = _cuda()
    memory = LibraryMemory(runtime_or_default(runtime), "numba")

    class CuplugMemoryManager(cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc, name-defined]
        """Device memory from cuplug, host memory as Numba itself takes it."""

        interface_version = 1
        cuplug_memory = memory

        def initialize(self) -> None:
            """Nothing is to be done."""

        def memalloc(self, size: int) -> Any:
            """Memory of the context's device, for use on any stream of Numba's."""
            device = self.context.device.id
            address = memory.allocate_unordered(size, device=device)
            return cuda.MemoryPointer(
                self.context, c_void_p(address), size, finalizer=lambda: memory.free(address, device=device)
            )

        def get_memory_info(self) -> Any:
            """The device's free and total memory, in bytes; what cuplug holds unused is not free."""
            return cuda.MemoryInfo(*mem_get_info(self.context.device.id, runtime=memory.runtime))

        def get_ipc_handle(self, memory_pointer: Any) -> Any:
            """A handle for other processes. Raises CuplugError for virtual memory, which CUDA does not share so."""
            address = _address(memory_pointer)
            for segment in memory.runtime.allocator(self.context.device.id).segments():
                if segment.expandable and segment.address <= address < segment.address + segment.nbytes:
                    raise CuplugError(
                        "the allocator expandable has virtual memory, which CUDA's handles cannot share with other "
                        "processes; the allocator caching can"
                    )
            return super().get_ipc_handle(memory_pointer)

    return CuplugMemoryManager


def _cuda() -> Any:
    return import_library("numba.cuda", "Numba", _WHEEL)


def _address(pointer: Any) -> int:
    return int(pointer.device_pointer_value or 0)
