"""What adaptors have in common: they pass every call on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ..upstream import Fence, Upstream, VirtualMemory

T = TypeVar("T")


class _PassOn(Protocol):
    """Makes a call of the driver that has this ``name`` in its API."""

    def __call__(self, name: str, call: Callable[..., T], /, *arguments: int) -> T: ...


def _make(name: str, call: Callable[..., T], /, *arguments: int) -> T:  # noqa: ARG001 - for adaptors
    return call(*arguments)


class UpstreamAdaptor:
    """Passes every call on to ``upstream``. An adaptor overrides what it changes.

    One that changes the virtual memory overrides ``_adapt``. One that looks at every call of the driver, by its name in
    the driver's API, gives a function that makes it: ``pass_on``.
    """

    def __init__(self, upstream: Upstream, pass_on: _PassOn = _make) -> None:
        self.upstream = upstream
        self._pass_on = pass_on
        self.granularity = upstream.granularity
        self.ordinal: int = getattr(upstream, "ordinal", 0)
        """Of the device; 0 where that is not known."""
        virtual = upstream.virtual
        self.virtual: VirtualMemory | None = None if virtual is None else self._adapt(virtual)

    def reserve(self, nbytes: int) -> int:
        """See ``Upstream``."""
        return self._pass_on("cuMemAlloc", self.upstream.reserve, nbytes)

    def release(self, address: int) -> None:
        """See ``Upstream``."""
        self._pass_on("cuMemFree", self.upstream.release, address)

    def memory_info(self) -> tuple[int, int]:
        """See ``Upstream``."""
        return self.upstream.memory_info()

    def fence(self, stream: int) -> Fence:
        """See ``Upstream``."""
        return self.upstream.fence(stream)

    def _adapt(self, virtual: VirtualMemory) -> VirtualMemory:
        """What stands before the upstream's virtual memory. By default what looks at every call, if anything does."""
        return virtual if self._pass_on is _make else VirtualMemoryAdaptor(virtual, self._pass_on)


class VirtualMemoryAdaptor:
    """Passes every call on to ``virtual``, through ``pass_on`` as above."""

    def __init__(self, virtual: VirtualMemory, pass_on: _PassOn = _make) -> None:
        self.inner = virtual
        self._pass_on = pass_on
        self.granularity = virtual.granularity
        self.has_host_pages: bool = getattr(virtual, "has_host_pages", False)

    def reserve_range(self, nbytes: int) -> int:
        """See ``VirtualMemory``."""
        return self._pass_on("cuMemAddressReserve", self.inner.reserve_range, nbytes)

    def free_range(self, address: int, nbytes: int) -> None:
        """See ``VirtualMemory``."""
        self._pass_on("cuMemAddressFree", self.inner.free_range, address, nbytes)

    def create_page(self, nbytes: int) -> int:
        """See ``VirtualMemory``."""
        return self._pass_on("cuMemCreate", self.inner.create_page, nbytes)

    def create_host_page(self, nbytes: int) -> int:
        """See ``VirtualMemory``."""
        return self._pass_on("cuMemCreate (host)", self.inner.create_host_page, nbytes)

    def release_page(self, handle: int) -> None:
        """See ``VirtualMemory``."""
        self._pass_on("cuMemRelease", self.inner.release_page, handle)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        """See ``VirtualMemory``."""
        self._pass_on("cuMemMap", self.inner.map, address, nbytes, handle)

    def set_access(self, address: int, nbytes: int) -> None:
        """See ``VirtualMemory``."""
        self._pass_on("cuMemSetAccess", self.inner.set_access, address, nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        """See ``VirtualMemory``."""
        self._pass_on("cuMemUnmap", self.inner.unmap, address, nbytes)
