"""The devices of a simulated machine: which a process sees, which were used, and whose memory an address is."""

from __future__ import annotations

import os
from collections.abc import Callable

from ....allocators.sizes import format_size
from ..base import DeviceProperties, driver_error
from .allocations import PAGE
from .memory import DeviceMemory, HostMemory
from .simulated_device import Device
from .visible import device_uuid, visible_devices


class DeviceTable:
    """All devices of one machine. A device takes memory from its first use on; before, it is a line of the options.

    The methods are called under the lock of the machine's ``Calls``, except those that only look at the options.
    """

    def __init__(
        self,
        count: int,
        memory: int,
        host_memory: int,
        capability: str,
        *,
        peer_access: bool,
        virtual_memory: bool,
        first_use: Callable[[Device], object],
    ) -> None:
        """``count`` devices of ``memory`` bytes each, and ``host_memory`` bytes for pages of the host, as the options
        of ``SimDriver`` say.

        ``first_use`` is called with each device that is made, before anybody else finds it.

        Raises:
            ValueError: an option is out of its range.
        """
        if not 0 <= count <= 64:
            raise ValueError(f"devices={count}: simulate from 0 to 64 devices")
        if not PAGE <= memory <= 1 << 40:
            raise ValueError(f"memory={memory} bytes: give each device from {format_size(PAGE)} to 1 TiB")
        if not 0 <= host_memory <= 1 << 41:
            raise ValueError(f"host_memory={host_memory} bytes: give the host from 0 to 2 TiB")
        major, dot, minor = capability.partition(".")
        if not (dot and major.isdecimal() and minor.isdecimal()):
            raise ValueError(f"compute_capability={capability!r}: write for example 9.0")
        self.made: dict[int, Device] = {}
        """The devices that were used, by ordinal."""
        self.host: HostMemory | None = None
        """Page-locked memory, which all devices share: there from the first use of a device on."""
        self.virtual_memory = virtual_memory
        """Whether the virtual-memory calls exist."""
        self._count = count
        self._capacity = memory // PAGE * PAGE
        self._host_capacity = host_memory
        self._capability = int(major), int(minor)
        self._peer_access = peer_access
        self._first_use = first_use
        self._visible: list[int] | None = None

    def visible(self) -> list[int]:
        """The places in the machine of the devices that the process sees, by ordinal: settled when first asked."""
        if self._visible is None:
            self._visible = visible_devices(os.environ.get("CUDA_VISIBLE_DEVICES"), self._count)
        return self._visible

    def index(self, ordinal: int) -> int:
        """The place in the machine of a visible device.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_DEVICE``.
        """
        indices = self.visible()
        if not 0 <= ordinal < len(indices):
            raise driver_error(101, f"device {ordinal} of {len(indices)} visible ones, which are numbered from 0")
        return indices[ordinal]

    def properties(self, ordinal: int) -> DeviceProperties:
        """Properties of a device: those of a small data-centre GPU, with the machine's options."""
        index = self.index(ordinal)
        major, minor = self._capability
        return DeviceProperties(
            name="cuplug simulated device",
            major=major,
            minor=minor,
            total_memory=self._capacity,
            multi_processor_count=16,
            warp_size=32,
            max_threads_per_block=1024,
            max_block_dim=(1024, 1024, 64),
            max_grid_dim=(2**31 - 1, 65535, 65535),
            shared_memory_per_block=48 << 10,
            shared_memory_per_block_optin=99 << 10,
            max_threads_per_multi_processor=2048,
            l2_cache_size=4 << 20,
            clock_rate_khz=1_000_000,
            pci_bus_id=f"0000:{index + 1:02X}:00.0",
            uuid=device_uuid(index),
            concurrent_kernels=True,
            unified_addressing=True,
            virtual_memory=self.virtual_memory,
        )

    def used(self, ordinal: int) -> Device:
        """The device of this ordinal, made if this is its first use."""
        self.index(ordinal)
        device = self.made.get(ordinal)
        if device is None:
            self.host = self.host or HostMemory(self._host_capacity)
            device = Device(ordinal, DeviceMemory(self._capacity, ordinal, self.host), self.host)
            self._first_use(device)
            self.made[ordinal] = device  # last: an interrupted call leaves no device without its streams
        return device

    def owner(self, address: int) -> Device | None:
        """The device whose address space holds the address."""
        for device in self.made.values():
            if device.memory.start <= address < device.memory.end:
                return device
        return None

    def is_pinned(self, name: str, address: int, nbytes: int) -> bool:
        """Whether a host address is page-locked. ``name`` is the call that asks, for the error.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_VALUE``: it is no host address, or page-locked memory that was freed.
        """
        host = self.host
        if host is not None and host.start <= address < host.end:
            fault = host.fault(address, nbytes)
            if fault is not None and nbytes:
                raise driver_error(1, f"{name} of {nbytes} bytes at the host address {address:#x}: {fault}")
            return True
        if self.owner(address) is not None:
            raise driver_error(1, f"{name}: {address:#x} is a device address, where a host address belongs")
        return False

    # --- peers

    def can_access_peer(self, device: int, peer: int) -> bool:
        """Whether ``device`` could access the memory of ``peer``. False for a device and itself."""
        self.index(device)
        self.index(peer)
        return self._peer_access and device != peer

    def enable_peer_access(self, device: int, peer: int) -> None:
        """Let ``device`` access what was allocated on ``peer``. Enabling twice is not an error.

        Raises:
            DriverError: ``CUDA_ERROR_PEER_ACCESS_UNSUPPORTED``.
        """
        if not self.can_access_peer(device, peer):
            raise driver_error(217, f"device {device} cannot access the memory of device {peer}")
        self.used(device).peers.add(self.used(peer))

    def disable_peer_access(self, device: int, peer: int) -> None:
        """Undo ``enable_peer_access``.

        Raises:
            DriverError: ``CUDA_ERROR_PEER_ACCESS_NOT_ENABLED``.
        """
        here, there = self.used(device), self.used(peer)
        if there not in here.peers:
            raise driver_error(705, f"device {device} was not given access to the memory of device {peer}")
        here.peers.discard(there)

    # --- all memory at once

    def mend(self) -> None:
        """Make anew what follows from the tables of what exists, after an interrupted call."""
        on_host = sum(device.memory.mend() for device in self.made.values())
        if self.host is not None:
            self.host.mend(on_host)

    def close(self) -> None:
        """Give all memory back to the system. Idempotent."""
        for device in self.made.values():
            device.memory.close()
        if self.host is not None:
            self.host.close()
