"""What the memory of a device is used for. Named and meant as in ``torch.cuda``; all sizes are bytes.

On a device of which no memory was asked for, and where there is no device, all figures are 0.
"""

from __future__ import annotations

from typing import Any

from ...allocators.base import Allocator
from ...allocators.served import Served, served_of
from ...allocators.sleeping import Sleeping
from ...allocators.statistics import Statistics
from ..machine import checks
from ..machine.default_runtime import runtime_or_default
from ..machine.device import device_index
from ..machine.runtime import Runtime
from .pinned import made_pinned_allocators

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def memory_allocated(device: Any = None, *, runtime: Runtime | None = None) -> int:
    """Bytes in the program's hands, as rounded by the allocator."""
    return _statistics(device, runtime).all.allocated_bytes.current


def max_memory_allocated(device: Any = None, *, runtime: Runtime | None = None) -> int:
    """The most that ``memory_allocated`` has been since the beginning or ``reset_peak_memory_stats``."""
    return _statistics(device, runtime).all.allocated_bytes.peak


def memory_reserved(device: Any = None, *, runtime: Runtime | None = None) -> int:
    """Bytes that the allocator holds from the driver; those of the host (``expandable:host=``) are among them."""
    return _statistics(device, runtime).all.reserved_bytes.current


def max_memory_reserved(device: Any = None, *, runtime: Runtime | None = None) -> int:
    """The most that ``memory_reserved`` has been since the beginning or ``reset_peak_memory_stats``."""
    return _statistics(device, runtime).all.reserved_bytes.peak


memory_cached = memory_reserved
"""The older name of ``memory_reserved``."""
max_memory_cached = max_memory_reserved
"""The older name of ``max_memory_reserved``."""


def reset_peak_memory_stats(device: Any = None, *, runtime: Runtime | None = None) -> None:
    """Start every peak again from its current value."""
    allocator = _allocator(device, runtime)
    if allocator is not None:
        allocator.reset_peaks()


reset_max_memory_allocated = reset_peak_memory_stats
"""An older name. As in PyTorch, all peaks are reset."""
reset_max_memory_cached = reset_peak_memory_stats
"""An older name. As in PyTorch, all peaks are reset."""


def reset_accumulated_memory_stats(device: Any = None, *, runtime: Runtime | None = None) -> None:
    """Start every cumulative figure (``allocated``, ``freed``, counts of retries and failures) again from zero."""
    allocator = _allocator(device, runtime)
    if allocator is not None:
        allocator.reset_accumulated()


def memory_stats(device: Any = None, *, runtime: Runtime | None = None) -> dict[str, int]:
    """All that the allocator counts, by flat names such as ``allocated_bytes.all.current``.

    ``{figure}.{pool}.{what}``: figures are those of ``allocators.statistics.Counters``; pools ``all``, ``small_pool``
    and ``large_pool``; and ``current``, ``peak``, ``allocated`` and ``freed`` (the sums of increases and decreases).
    Besides ``num_alloc_retries``, ``num_ooms`` and their kin; and of what sleeps (``cuplug.cuda.sleep``) ``asleep`` and
    ``asleep_bytes``, the blocks and their bytes, and ``asleep_kept_bytes``, those of them whose contents are kept.
    ``planned`` and ``planned_bytes`` are the requests that a plan has served (allocator ``planned``), and their bytes.
    """
    statistics, sleeping = _statistics(device, runtime), _sleeping(device, runtime)
    figures = {
        f"{name}.{pool}.{what}": value
        for pool, counters in statistics.pools()
        for name, counter in counters.named()
        for what, value in counter.as_dict().items()
    }
    figures.update({name: getattr(statistics, name) for name in statistics.__slots__ if name.startswith("num_")})
    figures["asleep"] = sum(one.blocks for one in sleeping)
    figures["asleep_bytes"] = sum(one.nbytes for one in sleeping)
    figures["asleep_kept_bytes"] = sum(one.kept_bytes for one in sleeping)
    served = _served(device, runtime) or Served()
    figures["planned"], figures["planned_bytes"] = served.planned_requests, served.planned_bytes
    return dict(sorted(figures.items()))


def memory_summary(device: Any = None, abbreviated: bool = False, *, runtime: Runtime | None = None) -> str:
    """``memory_stats`` as a table for people. ``abbreviated`` leaves the two pools out."""
    runtime, short = runtime_or_default(runtime), checks.flag(abbreviated, "abbreviated")
    ordinal = device_index(device, runtime)
    statistics, served = _statistics(ordinal, runtime), _served(ordinal, runtime)
    name = runtime.settings.allocator if isinstance(runtime.settings.allocator, str) else "a factory's"
    lines = [
        f"memory of device {ordinal}, allocator {name}",
        f"failed for lack of memory: {statistics.num_ooms}; succeeded after a retry: {statistics.num_alloc_retries}",
        f"driver allocations: {statistics.num_device_alloc}; driver frees: {statistics.num_device_free}",
        *([] if served is None else [f"served by a plan: {served}"]),
        *(_asleep_line(one) for one in _sleeping(ordinal, runtime)),
        "",
        f"{'':28}" + "".join(f"{title:>14}" for title in ("current", "peak", "allocated", "freed")),
    ]
    for figure, title in _TITLES.items():
        show = _show_bytes if figure.endswith("_bytes") else str
        for pool, counters in statistics.pools():
            if pool != "all" and short:
                continue
            label = title if pool == "all" else f"  {pool.replace('_', ' ')}"
            values = getattr(counters, figure).as_dict().values()
            lines.append(f"{label:28}" + "".join(f"{show(value):>14}" for value in values))
    return "\n".join(lines) + "\n"


