"""``direct``: no cache. One allocation of the driver for each block."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Annotated

from .base import Allocator
from .block import Block, BlockInfo, Home, Segment
from .statistics import SMALL_BLOCK
from .upstream import Fence, Upstream
from .waiting import fence_or_error

__all__ = ["DirectAllocator"]


class DirectAllocator(Allocator):
    """Asks the driver for every block and gives it back when the work queued on its stream is done.

    The yardstick for other strategies, and a help in finding faults: what is freed soon becomes inaccessible. A freed
    block waits behind a fence of its stream, since the driver may free memory under queued work (or block until all
    work is done). What waits is given back as soon as the fence is seen to have passed, and under memory pressure.
    """

    def __init__(
        self, upstream: Upstream, *, memory_limit: Annotated[int | None, "reserve at most this many bytes"] = None
    ) -> None:
        super().__init__(upstream, memory_limit=memory_limit)
        self._live: dict[int, Block] = {}
        self._leaving: deque[tuple[Fence | None, Block]] = deque()
        """Freed blocks behind fences of their streams; None for a stream that was destroyed and has been waited for."""

    def _rounded(self, nbytes: int) -> int:
        granularity = self.upstream.granularity
        return -(-super()._rounded(nbytes) // granularity) * granularity

    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        address = self._reserve(nbytes, small=nbytes <= SMALL_BLOCK, stream=stream)
        block = self._live[address] = Block(self, address, nbytes, requested, stream)
        return block

    def _home(self, block: Block) -> Home:  # noqa: ARG002
        return self._prompt

    def _free(self, block: Block) -> None:
        del self._live[block.address]
        fence = None if block.orphan else fence_or_error(self.upstream, block.stream)
        self._leaving.append((fence, block))
        self._poll()

    def _poll(self) -> None:
        for _ in range(len(self._leaving)):
            fence, block = self._leaving[0]
            if fence is None or fence.done():
                self._give_back(block)
                self._leaving.popleft()
            else:
                self._leaving.rotate(-1)

    def _release_cached(self) -> int:
        released = 0
        while self._leaving:
            fence, block = self._leaving[0]
            if fence is not None:
                fence.wait()
            self._give_back(block)
            self._leaving.popleft()
            released += block.nbytes
        return released

    def _give_back(self, block: Block) -> None:
        self._release(block.address, block.nbytes, small=block.nbytes <= SMALL_BLOCK, stream=block.stream)

    def _live_blocks(self) -> Iterable[Block]:
        return self._live.values()

    def _segments(self) -> Iterator[Segment]:
        for block in self._live.values():
            yield self._segment(block, self._state(block))
        for _, block in self._leaving:
            yield self._segment(block, BlockInfo(block.address, block.nbytes, 0, "inactive"))

    def _segment(self, block: Block, info: BlockInfo) -> Segment:
        small = block.nbytes <= SMALL_BLOCK
        return Segment(block.address, block.nbytes, block.stream, "small" if small else "large", (info,))
