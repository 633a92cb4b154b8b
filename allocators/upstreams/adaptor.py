"""What adaptors have in common: they pass every call on."""

from __future__ import annotations

from ..upstream import Fence, Upstream, VirtualMemory


class UpstreamAdaptor:
    """Passes every call on to ``upstream``. An adaptor overrides what it changes.

    One that changes the virtual memory overrides ``_adapt``.
    """

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.granularity = upstream.granularity
        self.ordinal: int = getattr(upstream, "ordinal", 0)
        """Of the device; 0 where that is not known."""
        virtual = upstream.virtual
        self.virtual: VirtualMemory | None = None if virtual is None else self._adapt(virtual)

    def reserve(self, nbytes: int) -> int:
        """See ``Upstream``."""
        return self.upstream.reserve(nbytes)

    def release(self, address: int) -> None:
        """See ``Upstream``."""
        self.upstream.release(address)

    def memory_info(self) -> tuple[int, int]:
        """See ``Upstream``."""
        return self.upstream.memory_info()

    def fence(self, stream: int) -> Fence:
        """See ``Upstream``."""
        return self.upstream.fence(stream)

    def _adapt(self, virtual: VirtualMemory) -> VirtualMemory:
        """What stands before the upstream's virtual memory. By default nothing."""
        return virtual


class VirtualMemoryAdaptor:
    """Passes every call on to ``virtual``."""

    def __init__(self, virtual: VirtualMemory) -> None:
        self.inner = virtual
        self.granularity = virtual.granularity
        self.has_host_pages: bool = getattr(virtual, "has_host_pages", False)

    def reserve_range(self, nbytes: int) -> int:
        """See ``VirtualMemory``."""
        return self.inner.reserve_range(nbytes)

    def free_range(self, address: int, nbytes: int) -> None:
        """See ``VirtualMemory``."""
        self.inner.free_range(address, nbytes)

    def create_page(self, nbytes: int) -> int:
        """See ``VirtualMemory``."""
        return self.inner.create_page(nbytes)

    def create_host_page(self, nbytes: int) -> int:
        """See ``VirtualMemory``."""
        return self.inner.create_host_page(nbytes)

    def release_page(self, handle: int) -> None:
        """See ``VirtualMemory``."""
        self.inner.release_page(handle)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        """See ``VirtualMemory``."""
        self.inner.map(address, nbytes, handle)

    def set_access(self, address: int, nbytes: int) -> None:
        """See ``VirtualMemory``."""
        self.inner.set_access(address, nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        """See ``VirtualMemory``."""
        self.inner.unmap(address, nbytes)
