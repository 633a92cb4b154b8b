"""``caching``: keeps what was freed, for each stream, and hands it out again. The default."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, cast

from .base import Allocator
from .block import Block, BlockInfo, Home, Segment
from .pool import Held, Piece, Pool
from .statistics import SMALL_BLOCK
from .upstream import Upstream

__all__ = ["CachingAllocator"]

_MIB = 1 << 20
_SMALL_SEGMENT = 2 * _MIB
_LARGE_SEGMENT = 20 * _MIB
_OWN_SEGMENT = 10 * _MIB
_ROUND_LARGE = 2 * _MIB


class CachingAllocator(Allocator):
    """Stream-ordered caching with PyTorch's semantics (``c10/cuda/CUDACachingAllocator.cpp``)."""

    def __init__(
        self, upstream: Upstream, *, memory_limit: Annotated[int | None, "reserve at most this many bytes"] = None
    ) -> None:
        super().__init__(upstream, memory_limit=memory_limit)
        self._pools: dict[tuple[int, bool], Pool] = {}

    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        small = nbytes <= SMALL_BLOCK
        pool = self._pools.get((stream, small)) or self._new_pool(stream, small)
        piece = pool.smallest(nbytes)
        if piece is None:
            piece = self._grow(pool, nbytes)
        block = pool.take(piece, nbytes)
        block.requested = requested
        return block

    def _new_pool(self, stream: int, small: bool) -> Pool:
        pool = Pool(self, stream, small=small, remainder=512 if small else SMALL_BLOCK + 1)
        return self._pools.setdefault((stream, small), pool)

    def _grow(self, pool: Pool, nbytes: int) -> Piece:
        size = _segment_size(nbytes)
        address = self._reserve(size, small=pool.small, stream=pool.stream)
        return pool.add(address, size)

    def _home(self, block: Block) -> Home:
        return self._bin(block.stream, block.requested) if len(self._all_bins) < 256 else self._returned

    def _free(self, block: Block) -> None:
        piece = cast("Piece", block)
        piece.segment.pool.put(piece)

    def _release_cached(self) -> int:
        released = 0
        for pool in self._pools.values():
            idle = pool.idle()
            if idle:
                self.upstream.fence(pool.stream).wait()
            for segment in idle:
                pool.remove(segment)
                self._release(segment.address, segment.nbytes, small=pool.small, stream=pool.stream)
                released += segment.nbytes
        return released

    def _live_blocks(self) -> Iterable[Block]:
        for pool in self._pools.values():
            for segment in pool.segments.values():
                for piece in pool.pieces(segment):
                    if not piece.free:
                        yield piece

    def _segments(self) -> Iterator[Segment]:
        for pool in self._pools.values():
            for segment in pool.segments.values():
                yield self._map(pool, segment)

    def _map(self, pool: Pool, segment: Held) -> Segment:
        infos = tuple(
            BlockInfo(piece.address, piece.nbytes, 0, "inactive") if piece.free else self._state(piece)
            for piece in pool.pieces(segment)
        )
        return Segment(segment.address, segment.nbytes, pool.stream, "small" if pool.small else "large", infos)


def _segment_size(nbytes: int) -> int:
    if nbytes <= SMALL_BLOCK:
        return _SMALL_SEGMENT
    if nbytes < _OWN_SEGMENT:
        return _LARGE_SEGMENT
    return -(-nbytes // _ROUND_LARGE) * _ROUND_LARGE
