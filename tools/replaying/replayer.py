"""Replays a recorded history on an allocator, and measures what it would have cost. Computes only; prints nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ...allocators.base import Allocator
from ...allocators.served import Served
from ...allocators.upstream import Upstream
from ...allocators.upstreams import TimedUpstream
from ...allocators.upstreams.null import NullUpstream
from .native_run import NativeRun
from .program import Program
from .python_run import PythonRun
from .run_figures import Curve, Shortage


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What one allocator did with one history. Over several devices, figures are sums."""

    trace: str
    """The trace's path."""
    allocator: str
    """The allocator's selection."""
    events: int
    """The events of the trace, those included that a replay passes over (such as the recorded allocator's segments)."""
    peak_requested_bytes: int
    peak_allocated_bytes: int
    """As the allocator rounded them."""
    peak_reserved_bytes: int
    driver_calls: dict[str, int]
    """How often each call of the driver was made, or would have been (``NullUpstream``), until the last event."""
    driver_time_us: float
    """Microseconds in those calls: estimated by ``NullUpstream``, measured by ``TimedUpstream``."""
    out_of_memory_events: int
    """Allocations that failed. What depends on them was passed over."""
    seconds: float
    """Wall time of the replay, from the first event to the last."""
    failure: str = ""
    """The first event that failed, and why; empty where none did."""
    note: str = ""
    """What is missing in the trace; empty where nothing is."""
    run_seconds: float = 0.0
    """The recorded run's time, from its first event to its last; 0 where that is not known."""
    of_pytorch: bool = False
    """Whether the history is of PyTorch's own allocator."""

    history_peak_bytes: int = 0
    """The most bytes that the history's program holds at once, also where the replay did not come so far."""
    served: Served | None = None
    """What a plan served; None where none was followed."""
    devices: int = 1
    """Of how many devices the figures are sums."""
    peak_host_bytes: int = 0
    """Of what was reserved, the most that was memory of the host (``expandable:host=``)."""

    shortage: Shortage | None = None
    """What was lacking where the replay ended for lack of memory."""

    @property
    def follows_in_vain(self) -> bool:
        """Whether the allocator follows plans, and none has served anything."""
        return self.served is not None and not self.served.planned_bytes

    @property
    def driver_time_share(self) -> float | None:
        """``driver_time_us`` as a fraction of the recorded run's time; None where that is not known."""
        return self.driver_time_us / 1e6 / self.run_seconds if self.run_seconds else None

    @property
    def reserved_over_requested(self) -> float:
        """Peak reserved as a multiple of peak requested."""
        return self.peak_reserved_bytes / self.peak_requested_bytes if self.peak_requested_bytes else 0.0

    @property
    def events_per_second(self) -> float:
        """Events of the trace in a second of replay."""
        return self.events / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, object]:
        """The figures by name, for JSON."""
        return {
            "trace": self.trace,
            "allocator": self.allocator,
            "events": self.events,
            "peak_requested_bytes": self.peak_requested_bytes,
            "peak_allocated_bytes": self.peak_allocated_bytes,
            "peak_reserved_bytes": self.peak_reserved_bytes,
            "reserved_over_requested": self.reserved_over_requested,
            "driver_calls": self.driver_calls,
            "driver_time_us": self.driver_time_us,
            "driver_time_share": self.driver_time_share,
            "out_of_memory_events": self.out_of_memory_events,
            "seconds": self.seconds,
            "events_per_second": self.events_per_second,
            **({"peak_host_bytes": self.peak_host_bytes} if self.peak_host_bytes else {}),
            **({"served": asdict(self.served)} if self.served is not None else {}),
            **({"failure": self.failure} if self.failure else {}),
            **({"note": self.note} if self.note else {}),
        }


def replay(
    programs: list[Program],
    make_allocator: Callable[[Upstream], Allocator],
    *,
    allocator: str,
    make_upstream: Callable[[int], Upstream] | None = None,
    memory: int | None = None,
    stream: Callable[[int, int], int] | None = None,
    progress: Callable[[int], None] | None = None,
    stop_at_failure: bool = False,
    curves: dict[int, Curve] | None = None,
) -> ReplayResult:
    """Replay ``programs``, one device after the other, each on an allocator of its own.

    Args:
        programs: from ``decode``.
        make_allocator: makes the allocator over its upstream.
        allocator: its selection, for the result and for messages.
        make_upstream: makes the upstream of a device's ordinal; by default a ``NullUpstream``. It is measured
            (``TimedUpstream``) unless it is a ``NullUpstream`` or a ``NativeNullUpstream``, which estimate. Over the
            latter the replay runs in the native core.
        memory: the capacity in bytes of a default upstream; by default more than any history needs.
        stream: the stream to use for a device's ordinal and a recorded stream; by default the recorded handle.
        progress: called now and then with the number of further steps that have been done.
        stop_at_failure: give up at the first event that fails; the figures are then of the part replayed.
        curves: gets, by device, what is reserved after the steps at which that changes. Only over upstreams that
            estimate.

    Raises:
        ValueError: there are no programs.
    """
    if not programs:
        raise ValueError("nothing to replay: the trace has no device events")
    runs: list[PythonRun | NativeRun] = []
    for program in programs:
        upstream: Any
        if make_upstream is None:
            upstream = NullUpstream() if memory is None else NullUpstream(memory)
        else:
            upstream = make_upstream(program.device)
        if hasattr(upstream, "native_null"):
            runs.append(NativeRun(program, make_allocator(upstream)))
        else:
            metered = upstream if isinstance(upstream, NullUpstream | TimedUpstream) else TimedUpstream(upstream)
            runs.append(PythonRun(program, make_allocator(metered), metered))
    for run in runs:
        run.go(stream, progress or _ignore, stop_at_failure=stop_at_failure, with_curve=curves is not None)
        if curves is not None:
            curves[run.program.device] = run.curve
        if stop_at_failure and run.failure:
            break
    calls: Counter[str] = Counter()
    for run in runs:
        calls.update(run.calls)
    return ReplayResult(
        trace=programs[0].trace,
        allocator=allocator,
        events=sum(program.total_events for program in programs),
        peak_requested_bytes=sum(run.peak_requested for run in runs),
        peak_allocated_bytes=sum(run.peak_allocated for run in runs),
        peak_reserved_bytes=sum(run.peak_reserved for run in runs),
        driver_calls=dict(calls),
        driver_time_us=sum(run.driver_time_us for run in runs),
        out_of_memory_events=sum(run.out_of_memory for run in runs),
        seconds=sum(run.seconds for run in runs),
        failure=next((run.failure for run in runs if run.failure), ""),
        devices=len(runs),
        shortage=next((run.shortage for run in runs if run.failure), None),
        peak_host_bytes=sum(run.peak_on_host for run in runs),
        history_peak_bytes=sum(program.peak_requested for program in programs),
        served=sum(served, Served()) if (served := [run.served for run in runs if run.served is not None]) else None,
    )


def _ignore(steps: int) -> None:
    """No progress is shown."""
