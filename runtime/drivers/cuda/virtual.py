"""The virtual memory of one CUDA device, through cuda-bindings: PyCUDA has none of these calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ....allocators.errors import DriverError, OutOfMemoryError
from ..base import driver_error
from .api import LOST, Api
from .contexts import Contexts
from .host_room import check_host_room


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

    Interrupts are dealt with as ``calls.py`` says. What the bindings return goes into a list within one call of a
    function written in C, so that an interrupt finds it there.
    """

    def __init__(self, bindings: Any, api: Api, contexts: Contexts, ordinal: int) -> None:
        self._bindings = bindings
        self._api = api
        self._contexts = contexts
        self._ranges: dict[int, int] = {}
        self._pages: dict[int, int] = {}
        self._mappings: dict[int, int] = {}
        self._abandoned: deque[Callable[[], None]] = deque()
        """What gives back what interrupted calls have made."""
        self._gone: dict[tuple[str, int], None] = {}
        """What interrupted calls have given back, by CUDA's function and handle: their callers do not know it."""
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
        self._of_host = self._host_properties(ordinal, minimum)

    @property
    def granularity(self) -> int:
        """The size in bytes of which ranges and pages are multiples (2 MiB on an H200)."""
        return self._granularity

    @property
    def has_host_pages(self) -> bool:
        """Whether this device and its driver map the host's memory (CUDA 12.2), in pages of the same granularity."""
        return self._of_host is not None

    def reserve_range(self, nbytes: int) -> int:
        """Reserve address space and return its first address."""
        asked = self._check("reserve_range", 0, nbytes)
        return self._make(self._ranges, nbytes, "cuMemAddressReserve", nbytes, 0, 0, 0, asked=asked)

    def free_range(self, address: int, nbytes: int) -> None:
        """Return a whole, empty range."""
        if self._ranges.get(address) != nbytes:
            self._contexts.check()
            raise driver_error(1, f"free_range of {nbytes} bytes at {address:#x}: that is not a whole reserved range")
        self._take_back(self._ranges, [address], "cuMemAddressFree", address, nbytes, asked=_MAPPED)

    def create_page(self, nbytes: int) -> int:
        """Create physical memory and return its handle."""
        asked = self._check("create_page", 0, nbytes)
        return self._make(self._pages, nbytes, "cuMemCreate", nbytes, self._properties, 0, asked=asked)

    def create_host_page(self, nbytes: int) -> int:
        """Lock memory of the host, of the NUMA node near the device, and return its handle."""
        asked = self._check("create_host_page", 0, nbytes)
        if self._of_host is None:
            raise driver_error(801, f"{asked}: this device or its driver does not map the host's memory")
        check_host_room(nbytes)
        return self._make(self._pages, nbytes, "cuMemCreate", nbytes, self._of_host, 0, asked=asked)

    def release_page(self, handle: int) -> None:
        """Drop the handle. The memory is free again once it is mapped nowhere."""
        self._size_of(handle)
        self._take_back(self._pages, [handle], "cuMemRelease", handle)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        """Map a whole page. Touching it is illegal before ``set_access``."""
        asked = f"{self._check('map', address, nbytes)}, of an empty piece of a reserved range"
        if self._size_of(handle) != nbytes:
            raise driver_error(1, f"{asked}: the page has {self._pages[handle]}, and pages are mapped whole")
        self._make(self._mappings, nbytes, "cuMemMap", address, nbytes, 0, handle, 0, asked=asked, at=address)

    def set_access(self, address: int, nbytes: int) -> None:
        """Let the device read and write whole mappings."""
        asked = self._check("set_access", address, nbytes)
        self._whole_mappings(asked, address, nbytes)
        self._call("cuMemSetAccess", address, nbytes, [self._access], 1, asked=asked)

    def unmap(self, address: int, nbytes: int) -> None:
        """Remove whole mappings. CUDA does not wait: queued work that touches them faults when it runs."""
        asked = self._check("unmap", address, nbytes)
        found = self._whole_mappings(asked, address, nbytes)
        self._take_back(self._mappings, found, "cuMemUnmap", address, nbytes, asked=asked)

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

    def _host_properties(self, ordinal: int, minimum: Any) -> Any:
        """What ``cuMemCreate`` is told for pages of the host; None where there are none."""
        bindings = self._bindings
        if not hasattr(bindings.CUmemLocationType, "CU_MEM_LOCATION_TYPE_HOST_NUMA"):
            return None
        attribute = bindings.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID
        properties = bindings.CUmemAllocationProp()
        properties.type = self._properties.type
        location = bindings.CUmemLocation()
        location.type = bindings.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST_NUMA
        with suppress(DriverError, OutOfMemoryError):
            location.id = max(0, int(self._call("cuDeviceGetAttribute", attribute, ordinal)))
            properties.location = location
            granularity = int(self._call("cuMemGetAllocationGranularity", properties, minimum))
            return properties if self._granularity % granularity == 0 else None
        return None

    def _make(
        self, table: dict[int, int], nbytes: int, name: str, *arguments: Any, asked: str, at: int | None = None
    ) -> int:
        """Make a thing of ``nbytes`` bytes, and enter it in its table by what CUDA returns or the address ``at``."""
        self._give_up_abandoned()
        function, gives_back = getattr(self._bindings, name), _REVERSE[name]
        while True:
            results: list[Any] = []
            try:
                results.extend(map(function, *((argument,) for argument in arguments)))
                code, *result = results[0]
                if code:
                    break
                made = int(result[0]) if at is None else at
                if (gives_back, made) not in self._gone or at is not None:
                    table[made] = nbytes
                    return made
                del self._gone[gives_back, made]  # it is there again for the caller that had it: ask for another
            except BaseException:
                if results and not results[0][0]:
                    self._abandoned.append(partial(self._undo, table, nbytes, at, results))
                raise
        raise self._api.error(name, int(code), asked)

    def _give_up_abandoned(self) -> None:
        self._contexts.check()
        while self._abandoned:
            with suppress(DriverError, OutOfMemoryError, IndexError):
                self._abandoned.popleft()()

    def _undo(self, table: dict[int, int], nbytes: int, at: int | None, results: list[Any]) -> None:
        """Give back what an interrupted call has made."""
        made = int(results[0][1]) if at is None else at
        table[made] = nbytes
        if table is self._ranges:
            self.free_range(made, nbytes)
        elif table is self._pages:
            self.release_page(made)
        else:
            self.unmap(made, nbytes)

    def _take_back(
        self, table: dict[int, int], handles: list[int], name: str, *arguments: Any, asked: str = ""
    ) -> None:
        """Give things back, and strike them off their table."""
        self._give_up_abandoned()
        results: list[Any] = []
        function, key = getattr(self._bindings, name), (name, handles[0])
        try:
            if key in self._gone:
                del self._gone[key]
            else:
                results.extend(map(function, *((argument,) for argument in arguments)))
        except BaseException:
            if results and not results[0][0]:
                self._gone[key] = None
            raise
        if results and results[0][0] and int(results[0][0]) not in LOST:  # a lost device has nothing any more
            raise self._api.error(name, int(results[0][0]), asked)
        for handle in handles[1:]:
            del table[handle]
        del table[handles[0]]

    def _call(self, name: str, *arguments: Any, asked: str = "") -> Any:
        self._contexts.check()
        code, *result = getattr(self._bindings, name)(*arguments)
        if code:
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


_REVERSE = {"cuMemAddressReserve": "cuMemAddressFree", "cuMemCreate": "cuMemRelease", "cuMemMap": "cuMemUnmap"}
"""What gives back what a function of CUDA has made."""
_MAPPED = "unmap what is mapped there first"
