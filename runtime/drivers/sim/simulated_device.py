"""One simulated device: its memory, and whether its work has failed."""

from __future__ import annotations

from collections.abc import Iterable

from ....allocators.errors import DriverError
from ..base import driver_error
from .memory import DeviceMemory, HostMemory

Extent = tuple[int, int]
"""An address and a size in bytes."""


class Device:
    """One simulated device: its memory, its clock, and whether its work has failed."""

    __slots__ = (
        "blocking_finished_us",
        "failure",
        "finished_us",
        "host",
        "legacy_finished_us",
        "memory",
        "ordinal",
        "peers",
        "reported",
        "streams_made",
        "told",
        "variables",
    )

    def __init__(self, ordinal: int, memory: DeviceMemory, host: HostMemory) -> None:
        self.ordinal = ordinal
        self.memory = memory
        self.host = host
        self.streams_made = 0
        self.legacy_finished_us = 0.0
        """When the last operation executed on the legacy stream ended, in simulated time."""
        self.blocking_finished_us = 0.0
        """The same of the other blocking streams."""
        self.finished_us = 0.0
        """When the last operation executed on any stream ended."""
        self.peers: set[Device] = set()
        self.variables: dict[int, int] = {}
        """Addresses and sizes of the variables of loaded modules: memory that is the device's, but lies elsewhere."""
        self.failure: DriverError | None = None
        """What the device's work did. No operation runs any more."""
        self.reported = False
        """Whether a call that waits has raised it: from then on every call does."""
        self.told = False
        """Whether the program has heard of it: it waited, or an interrupt ended the kernel. What only asks may be
        cuplug's own memory, which goes on without it."""

    def fail(self, error: DriverError) -> None:
        """Enter the sticky error state, unless in it already. The program's frames are not kept alive for it."""
        self.failure = self.failure or error.with_traceback(None)

    def settle(self, *, waits: bool = False) -> None:
        """Raise what the device's work did: the end of every call that waits, or asks whether it need not."""
        if self.failure is not None:
            self.reported = True
            self.told = self.told or waits
            raise driver_error(self.failure.code, self.failure.message) from self.failure.__cause__

    def first_fault(self, ranges: Iterable[Extent]) -> tuple[int, str] | None:
        """Which of the ranges (from 0) this device could not access, and why. None: all are ready to be accessed."""
        memory = self.memory
        start, middle = memory.start, memory.middle
        for place, (address, nbytes) in enumerate(ranges):
            if start <= address < middle:  # nearly all do
                fault = memory.allocations.fault(address, nbytes)
            else:
                fault = self._fault(address, nbytes)
            if fault is not None:
                return place, fault
        return None

    def _fault(self, address: int, nbytes: int) -> str | None:
        memory, host = self.memory, self.host
        if memory.start <= address < memory.end:
            return memory.touch(address, nbytes)
        if host.start <= address < host.end:
            return host.fault(address, nbytes)
        for peer in self.peers:
            if peer.memory.start <= address < peer.memory.end:
                return peer.memory.touch_from_peer(address, nbytes)
        for start, size in self.variables.items():
            if start <= address and address + nbytes <= start + size:
                return None
        return f"it is not memory of device {self.ordinal}, nor of a peer whose access is enabled"


def failure(code: int, message: str) -> DriverError:
    """The error of a CUresult other than ``CUDA_ERROR_OUT_OF_MEMORY``."""
    error = driver_error(code, message)
    assert isinstance(error, DriverError)
    return error
