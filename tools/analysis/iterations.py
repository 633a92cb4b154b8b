"""Where the iterations of two runs begin, and what the runs do differently first. Computes only."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import Trace
from .sites import SiteNames, without_noise

_FEWEST = 3
"""What comes less often marks no iterations."""
Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Changed:
    """A line of the program that asks for other memory than before, in one iteration."""

    where: str
    requested: int
    """Bytes of one block."""
    before: int
    after: int
    """Allocations of that size."""


@dataclass(frozen=True)
class Alignment:
    """Two runs laid over each other."""

    marked_by: str
    """What an iteration begins with, for people."""
    begins: tuple[list[float], list[float]]
    """For each run, in seconds from its first event: 0, the beginning of each iteration, and the end."""
    differs_in: int | None
    """The first iteration in which the runs ask for other memory, 0 being what comes before; None for none."""
    changed: list[Changed] = field(default_factory=list)
    """What differs there; what makes up most bytes first."""


def align(before: Trace, after: Trace, devices: tuple[int, int]) -> Alignment:
    """Lay one device of a run over one of another.

    Iterations begin with a marker that both programs have set again and again, its number aside; else with the call
    stack, or without any the size, that both runs allocate with most regularly. Where there is nothing of the kind,
    each run is one iteration.
    """
    runs = [_Run(trace, device) for trace, device in zip((before, after), devices, strict=True)]
    marked_by, begins = _marks(*runs)
    counted = [run.counted(times) for run, times in zip(runs, begins, strict=True)]
    places: dict[str, int] = {}
    for number in range(min(len(times) - 1 for times in begins)):
        changed = _changes(runs, [one[number] for one in counted], places)
        if changed:
            return Alignment(marked_by, (begins[0], begins[1]), number, changed)
    return Alignment(marked_by, (begins[0], begins[1]), None)


class _Run:
    """The allocations of one device of one run."""

    def __init__(self, trace: Trace, device: int) -> None:
        self.trace = trace
        self.sites = SiteNames(trace)
        events = trace.events[trace.events["device"] == device]
        self.origin = int(events["time"][0]) if len(events) else 0
        self.end = (int(events["time"][-1]) - self.origin) / 1e9 if len(events) else 0.0
        asked = events[events["kind"] == EventKind.ALLOCATE]
        self.seconds: Times = (asked["time"] - self.origin) / 1e9
        self.requested = asked["requested"]
        self.contexts, self.context = np.unique(asked["context"], return_inverse=True)
        self.stacks = [tuple(map(str, without_noise(trace.stack(number)))) for number in self.contexts.tolist()]

    def markers(self) -> dict[Hashable, Times]:
        """When the program set markers, by their names without numbers."""
        found: dict[Hashable, list[float]] = {}
        for event in self.trace.events[self.trace.events["kind"] == EventKind.MARKER]:
            name = re.sub(r"[\s:#_-]*\d+$", "", self.trace.name(event["requested"]))
            found.setdefault(name, []).append((int(event["time"]) - self.origin) / 1e9)
        return {name: np.array(times) for name, times in found.items()}

    def repeated(self) -> dict[Hashable, npt.NDArray[np.int64]]:
        """The places of allocations by call stack; by size where there are no stacks."""
        found: dict[Hashable, npt.NDArray[np.int64]] = {}
        if any(self.stacks):
            codes, keys = self.context, [stack or None for stack in self.stacks]
        else:
            sizes, codes = np.unique(self.requested, return_inverse=True)
            keys = list(map(int, sizes))  # type: ignore[arg-type]
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(len(keys) + 1))
        for number, key in enumerate(keys):
            if key is not None:
                found[key] = order[edges[number] : edges[number + 1]]
        return found

    def counted(self, begins: list[float]) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """For each iteration, what is asked for, as places in ``contexts`` and sizes, a row each."""
        edges = np.searchsorted(self.seconds, begins, side="left")
        edges[-1] = len(self.seconds)
        return [
            (self.context[first:after], self.requested[first:after])
            for first, after in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ]


def _marks(before: _Run, after: _Run) -> tuple[str, list[list[float]]]:
    runs = before, after
    marked = [run.markers() for run in runs]
    common = [name for name in marked[0] if name in marked[1] and min(len(one[name]) for one in marked) > 1]
    if common:
        name = max(common, key=lambda name: len(marked[0][name]))
        return f"the marker {name!r}", [_edges(run, one[name]) for run, one in zip(runs, marked, strict=True)]
    repeated = [run.repeated() for run in runs]
    irregular = {
        key: max(_irregularity(one[key]) for one in repeated)
        for key in repeated[0]
        if key in repeated[1] and min(len(one[key]) for one in repeated) >= _FEWEST
    }
    if not irregular:
        return "", [_edges(run, np.empty(0)) for run in runs]
    key = min(irregular, key=lambda key: (round(irregular[key], 2), int(repeated[0][key][0])))
    what = f"an allocation at {key[0]}" if isinstance(key, tuple) else f"an allocation of {key} bytes"
    return what, [_edges(run, run.seconds[one[key]]) for run, one in zip(runs, repeated, strict=True)]


def _irregularity(places: npt.NDArray[np.int64]) -> float:
    """How unlike the numbers of allocations from one place to the next are."""
    gaps = np.diff(places)
    return float(gaps.std() / gaps.mean())


def _edges(run: _Run, times: Times) -> list[float]:
    inside = sorted(max(float(time), 0.0) for time in times if time < run.end)
    return [0.0, *inside, max(run.end, 1e-9)]


def _changes(
    runs: list[_Run], asked: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]], places: dict[str, int]
) -> list[Changed]:
    counts: list[dict[int, int]] = []
    for run, (context, requested) in zip(runs, asked, strict=True):
        of = [places.setdefault(run.sites.of(number), len(places)) for number in run.contexts.tolist()]
        keys = np.array(of, np.int64)[context] << 44 if len(context) else context
        found, times = np.unique(keys | np.minimum(requested, (1 << 44) - 1), return_counts=True)
        counts.append(dict(zip(found.tolist(), times.tolist(), strict=True)))
    names = list(places)
    changed = [
        Changed(names[key >> 44], key & ((1 << 44) - 1), counts[0].get(key, 0), counts[1].get(key, 0))
        for key in {**counts[0], **counts[1]}
        if counts[0].get(key, 0) != counts[1].get(key, 0)
    ]
    return sorted(changed, key=lambda one: (-abs(one.after - one.before) * one.requested, one.where, one.requested))
