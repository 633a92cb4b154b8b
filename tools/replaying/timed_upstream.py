"""Counts and times the calls of an upstream."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...allocators.upstream import Fence, Upstream, VirtualMemory

__all__ = ["TimedUpstream"]


class TimedUpstream:
    """Passes calls on to another upstream, and counts and times them by their names in the CUDA driver API."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.granularity = upstream.granularity
        self.calls: Counter[str] = Counter()
        self.driver_time_us = 0.0
        virtual = upstream.virtual
        self.virtual = None if virtual is None else _TimedVirtualMemory(self, virtual)

    def reserve(self, nbytes: int) -> int:
        with self.timed("cuMemAlloc"):
            return self._upstream.reserve(nbytes)

    def release(self, address: int) -> None:
        with self.timed("cuMemFree"):
            self._upstream.release(address)

    def memory_info(self) -> tuple[int, int]:
        return self._upstream.memory_info()

    def fence(self, stream: int) -> Fence:
        return self._upstream.fence(stream)

    @contextmanager
    def timed(self, call: str) -> Iterator[None]:
        """Count and time what the block does as one call."""
        self.calls[call] += 1
        began = time.perf_counter()
        try:
            yield
        finally:
            self.driver_time_us += (time.perf_counter() - began) * 1e6


@dataclass(frozen=True, slots=True)
class _TimedVirtualMemory:
    timer: TimedUpstream
    inner: VirtualMemory
    granularity: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "granularity", self.inner.granularity)

    def reserve_range(self, nbytes: int) -> int:
        with self.timer.timed("cuMemAddressReserve"):
            return self.inner.reserve_range(nbytes)

    def free_range(self, address: int, nbytes: int) -> None:
        with self.timer.timed("cuMemAddressFree"):
            self.inner.free_range(address, nbytes)

    def create_page(self, nbytes: int) -> int:
        with self.timer.timed("cuMemCreate"):
            return self.inner.create_page(nbytes)

    def release_page(self, handle: int) -> None:
        with self.timer.timed("cuMemRelease"):
            self.inner.release_page(handle)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        with self.timer.timed("cuMemMap"):
            self.inner.map(address, nbytes, handle)

    def set_access(self, address: int, nbytes: int) -> None:
        with self.timer.timed("cuMemSetAccess"):
            self.inner.set_access(address, nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        with self.timer.timed("cuMemUnmap"):
            self.inner.unmap(address, nbytes)
