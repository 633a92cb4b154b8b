"""A device that has only so much memory, made of one that has more."""

from __future__ import annotations

from ..errors import OutOfMemoryError
from ..upstream import Upstream, VirtualMemory
from .adaptor import UpstreamAdaptor, VirtualMemoryAdaptor

__all__ = ["LimitedUpstream"]


class LimitedUpstream(UpstreamAdaptor):
    """Gives out at most ``total_bytes`` bytes at a time: of ``reserve`` and of pages together.

    A page counts until its handle is released, wherever it is mapped still.
    """

    def __init__(self, upstream: Upstream, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.used_bytes = 0
        """The bytes that are given out."""
        self._sizes: dict[int, int] = {}
        super().__init__(upstream)

    def reserve(self, nbytes: int) -> int:
        """See ``Upstream``.

        Raises:
            OutOfMemoryError: the limit would be passed, or the upstream has not that much.
        """
        nbytes = -(-nbytes // self.granularity) * self.granularity
        self.check(nbytes)
        address = self.upstream.reserve(nbytes)
        self._sizes[address] = nbytes
        self.used_bytes += nbytes
        return address

    def release(self, address: int) -> None:
        """See ``Upstream``."""
        nbytes = self._sizes.get(address, 0)
        self.upstream.release(address)  # which refuses what is not reserved
        del self._sizes[address]
        self.used_bytes -= nbytes

    def memory_info(self) -> tuple[int, int]:
        """What is left of the limit or of the device, whichever is less, and the limit."""
        free = self.upstream.memory_info()[0]
        return min(free, self.total_bytes - self.used_bytes), self.total_bytes

    def check(self, nbytes: int) -> None:
        """Raise OutOfMemoryError if ``nbytes`` more would pass the limit."""
        free = self.total_bytes - self.used_bytes
        if nbytes > free:
            raise OutOfMemoryError(f"asked for {nbytes} bytes; {free} of {self.total_bytes} are free")

    def _adapt(self, virtual: VirtualMemory) -> VirtualMemory:
        return _LimitedVirtualMemory(self, virtual)


class _LimitedVirtualMemory(VirtualMemoryAdaptor):
    def __init__(self, device: LimitedUpstream, virtual: VirtualMemory) -> None:
        super().__init__(virtual)
        self._device = device
        self._sizes: dict[int, int] = {}

    def create_page(self, nbytes: int) -> int:
        self._device.check(nbytes)
        handle = self.inner.create_page(nbytes)
        self._sizes[handle] = nbytes
        self._device.used_bytes += nbytes
        return handle

    def release_page(self, handle: int) -> None:
        nbytes = self._sizes.get(handle, 0)  # none of a page of the host, which does not count
        self.inner.release_page(handle)
        self._sizes.pop(handle, None)
        self._device.used_bytes -= nbytes
