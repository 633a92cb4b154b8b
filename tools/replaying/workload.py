"""One replay as a job: which trace, on which allocator, with how much memory, on which driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ...allocators.null import NullUpstream
from ...allocators.upstream import Upstream
from ...allocators.upstreams import LimitedUpstream
from ...plugins.manager import default_manager
from ...runtime.drivers.device_upstream import DeviceUpstream
from ..console import UsageError
from ..foreign.load import load
from .jobs import report_progress
from .program import Program, decode
from .replayer import ReplayResult, replay

__all__ = ["History", "Outcome", "Work", "history", "run"]

_CHUNK = 8192
_PAGE = 2 << 20


@dataclass(frozen=True, slots=True)
class Work:
    """What to replay, and how."""

    trace: str
    """The file's path."""
    allocator: str
    """The allocator's selection."""
    memory: int | None = None
    """Each device's capacity in bytes; None for as much as is wanted, or as the device has."""
    driver: str = "null"
    """``null`` for address arithmetic alone, else a driver's selection."""
    curve: bool = False
    """Whether to note how much is reserved after every step. Only with the driver ``null``."""
    stop_at_failure: bool = False
    weight: float = 1.0
    """The share of its job, for the progress bar."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    result: ReplayResult
    curves: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """By device: (seconds from the first event of the trace, bytes reserved), at every change."""


@dataclass(frozen=True, slots=True)
class History:
    """A trace, as far as replays need it."""

    programs: list[Program]
    seconds: list[float]
    """Of every event of the trace, from the first."""
    note: str = ""
    """What is missing in the trace."""

    @property
    def duration(self) -> float:
        """Seconds from the first event to the last."""
        return self.seconds[-1] if self.seconds else 0.0


@lru_cache(maxsize=2)
def history(path: str) -> History:
    """The programs in a file. The last two files are kept, since one is often replayed many times.

    Raises:
        TraceError: the file cannot be read.
        UsageError: there is nothing to replay in it.
    """
    trace = load(path)
    programs = decode(trace)
    if not any(program.steps for program in programs):
        raise UsageError(f"{path} has no allocations to replay")
    times = trace.events["time"]
    return History(programs, ((times - times[0]) / 1e9).tolist(), trace.note)


def run(work: Work) -> Outcome:
    """Replay once.

    Raises:
        TraceError: the file cannot be read.
        PluginError: the allocator or the driver is unknown, or an option of it is.
        UsageError: the trace has nothing to replay, or more devices than the driver.
    """
    past = history(work.trace)
    manager = default_manager()
    manager.check_allocator(work.allocator)
    total = sum(len(program.steps) for program in past.programs) or 1
    device: Any = None
    watch = _Watch(past, total) if work.curve else None

    def progress(steps: int) -> None:
        if watch is not None:
            watch.step(steps)
        else:
            report_progress(work.weight * steps / total)

    def make_upstream(ordinal: int) -> Upstream:
        if device is not None:
            upstream: Upstream = DeviceUpstream(device, ordinal)
            return upstream if work.memory is None else LimitedUpstream(upstream, work.memory)
        null = NullUpstream() if work.memory is None else NullUpstream(work.memory)
        if watch is not None:
            watch.upstreams.append(null)
        return null

    if work.driver != "null":
        device = _driver(work, past.programs)
    try:
        result = replay(
            past.programs,
            lambda upstream: manager.make_allocator(work.allocator, upstream),
            allocator=work.allocator,
            make_upstream=make_upstream,
            stream=None if device is None else _streams_of(device),
            progress=progress,
            chunk=1 if watch else _CHUNK,
            stop_at_failure=work.stop_at_failure,
        )
    finally:
        if device is not None:
            device.close()
    return Outcome(replace(result, trace=work.trace, note=past.note), watch.curves if watch else {})


class _Watch:
    """Notes what is reserved after every step."""

    def __init__(self, past: History, total: int) -> None:
        self.upstreams: list[NullUpstream] = []
        self.curves: dict[int, list[tuple[float, int]]] = {program.device: [] for program in past.programs}
        self._past = past
        self._total = total
        self._program = 0
        self._at = 0
        self._reserved = -1

    def step(self, steps: int) -> None:
        programs = self._past.programs
        while self._at >= len(programs[self._program].steps):
            self._program, self._at, self._reserved = self._program + 1, 0, -1
        program = programs[self._program]
        reserved = self.upstreams[self._program].used_bytes
        if reserved != self._reserved:
            self._reserved = reserved
            self.curves[program.device].append((self._past.seconds[program.events[self._at]], reserved))
        self._at += steps
        if not self._at % _CHUNK:
            report_progress(_CHUNK / self._total)


def _driver(work: Work, programs: list[Program]) -> Any:
    """The driver, with as many devices as the trace has."""
    manager = default_manager()
    selection = work.driver
    wanted = max(program.device for program in programs) + 1
    if selection.partition(":")[0] == "sim":
        options = [] if "devices=" in selection else [f"devices={wanted}"]
        if work.memory is not None and "memory=" not in selection:
            options.append(f"memory={-(-work.memory // _PAGE) * _PAGE}")  # the limit proper is above it
        if options:
            selection += ("," if ":" in selection else ":") + ",".join(options)
    driver = manager.make_driver(selection)
    found = driver.device_count()
    if found < wanted:
        driver.close()
        raise UsageError(
            f"{work.trace} has events of device {wanted - 1}, and the driver {selection} has {found} devices"
        )
    return driver


def _streams_of(driver: Any) -> Callable[[int, int], int]:
    def stream(device: int, recorded: int) -> int:
        if not recorded:
            return 0
        before = driver.current_device()
        driver.set_device(device)
        try:
            return int(driver.stream_create())
        finally:
            driver.set_device(before)

    return stream
