"""Where a strategy gets its memory: the protocols that the runtime, the simulator and replay implement.

**Exceptions.** A call that raises has changed nothing, whatever it raises: an error of cuplug's, or an interrupt that
arrives in its middle (Ctrl-C, exhausted host memory). What was to be made is not there, what was to be given back still
is, and the call may be repeated. What a call returns is the caller's at once, if it is made by ``in_one_step``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import starmap
from typing import Protocol, TypeVar

__all__ = ["Fence", "Upstream", "VirtualMemory", "in_one_step"]

T = TypeVar("T")


def in_one_step(call: Callable[..., T], *arguments: object, **named: object) -> Iterator[T]:
    """``call(*arguments)``, made as this is unpacked: ``(held.address,) = in_one_step(upstream.reserve, nbytes)``.

    Python handles signals after a call, up to 3.10 after every one and later after those of C functions: an exception
    that comes there would lose what the call has returned. It handles none between unpacking and assignment.
    """
    return starmap(partial(call, **named) if named else call, (arguments,))


class Fence(Protocol):
    """A mark behind the work that was queued on one stream when the fence was made."""

    def done(self) -> bool:
        """Whether that work has completed. Never blocks."""

    def wait(self) -> None:
        """Block until that work has completed.

        Raises:
            DriverError: the device is in a sticky error state.
        """


class VirtualMemory(Protocol):
    """Address ranges and physical pages, managed apart (CUDA driver API, "Virtual Memory Management").

    Sizes and addresses are multiples of ``granularity`` bytes. Every call raises ``DriverError`` when the driver
    refuses it, and then has changed nothing.
    """

    @property
    def granularity(self) -> int:
        """The size in bytes of which ranges and pages are multiples (2 MiB on current GPUs)."""

    @property
    def has_host_pages(self) -> bool:
        """Whether ``create_host_page`` can be called: not on every device, and with every driver."""

    def reserve_range(self, nbytes: int) -> int:
        """Reserve ``nbytes`` of address space and return its first address. No memory stands behind it yet."""

    def free_range(self, address: int, nbytes: int) -> None:
        """Return a whole range from ``reserve_range``. Nothing may be mapped in it."""

    def create_page(self, nbytes: int) -> int:
        """Create ``nbytes`` of physical memory and return its handle.

        Raises:
            OutOfMemoryError: the device has no ``nbytes`` left.
        """

    def create_host_page(self, nbytes: int) -> int:
        """Create ``nbytes`` of physical memory of the host, near the device, and return its handle.

        It is mapped, made accessible, unmapped and released as the device's pages are.

        Raises:
            OutOfMemoryError: the host has no ``nbytes`` left, or the process may not have them.
        """

    def release_page(self, handle: int) -> None:
        """Drop the handle. The memory returns to the device once it is mapped nowhere."""

    def map(self, address: int, nbytes: int, handle: int) -> None:
        """Map the whole page ``handle``, of ``nbytes``, at ``address``. Not accessible before ``set_access``."""

    def set_access(self, address: int, nbytes: int) -> None:
        """Let the device read and write the mapped range."""

    def unmap(self, address: int, nbytes: int) -> None:
        """Remove the mappings in the range. It does not wait: queued work that touches it then faults."""


class Upstream(Protocol):
    """Where a strategy gets memory. Implemented over a driver, over host memory, and by a null one for replay."""

    @property
    def granularity(self) -> int:
        """``reserve`` rounds up to multiples of this many bytes."""

    @property
    def virtual(self) -> VirtualMemory | None:
        """The device's virtual memory, or None where device or installation lack it."""

    def reserve(self, nbytes: int) -> int:
        """Take ``nbytes`` from the device and return the address, aligned to 512 bytes or better.

        Raises:
            OutOfMemoryError: the device has not that much left in one piece.
            DriverError: the device is in a sticky error state.
        """

    def release(self, address: int) -> None:
        """Give back what ``reserve`` returned. The caller has made sure that no queued work touches it.

        Raises:
            DriverError: the address was not reserved, or the device is in a sticky error state.
        """

    def memory_info(self) -> tuple[int, int]:
        """The device's free and total bytes."""

    def fence(self, stream: int) -> Fence:
        """Mark the work queued on ``stream`` so far."""
