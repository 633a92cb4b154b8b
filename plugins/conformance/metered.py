"""An upstream that meters what an allocator takes and gives back, limits it, and notices what it does wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...allocators.errors import OutOfMemoryError
from ...allocators.upstream import Fence, Upstream, VirtualMemory
from .rules import ContractBrokenError, Rule


class MeteredUpstream:
    """Passes everything on to ``upstream``, within ``capacity`` bytes.

    Faults are collected in ``faults`` and not raised, since an allocator may be inside a finaliser.
    """

    def __init__(self, upstream: Upstream, capacity: int, touched: Callable[[int, int], str | None]) -> None:
        self._upstream = upstream
        self.granularity = upstream.granularity
        self.capacity = capacity
        self.touched = touched
        """Says what queued work touches a range (address and bytes), or None."""
        self.held_on_host = 0
        """Bytes of the host's memory that it holds in pages."""
        self.held = 0
        """Bytes of device memory that the allocator holds: reserved, or in pages."""
        self.reserved: dict[int, int] = {}
        """The bytes at each reserved address."""
        self.calls = 0
        """Calls that reached upstream, fences left out."""
        self.taken = 0
        """Calls of ``reserve`` that succeeded."""
        self.refused = 0
        """Calls that found no memory."""
        self.faults: list[ContractBrokenError] = []
        self.before_call: Callable[[str], object] | None = None
        """Called with the name of each call before anything happens. What it raises comes out of the call."""
        virtual = upstream.virtual
        self.virtual = None if virtual is None else _MeteredVirtualMemory(self, virtual)

    @property
    def granularity_of_pages(self) -> int:
        """Of the virtual memory; 0 where there is none."""
        return 0 if self.virtual is None else self.virtual.granularity

    def reserve(self, nbytes: int) -> int:
        self.begins("reserve")
        self.take(nbytes)
        try:
            address = self._upstream.reserve(nbytes)
        except BaseException as error:
            self.held -= nbytes
            self.refused += isinstance(error, OutOfMemoryError)
            raise
        self.taken += 1
        self.reserved[address] = nbytes
        return address

    def release(self, address: int) -> None:
        self.begins("release")
        self.calls += 1
        nbytes = self.reserved.pop(address, None)
        if nbytes is None:
            self.fault(f"{address:#x} was released, which is not reserved")
            return
        self.check_untouched("released", address, nbytes)
        try:
            self._upstream.release(address)
        except BaseException:
            self.reserved[address] = nbytes
            raise
        self.held -= nbytes

    def memory_info(self) -> tuple[int, int]:
        self.begins("memory_info")
        return max(0, self.capacity - self.held), self.capacity

    def fence(self, stream: int) -> Fence:
        self.begins("fence")
        return _MeteredFence(self, self._upstream.fence(stream))

    def covers(self, address: int, nbytes: int) -> bool:
        """Whether the whole range is reserved, in one piece, or mapped."""
        end = address + nbytes
        if any(at <= address and end <= at + size for at, size in self.reserved.items()):
            return True
        return self.virtual is not None and self.virtual.covers(address, nbytes)

    # --- for fences and the virtual memory as well

    def begins(self, call: str) -> None:
        """Say that a call begins."""
        if self.before_call is not None:
            self.before_call(call)

    def take(self, nbytes: int) -> None:
        """Count ``nbytes`` as held, or raise OutOfMemoryError."""
        self.calls += 1
        if self.held + nbytes > self.capacity:
            self.refused += 1
            raise OutOfMemoryError(f"{nbytes} bytes asked for, {self.held} of {self.capacity} bytes are taken")
        self.held += nbytes

    def fault(self, detail: str) -> None:
        """Note that the allocator used upstream wrongly."""
        self.faults.append(ContractBrokenError(Rule.RELEASE, detail))

    def check_untouched(self, verb: str, address: int, nbytes: int) -> None:
        """Note a fault if queued work touches a range that goes away."""
        touched = self.touched(address, nbytes)
        if touched is not None:
            self.fault(f"{nbytes} bytes at {address:#x} were {verb} while {touched}")


class _MeteredFence:
    def __init__(self, meter: MeteredUpstream, fence: Fence) -> None:
        self._meter = meter
        self._fence = fence

    def done(self) -> bool:
        self._meter.begins("fence().done")
        return self._fence.done()

    def wait(self) -> None:
        self._meter.begins("fence().wait")
        self._fence.wait()


class _MeteredVirtualMemory:
    """A page counts as held until its handle is released and it is mapped nowhere."""

    def __init__(self, meter: MeteredUpstream, virtual: VirtualMemory) -> None:
        self._meter = meter
        self._virtual = virtual
        self.granularity = virtual.granularity
        self.has_host_pages: bool = getattr(virtual, "has_host_pages", False)
        self._pages: dict[int, int] = {}
        self._on_host: set[int] = set()
        self._mapped: dict[int, tuple[int, int]] = {}
        self._uses: Counter[int] = Counter()
        self._released: set[int] = set()

    def reserve_range(self, nbytes: int) -> int:
        self._begins("reserve_range")
        return self._virtual.reserve_range(nbytes)

    def free_range(self, address: int, nbytes: int) -> None:
        self._begins("free_range")
        self._virtual.free_range(address, nbytes)

    def create_page(self, nbytes: int) -> int:
        self._meter.begins("virtual.create_page")
        self._meter.take(nbytes)
        try:
            handle = self._virtual.create_page(nbytes)
        except BaseException as error:
            self._meter.held -= nbytes
            self._meter.refused += isinstance(error, OutOfMemoryError)
            raise
        self._pages[handle] = nbytes
        return handle

    def create_host_page(self, nbytes: int) -> int:
        self._begins("create_host_page")
        try:
            handle = self._virtual.create_host_page(nbytes)
        except OutOfMemoryError:
            self._meter.refused += 1
            raise
        self._pages[handle] = nbytes
        self._on_host.add(handle)
        self._meter.held_on_host += nbytes
        return handle

    def release_page(self, handle: int) -> None:
        self._begins("release_page")
        self._virtual.release_page(handle)
        self._released.add(handle)
        self._drop(handle)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        self._begins("map")
        self._virtual.map(address, nbytes, handle)
        self._mapped[address] = nbytes, handle
        self._uses[handle] += 1

    def set_access(self, address: int, nbytes: int) -> None:
        self._begins("set_access")
        self._virtual.set_access(address, nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        self._begins("unmap")
        self._meter.check_untouched("unmapped", address, nbytes)
        self._virtual.unmap(address, nbytes)
        at = address
        while at < address + nbytes:
            size, handle = self._mapped.pop(at)
            self._uses[handle] -= 1
            self._drop(handle)
            at += size

    def covers(self, address: int, nbytes: int) -> bool:
        """Whether pages are mapped throughout the range."""
        at, end = address, address + nbytes
        for start in sorted(self._mapped):
            if start <= at < start + self._mapped[start][0]:
                at = start + self._mapped[start][0]
        return at >= end

    def _begins(self, call: str) -> None:
        self._meter.begins(f"virtual.{call}")
        self._meter.calls += 1

    def _drop(self, handle: int) -> None:
        if handle in self._released and not self._uses[handle]:
            self._released.discard(handle)
            del self._uses[handle]
            nbytes = self._pages.pop(handle)
            if handle in self._on_host:
                self._on_host.discard(handle)
                self._meter.held_on_host -= nbytes
            else:
                self._meter.held -= nbytes
