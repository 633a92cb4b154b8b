"""What all calls of the simulated driver share: its state, the current device, streams, submission and waiting."""

from __future__ import annotations

import os
import threading
from typing import Annotated

from ....allocators.sizes import format_size
from ..base import LEGACY_STREAM, PER_THREAD_STREAM, driver_error
from .allocations import PAGE
from .machine import Handles, Machine, call
from .memory import DeviceMemory, HostMemory
from .modules import ModuleLoader
from .operations import Device, Event, Operation, Stream
from .ranges import Page
from .schedule import make_schedule
from .visible import visible_devices

__all__ = ["SimState"]

_EXPLICIT_LEGACY = 1  # CU_STREAM_LEGACY
CALL_US = 2.0
"""Simulated time between the submissions of two operations, in microseconds."""


class _Thread(threading.local):
    device: Device | None = None
    streams: dict[Device, Stream] | None = None


class SimState:
    """The state of a simulated driver. The methods here run under the machine's lock."""

    def __init__(
        self,
        *,
        devices: Annotated[int, "number of devices"] = 1,
        memory: Annotated[int, "bytes of memory of each device"] = 24 << 30,
        schedule: Annotated[str, "when queued work runs: eager, lazy, random or random:SEED"] = "eager",
        seed: Annotated[int, "seed of the random schedule"] = 0,
        peer_access: Annotated[bool, "whether devices can access each other's memory"] = True,
        virtual_memory: Annotated[bool, "whether the virtual-memory calls exist"] = True,
        compute_capability: Annotated[str, "what the devices say they can do, for example 9.0"] = "9.0",
    ) -> None:
        if not 0 <= devices <= 64:
            raise ValueError(f"devices={devices}: simulate from 0 to 64 devices")
        if not PAGE <= memory <= 1 << 40:
            raise ValueError(f"memory={memory} bytes: give each device from {format_size(PAGE)} to 1 TiB")
        major, dot, minor = compute_capability.partition(".")
        if not (dot and major.isdecimal() and minor.isdecimal()):
            raise ValueError(f"compute_capability={compute_capability!r}: write for example 9.0")
        self._machine = Machine(make_schedule(schedule, seed))
        self._schedule = self._machine.schedule
        self._defers = self._schedule.defers
        self._physical = devices
        self._capacity = memory // PAGE * PAGE
        self._capability = int(major), int(minor)
        self._has_peer_access = peer_access
        self._has_virtual_memory = virtual_memory
        self._visible: list[int] | None = None
        self._devices: dict[int, Device] = {}
        self._host: HostMemory | None = None
        self._streams: Handles[Stream] = Handles("stream", 0x1000)
        self._events: Handles[Event] = Handles("event", 0x1000_0000)
        self._pages: Handles[tuple[Device, Page]] = Handles("page of virtual memory", 0x2000_0000)
        self._thread = _Thread()
        self._host_us = 0.0
        self.module_loader: ModuleLoader | None = None
        """What loads and launches kernels: set by the part of cuplug that compiles kernels for the host.
        Without one, those calls raise ``CUDA_ERROR_NOT_SUPPORTED``."""

    def _indices(self) -> list[int]:
        if self._visible is None:
            self._visible = visible_devices(os.environ.get("CUDA_VISIBLE_DEVICES"), self._physical)
        return self._visible

    def _index(self, ordinal: int) -> int:
        indices = self._indices()
        if not 0 <= ordinal < len(indices):
            raise driver_error(101, f"device {ordinal} of {len(indices)} visible ones, which are numbered from 0")
        return indices[ordinal]

    @call
    def _retain(self, ordinal: int) -> Device:
        return self._retained(ordinal)

    def _retained(self, ordinal: int) -> Device:
        """The device, whose context is made at its first use."""
        self._index(ordinal)
        device = self._devices.get(ordinal)
        if device is None:
            self._host = self._host or HostMemory()
            device = self._devices[ordinal] = Device(ordinal, DeviceMemory(self._capacity), self._host)
        return device

    def _here(self) -> Device:
        device = self._thread.device
        if device is None:
            raise driver_error(201, "no device is current on this thread; call set_device first")
        if device.reported:
            device.settle()
        return device

    def _drain(self, device: Device) -> None:
        self._schedule.drain(device)
        self._host_us = max(self._host_us, device.finished_us)
        device.settle()

    def _stream(self, handle: int, *, of: Device | None = None) -> Stream:
        """The stream of a handle; 0, 1 and 2 are those of the current device (or of ``of``)."""
        if handle > PER_THREAD_STREAM:
            return self._streams.get(handle)
        device = of or self._here()
        if handle in (LEGACY_STREAM, _EXPLICIT_LEGACY):
            return device.legacy
        if handle != PER_THREAD_STREAM:
            raise driver_error(400, f"{handle} is no stream")
        streams = self._thread.streams
        if streams is None:
            streams = self._thread.streams = {}
        stream = streams.get(device)
        if stream is None:
            stream = streams[device] = Stream(device, blocking=True, handle=PER_THREAD_STREAM)
        return stream

    def _submit(self, operation: Operation) -> Operation:
        """Queue an operation behind what it must follow."""
        self._host_us += CALL_US
        operation.submitted_us = self._host_us
        if self._defers:
            operation.after += tuple(self._predecessors(operation.stream))
        self._schedule.submit(operation)
        return operation

    def _predecessors(self, stream: Stream) -> list[Operation]:
        """The last operations of the streams that legacy ordering makes a new operation of ``stream`` follow."""
        device = stream.device
        if stream is device.legacy:
            return [
                other.queue[-1]
                for other in self._schedule.active
                if other.blocking and other.device is device and other is not stream
            ]
        if stream.blocking and device.legacy.queue:
            return [device.legacy.queue[-1]]
        return []

    def _wait(self, operation: Operation) -> None:
        """Wait for one operation, and raise what its device's work did."""
        if not operation.done:
            self._schedule.wait(operation)
        if operation.finished_us > self._host_us:
            self._host_us = operation.finished_us
        if operation.stream.device.failure is not None:
            operation.stream.device.settle()
