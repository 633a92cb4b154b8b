"""Counting and timing the calls of an upstream."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from ..upstream import Upstream, VirtualMemory
from .adaptor import UpstreamAdaptor, VirtualMemoryAdaptor

__all__ = ["TimedUpstream"]

T = TypeVar("T")


class TimedUpstream(UpstreamAdaptor):
    """Counts and times calls by their names in the CUDA driver API. Fences and ``memory_info`` do not count.

    It is for measurements. An interrupt that arrives while a time is noted hides that the call has taken effect.
    """

    def __init__(self, upstream: Upstream) -> None:
        self.calls: Counter[str] = Counter()
        """How often each call was made."""
        self.driver_time_us = 0.0
        """Microseconds in those calls."""
        super().__init__(upstream)

    def reserve(self, nbytes: int) -> int:
        """See ``Upstream``."""
        return self.timed("cuMemAlloc", self.upstream.reserve, nbytes)

    def release(self, address: int) -> None:
        """See ``Upstream``."""
        self.timed("cuMemFree", self.upstream.release, address)

    def timed(self, name: str, call: Callable[..., T], *arguments: int) -> T:
        """Make a call that counts as ``name``."""
        self.calls[name] += 1
        began = time.perf_counter()
        try:
            return call(*arguments)
        finally:
            self.driver_time_us += (time.perf_counter() - began) * 1e6

    def _adapt(self, virtual: VirtualMemory) -> VirtualMemory:
        return _TimedVirtualMemory(self, virtual)


class _TimedVirtualMemory(VirtualMemoryAdaptor):
    def __init__(self, timer: TimedUpstream, virtual: VirtualMemory) -> None:
        super().__init__(virtual)
        self._timed = timer.timed

    def reserve_range(self, nbytes: int) -> int:
        return self._timed("cuMemAddressReserve", self.inner.reserve_range, nbytes)

    def free_range(self, address: int, nbytes: int) -> None:
        self._timed("cuMemAddressFree", self.inner.free_range, address, nbytes)

    def create_page(self, nbytes: int) -> int:
        return self._timed("cuMemCreate", self.inner.create_page, nbytes)

    def create_host_page(self, nbytes: int) -> int:
        return self._timed("cuMemCreate (host)", self.inner.create_host_page, nbytes)

    def release_page(self, handle: int) -> None:
        self._timed("cuMemRelease", self.inner.release_page, handle)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        self._timed("cuMemMap", self.inner.map, address, nbytes, handle)

    def set_access(self, address: int, nbytes: int) -> None:
        self._timed("cuMemSetAccess", self.inner.set_access, address, nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        self._timed("cuMemUnmap", self.inner.unmap, address, nbytes)
