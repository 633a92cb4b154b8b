"""A buddy allocator: pieces are powers of two, and a free piece becomes one with its buddy."""

from __future__ import annotations

from typing import Annotated

from cuplug.allocators.base import Allocator, Block, BlockInfo, Segment, Upstream
from cuplug.allocators.errors import OutOfMemoryError

SMALLEST = 512
MIB = 1 << 20


class BuddyAllocator(Allocator):
    """Takes arenas for one stream each and halves them; what is larger than an arena gets one of its own size."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        arena: Annotated[int, "bytes of an arena, a power of two"] = 16 << 20,
        memory_limit: Annotated[int | None, "reserve at most this many bytes"] = None,
    ) -> None:
        super().__init__(upstream, memory_limit=memory_limit)
        if arena < SMALLEST or arena & (arena - 1):
            raise ValueError(f"arena is {arena}; it must be a power of two of at least {SMALLEST} bytes")
        self.arena = arena
        self._arenas: dict[int, Arena] = {}
        self._place: dict[int, Arena] = {}
        """The arena of each live block, by the block's address."""
        self._blocks: dict[int, Block] = {}

    def _rounded(self, nbytes):
        if nbytes > self.arena:
            return -(-nbytes // (2 * MIB)) * 2 * MIB
        return max(SMALLEST, 1 << (nbytes - 1).bit_length())

    def _allocate(self, requested, nbytes, stream):
        arena = self._with_room_for(nbytes, stream) or self._take_over(nbytes, stream) or self._grow(nbytes, stream)
        address = arena.take(nbytes)
        block = Block(self, address, nbytes, requested, stream)
        self._place[address] = arena
        self._blocks[address] = block
        return block

    def _with_room_for(self, nbytes, stream):
        return next((one for one in self._arenas.values() if one.stream == stream and one.has(nbytes)), None)

    def _take_over(self, nbytes, stream):
        """An arena of a destroyed stream, whose work is done."""
        for arena in self._arenas.values():
            if arena.stream is None and arena.has(nbytes) and arena.fence.done():
                arena.stream, arena.fence = stream, None
                return arena
        return None

    def _grow(self, nbytes, stream):
        for size in sorted({max(nbytes, self.arena), nbytes}, reverse=True):
            try:
                address = self._reserve(size, small=False, stream=stream)
            except OutOfMemoryError:
                if size == nbytes:
                    raise
            else:
                arena = self._arenas[address] = Arena(address, size, stream)
                return arena
        raise AssertionError("the loop returns or raises")

    def _free(self, block):
        del self._blocks[block.address]
        self._place.pop(block.address).give(block.address, block.nbytes)

    def _release_cached(self):
        released = 0
        for arena in [arena for arena in self._arenas.values() if arena.is_free()]:
            (arena.fence or self.upstream.fence(arena.stream)).wait()
            self._release(arena.address, arena.nbytes, small=False, stream=arena.stream or 0)
            del self._arenas[arena.address]
            released += arena.nbytes
        return released

    def _forget_stream(self, stream):
        for arena in self._arenas.values():
            if arena.stream == stream:
                arena.fence = self.upstream.fence(stream)
                arena.stream = None

    def _segments(self):
        live = {}
        for address, arena in self._place.items():
            live.setdefault(arena.address, []).append(self._state(self._blocks[address]))
        for arena in self._arenas.values():
            free = [BlockInfo(at, size, 0, "inactive") for size, places in arena.free.items() for at in places]
            infos = sorted([*free, *live.get(arena.address, ())], key=lambda info: info.address)
            yield Segment(arena.address, arena.nbytes, arena.stream or 0, "large", tuple(infos))


class Arena:
    """One piece from upstream, and its free parts by size."""

    def __init__(self, address, nbytes, stream):
        self.address = address
        self.nbytes = nbytes
        self.stream = stream
        self.fence = None
        self.free = {nbytes: {address}}

    def has(self, nbytes):
        if self.nbytes & (self.nbytes - 1):  # no power of two: it serves one large block, and is not halved
            return nbytes == self.nbytes and self.is_free()
        return any(size >= nbytes for size, places in self.free.items() if places)

    def is_free(self):
        return bool(self.free.get(self.nbytes))

    def take(self, nbytes):
        size = min(size for size, places in self.free.items() if places and size >= nbytes)
        address = self.free[size].pop()
        while size > nbytes:
            size //= 2
            self.free.setdefault(size, set()).add(address + size)
        return address

    def give(self, address, nbytes):
        while nbytes < self.nbytes:
            buddy = self.address + ((address - self.address) ^ nbytes)
            if buddy not in self.free.get(nbytes, ()):
                break
            self.free[nbytes].remove(buddy)
            address, nbytes = min(address, buddy), 2 * nbytes
        self.free.setdefault(nbytes, set()).add(address)
