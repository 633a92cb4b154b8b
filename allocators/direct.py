"""``direct``: no cache. One allocation of the driver for each block."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Annotated

from .base import Allocator
from .block import Block, BlockInfo, Segment
from .held_memory import HeldMemory
from .statistics import SMALL_BLOCK
from .upstream import Upstream
from .waiting import LateFence, fence_or_later

__all__ = ["DirectAllocator"]


class DirectAllocator(Allocator):
    """Asks the driver for every block and gives it back when the work queued on its stream is done.

    The yardstick for other strategies, and a help in finding faults: what is freed soon becomes inaccessible. A freed
    block waits behind a fence of its stream, since the driver may free memory under queued work (or block until all
    work is done). What waits is given back as soon as the fence is seen to have passed, and under memory pressure.
    """

    frees_at_once = True

    def __init__(
        self, upstream: Upstream, *, memory_limit: Annotated[int | None, "reserve at most this many bytes"] = None
    ) -> None:
        super().__init__(upstream, memory_limit=memory_limit)
        self._leaving: deque[HeldMemory] = deque()
        """What was freed. ``kept`` of each is the fence of its stream, or None where nothing is to be waited for."""
        self._finished: set[int] = set()
        """Addresses of blocks whose stream was destroyed: whoever frees them has waited for it."""

    def _rounded(self, nbytes: int) -> int:
        granularity = self.upstream.granularity
        return -(-super()._rounded(nbytes) // granularity) * granularity

    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        address = self._reserve(nbytes, small=nbytes <= SMALL_BLOCK, stream=stream)
        return Block(self, address, nbytes, requested, stream)

    def _free(self, block: Block) -> None:
        held = self._held[block.address]
        self._fence(held)
        self._leaving.append(held)
        self._poll()

    def _poll(self) -> None:
        for _ in range(len(self._leaving)):
            held = self._leaving[0]
            if held.kept is None or held.kept.done():
                self._give_back(held)
                self._leaving.popleft()
            else:
                self._leaving.rotate(-1)

    def _release_cached(self) -> int:
        released = 0
        while self._leaving:
            held = self._leaving[0]
            if held.kept is not None:
                held.kept.wait()
            self._give_back(held)
            self._leaving.popleft()
            released += held.nbytes
        return released

    def _forget_stream(self, stream: int) -> None:  # base.py has marked its blocks
        for held in self._leaving:
            if isinstance(held.kept, LateFence) and held.kept.stream == stream:
                held.kept.made()
        self._finished.update(block.address for block in self._in_use.values() if block.orphan)

    def _recover(self) -> None:
        free = [held for held in self._held.values() if held.address not in self._in_use]
        for held in free:
            if held.kept is None:
                self._fence(held)
        self._leaving = deque(free)

    def _fence(self, held: HeldMemory) -> None:
        if held.address not in self._finished:
            held.kept = fence_or_later(self.upstream, held.stream)

    def _give_back(self, held: HeldMemory) -> None:
        self._release(held.address, held.nbytes, small=held.small, stream=held.stream)
        self._finished.discard(held.address)

    def _segments(self) -> Iterator[Segment]:
        for address, held in self._held.items():
            block = self._in_use.get(address)
            info = BlockInfo(address, held.nbytes, 0, "inactive") if block is None else self._state(block)
            yield self._segment_of(held, info)
