"""An allocator of somebody else: keeps what was freed, and hands out blocks of exactly the right size again."""

from __future__ import annotations

from typing import Annotated

from cuplug.allocators.base import Allocator, Block, BlockInfo, Segment, Upstream
from cuplug.plugins.specs import hookimpl


@hookimpl
def cuplug_allocators():
    return {"hoard": HoardAllocator}


class HoardAllocator(Allocator):
    """Rounds sizes up to a grain, and keeps freed blocks by stream and size."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        grain: Annotated[int, "sizes are multiples of this many bytes"] = 4096,
        memory_limit: int | None = None,
    ) -> None:
        super().__init__(upstream, memory_limit=memory_limit)
        if grain < 512 or grain % 512:
            raise ValueError(f"grain is {grain}; it must be a multiple of 512 bytes")
        self.grain = grain
        self._used = {}
        self._spare = {}

    def _rounded(self, nbytes):
        return -(-nbytes // self.grain) * self.grain

    def _allocate(self, requested, nbytes, stream):
        spare = self._spare.get((stream, nbytes)) or self._spare.get((None, nbytes))
        address = spare.pop() if spare else self._reserve(nbytes, small=_is_small(nbytes), stream=stream)
        block = self._used[address] = Block(self, address, nbytes, requested, stream)
        return block

    def _free(self, block):
        del self._used[block.address]
        self._spare.setdefault((None if block.orphan else block.stream, block.nbytes), []).append(block.address)

    def _release_cached(self):
        released = 0
        for (stream, nbytes), addresses in self._spare.items():
            if addresses and stream is not None:
                self.upstream.fence(stream).wait()
            while addresses:
                self._release(addresses[-1], nbytes, small=_is_small(nbytes), stream=stream or 0)
                addresses.pop()
                released += nbytes
        return released

    def _forget_stream(self, stream):
        self.upstream.fence(stream).wait()
        for key in [key for key in self._spare if key[0] == stream]:
            self._spare.setdefault((None, key[1]), []).extend(self._spare.pop(key))

    def _segments(self):
        for block in self._used.values():
            yield _segment(block.stream, self._state(block))
        for (stream, nbytes), addresses in self._spare.items():
            for address in addresses:
                yield _segment(stream or 0, BlockInfo(address, nbytes, 0, "inactive"))


def _segment(stream, info):
    return Segment(info.address, info.nbytes, stream, "small" if _is_small(info.nbytes) else "large", (info,))


def _is_small(nbytes):
    return nbytes <= 1 << 20