def _asleep_line(one: Sleeping) -> str:
    kept = f"{_show_bytes(one.kept_bytes)} kept on the host" if one.kept_bytes else "contents not kept"
    return f"asleep: {one.tag}, {_show_bytes(one.nbytes)} in {one.blocks} blocks, {kept}"


_TITLES = {
    "allocated_bytes": "allocated memory",
    "requested_bytes": "requested memory",
    "active_bytes": "active memory",
    "reserved_bytes": "reserved memory",
    "host_bytes": "  of it on the host",
    "inactive_split_bytes": "unreleasable memory",
    "allocation": "allocations",
    "active": "active blocks",
    "segment": "segments",
    "inactive_split": "unreleasable blocks",
}


def _show_bytes(nbytes: int) -> str:
    """A figure that fits a column: no more than six digits before the unit."""
    size, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 10240:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}"


def mem_get_info(device: Any = None, *, runtime: Runtime | None = None) -> tuple[int, int]:
    """The device's free and total bytes, whoever uses it.

    Raises:
        CuplugError: there is no device.
    """
    runtime = runtime_or_default(runtime)
    with runtime.on_device(device_index(device, runtime)):
        return runtime.driver.mem_info()


def memory_snapshot(device: Any = None, *, runtime: Runtime | None = None) -> list[dict[str, Any]]:
    """The map of what is held, as ``torch.cuda.memory_snapshot``: a dictionary for each segment, with its blocks.

    Args:
        device: by default all devices.
        runtime: the default runtime, if left out.
    """
    runtime = runtime_or_default(runtime)
    ordinals = range(runtime.device_count()) if device is None else [device_index(device, runtime)]
    return [segment for ordinal in ordinals for segment in _segments(ordinal, runtime.find_allocator(ordinal))]


def _segments(ordinal: int, allocator: Allocator | None) -> list[dict[str, Any]]:
    found = []
    for segment in allocator.segments() if allocator is not None else ():
        live = [block for block in segment.blocks if block.state == "active_allocated"]
        active = [block for block in segment.blocks if block.state != "inactive"]
        found.append(
            {
                "device": ordinal,
                "address": segment.address,
                "total_size": segment.nbytes,
                "allocated_size": sum(block.nbytes for block in live),
                "active_size": sum(block.nbytes for block in active),
                "requested_size": sum(block.requested for block in active),
                "stream": segment.stream,
                "segment_type": segment.pool,
                "is_expandable": segment.expandable,
                "tag": segment.tag,
                "asleep": segment.asleep,
                "host": segment.host,
                "blocks": [
                    {
                        "address": block.address,
                        "size": block.nbytes,
                        "requested_size": block.requested,
                        "state": block.state,
                    }
                    for block in segment.blocks
                ],
            }
        )
    return found


def empty_cache(*, runtime: Runtime | None = None) -> None:
    """Give back to the driver what no live block needs, on every device and of page-locked memory. Waits for queued
    work where it must.

    Raises:
        DriverError: a device is in a sticky error state.
    """
    runtime = runtime_or_default(runtime)
    for ordinal in range(runtime.device_count()):
        allocator = runtime.find_allocator(ordinal)
        if allocator is not None:
            with runtime.on_device(ordinal):
                runtime.device(ordinal).streams.settle()
            allocator.release_cached()
    for pinned in made_pinned_allocators(runtime):
        pinned.release_cached()


def set_per_process_memory_fraction(fraction: float, device: Any = None, *, runtime: Runtime | None = None) -> None:
    """Let the allocator hold at most this part of the device's memory: more counts as out of memory.

    Raises:
        ValueError: ``fraction`` is not between 0 and 1.
        TypeError: it is no number.
    """
    part = checks.fraction(fraction, "the fraction of the memory")
    runtime = runtime_or_default(runtime)
    ordinal = device_index(device, runtime)
    runtime.allocator(ordinal).memory_limit = int(part * runtime.properties(ordinal).total_memory)


def _allocator(device: Any, runtime: Runtime | None) -> Allocator | None:
    runtime = runtime_or_default(runtime)
    if not runtime.device_count() and device is None:
        return None
    return runtime.find_allocator(device_index(device, runtime))


def _sleeping(device: Any, runtime: Runtime | None) -> list[Sleeping]:
    allocator = _allocator(device, runtime)
    return [] if allocator is None else allocator.asleep()


def _served(device: Any, runtime: Runtime | None) -> Served | None:
    allocator = _allocator(device, runtime)
    return None if allocator is None else served_of(allocator)


def _statistics(device: Any, runtime: Runtime | None) -> Statistics:
    allocator = _allocator(device, runtime)
    return Statistics() if allocator is None else allocator.statistics()
