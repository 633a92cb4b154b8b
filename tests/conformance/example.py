"""An allocator as small as a correct one can be: an example, and what the kit's own tests plant faults in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from cuplug.allocators.base import Allocator, Block, BlockInfo, Segment, Upstream
from cuplug.allocators.statistics import SMALL_BLOCK

_ANY = -1
"""In place of a stream: memory that every stream may use."""


class ExampleAllocator(Allocator):
    """Keeps freed blocks by stream and size, and hands out those of exactly the right size."""

    def __init__(
        self, upstream: Upstream, *, memory_limit: Annotated[int | None, "reserve at most this many bytes"] = None
    ) -> None:
        super().__init__(upstream, memory_limit=memory_limit)
        self._live: dict[int, Block] = {}
        self._cached: dict[tuple[int, int], list[int]] = {}
        """Addresses of free blocks, by stream and size."""

    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        address = self._piece_for(nbytes, stream)
        if address is None:
            address = self._reserve(nbytes, small=nbytes <= SMALL_BLOCK, stream=stream)
        return self._hand_out(address, requested, nbytes, stream)

    def _piece_for(self, nbytes: int, stream: int) -> int | None:
        for key in ((stream, nbytes), (_ANY, nbytes)):
            if self._cached.get(key):
                return self._cached[key].pop()
        return None

    def _hand_out(self, address: int, requested: int, nbytes: int, stream: int) -> Block:
        block = self._live[address] = Block(self, address, nbytes, requested, stream)
        return block

    def _free(self, block: Block) -> None:
        del self._live[block.address]
        stream = _ANY if block.orphan else block.stream
        self._cached.setdefault((stream, block.nbytes), []).append(block.address)

    def _release_cached(self) -> int:
        released = 0
        for (stream, nbytes), addresses in self._cached.items():
            if addresses and stream != _ANY:
                self.upstream.fence(stream).wait()
            while addresses:
                self._release(addresses[-1], nbytes, small=nbytes <= SMALL_BLOCK, stream=stream)
                addresses.pop()  # afterwards, since upstream may refuse it
                released += nbytes
        return released

    def _forget_stream(self, stream: int) -> None:
        self.upstream.fence(stream).wait()
        for key in [key for key in self._cached if key[0] == stream]:
            self._cached.setdefault((_ANY, key[1]), []).extend(self._cached.pop(key))

    def _segments(self) -> Iterator[Segment]:
        for block in self._live.values():
            yield self._segment(block.stream, self._state(block))
        for (stream, nbytes), addresses in self._cached.items():
            for address in addresses:
                yield self._segment(stream, BlockInfo(address, nbytes, 0, "inactive"))

    def _segment(self, stream: int, info: BlockInfo) -> Segment:
        return Segment(info.address, info.nbytes, stream, "small" if info.nbytes <= SMALL_BLOCK else "large", (info,))
