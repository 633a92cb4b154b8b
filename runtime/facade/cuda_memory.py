"""``cuplug.cuda.memory``: all that counts memory, and what only programs that look closely ask for."""

from __future__ import annotations

from typing import Any

from ...allocators.errors import CuplugError, OutOfMemoryError
from ..machine.buffer import Buffer
from ..machine.checks import whole_number
from ..machine.default_runtime import runtime_or_default
from ..machine.device import device_index
from ..memory import memory_stats as counted
from ..memory.memory_stats import *  # noqa: F403
from ..memory.pinned import made_pinned_allocators

__all__ = [
    "OutOfMemoryError",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "memory_stats_as_nested_dict",
]
__all__ += counted.__all__

_taken: dict[int, Buffer] = {}
"""By address, what ``caching_allocator_alloc`` gave out."""


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """``size`` bytes of device memory, as an address, until ``caching_allocator_delete``.

    Args:
        size: bytes.
        device: the device; the current one if None.
        stream: for whose work; the device's current stream if None.

    Raises:
        OutOfMemoryError: the device has not that much memory left.
    """
    runtime = runtime_or_default(None)
    with runtime.on_device(device_index(device, runtime)):
        buffer = runtime.alloc(size, stream=stream)
    _taken[int(buffer)] = buffer
    return int(buffer)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Give memory back that ``caching_allocator_alloc`` took.

    Raises:
        CuplugError: it gave out nothing at this address.
    """
    address = whole_number(mem_ptr, "mem_ptr")
    found = _taken.pop(address, None)
    if found is None:
        raise CuplugError(f"caching_allocator_alloc gave out nothing at {address:#x}, or it was given back")
    found.close()


def get_allocator_backend() -> str:
    """The name of the allocator in use; ``custom`` where a program made it itself."""
    chosen = runtime_or_default(None).settings.allocator
    return chosen.partition(":")[0] if isinstance(chosen, str) else "custom"


def get_per_process_memory_fraction(device: Any = None) -> float:
    """How much of the device's memory the allocator may hold, as set last; 1.0 at the beginning.

    Raises:
        CuplugError: there is no device.
    """
    runtime = runtime_or_default(None)
    ordinal = device_index(device, runtime)
    allocator = runtime.find_allocator(ordinal)
    if allocator is None or allocator.memory_limit is None:
        return 1.0
    return allocator.memory_limit / runtime.properties(ordinal).total_memory


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """``memory_stats`` as dictionaries in dictionaries: ``["allocated_bytes"]["all"]["current"]``."""
    return _nested(counted.memory_stats(device))


def host_memory_stats() -> dict[str, int]:
    """What page-locked memory is used for, by flat names such as ``allocated_bytes.current``; empty before any was.

    The contents of what sleeps are kept apart from all else: peaks are sums of the peaks of both.
    """
    found: dict[str, int] = {}
    for allocator in made_pinned_allocators(runtime_or_default(None)):
        for name, counter in allocator.statistics().all.named():
            for what, value in counter.as_dict().items():
                found[f"{name}.{what}"] = found.get(f"{name}.{what}", 0) + value
    return found


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """``host_memory_stats`` as dictionaries in dictionaries."""
    return _nested(host_memory_stats())


def _nested(flat: dict[str, int]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        inner = made
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return made


def _snapshot(device: Any = None) -> dict[str, Any]:
    """The map of what is held, as ``torch.cuda.memory._snapshot`` gives it, without a history: traces have that."""
    return {"segments": counted.memory_snapshot(device), "device_traces": [], "external_annotations": []}


def _record_memory_history(*_: Any, **__: Any) -> None:
    """Refuses: the history of memory is in traces.

    Raises:
        CuplugError: always.
    """
    raise CuplugError(
        "memory history is not part of cuplug.cuda: record a trace with init(trace=...) or CUPLUG_TRACE, and see it "
        "with cuplug-trace report"
    )
