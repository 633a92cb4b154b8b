"""``rmm-pool``: what RMM's ``pool_memory_resource`` would have taken from the device, for replays.

The rules are those of RMM 26.08, in ``pool_memory_resource_impl.cpp``, ``stream_ordered_memory_resource.hpp`` and
``coalescing_free_list.hpp``. Address arithmetic only: no program allocates from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from .base import Allocator
from .block import Block, BlockInfo, Segment
from .errors import OutOfMemoryError, PluginError
from .free_pieces import Pool, Rules
from .private_streams import without_pool
from .statistics import SMALL_BLOCK, Ledger
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
        self._splits = Ledger()
        """Where free lists count what they split, which is no figure of RMM's."""
        self._free_lists: dict[int, Pool] = {}
        """By stream, in the order in which streams were first used. A segment's parts may lie in several of them."""

    def _rounded(self, nbytes: int) -> int:
        return nbytes + -nbytes % _ALIGNMENT

    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        if self._initial:
            self._grow(self._of(0), self._initial, self._initial, 0)
            self._initial = 0
        own = self._of(stream)
        found = self._holding(own, nbytes)
        piece = found.find(nbytes)
        if piece is None:
            self._grow(own, self._growth(nbytes), nbytes, stream)
            piece = found.find(nbytes)
            assert piece is not None
        segment, address, _ = found.take(piece, nbytes)
        return Block(self, address, nbytes, requested, stream, segment)

    def _free(self, block: Block) -> None:
        self._of(block.stream).put(block.address, block.nbytes, block.kept)

    def _holding(self, own: Pool, nbytes: int) -> Pool:
        """The free memory to cut: a stream's ``own``, else another's as it is, else ``own`` joined with others."""
        others = [other for other in self._free_lists.values() if other is not own]
        for each in (own, *others):
            if each.find(nbytes) is not None:
                return each
        for other in others:
            for piece in list(other.pieces()):
                segment, address, size = other.take(piece, piece[0])
                own.put(address, size, segment)
            if own.find(nbytes) is not None:
                break
        return own

    def _growth(self, nbytes: int) -> int:
        """By how many bytes the pool tries to grow for a block of ``nbytes``; 0 if it may not (``size_to_grow``)."""
        has = self._ledger.reserved
        if self._maximum is None:
            return max(nbytes, has)
        left = self._rounded(self._maximum - has)
        return max(nbytes, left // 2) if nbytes <= left else 0

    def _grow(self, free: Pool, wanted: int, least: int, stream: int) -> None:
        """Take ``wanted`` bytes from the device into ``free``, or half of that and so on down to ``least``.

        Raises:
            OutOfMemoryError: the device has not even ``least`` bytes.
        """
        while wanted >= least:
            try:
                segment = self._held[self._reserve(wanted, small=wanted <= SMALL_BLOCK, stream=stream)]
            except OutOfMemoryError:
                if wanted == least:
                    raise
            else:
                free.put(segment.address, segment.nbytes, segment)
                return
            wanted = max(least, wanted // 2)
        raise OutOfMemoryError(f"maximum_pool_size leaves no room for {least} bytes more")

    def _of(self, stream: int) -> Pool:
        known = without_pool(stream)
        known = 0 if known in _DEFAULT_STREAMS else known
        return self._free_lists.setdefault(known, Pool(self._splits, known, Rules(remainder=1), small=False))

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
            for nbytes, address, _, _ in free.pieces()
        ]
        blocks.sort(key=lambda block: block.address)
        for held in self._held.values():
            inside = [block for block in blocks if held.address <= block.address < held.address + held.nbytes]
            yield self._segment_of(held, *inside)
