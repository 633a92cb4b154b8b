"""What only a simulator can tell: which queued work touches memory, and what is left over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..base import driver_error
from .device_table import DeviceTable
from .simulated_device import Device, Extent
from .streams import Streams
from .transfers import memory_at
from .work import Operation


class Inspection:
    """Looks at one machine from outside: what is there, what memory holds, what is queued. It changes nothing."""

    def __init__(self, devices: DeviceTable, streams: Streams) -> None:
        self._devices = devices
        self._streams = streams

    def live(self) -> LiveHandles:
        """How many of each kind of thing exist."""
        host = self._devices.host
        memories = [device.memory for device in self._devices.made.values()]
        return LiveHandles(
            allocations=sum(len(memory.allocations.sizes) for memory in memories),
            host_allocations=len(host.sizes) if host else 0,
            streams=len(self._streams.streams),
            events=len(self._streams.events),
            ranges=sum(len(memory.ranges.sizes) for memory in memories),
            pages=sum(len(memory.ranges.pages) for memory in memories),
            mappings=sum(len(memory.ranges.mappings) for memory in memories),
        )

    def reachable(self, device: Device) -> list[Extent]:
        """Address and size in bytes of all that a kernel of the device may access now, in order of address."""
        found = [*device.memory.live(), *device.host.sizes.items()]
        for peer in device.peers:
            found += peer.memory.allocations.sizes.items()
        return sorted(found)

    def view(self, address: int, nbytes: int) -> memoryview:
        """The bytes at ``address``, writable and without a copy.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_VALUE``: the range is not live device or page-locked memory.
        """
        device, host = self._devices.owner(address), self._devices.host
        if device is not None:
            fault = device.memory.touch(address, nbytes)
        else:
            fault = host.fault(address, nbytes) if host else "no device was used yet"
        if fault is not None:
            raise driver_error(1, f"view of {nbytes} bytes at {address:#x}: {fault}")
        return memory_at(address, nbytes)

    def pending(self, address: int, nbytes: int) -> list[tuple[Operation, PendingAccess]]:
        """Queued operations that touch the range, and how, the oldest of each stream first."""
        return _accesses(self._streams.schedule.queued(), address, nbytes)


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


def _accesses(queued: Iterable[Operation], address: int, nbytes: int) -> list[tuple[Operation, PendingAccess]]:
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
