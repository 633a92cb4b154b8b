"""Several histories side by side, as recorded or under several allocators; and what changed between two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean

import numpy as np

from ...plugins.tracing.trace_in_memory import Trace
from ..analysis.blocks import curves, find_blocks
from ..analysis.summarize import DeviceSummary, summarize
from ..foreign.load import load
from .one_replay import Work, run, runs_in_the_core
from .worker_pool import in_parallel


@dataclass(frozen=True)
class Row:
    """One history, as recorded or under one allocator. Sizes are bytes, summed over devices."""

    trace: str
    allocator: str
    """Empty for what was recorded."""
    events: int
    requested: int
    allocated: int
    reserved: int
    driver_calls: dict[str, int]
    out_of_memory: int
    driver_time_us: float | None = None
    run_seconds: float = 0.0
    """The recorded run's time; 0 where that is not known, as for what was recorded itself."""
    failure: str = ""
    note: str = ""
    """What is missing in the trace."""
    curves: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """By device: seconds from the first event, and bytes reserved from then on."""
    knows_reserved: bool = True
    """False where nothing tells what was reserved: in a log of RMM's, say."""
    of_pytorch: bool = False
    """Whether a replayed history is of PyTorch's own allocator."""

    @property
    def reserved_over_requested(self) -> float:
        """Peak reserved as a multiple of peak requested."""
        return self.reserved / self.requested if self.requested else 0.0

    @property
    def driver_time_share(self) -> float | None:
        """``driver_time_us`` as a fraction of the recorded run's time; None where one of them is not known."""
        known = self.driver_time_us is not None and self.run_seconds
        return self.driver_time_us / 1e6 / self.run_seconds if known else None  # type: ignore[operator]


@dataclass(frozen=True)
class Mean:
    """One allocator over several histories."""

    allocator: str
    """Empty for what was recorded."""
    reserved_over_requested: float
    """The geometric mean of peak reserved as a multiple of peak requested."""


def means(rows: Sequence[Row]) -> list[Mean]:
    """The geometric mean of each allocator, where there are several histories.

    An allocator has none where it failed on one of them, or where what it reserved is not known: a mean over fewer
    histories could not be compared with the others.
    """
    traces = {row.trace for row in rows}
    if len(traces) < 2:
        return []
    found = []
    for allocator in dict.fromkeys(row.allocator for row in rows):
        mine = [row for row in rows if row.allocator == allocator]
        if {row.trace for row in mine} == traces and all(
            row.knows_reserved and row.reserved and row.requested and not row.failure for row in mine
        ):
            found.append(Mean(allocator, geometric_mean(row.reserved_over_requested for row in mine)))
    return found


def compare(
    files: Sequence[str],
    allocators: Sequence[str],
    *,
    memory: int | None,
    jobs: int,
    with_curves: bool,
    scheduler: str | None = None,
    device: int | None = None,
) -> list[Row]:
    """Every file as recorded and, if allocators are named, under each of them.

    Raises:
        TraceError, UsageError, PluginError: a file cannot be read, or an allocator cannot be had.
    """
    rows = [recorded(file, device) for file in files]
    work = [
        Work(file, selection, memory, curve=with_curves, device=device) for file in files for selection in allocators
    ]
    quick = all(map(runs_in_the_core, allocators))
    for outcome in in_parallel(run, work, jobs=jobs, description="replaying", threads=quick, scheduler=scheduler):
        result = outcome.result
        rows.append(
            Row(
                result.trace,
                result.allocator,
                result.events,
                result.peak_requested_bytes,
                result.peak_allocated_bytes,
                result.peak_reserved_bytes,
                result.driver_calls,
                result.out_of_memory_events,
                result.driver_time_us,
                result.run_seconds,
                result.failure,
                result.note,
                outcome.curves,
                of_pytorch=result.of_pytorch,
            )
        )
    return sorted(rows, key=lambda row: files.index(row.trace))


