"""Managed memory of a simulated machine: host and devices use it alike, but not while a kernel works with it.

It lies in page-locked host memory. From the moment when a kernel that was given a pointer into a block is queued, until
the program has waited for it, the block is closed to the program; an access in between goes through, and the next call
that waits raises it. On a GPU such an access reads or loses what the kernel writes, or ends the process.
"""

from __future__ import annotations

from ..base import driver_error
from .gaps import round_up
from .modules import ModuleLoader
from .work import Operation, Stream

_PAGE = 4096


class ManagedMemory:
    """The managed blocks of one machine, and the kernels that work with them. Used under the lock of its ``Calls``."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        """Bytes of every block by address."""
        self.host: ModuleLoader | None = None
        """What closes blocks to the program; without it nothing is noticed."""
        self.in_use: dict[int, dict[Stream, Operation]] = {}
        """By block the last operation of each stream that works with it and for which the program has not waited."""
        self._closed: set[int] = set()
        """The blocks that are closed, unless the program was let in."""
        self._touched: dict[int, int] = {}
        """An address at which the program touched a block too early, by the block's."""

    def note(self, operation: Operation) -> None:
        """An operation was queued: close the blocks that it works with."""
        if not operation.repeatable:  # a kernel; copies and fills are the driver's own
            for address, nbytes in (*operation.reads, *operation.writes):
                for start, size in self.sizes.items():
                    if start < address + nbytes and address < start + size:
                        self.in_use.setdefault(start, {})[operation.stream] = operation
        self.close()

    def close(self) -> None:
        """Close the blocks that kernels work with to the program."""
        for address in self.in_use:
            if address not in self._closed:
                self._watch(address, closed=True)

    def open(self) -> None:
        """Open all blocks: an operation runs."""
        for address in list(self._closed):
            self._watch(address, closed=False)

    def waited_until(self, time_us: float) -> None:
        """The program has waited for all that was done by a time of the simulated clock.

        Raises:
            DriverError: ``CUDA_ERROR_ILLEGAL_ADDRESS``: it touched a block before. The device goes on.
        """
        for address, users in list(self.in_use.items()):
            last = next(reversed(users.values()))
            left = {stream: it for stream, it in users.items() if not it.done or it.finished_us > time_us}
            if left:
                self.in_use[address] = left
            else:
                self._watch(address, closed=False)
                del self.in_use[address]
            if address in self._touched:
                raise self._error(address, last)

    def forget(self, address: int) -> None:
        """A block is given back."""
        if self.in_use.pop(address, None):
            self._watch(address, closed=False)
        self._touched.pop(address, None)
        self.sizes.pop(address, None)

    def _watch(self, address: int, *, closed: bool) -> None:
        if self.host is not None and closed != (address in self._closed):
            (self._closed.add if closed else self._closed.discard)(address)
            touched = self.host.watch(address, round_up(self.sizes[address], _PAGE), closed=closed)
            if touched:
                self._touched.setdefault(address, touched)

    def _error(self, address: int, operation: Operation) -> Exception:
        touched = self._touched.pop(address)
        return driver_error(
            700,
            f"the program touched managed memory at {touched:#x} (byte {touched - address} of the "
            f"{self.sizes[address]} bytes at {address:#x}) while kernel {operation.name} worked with it: wait for the "
            "kernel first (synchronize). On a GPU it would have read what the kernel had not written yet, or lost "
            "what it wrote",
        )
