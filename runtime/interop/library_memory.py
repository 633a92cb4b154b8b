"""Memory for a library that knows addresses alone, and calls Python for each allocation and free."""

from __future__ import annotations

from collections import deque

from ...allocators.base import Allocator
from ...allocators.block import Block
from ...allocators.errors import CuplugError
from ...allocators.libraries import library_number
from ..drivers.base import LEGACY_STREAM
from ..machine.runtime import Runtime

__all__ = ["LibraryMemory"]

EVERY_BLOCKING_STREAM = 1
"""``CU_STREAM_LEGACY``: work recorded there comes after all that is queued on streams that wait for the default stream,
as those of Numba and PyCUDA do. Allocators take it for a stream other than 0."""


class LibraryMemory:
    """What one library holds of a runtime's memory, by address. Any thread may use it.

    ``free`` may be called by finalisers, also in the middle of an operation of the allocator, and never raises.
    """

    def __init__(self, runtime: Runtime, library: str) -> None:
        """``library``: one out of ``allocators/libraries.py``."""
        self.runtime = runtime
        self._number = library_number(library)
        self._blocks: dict[tuple[int, int], Block] = {}
        self._late: deque[tuple[Block, int]] = deque()

    def allocate(self, nbytes: int, *, device: int, stream: int) -> int:
        """The address of ``nbytes`` bytes for use on ``stream``, a driver's handle (``stream_handle``). 0 for no bytes.

        Raises:
            OutOfMemoryError: there is not that much left, whatever was tried.
            CuplugError: the runtime was closed.
        """
        return self._allocate(nbytes, device, self.runtime.current.key(stream)).address

    def allocate_unordered(self, nbytes: int, *, device: int) -> int:
        """The same for a library without a current stream: its memory may be used on any of its streams, and nobody is
        told which.

        The memory is cuplug's current stream's. Once freed, it waits for what is queued by then on every stream that
        waits for the default one.
        """
        current = self.runtime.current
        key = current.stream if device == current.device else LEGACY_STREAM
        block = self._allocate(nbytes, device, key)
        if block.nbytes:
            try:
                block.allocator.record_stream(block, EVERY_BLOCKING_STREAM)
            except BaseException:
                self.free(block.address, device=device)
                raise
        return block.address

    def record_stream(self, address: int, stream: int, *, device: int) -> None:
        """Say that ``stream`` uses the memory too: once freed, it waits for the work queued there at that time.

        Raises:
            CuplugError: the memory is not the library's.
        """
        block = self._blocks.get((device, address))
        if block is None:
            raise CuplugError(f"cuplug has given out no memory at address {address:#x} of device {device} here")
        block.allocator.record_stream(block, self.runtime.current.key(stream))

    def free(self, address: int, *, device: int, stream: int | None = None) -> None:
        """Give memory up, in the order of ``stream`` if that is named, else in that of the stream it was allocated for.

        Once the runtime is closed this does nothing.
        """
        block = self._blocks.pop((device, address), None)
        if block is None or not self.runtime.usable:
            return
        self._late.append((block, block.stream if stream is None else self.runtime.current.key(stream)))
        self._free_late()

    def _allocate(self, nbytes: int, device: int, key: int) -> Block:
        allocator: Allocator = self.runtime.allocator(device)
        if self._late:
            self._free_late()
        block = allocator.allocate(nbytes, stream=key, library=self._number)
        if block.nbytes:
            self._blocks[device, block.address] = block
        return block

    def _free_late(self) -> None:
        """Free what was given up. Where this thread is inside the allocator, the next call does it."""
        for _ in range(len(self._late)):
            try:
                block, key = self._late.popleft()
            except IndexError:
                return  # another thread took it
            try:
                if key != block.stream:
                    block.allocator.record_stream(block, key)
            except CuplugError:
                if block.live and self.runtime.usable:
                    self._late.append((block, key))
                continue
            block.allocator.give_back(block)
