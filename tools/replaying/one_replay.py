"""One replay as a job: which trace, on which allocator, with how much memory, on which driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from inspect import unwrap
from threading import Lock
from typing import Any

import numpy as np

from ...allocators.events import EventKind
from ...allocators.upstreams import LimitedUpstream
from ...allocators.upstreams.null import NullUpstream
from ...plugins.manager import default_manager
from ...plugins.selection import parse_selection
from ...plugins.tracing.trace_in_memory import Header, Trace
from ...runtime.drivers.device_upstream import DeviceUpstream
from ..analysis.blocks import curves, find_blocks
from ..analysis.findings import LEAK, ran_out, state_alone
from ..analysis.growth import growth_of
from ..analysis.module_use import layer_at_peak
from ..analysis.pytorch_settings import not_replayed, selection_of, told
from ..analysis.summarize import summarize
from ..console import UsageError
from ..foreign.load import load
from .late_start import as_recorded, held_at_start, is_pytorchs_own
from .program import Column, Program, decode
from .replayer import ReplayResult, replay
from .run_figures import Curve
from .worker_pool import report_progress

_reading = Lock()

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
    device: int | None = None
    """The ordinal of the only device to replay; None for all."""
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
    times: Column
    """Of every event of the trace: nanoseconds from the first."""
    note: str = ""
    """What is missing in the trace."""
    as_recorded: list[Program] = field(default_factory=list)
    """Where the history begins late, and segments are known: programs that begin with these (``late_start``)."""
    held_at_start: int = 0
    """The most bytes that one device then held."""
    state: str = ""
    """What can be said where nothing happens, and only the state at one moment is known, as a sentence."""
    verdict: str = ""
    """What another allocator does not help against: growth. Empty where there is none."""
    ran_out: str = ""
    """Why a request failed, as far as that is known, as a sentence; empty where none did."""
    remedy: str = ""
    """What to do where no allocator would have helped; empty where one may."""
    limited: bool = False
    """Whether memory was refused that the device had."""
    had: int | None = None
    """How many bytes there were when it failed; None where that is not known, or there are several devices."""
    of_pytorch: bool = False
    """Whether PyTorch recorded it."""
    settings: str = ""
    """PyTorch's settings that it was recorded with, as its environment said them."""
    base: str = ""
    """The selection that predicts PyTorch with them; empty where PyTorch did not record it."""
    private: bool = False
    """Whether some blocks lie in private pools."""
    has_times: bool = True
    """Whether the times are known, rather than only the order."""
    header: Header | None = None
    """What the trace says of the run."""
    layer: str = ""
    """Which module of a network holds most at the peak, as a sentence; empty where the history knows none."""

    def programs_for(self, allocator: str, memory: int | None, device: int | None = None) -> list[Program]:
        """What to replay on an allocator: the recorded one begins with its segments, where there is memory for them.

        Raises:
            UsageError: there is nothing to replay of that device.
        """
        chosen = self.programs
        if self.as_recorded or any(len(program.pressed) for program in chosen):
            own = is_pytorchs_own(allocator)
            if self.as_recorded and own and (memory is None or memory >= self.held_at_start):
                chosen = self.as_recorded
            if not own or memory is not None:  # else it does what it did, also where it was short of memory
                chosen = [program.as_asked() for program in chosen]
        if device is None:
            return chosen
        found = [program for program in chosen if program.device == device]
        if not found:
            known = ", ".join(str(program.device) for program in chosen)
            raise UsageError(f"{chosen[0].trace} has no allocations of device {device}; it has of: {known}")
        return found

    @property
    def of_rmm(self) -> bool:
        """Whether it is a log of RMM's."""
        return self.header is not None and self.header.source == "rmm"

    @property
    def ran_on(self) -> str:
        """The selection of the allocator that it was recorded on; empty where it is not known, or differs by device."""
        if self.base or self.header is None:
            return self.base
        known = {self.header.allocators.get(program.device, "") for program in self.programs}
        return known.pop() if len(known) == 1 else ""

    @property
    def duration(self) -> float:
        """Seconds from the first event to the last; 0 where times are not known."""
        return float(self.times[-1]) / 1e9 if len(self.times) and self.has_times else 0.0

    def timed(self, curves: dict[int, Curve]) -> dict[int, list[tuple[float, int]]]:
        """Curves over seconds from the first event of the trace, in place of steps."""
        found = {}
        for program in self.programs:
            if program.device in curves:
                steps, reserved = curves[program.device]
                seconds = self.times[program.events[steps]] / 1e9
                found[program.device] = list(zip(seconds.tolist(), reserved.tolist(), strict=True))
        return found


def history(path: str) -> History:
    """The programs in a file. The last two files are kept, since one is often replayed many times.

    Raises:
        TraceError: the file cannot be read.
        UsageError: there is nothing to replay in it.
    """
    with _reading:  # several threads want the same, and one reads it
        return _read(path)


