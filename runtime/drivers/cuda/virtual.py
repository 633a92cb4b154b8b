"""The virtual memory of one CUDA device, through cuda-bindings: PyCUDA has none of these calls."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ....allocators.errors import DriverError, OutOfMemoryError
from ..base import driver_error
from .api import LOST, Api
from .contexts import Contexts

__all__ = ["CudaVirtualMemory", "import_bindings"]


def import_bindings() -> Any:
    """NVIDIA's ``cuda.bindings.driver``, or None where it is missing or does not fit this Python."""
    try:
        from cuda.bindings import driver
    except Exception:
        return None
    return driver


class CudaVirtualMemory:
    """Address ranges and physical pages of one device. See ``VirtualMemory``.

    The calls name the device that they act on, and need no current context (seen on driver 580). What is reserved,
    created and mapped is remembered here: to give it back at ``close``; since CUDA lets an ``unmap`` pass where nothing
    is mapped (seen); and since it says only "invalid argument" to every mistake.
    """

    def __init__(self, bindings: Any, api: Api, contexts: Contexts, ordinal: int) -> None:
        self._bindings = bindings
        self._api = api
        self._contexts = contexts
        self._ranges: dict[int, int] = {}
        self._pages: dict[int, int] = {}
        self._mappings: dict[int, int] = {}
        where = bindings.CUmemLocation()
        where.type = bindings.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        where.id = ordinal
        self._properties = bindings.CUmemAllocationProp()
        self._properties.type = bindings.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        self._properties.location = where
        self._access = bindings.CUmemAccessDesc()
        self._access.location = where
        self._access.flags = bindings.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        minimum = bindings.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        self._granularity = int(self._call("cuMemGetAllocationGranularity", self._properties, minimum))

    @property
    def granularity(self) -> int:
        """The size in bytes of which ranges and pages are multiples (2 MiB on an H200)."""
        return self._granularity

    def reserve_range(self, nbytes: int) -> int:
        """Reserve address space and return its first address."""
        asked = self._check("reserve_range", 0, nbytes)
        address = int(self._call("cuMemAddressReserve", nbytes, 0, 0, 0, asked=asked))
        self._ranges[address] = nbytes
        return address

    def free_range(self, address: int, nbytes: int) -> None:
        """Return a whole, empty range."""
        if self._ranges.get(address) != nbytes:
            self._contexts.check()
            raise driver_error(1, f"free_range of {nbytes} bytes at {address:#x}: that is not a whole reserved range")
        self._call("cuMemAddressFree", address, nbytes, asked="unmap what is mapped there first")
        del self._ranges[address]

    def create_page(self, nbytes: int) -> int:
        """Create physical memory and return its handle."""
        asked = self._check("create_page", 0, nbytes)
        handle = int(self._call("cuMemCreate", nbytes, self._properties, 0, asked=asked))
        self._pages[handle] = nbytes
        return handle

    def release_page(self, handle: int) -> None:
        """Drop the handle. The memory is free again once it is mapped nowhere."""
        self._size_of(handle)
        self._call("cuMemRelease", handle)
        del self._pages[handle]

    def map(self, address: int, nbytes: int, handle: int) -> None:
        """Map a whole page. Touching it is illegal before ``set_access``."""
        asked = self._check("map", address, nbytes)
        if self._size_of(handle) != nbytes:
            raise driver_error(1, f"{asked}: the page has {self._pages[handle]}, and pages are mapped whole")
        self._call("cuMemMap", address, nbytes, 0, handle, 0, asked=f"{asked}, of an empty piece of a reserved range")
        self._mappings[address] = nbytes

    def set_access(self, address: int, nbytes: int) -> None:
        """Let the device read and write whole mappings."""
        asked = self._check("set_access", address, nbytes)
        self._whole_mappings(asked, address, nbytes)
        self._call("cuMemSetAccess", address, nbytes, [self._access], 1, asked=asked)

    def unmap(self, address: int, nbytes: int) -> None:
        """Remove whole mappings. CUDA does not wait: queued work that touches them faults when it runs."""
        asked = self._check("unmap", address, nbytes)
        found = self._whole_mappings(asked, address, nbytes)
        self._call("cuMemUnmap", address, nbytes, asked=asked)
        for start in found:
            del self._mappings[start]

    def close(self) -> None:
        """Unmap, release and free what is left. Never raises."""
        for give_back, held in (
            (self.unmap, self._mappings),
            (lambda handle, _: self.release_page(handle), self._pages),
            (self.free_range, self._ranges),
        ):
            for handle, nbytes in list(held.items()):
                with suppress(DriverError, OutOfMemoryError):
                    give_back(handle, nbytes)

    def _call(self, name: str, *arguments: Any, asked: str = "") -> Any:
        self._contexts.check()
        code, *result = getattr(self._bindings, name)(*arguments)
        if code and not (int(code) in LOST and name in _GIVES_BACK):
            raise self._api.error(name, int(code), asked)
        return result[0] if result else None

    def _check(self, call: str, address: int, nbytes: int) -> str:
        asked = f"{call} of {nbytes} bytes" + (f" at {address:#x}" if address else "")
        if nbytes <= 0 or nbytes % self._granularity or address % self._granularity:
            raise driver_error(1, f"{asked}: give multiples of {self._granularity} bytes")
        return asked

    def _size_of(self, handle: int) -> int:
        nbytes = self._pages.get(handle)
        if nbytes is None:
            self._contexts.check()
            raise driver_error(400, f"{handle:#x} is no page of virtual memory, or was released")
        return nbytes

    def _whole_mappings(self, asked: str, address: int, nbytes: int) -> list[int]:
        """Where the mappings begin that make up exactly this range."""
        found, end = [], address + nbytes
        while address < end:
            size = self._mappings.get(address, 0)
            if not size or address + size > end:
                self._contexts.check()
                raise driver_error(1, f"{asked}: at {address:#x} no mapping begins that lies within the range")
            found.append(address)
            address += size
        return found


_GIVES_BACK = frozenset({"cuMemUnmap", "cuMemRelease", "cuMemAddressFree"})
"""Calls that do not raise once the device is lost: what they give back is gone already."""
