"""Memory for a library that knows addresses alone, and calls Python for each allocation and free."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from ...allocators.base import Allocator
from ...allocators.block import Block
from ...allocators.errors import CuplugError
from ...allocators.libraries import library_number
from ..drivers.base import LEGACY_STREAM, driver_error
from ..machine.runtime import Runtime

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
        self._variables: dict[int, int] = {}
        """Addresses and sizes of modules' variables that the program asked for."""
        self._extents: list[tuple[int, int]] | None = None
        """Address and size of each block, in order of address: made when it is asked for."""

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
        self._extents = None
        if block is None or not self.runtime.usable:
            return
        self._late.append((block, block.stream if stream is None else self.runtime.current.key(stream)))
        self._free_late()

    def note_variable(self, address: int, nbytes: int) -> None:
        """Let ``check`` know a module's variable. Those that lay there before are gone, with their modules."""
        around = self._variables.items()
        self._variables = {at: size for at, size in around if at + size <= address or address + nbytes <= at}
        self._variables[address] = nbytes

    def check(self, call: str, address: int, nbytes: int) -> None:
        """Refuse a copy or a fill that leaves the memory it begins in. What is not cuplug's, and no variable that it
        was told of, is left to the driver.

        Args:
            call: what is to be done, for the message.
            address: of the first byte.
            nbytes: how many bytes are touched.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_VALUE``: the range leaves its allocation, or was given back.
        """
        start, size = self._extent(address)
        if not nbytes or address + nbytes <= start + size:
            return
        if address < start + size:
            raise driver_error(1, f"{call} of {nbytes} bytes{_beyond(address - start, nbytes, size)}")
        for variable, room in self._variables.items():
            if variable <= address < variable + room < address + nbytes:
                raise driver_error(
                    1, f"{call} of {nbytes} bytes{_beyond(address - variable, nbytes, room, 'variable')}"
                )
        for allocator in self.runtime.device_allocators():
            if any(it.address <= address < it.address + it.nbytes for it in allocator.segments()):
                block = next((it for it in allocator.live_blocks() if _holds(it, address)), None)
                if block is None:
                    raise driver_error(1, f"{call} of {nbytes} bytes at {address:#x}: no live allocation holds it")
                if address + nbytes > block.address + block.requested:
                    beyond = _beyond(address - block.address, nbytes, block.requested)
                    raise driver_error(1, f"{call} of {nbytes} bytes{beyond}")

    def _extent(self, address: int) -> tuple[int, int]:
        """Address and size of the last of the library's blocks that does not begin behind ``address``."""
        extents = self._extents
        if extents is None:
            extents = sorted((block.address, block.requested) for block in list(self._blocks.values()))
            self._extents = extents
        position = bisect_right(extents, (address, 1 << 64)) - 1
        return extents[position] if position >= 0 else (0, 0)

    def _allocate(self, nbytes: int, device: int, key: int) -> Block:
        allocator: Allocator = self.runtime.allocator(device)
        if self._late:
            self._free_late()
        block = allocator.allocate(nbytes, stream=key, library=self._number)
        if block.nbytes:
            self._blocks[device, block.address] = block
            self._extents = None
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


def _holds(block: Block, address: int) -> bool:
    return block.address <= address < block.address + max(block.requested, 1)


def _beyond(offset: int, nbytes: int, size: int, what: str = "allocation") -> str:
    """What the matter is with ``nbytes`` bytes from ``offset`` on of an allocation of ``size`` bytes."""
    of = f" from byte {offset} on" if offset else ""
    text = f"{of}: the {what} has {size}, and ends {offset + nbytes - size} bytes before that"
    if not offset and nbytes == 2 * size:
        text += ". Twice the size: NumPy makes float64 and int64 where a kernel's float and int have half as many bytes"
    return text
