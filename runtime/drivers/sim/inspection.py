"""What only a simulator can tell: which queued work touches memory, and what is left over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .work import Operation

__all__ = ["LiveHandles", "PendingAccess", "accesses"]


@dataclass(frozen=True, slots=True)
class PendingAccess:
    """A queued operation that touches memory."""

    operation: str
    device: int
    stream: int
    """The handle at the time when the stream was made."""
    address: int
    nbytes: int
    writes: bool


@dataclass(frozen=True, slots=True)
class LiveHandles:
    """How many of each kind of thing exist. A careful program has brought them to zero before it closes the driver."""

    allocations: int
    host_allocations: int
    streams: int
    events: int
    ranges: int
    pages: int
    """Handles from ``create_page``."""
    mappings: int


def accesses(queued: Iterable[Operation], address: int, nbytes: int) -> list[tuple[Operation, PendingAccess]]:
    """Which of the operations touch the range, and how."""
    end = address + nbytes
    return [
        (
            operation,
            PendingAccess(
                operation.name, operation.stream.device.ordinal, operation.stream.handle, start, size, writes
            ),
        )
        for operation in queued
        for ranges, writes in ((operation.reads, False), (operation.writes, True))
        for start, size in ranges
        if start < end and address < start + size
    ]
