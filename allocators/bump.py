"""``bump``: an arena. Blocks follow one another; a reset gives all since a mark back at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from .base import Allocator
from .block import Block, BlockInfo, Segment
from .errors import CuplugError
from .sizes import format_size
from .upstream import Fence, Upstream

__all__ = ["BumpAllocator", "Mark"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the arena, from ``BumpAllocator.mark``."""

    chunk: int = 0
    offset: int = 0
    order: int = 0
    after: Block | None = None
    """The block allocated last before the mark."""


class BumpAllocator(Allocator):
    """An arena of chained chunks: an allocation advances a pointer, and chains a new chunk when one is full.

    A free counts, and gives no memory back: ``reset`` does, for everything allocated since a mark. What other streams
    than the next user's have done with that memory is waited for, behind fences made at the reset, when it is used
    again. Suits work in steps, whose blocks all end together.

    The end of a chunk that was too short for the next block stays unused until a reset.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        chunk_size: Annotated[int, "bytes of a chunk; larger blocks get a chunk of their own size"] = 64 << 20,
        memory_limit: Annotated[int | None, "reserve at most this many bytes"] = None,
    ) -> None:
        super().__init__(upstream, memory_limit=memory_limit)
        if chunk_size < 1:
            raise ValueError(f"chunk_size is {chunk_size}; a chunk has at least one byte")
        self.chunk_size = super()._rounded(chunk_size)
        self._chunks: list[_Chunk] = []
        self._current = 0
        """Index of the chunk that the pointer is in; all later ones are empty."""
        self._gone: list[Fence] = []
        """Of streams that were destroyed since."""
        self._order: list[Block] = []
        """Everything since the last reset, in order of allocation."""

    # --- marks and resets

    def mark(self) -> Mark:
        """The present place, for ``reset``."""
        return self._operate(self._mark)

    def reset(self, mark: Mark | None = None, *, force: bool = False) -> int:
        """Take back everything that was allocated since ``mark`` (None: since the beginning).

        Args:
            mark: from ``mark``.
            force: also under live blocks, which become invalid: their memory is handed out again.

        Returns:
            The bytes that were taken back, alignment and the unused ends of chunks left out.

        Raises:
            CuplugError: blocks since the mark are live and ``force`` is false, or an earlier reset has gone back past
                the mark. Nothing has changed.
        """
        return self._operate(self._reset, mark or Mark(), force)

    def _mark(self) -> Mark:
        self._check_open()
        if not self._order:
            return Mark()
        return Mark(self._current, self._chunks[self._current].used, len(self._order), self._order[-1])

    def _reset(self, mark: Mark, force: bool) -> int:
        self._check_open()
        if mark.order and (mark.order > len(self._order) or self._order[mark.order - 1] is not mark.after):
            raise CuplugError("cannot reset the arena to this mark: an earlier reset has gone back past it")
        since = self._order[mark.order :]
        live = [block for block in since if block.live]
        if live and not force:
            held = format_size(sum(block.nbytes for block in live))
            raise CuplugError(
                f"cannot reset the arena: {len(live)} blocks since the mark are live and hold {held}; free them "
                "first, or reset with force=True, which makes them invalid"
            )
        for block in live:
            self._revoke(block)
        if any(block.waiting for block in since):
            self._await_waiting()
        self._rewind(mark, since)
        return sum(block.nbytes for block in since)

    def _rewind(self, mark: Mark, blocks: list[Block]) -> None:
        """Go back to ``mark``, past ``blocks``. What they were used for is waited for when their place is used."""
        streams = {block.stream for block in blocks if not block.orphan}
        fences: dict[object, Fence] = {stream: self.upstream.fence(stream) for stream in sorted(streams)}
        if any(block.orphan for block in blocks):
            fences.update((fence, fence) for fence in self._gone)
        touched = self._chunks[mark.chunk : self._current + 1]
        for chunk in touched:
            chunk.fences = {key: fence for key, fence in chunk.fences.items() if not fence.done()} | fences
        del self._order[mark.order :]
        for index, chunk in enumerate(touched, mark.chunk):  # last: where an exception breaks off, room is lost only
            chunk.used = mark.offset if index == mark.chunk else 0
        if blocks:
            self._current = min(mark.chunk, self._current)
        if not self._order:
            self._gone.clear()

    # --- the strategy

    def _allocate(self, requested: int, nbytes: int, stream: int) -> Block:
        chunk = self._chunk_for(nbytes, stream)
        self._wait_for_others(chunk, stream)
        block = Block(self, chunk.address + chunk.used, nbytes, requested, stream)
        chunk.used += nbytes  # first: a block that an exception keeps from being listed is room lost until a reset
        self._order.append(block)
        return block

    def _chunk_for(self, nbytes: int, stream: int) -> _Chunk:
        for index in range(self._current, len(self._chunks)):
            chunk = self._chunks[index]
            if chunk.nbytes - chunk.used >= nbytes:
                # The chunks that are passed over stay empty: the pointer moves behind them for good.
                self._current = index
                return chunk
        size = max(self.chunk_size, nbytes)
        self._chunks.append(_Chunk(self._reserve(size, small=False, stream=stream), size, stream))
        self._current = len(self._chunks) - 1
        return self._chunks[-1]

    def _wait_for_others(self, chunk: _Chunk, stream: int) -> None:
        """Block until every other stream has done what it did in ``chunk`` before the latest reset."""
        while others := [key for key in chunk.fences if key != stream]:
            chunk.fences[others[0]].wait()
            del chunk.fences[others[0]]

    def _forget_stream(self, stream: int) -> None:
        self._gone.append(self.upstream.fence(stream))
        for block in self._order:
            block.orphan = block.orphan or block.stream == stream
        for chunk in self._chunks:  # a new stream of this handle has to wait like all others
            fence = chunk.fences.pop(stream, None)
            if fence is not None:
                chunk.fences[fence] = fence

    def _free(self, block: Block) -> None:
        """A free gives nothing back; the counters have it."""

    def _release_cached(self) -> int:
        first = self._current + 1 if self._order else 0
        unused = self._chunks[first:]
        for chunk in unused:
            for fence in chunk.fences.values():
                fence.wait()
        released = 0
        while len(self._chunks) > first:
            chunk = self._chunks[-1]
            self._release(chunk.address, chunk.nbytes, small=False, stream=chunk.stream)
            self._chunks.pop()
            released += chunk.nbytes
        self._current = max(0, min(self._current, len(self._chunks) - 1))
        return released

    def _release_all(self) -> None:
        self._rewind(Mark(), list(self._order))
        self._release_cached()

    def _recover(self) -> None:
        known = {chunk.address for chunk in self._chunks}
        self._chunks = [chunk for chunk in self._chunks if chunk.address in self._held]
        for address, held in self._held.items():
            if address not in known:
                self._chunks.append(_Chunk(address, held.nbytes, held.stream))
        self._current = max((index for index, chunk in enumerate(self._chunks) if chunk.used), default=0)

    def _segments(self) -> Iterator[Segment]:
        chunks = sorted(self._chunks, key=lambda chunk: chunk.address)
        inside: dict[int, list[BlockInfo]] = {chunk.address: [] for chunk in chunks}
        starts = [chunk.address for chunk in chunks]
        for block in sorted(self._order, key=int):
            infos = inside[starts[bisect_right(starts, block.address) - 1]]
            infos.append(self._state(block) if self._in_use.get(block.address) is block else _spent(block))
        for chunk in chunks:
            infos = list(_without_gaps(inside[chunk.address], chunk.address, chunk.address + chunk.nbytes))
            yield Segment(chunk.address, chunk.nbytes, chunk.stream, "large", tuple(infos))


class _Chunk:
    """One piece from upstream. Everything below ``used`` bytes is given out."""

    __slots__ = ("address", "fences", "nbytes", "stream", "used")

    def __init__(self, address: int, nbytes: int, stream: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.stream = stream
        self.used = 0
        self.fences: dict[object, Fence] = {}
        """Behind each stream's use of the chunk before the latest reset. That of a destroyed stream is its own key."""


def _without_gaps(infos: list[BlockInfo], start: int, end: int) -> Iterator[BlockInfo]:
    """``infos``, and what lies between them: the rest of a chunk, and what exceptions have left behind."""
    for info in infos:
        if start < info.address:
            yield BlockInfo(start, info.address - start, 0, "inactive")
        yield info
        start = info.address + info.nbytes
    if start < end:
        yield BlockInfo(start, end - start, 0, "inactive")


def _spent(block: Block) -> BlockInfo:
    return BlockInfo(block.address, block.nbytes, block.requested, "inactive")
