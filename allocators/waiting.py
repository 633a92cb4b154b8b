"""Freed blocks that streams may still touch, behind fences."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from .block import Block
from .errors import DriverError
from .upstream import Fence, Upstream


class Waiting:
    """Keeps freed blocks until every fence that they wait for has passed, then hands them to ``passed``.

    Fences of one key (a stream) pass in the order in which they were made, so that one question to the driver tells
    that none of a stream's has passed. Not thread-safe: used under the allocator's lock. Nothing is lost when a fence
    raises: what waits keeps waiting.
    """

    def __init__(self, passed: Callable[[Block], None]) -> None:
        self._passed = passed
        self.queues: dict[object, deque[tuple[Fence, Block]]] = {}
        """What waits, by the keys of fences. Empty while nothing does."""
        self._fences: dict[Block, int] = {}
        """For how many fences each block still waits."""

    def add(self, block: Block, fences: Iterable[tuple[object, Fence]]) -> None:
        """Keep ``block`` until each of ``fences``, given with their keys, has passed. There is at least one."""
        for key, fence in fences:
            self._fences[block] = self._fences.get(block, 0) + 1
            self.queues.setdefault(key, deque()).append((fence, block))

    def poll(self) -> None:
        """Hand over what waits no longer. Never blocks."""
        for key, queue in list(self.queues.items()):
            while queue and queue[0][0].done():
                self._count_down(queue.popleft()[1])
            if not queue:
                del self.queues[key]

    def wait(self) -> None:
        """Block until every fence has passed, and hand everything over.

        Raises:
            DriverError: the device is in a sticky error state, or a stream was unknown when its fence was made.
        """
        while self.queues:
            key, queue = next(iter(self.queues.items()))
            while queue:
                queue[0][0].wait()
                self._count_down(queue.popleft()[1])
            del self.queues[key]

    def restart(self, blocks: Iterable[Block]) -> None:
        """Forget everything, then keep ``blocks`` behind their ``fences``: after an interrupted operation."""
        self.queues.clear()
        self._fences.clear()
        for block in blocks:
            self.add(block, block.fences)

    def _count_down(self, block: Block) -> None:
        self._fences[block] -= 1
        if not self._fences[block]:
            del self._fences[block]
            self._passed(block)


def fence_or_later(upstream: Upstream, stream: int) -> Fence:
    """A fence of ``stream``, or one that is made later, where the driver refuses it now.

    For frees, which must not raise: an error that stays surfaces at the next call that waits, as CUDA's own do.
    """
    try:
        return upstream.fence(stream)
    except DriverError:
        return LateFence(upstream, stream)


class LateFence:
    """In place of a fence that was refused, or whose making was interrupted: it is made when it is asked.

    It then stands behind more work than it need, which is safe; to do without would be not.

    Args:
        upstream: makes it.
        stream: whose work it stands behind. Before that one is destroyed, ``made`` has to be called.
    """

    def __init__(self, upstream: Upstream, stream: int) -> None:
        self._upstream = upstream
        self.stream = stream
        self._fence: Fence | None = None

    def made(self) -> Fence:
        """The fence that it stands for.

        Raises:
            DriverError: the driver still makes none.
        """
        self._fence = self._fence or self._upstream.fence(self.stream)
        return self._fence

    def done(self) -> bool:
        """Whether the work has passed. False as long as the driver makes no fence."""
        try:
            fence = self.made()
        except DriverError:
            return False
        return fence.done()

    def wait(self) -> None:
        """Block until the work has passed.

        Raises:
            DriverError: the device is in a sticky error state, or the driver makes no fence.
        """
        self.made().wait()