@lru_cache(maxsize=2)
def _read(path: str) -> History:
    trace = load(path)
    programs = decode(trace)
    if not any(len(program.steps) for program in programs):
        raise UsageError(f"{path} has no allocations to replay")
    times = trace.events["time"]
    settings = _settings(trace)
    note = "; ".join(filter(None, (trace.note, not_replayed(settings))))
    return History(
        programs, times - times[0], note, as_recorded(programs, trace), held_at_start(trace),
        "" if trace.has_history() else " ".join(map(state_alone, summarize(trace).devices)),
        _verdict(trace), *_ran_out(trace), trace.header.source == "pytorch", told(settings),
        selection_of(settings) if trace.header.source == "pytorch" else "",
        bool(trace.header.fields.get("private_segments")), trace.header.timed, trace.header, layer_at_peak(trace),
    )  # fmt: skip


def _settings(trace: Trace) -> dict[str, str]:
    found = trace.header.fields.get("pytorch")
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _verdict(trace: Trace) -> str:
    told = []
    for device in trace.devices:
        events = trace.events[trace.events["device"] == device]
        blocks = find_blocks(events, completed_apart=trace.completed_apart)
        memory = curves(events, blocks)
        growth = growth_of(trace, device, blocks, memory.requested, memory.reserved)
        if growth is not None and not growth.alone:
            told.append(f"{growth.sentence()} {LEAK}")
    return " ".join(told)


def _ran_out(trace: Trace) -> tuple[str, str, bool, int | None]:
    """What was found where memory ran out, by device where there are several; what to do where no allocator helps;
    whether the device had the memory; and how much there was."""
    if not np.any(trace.events["kind"] == EventKind.OUT_OF_MEMORY):
        return "", "", False, None
    several = len(trace.devices) > 1
    found = {one.device: ran_out(one, trace.path) for one in summarize(trace, top=1).devices if one.out_of_memory}
    told = [f"Device {device}: {one.verdict}" if several else one.verdict for device, one in found.items()]
    had = None if several else next(iter(found.values())).memory
    remedies = dict.fromkeys(one.do for one in found.values() if one.no_help)
    return " ".join(told), " ".join(remedies), any(one.limited for one in found.values()), had


def run(work: Work) -> Outcome:
    """Replay once.

    Raises:
        TraceError: the file cannot be read.
        PluginError: the allocator or the driver is unknown, or an option of it is.
        UsageError: the trace has nothing to replay, or more devices than the driver.
    """
    past = history(work.trace)
    programs = past.programs_for(work.allocator, work.memory, work.device)
    total = sum(len(program.steps) for program in programs) or 1
    device: Any = None

    def progress(steps: int) -> None:
        report_progress(work.weight * steps / total)

    def make_upstream(ordinal: int) -> Any:
        if device is None:
            return null_upstream(work.allocator, work.memory, ordinal)
        upstream = DeviceUpstream(device, ordinal)
        return upstream if work.memory is None else LimitedUpstream(upstream, work.memory)

    if work.driver != "null":
        device = _driver(work, programs)
    curves: dict[int, Curve] | None = {} if work.curve else None
    try:
        result = replay(
            programs,
            partial(default_manager().make_allocator, work.allocator),
            allocator=work.allocator,
            make_upstream=make_upstream,
            stream=None if device is None else _streams_of(device),
            progress=progress,
            stop_at_failure=work.stop_at_failure,
            curves=curves,
        )
    finally:
        if device is not None:
            device.close()
    result = replace(result, trace=work.trace, note=past.note, run_seconds=past.duration, of_pytorch=past.of_pytorch)
    return Outcome(result, past.timed(curves or {}))


def runs_in_the_core(allocator: str) -> bool:
    """Whether replays on the allocator of that selection enter no Python: they then share a process, and its history.

    Raises:
        UnknownAllocatorError, PluginError: there is no such allocator.
    """
    return bool(getattr(default_manager().allocator_factory(allocator), "runs_in_the_core", False))


def has_native_form(allocator: str) -> bool:
    """Whether the allocator of that selection comes in C++ too, wherever that can be built."""
    return bool(getattr(default_manager().allocator_factory(allocator), "has_native_form", False))


def only_replays(allocator: str) -> bool:
    """Whether that selection stands for another library's allocator, so that no program can choose it."""
    factory = default_manager().allocators().get(parse_selection(allocator).name)
    return factory is not None and bool(getattr(unwrap(factory), "only_replays", False))


def null_upstream(allocator: str, memory: int | None, ordinal: int = 0) -> Any:
    """An upstream without a device, for the allocator of that selection: the core's own where it can run there.

    ``memory``: its capacity in bytes; None for more than any history needs. ``ordinal``: of the device whose part of
    the history is replayed.
    """
    sizes = () if memory is None else (memory,)
    if not runs_in_the_core(allocator):
        return NullUpstream(*sizes, ordinal=ordinal)
    from ...allocators.native.without_device import NativeNullUpstream

    return NativeNullUpstream(*sizes, ordinal=ordinal)


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
