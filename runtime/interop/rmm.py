"""``cuplug.interop.rmm``: cuplug as a memory resource of RMM, and an RMM resource as cuplug's upstream.

RMM calls Python for such a resource, with the interpreter's lock, on each allocation and free: its Python package
admits no other way. A sub-allocator of RMM's own over it, such as ``rmm.mr.PoolMemoryResource``, calls seldom.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...allocators.base import Allocator
from ...allocators.errors import CuplugError, OutOfMemoryError
from ...allocators.upstream import Upstream
from ...allocators.upstreams.adaptor import UpstreamAdaptor
from ..machine.default_runtime import runtime_or_default
from ..machine.foreign_handles import stream_handle
from ..machine.runtime import Runtime
from ..machine.settings import AllocatorChoice
from .installations import import_library, is_installed, is_served, note_installed, runtime_for
from .library_memory import LibraryMemory

__all__ = ["check", "install", "memory_resource", "over"]


def check(allocator: AllocatorChoice | None = None) -> None:
    """Find out whether cuplug can be put under RMM; changes nothing.

    Args:
        allocator: the selection that ``install`` is to be given.

    Raises:
        CuplugError: RMM is not installed, has another resource already, or allocates from cuplug with another
            allocator.
    """
    if is_served("rmm", "RMM", allocator):
        return
    rmm = import_library("rmm", "RMM", "rmm-cu13")
    resource = rmm.mr.get_per_device_resource(0)
    if not isinstance(resource, rmm.mr.CudaMemoryResource):
        raise CuplugError(
            f"RMM has a resource already, {type(resource).__name__}, from which memory may have been taken: put cuplug "
            "under it at the start of the program, and RMM's own resources over cuplug.interop.rmm.memory_resource()"
        )


def install(allocator: AllocatorChoice | None = None) -> None:
    """Make cuplug the current resource of every device, so that ``rmm.DeviceBuffer`` and what uses it allocate there.

    Args:
        allocator: the selection; by default that of the runtime in use (``cuplug.interop.install``).

    Raises:
        CuplugError: as ``check``, or there is no device.
        UnknownAllocatorError: no plugin contributes the allocator.
    """
    check(allocator)
    if is_installed("rmm"):
        return
    runtime = runtime_for("RMM", allocator)
    set_resource = import_library("rmm", "RMM", "rmm-cu13").mr.set_per_device_resource
    for device in range(runtime.device_count()):
        set_resource(device, memory_resource(device, runtime=runtime))
    note_installed("rmm", runtime)


def memory_resource(device: int = 0, *, runtime: Runtime | None = None) -> Any:
    """An RMM memory resource whose memory is cuplug's, on one device. Streams are those that RMM names.

    Memory that RMM frees in the order of another stream than it was allocated for is used again when both are done.

    Args:
        device: the device's ordinal.
        runtime: by default the one that ``cuplug.cuda`` uses.

    Raises:
        CuplugError: RMM is not installed, or there is no device.
    """
    rmm = import_library("rmm", "RMM", "rmm-cu13")
    memory = LibraryMemory(runtime_or_default(runtime), "rmm")
    memory.runtime.check_ordinal(device)

    def allocate(nbytes: int, stream: Any) -> int:
        return memory.allocate(nbytes, device=device, stream=stream_handle(stream))

    def deallocate(address: int, nbytes: int, stream: Any) -> None:  # noqa: ARG001 - RMM's signature
        memory.free(address, device=device, stream=stream_handle(stream))

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def over(resource: Any, allocator: str = "caching") -> Callable[[Upstream], Allocator]:
    """An allocator of cuplug that takes its memory from an RMM resource: ``cuplug.init(allocator=over(resource))``.

    Args:
        resource: an RMM memory resource of the device, for example ``rmm.mr.CudaAsyncMemoryResource()``.
        allocator: the selection of what runs over it. ``expandable`` cannot: RMM has no virtual memory to give.

    Raises:
        UnknownAllocatorError: no plugin contributes the allocator.
        PluginError: an option is unknown or wrong.
    """
    from ...plugins.manager import default_manager

    manager = default_manager()
    manager.check_allocator(allocator)

    def make(upstream: Upstream) -> Allocator:
        return manager.make_allocator(allocator, _ResourceUpstream(resource, upstream))

    return make


class _ResourceUpstream(UpstreamAdaptor):
    """Takes memory from an RMM resource; what is free, and fences, the device's own upstream tells."""

    def __init__(self, resource: Any, upstream: Upstream) -> None:
        super().__init__(upstream)
        self.virtual = None
        self._resource = resource
        self._sizes: dict[int, int] = {}

    def reserve(self, nbytes: int) -> int:
        """See ``Upstream``. Memory is ordered by the default stream, on which it is handed out."""
        try:
            address = int(self._resource.allocate(nbytes))
        except MemoryError as error:
            raise OutOfMemoryError(f"RMM's {type(self._resource).__name__} has no {nbytes} bytes: {error}") from None
        self._sizes[address] = nbytes
        return address

    def release(self, address: int) -> None:
        """See ``Upstream``."""
        self._resource.deallocate(address, self._sizes.pop(address))
