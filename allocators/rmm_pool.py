"""``rmm-pool``: what RMM's ``pool_memory_resource`` would have taken from the device, for replays.

The rules are those of RMM 26.08, in ``pool_memory_resource_impl.cpp``, ``stream_ordered_memory_resource.hpp`` and
``coalescing_free_list.hpp``. Address arithmetic only: no program allocates from it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterator
from typing import Annotated

from .base import Allocator
from .block import Block, BlockInfo, Segment
from .errors import OutOfMemoryError, PluginError
from .private_streams import without_pool
from .statistics import SMALL_BLOCK
from .upstream import Upstream
from .upstreams.null import NullUpstream

__all__ = ["RmmPoolAllocator"]

_ALIGNMENT = 256
"""``CUDA_ALLOCATION_ALIGNMENT``."""
_DEFAULT_STREAMS = (0, 1)
"""The default stream and ``cudaStreamLegacy``: one stream, by two handles."""


class RmmPoolAllocator(Allocator):
    """For replays only: reserves what RMM's ``PoolMemoryResource`` over ``CudaMemoryResource`` would.

    Sizes are rounded up to 256 bytes. Of a stream's free blocks the smallest that is large enough is cut; then one of
    another stream's; then other streams' free blocks are joined with its own, one stream after another, until one is
    large enough. At last the pool grows: by as much as it has (with ``maximum_pool_size`` by half of what is left), or
    by what is asked for where that is more; where the device lacks it, by half as much, and so on. It never gives
    anything back, also where the program empties caches.

    RMM searches other streams in the order of its events' addresses, which no trace tells; here it is the order in
    which streams were first used. So with more than two streams blocks may lie elsewhere than in RMM: beside RMM 26.10
    on an H200 the pool's size differed in 42 of 2,000 random programs of up to six streams. A block is taken to be
    freed on the stream that it was allocated on.
    """

    only_replays = True

    def __init__(
        self,
        upstream: Upstream,
        *,
        initial_pool_size: Annotated[
            int, "bytes to begin with; RMM in Python takes half of what is free where none is said"
        ] = 0,
        maximum_pool_size: Annotated[int | None, "bytes at most; by default as much as the device has"] = None,
        memory_limit: Annotated[int | None, "the device has at most this many bytes"] = None,
    ) -> None:
        """A pool over ``upstream``. Nothing is taken before the first block is asked for.

        Raises:
            PluginError: there is a device below.
            ValueError: a size is none that RMM takes.
        """
        super().__init__(upstream, memory_limit=memory_limit)
        if not isinstance(upstream, NullUpstream):
            raise PluginError(
                "rmm-pool says what RMM's pool would reserve, in replays without a device; no program can allocate "
                "from it: use RMM itself, or choose caching or expandable"
            )
        for name, nbytes in (("initial_pool_size", initial_pool_size), ("maximum_pool_size", maximum_pool_size or 0)):
            if nbytes < 0 or nbytes % _ALIGNMENT:
                raise ValueError(f"{name} is {nbytes}; RMM takes multiples of {_ALIGNMENT} bytes")
        if maximum_pool_size is not None and initial_pool_size > maximum_pool_size:
            raise ValueError(
                f"initial_pool_size is {initial_pool_size}, more than maximum_pool_size, {maximum_pool_size}"
            )
        self._initial = initial_pool_size
        """What is still to be taken before anything else."""
        self._maximum = maximum_pool_size
        self._free_lists: dict[int, _FreeList] = {}
        """By stream, in the order in which streams were first used."""

    def _rounded(self, nbytes: int) -> int:
        return nbytes + -nbytes % _ALIGNMENT

    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        if self._initial:
            self._of(0).put(*self._grown(self._initial, self._initial, 0))
            self._initial = 0
        own = self._of(stream)
        at = own.take(nbytes)
        if at is None:
            at = self._from_others(own, nbytes)
        if at is None:
            address, found = self._grown(self._growth(nbytes), nbytes, stream)
            at = own.cut(address, found, nbytes)
        return Block(self, at, nbytes, requested, stream)

    def _free(self, block: Block) -> None:
        self._of(block.stream).put(block.address, block.nbytes)

    def _from_others(self, own: _FreeList, nbytes: int) -> int | None:
        """A block from another stream's free memory as it is, else from what comes of joining that with ``own``."""
        others = [other for other in self._free_lists.values() if other is not own]
        for other in others:
            at = other.take(nbytes)
            if at is not None:
                return at
        for other in others:
            own.join(other)
            at = own.take(nbytes)
            if at is not None:
                return at
        return None

    def _growth(self, nbytes: int) -> int:
        """By how many bytes the pool tries to grow for a block of ``nbytes``; 0 if it may not (``size_to_grow``)."""
        has = self._ledger.reserved
        if self._maximum is None:
            return max(nbytes, has)
        left = self._rounded(self._maximum - has)
        return max(nbytes, left // 2) if nbytes <= left else 0

    def _grown(self, wanted: int, least: int, stream: int) -> tuple[int, int]:
        """Memory from the device, ``wanted`` bytes, or half of that and so on down to ``least``: its place and size.

        Raises:
            OutOfMemoryError: the device has not even ``least`` bytes.
        """
        while wanted >= least:
            try:
                return self._reserve(wanted, small=wanted <= SMALL_BLOCK, stream=stream), wanted
            except OutOfMemoryError:
                if wanted == least:
                    raise
            wanted = max(least, wanted // 2)
        raise OutOfMemoryError(f"maximum_pool_size leaves no room for {least} bytes more")

    def _of(self, stream: int) -> _FreeList:
        known = without_pool(stream)
        return self._free_lists.setdefault(0 if known in _DEFAULT_STREAMS else known, _FreeList(self._held))

    def _release_cached(self) -> int:
        return 0  # RMM's pool gives nothing back before its end

    def _release_all(self) -> None:
        for held in list(self._held.values()):
            self._release(held.address, held.nbytes, small=held.small, stream=held.stream)
        self._free_lists.clear()

    def _segments(self) -> Iterator[Segment]:
        blocks = [self._state(block) for block in self._in_use.values()]
        blocks += [
            BlockInfo(address, nbytes, 0, "inactive")
            for free in self._free_lists.values()
            for address, nbytes in free.blocks()
        ]
        blocks.sort(key=lambda block: block.address)
        for held in self._held.values():
            inside = [block for block in blocks if held.address <= block.address < held.address + held.nbytes]
            yield Segment(held.address, held.nbytes, held.stream, "small" if held.small else "large", tuple(inside))


class _FreeList:
    """The free blocks of one stream (``coalescing_free_list``). Neighbours are joined, but never beyond what was taken
    from the device at once: ``heads`` holds the addresses where such memory begins."""

    def __init__(self, heads: Container[int]) -> None:
        self._heads = heads
        self._sizes: dict[int, int] = {}
        """By address."""
        self._ends: dict[int, int] = {}
        """The address of each block, by where it ends."""
        self._smallest_first: list[tuple[int, int]] = []
        """Each as (bytes, address)."""

    def put(self, address: int, nbytes: int) -> None:
        """Add a block, joined with the free ones before and behind it."""
        before = self._ends.get(address) if address not in self._heads else None
        if before is not None:
            nbytes += self._drop(before)
            address = before
        end = address + nbytes
        if end in self._sizes and end not in self._heads:
            nbytes += self._drop(end)
        self._sizes[address] = nbytes
        self._ends[address + nbytes] = address
        insort(self._smallest_first, (nbytes, address))

    def take(self, nbytes: int) -> int | None:
        """The address of ``nbytes``, cut from the smallest block that has them, of equals that of the lowest address;
        None if none has."""
        place = bisect_left(self._smallest_first, (nbytes, 0))
        if place == len(self._smallest_first):
            return None
        found, address = self._smallest_first[place]
        self._drop(address)
        return self.cut(address, found, nbytes)

    def cut(self, address: int, found: int, nbytes: int) -> int:
        """``address``, where ``found`` bytes are free: all but the first ``nbytes`` of them are added."""
        if found > nbytes:
            self.put(address + nbytes, found - nbytes)
        return address

    def join(self, other: _FreeList) -> None:
        """Take over all blocks of ``other``."""
        for address, nbytes in list(other.blocks()):
            other._drop(address)
            self.put(address, nbytes)

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Address and bytes of each."""
        return iter(self._sizes.items())

    def _drop(self, address: int) -> int:
        nbytes = self._sizes.pop(address)
        del self._ends[address + nbytes]
        del self._smallest_first[bisect_left(self._smallest_first, (nbytes, address))]
        return nbytes