def recorded(file: str, only: int | None = None) -> Row:
    """A file as it was recorded; of one device ``only`` where that is named.

    Raises:
        TraceError: it cannot be read.
    """
    trace = load(file)
    summary = summarize(trace, device=only)
    found: dict[int, list[tuple[float, int]]] = {}
    origin = int(trace.events["time"][0]) if len(trace.events) else 0
    calls: dict[str, int] = {}
    for device in summary.devices:
        events = trace.events[trace.events["device"] == device.device]
        reserved = curves(events, find_blocks(events, completed_apart=trace.completed_apart)).reserved
        changes = np.flatnonzero(np.diff(reserved, prepend=0))
        changes = np.append(changes, len(events) - 1)
        seconds = (events["time"][changes] - origin) / 1e9
        found[device.device] = list(zip(seconds.tolist(), reserved[changes].tolist(), strict=True))
        for name, count in device.driver_calls.items():
            calls[name] = calls.get(name, 0) + count
    return Row(
        file, "", len(trace.events) - trace.begin,
        sum(device.requested.nbytes for device in summary.devices),
        sum(device.allocated.nbytes for device in summary.devices),
        sum(device.reserved.nbytes for device in summary.devices),
        calls,
        sum(len(device.out_of_memory) for device in summary.devices),
        note=trace.note,
        curves=found,
        knows_reserved=all(device.knows_reserved for device in summary.devices),
    )  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One line of a difference. Sizes are bytes."""

    what: str
    before: int
    after: int

    @property
    def by(self) -> int:
        """How much more there is now."""
        return self.after - self.before


@dataclass(frozen=True)
class Difference:
    """What changed on one device."""

    device: int
    peaks: list[Change]
    sites: list[Change]
    """Bytes held at the peak, by line of the program; the largest changes first."""
    sizes: list[Change]
    """Allocations, by requested size."""
    failed: Change
    """Requests for which there was no memory."""


def difference(before: Trace, after: Trace, *, top: int, device: int | None = None) -> list[Difference]:
    """What changed from one history to another, for each device or for one."""
    old, new = (
        {one.device: one for one in summarize(trace, device=device, top=1 << 30).devices} for trace in (before, after)
    )
    return [_of_device(number, old.get(number), new.get(number), top) for number in sorted({*old, *new})]


def _of_device(number: int, old: DeviceSummary | None, new: DeviceSummary | None, top: int) -> Difference:
    def sides(read: dict[str, int], other: dict[str, int]) -> list[Change]:
        return [Change(name, read.get(name, 0), other.get(name, 0)) for name in {**read, **other}]

    known = all(one.knows_reserved for one in (old, new) if one is not None)
    peaks = [one for one in sides(_peaks(old), _peaks(new)) if known or one.what != _RESERVED]
    sites = sides(
        {site.where: site.nbytes for site in old.sites_at_peak} if old else {},
        {site.where: site.nbytes for site in new.sites_at_peak} if new else {},
    )
    sizes = [
        Change(str(up_to), before, after)
        for up_to, before, after in sorted(
            (int(change.what), change.before, change.after)
            for change in sides(
                {str(entry.up_to): entry.allocations for entry in old.sizes} if old else {},
                {str(entry.up_to): entry.allocations for entry in new.sizes} if new else {},
            )
        )
    ]
    sites.sort(key=lambda change: (-abs(change.by), change.what))
    failed = Change("out of memory", *(len(one.out_of_memory) if one is not None else 0 for one in (old, new)))
    return Difference(number, peaks, sites[:top], sizes, failed)


_RESERVED = "peak reserved"


def _peaks(device: DeviceSummary | None) -> dict[str, int]:
    if device is None:
        return {}
    return {
        "peak requested": device.requested.nbytes,
        "peak allocated": device.allocated.nbytes,
        _RESERVED: device.reserved.nbytes,
        "live at the end": device.live_bytes,
    }
