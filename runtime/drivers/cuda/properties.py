"""What CUDA says of its devices."""

from __future__ import annotations

import ctypes
import uuid
from typing import Any

from ..base import DeviceProperties
from .calls import Calls

_VIRTUAL_MEMORY_SUPPORTED = 102  # CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED


def device_properties(calls: Calls, pycuda: Any, ordinal: int, *, bindings: bool) -> DeviceProperties:
    """Properties of a device. ``bindings`` says whether cuda-bindings is there, which virtual memory needs.

    Raises:
        DriverError: ``CUDA_ERROR_INVALID_DEVICE``.
    """
    calls.contexts.check_ordinal(ordinal)
    device, attributes = pycuda.Device(ordinal), pycuda.device_attribute

    def of(name: str) -> int:
        return int(device.get_attribute(getattr(attributes, name)))

    def in_three(name: str) -> tuple[int, int, int]:
        return of(f"{name}_X"), of(f"{name}_Y"), of(f"{name}_Z")

    major, minor = device.compute_capability()
    return DeviceProperties(
        name=device.name(),
        major=major,
        minor=minor,
        total_memory=device.total_memory(),
        multi_processor_count=of("MULTIPROCESSOR_COUNT"),
        warp_size=of("WARP_SIZE"),
        max_threads_per_block=of("MAX_THREADS_PER_BLOCK"),
        max_block_dim=in_three("MAX_BLOCK_DIM"),
        max_grid_dim=in_three("MAX_GRID_DIM"),
        shared_memory_per_block=of("MAX_SHARED_MEMORY_PER_BLOCK"),
        shared_memory_per_block_optin=of("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        max_threads_per_multi_processor=of("MAX_THREADS_PER_MULTIPROCESSOR"),
        l2_cache_size=of("L2_CACHE_SIZE"),
        clock_rate_khz=of("CLOCK_RATE"),
        pci_bus_id=device.pci_bus_id(),
        uuid=_uuid(calls, ordinal),
        concurrent_kernels=bool(of("CONCURRENT_KERNELS")),
        unified_addressing=bool(of("UNIFIED_ADDRESSING")),
        virtual_memory=bindings and has_virtual_memory(calls, ordinal),
    )


def has_virtual_memory(calls: Calls, ordinal: int) -> bool:
    """Whether the device has virtual memory.

    Raises:
        DriverError: ``CUDA_ERROR_INVALID_DEVICE``.
    """
    return bool(calls.attribute(ordinal, _VIRTUAL_MEMORY_SUPPORTED))


def _uuid(calls: Calls, ordinal: int) -> str:
    value = (ctypes.c_ubyte * 16)()
    code = calls.cuda.cuDeviceGetUuid(value, ordinal)
    if code:
        raise calls.cuda.error("cuDeviceGetUuid", code)
    return f"GPU-{uuid.UUID(bytes=bytes(value))}"
