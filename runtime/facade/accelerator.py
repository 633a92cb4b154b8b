"""``cuplug.accelerator``: the CUDA devices, by names that do not say so, as ``torch.accelerator``."""

from __future__ import annotations

from typing import Any

from ..machine.device import current_device, device_count, is_available, set_device, synchronize
from ..machine.device_name import device
from ..memory.memory_stats import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from ..streams.stream import current_stream, set_stream

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "empty_cache",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def current_accelerator(check_available: bool = False) -> device | None:
    """The kind of device: ``device("cuda")``; with ``check_available`` None where there is none."""
    return device("cuda") if not check_available or is_available() else None


def current_device_index() -> int:
    """The ordinal of this thread's current device.

    Raises:
        CuplugError: there is no device.
    """
    return current_device()


def set_device_index(device: Any, /) -> None:
    """Make a device current in this thread.

    Raises:
        DriverError: ``CUDA_ERROR_INVALID_DEVICE``: none has this ordinal.
    """
    set_device(device)


get_memory_info = mem_get_info
current_device_idx = current_device_index
set_device_idx = set_device_index
