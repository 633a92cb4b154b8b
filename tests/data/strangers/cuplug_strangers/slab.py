"""A slab allocator: small blocks lie in slabs of one size each, large ones have pieces of their own."""

from __future__ import annotations

from typing import Annotated

from cuplug.allocators.base import Allocator, Block, BlockInfo, Segment, Upstream

SLAB = 2 << 20
LARGEST = 1 << 20


class SlabAllocator(Allocator):
    """Slabs of 256 slots, and 2 MiB at most, belong to one stream until it is destroyed and its work is done."""

    def __init__(
        self, upstream: Upstream, *, memory_limit: Annotated[int | None, "reserve at most this many bytes"] = None
    ) -> None:
        super().__init__(upstream, memory_limit=memory_limit)
        self._slabs: dict[int, Slab] = {}
        self._with_room: dict[tuple[int | None, int], dict[int, Slab]] = {}
        """Slabs with a free slot, by stream (None: of a destroyed one) and size of their slots."""

    def _rounded(self, nbytes):
        if nbytes > LARGEST:
            return -(-nbytes // SLAB) * SLAB
        return max(512, 1 << (nbytes - 1).bit_length())

    def _allocate(self, requested, nbytes, stream):
        slab = self._room(nbytes, stream)
        if slab is None:
            small = nbytes <= LARGEST
            size = min(SLAB, 256 * nbytes) if small else nbytes
            slab = Slab(self._reserve(size, small=small, stream=stream), size, nbytes, stream, small)
            self._slabs[slab.address] = slab
            self._list(slab)
        address = slab.free.pop()
        if not slab.free:
            del self._with_room[slab.stream, nbytes][slab.address]
        block = slab.live[address] = SlabBlock(self, address, nbytes, requested, stream)
        block.slab = slab
        return block

    def _room(self, nbytes, stream):
        mine = self._with_room.get((stream, nbytes))
        if mine:
            return next(iter(mine.values()))
        for slab in list(self._with_room.get((None, nbytes), {}).values()):
            if slab.fence.done():
                self._move(slab, stream)
                slab.fence = None
                return slab
        return None

    def _free(self, block):
        slab = block.slab
        del slab.live[block.address]
        slab.free.append(block.address)
        self._list(slab)

    def _list(self, slab):
        self._with_room.setdefault((slab.stream, slab.slot), {})[slab.address] = slab

    def _move(self, slab, stream):
        self._with_room.get((slab.stream, slab.slot), {}).pop(slab.address, None)
        slab.stream = stream
        if slab.free:
            self._list(slab)

    def _release_cached(self):
        released = 0
        for slab in [slab for slab in self._slabs.values() if not slab.live]:
            (slab.fence or self.upstream.fence(slab.stream)).wait()
            self._release(slab.address, slab.nbytes, small=slab.small, stream=slab.stream or 0)
            del self._slabs[slab.address]
            del self._with_room[slab.stream, slab.slot][slab.address]
            released += slab.nbytes
        return released

    def _forget_stream(self, stream):
        for slab in self._slabs.values():
            if slab.stream == stream:
                slab.fence = self.upstream.fence(stream)
                self._move(slab, None)

    def _segments(self):
        for slab in self._slabs.values():
            infos = [self._state(block) for block in slab.live.values()]
            infos += [BlockInfo(address, slab.slot, 0, "inactive") for address in slab.free]
            infos.sort(key=lambda info: info.address)
            pool = "small" if slab.small else "large"
            yield Segment(slab.address, slab.nbytes, slab.stream or 0, pool, tuple(infos))


class SlabBlock(Block):
    """A block that knows its slab."""

    __slots__ = ("slab",)


class Slab:
    """One piece from upstream, cut into slots."""

    def __init__(self, address, nbytes, slot, stream, small):
        self.address = address
        self.nbytes = nbytes
        self.slot = slot
        self.stream = stream
        self.small = small
        self.fence = None
        self.free = list(range(address, address + nbytes, slot))
        self.live = {}
