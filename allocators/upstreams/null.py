"""An upstream without a device: address arithmetic that counts, and estimates, what a driver would be asked."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter as Tally

from ..errors import DriverError, OutOfMemoryError
from .costs import call_us


class NullUpstream:
    """Gives out addresses of memory that does not exist, within a capacity, the same ones in every run.

    For replays and tests. It checks its caller as a driver would: what was not reserved cannot be released, and only
    whole pages are mapped and unmapped. No work is ever queued: every fence has passed.
    """

    plans_at_once = True
    """Whether what plans beside the program plans in its thread instead: a replay takes no time, and is to be the same
    in every run."""

    def __init__(
        self,
        total_bytes: int = 1 << 50,
        granularity: int = 512,
        *,
        page_granularity: int = 2 << 20,
        virtual: bool = True,
        host_bytes: int = 1 << 50,
        ordinal: int = 0,
    ) -> None:
        self.ordinal = ordinal
        """Of the device in whose place it stands."""
        self.total_bytes = total_bytes
        """The device's capacity in bytes."""
        self.host_bytes = host_bytes
        """Of the host's memory, what may stand in pages."""
        self.used_host_bytes = 0
        """The bytes of it that do."""
        self.granularity = granularity
        self.used_bytes = 0
        """The bytes of it that are reserved, or stand in pages."""
        self.calls: Tally[str] = Tally()
        """How often each driver call would have been made, by its name in the CUDA driver API."""
        self.fences = 0
        """How many fences were made. Their cost, a few microseconds, is not estimated."""
        self.driver_time_us = 0.0
        """The estimated microseconds that the calls would have taken (``costs.CALL_US``)."""
        self.virtual = NullVirtualMemory(self, page_granularity) if virtual else None
        self._addresses = _Addresses()
        self._sizes: dict[int, int] = {}

    def reserve(self, nbytes: int) -> int:
        if nbytes <= 0:
            raise DriverError(1, "CUDA_ERROR_INVALID_VALUE", f"cannot reserve {nbytes} bytes")
        nbytes = -(-nbytes // self.granularity) * self.granularity
        self._charge("cuMemAlloc", nbytes)
        self._take(nbytes)
        try:
            address = self._addresses.take(nbytes)
        except OutOfMemoryError:
            self.used_bytes -= nbytes
            raise
        self._sizes[address] = nbytes
        return address

    def release(self, address: int) -> None:
        nbytes = self._sizes.pop(address, None)
        if nbytes is None:
            raise DriverError(1, "CUDA_ERROR_INVALID_VALUE", f"{address:#x} is not reserved")
        self._charge("cuMemFree", nbytes)
        self._addresses.give(address, nbytes)
        self.used_bytes -= nbytes

    def memory_info(self) -> tuple[int, int]:
        return self.total_bytes - self.used_bytes, self.total_bytes

    def fence(self, stream: int) -> _Passed:  # noqa: ARG002 - no stream has work
        self.fences += 1
        return _PASSED

    def _charge(self, call: str, nbytes: int) -> None:
        self.calls[call] += 1
        self.driver_time_us += call_us(call, nbytes)

    def _take(self, nbytes: int) -> None:
        free = self.total_bytes - self.used_bytes
        if nbytes > free:
            raise OutOfMemoryError(f"asked for {nbytes} bytes; {free} of {self.total_bytes} are free")
        self.used_bytes += nbytes


class _Addresses:
    """Addresses as the CUDA driver gives them, observed on an H200 (driver 580): it takes address space from the top
    down in multiples of 32 MiB, and serves a request from the lowest gap that fits in what it has taken.

    It matters: which of two equal blocks an allocator prefers depends on their addresses. Requests below 2 MiB, whose
    places the driver chooses in other ways, follow one another from a separate address on.
    """

    _CHUNK = 32 << 20
    _SMALL = 2 << 20

    def __init__(self) -> None:
        self._bottom = 0x7F00_0000_0000
        self._next_small = 0x7F00_0000_0000
        self._gaps: list[int] = []  # their addresses, in order
        self._sizes: dict[int, int] = {}

    def take(self, nbytes: int) -> int:
        if nbytes < self._SMALL:
            address = self._next_small
            self._next_small += nbytes
            return address
        sizes = self._sizes
        for index, address in enumerate(self._gaps):
            if sizes[address] >= nbytes:
                del self._gaps[index]
                left = sizes.pop(address) - nbytes
                break
        else:
            left = -nbytes % self._CHUNK
            if nbytes + left > self._bottom:
                raise OutOfMemoryError(f"no {nbytes} bytes of address space are left")
            address = self._bottom = self._bottom - nbytes - left
        if left:
            insort(self._gaps, address + nbytes)
            sizes[address + nbytes] = left
        return address

    def give(self, address: int, nbytes: int) -> None:
        if nbytes < self._SMALL:
            return
        gaps, sizes = self._gaps, self._sizes
        index = bisect_left(gaps, address)
        if index < len(gaps) and gaps[index] == address + nbytes:
            nbytes += sizes.pop(gaps.pop(index))
        if index and gaps[index - 1] + sizes[gaps[index - 1]] == address:
            sizes[gaps[index - 1]] += nbytes
        else:
            gaps.insert(index, address)
            sizes[address] = nbytes


class NullVirtualMemory:
    """Ranges and pages of a ``NullUpstream``."""

    has_host_pages = True

    def __init__(self, device: NullUpstream, granularity: int) -> None:
        self.granularity = granularity
        self._device = device
        self._ranges: dict[int, int] = {}
        self._pages: dict[int, int] = {}
        self._on_host: set[int] = set()
        self._mapped: dict[int, tuple[int, int]] = {}  # address: bytes, page
        self._mappings: Tally[int] = Tally()  # page: in how many places it is mapped
        self._released: set[int] = set()
        self._next_page = 1

    @property
    def pages(self) -> int:
        """How many handles have not been released."""
        return len(self._pages) - len(self._released)

    def reserve_range(self, nbytes: int) -> int:
        self._check(nbytes > 0 and nbytes % self.granularity == 0, f"a range of {nbytes} bytes")
        self._device._charge("cuMemAddressReserve", nbytes)
        address = self._device._addresses.take(nbytes)
        self._ranges[address] = nbytes
        return address

    def free_range(self, address: int, nbytes: int) -> None:
        self._check(self._ranges.get(address) == nbytes, f"no range of {nbytes} bytes at {address:#x}")
        inside = [at for at in self._mapped if address <= at < address + nbytes]
        self._check(not inside, f"the range at {address:#x} still has {len(inside)} mapped pages")
        self._device._charge("cuMemAddressFree", nbytes)
        self._device._addresses.give(address, nbytes)
        del self._ranges[address]

    def create_page(self, nbytes: int) -> int:
        self._check(nbytes > 0 and nbytes % self.granularity == 0, f"a page of {nbytes} bytes")
        self._device._charge("cuMemCreate", nbytes)
        self._device._take(nbytes)
        return self._enter(nbytes)

    def create_host_page(self, nbytes: int) -> int:
        self._check(nbytes > 0 and nbytes % self.granularity == 0, f"a page of {nbytes} bytes")
        device = self._device
        device._charge("cuMemCreate (host)", nbytes)
        free = device.host_bytes - device.used_host_bytes
        if nbytes > free:
            raise OutOfMemoryError(f"asked the host for {nbytes} bytes; {free} of {device.host_bytes} are free")
        device.used_host_bytes += nbytes
        handle = self._enter(nbytes)
        self._on_host.add(handle)
        return handle

    def release_page(self, handle: int) -> None:
        self._check(handle in self._pages and handle not in self._released, f"no page {handle}")
        self._device._charge("cuMemRelease", self._pages[handle])
        self._released.add(handle)
        self._drop_unused(handle)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        whole = self._pages.get(handle) == nbytes and handle not in self._released
        self._check(whole, f"page {handle} does not have {nbytes} bytes")
        self._check(self._in_range(address, nbytes), f"{nbytes} bytes at {address:#x} lie in no reserved range")
        self._check(address not in self._mapped, f"something is mapped at {address:#x}")
        self._device._charge("cuMemMap", nbytes)
        self._mapped[address] = nbytes, handle
        self._mappings[handle] += 1

    def set_access(self, address: int, nbytes: int) -> None:
        for at in self._mapped_in(address, nbytes):
            self._device.driver_time_us += call_us("cuMemSetAccess", self._mapped[at][0])
        self._device.calls["cuMemSetAccess"] += 1

    def unmap(self, address: int, nbytes: int) -> None:
        places = self._mapped_in(address, nbytes)
        self._device.calls["cuMemUnmap"] += 1
        for at in places:
            size, handle = self._mapped.pop(at)
            self._device.driver_time_us += call_us("cuMemUnmap", size)
            self._mappings[handle] -= 1
            self._drop_unused(handle)

    def _enter(self, nbytes: int) -> int:
        handle = self._next_page
        self._next_page += 1
        self._pages[handle] = nbytes
        return handle

    def _mapped_in(self, address: int, nbytes: int) -> list[int]:
        """The addresses of the pages that fill the range from end to end."""
        places, at, end = [], address, address + nbytes
        while at < end and at in self._mapped:
            places.append(at)
            at += self._mapped[at][0]
        self._check(at == end and nbytes > 0, f"{nbytes} bytes at {address:#x} are not mapped as whole pages")
        return places

    def _in_range(self, address: int, nbytes: int) -> bool:
        return any(start <= address and address + nbytes <= start + size for start, size in self._ranges.items())

    def _drop_unused(self, handle: int) -> None:
        if handle in self._released and not self._mappings[handle]:
            nbytes = self._pages.pop(handle)
            if handle in self._on_host:
                self._on_host.discard(handle)
                self._device.used_host_bytes -= nbytes
            else:
                self._device.used_bytes -= nbytes
            self._released.discard(handle)
            del self._mappings[handle]

    @staticmethod
    def _check(fine: bool, problem: str) -> None:
        if not fine:
            raise DriverError(1, "CUDA_ERROR_INVALID_VALUE", problem)


class _Passed:
    """A fence behind no work."""

    def done(self) -> bool:
        return True

    def wait(self) -> None:
        return None


_PASSED = _Passed()
