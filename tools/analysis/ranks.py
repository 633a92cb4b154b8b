"""The processes of a job side by side: which is worst, how far they are apart, which does what others do not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from statistics import median

import numpy as np

from ...allocators.sizes import short_size
from ...plugins.tracing.trace_in_memory import Trace
from .blocks import curves, find_blocks
from .findings import Finding
from .growth import rise_of_floor
from .summarize import Summary

_NOTABLE_GROWTH, _NOTABLE_REST = 0.02, 0.1
_NOTABLE_RATIO, _NOTABLE_SHARE = 1.15, 0.1


@dataclass(frozen=True)
class Rank:
    """One process's figures, in bytes, summed over its devices."""

    trace: str
    name: str
    """``rank 3`` where the file's name says so, else that."""
    requested: int
    reserved: int
    live: int
    """Not freed by the program's end."""
    growth: int
    """How much more it always holds towards the end than after its beginning; 0 where that did not grow steadily."""
    unused: float
    """The share of the reserved memory that no block used, on average over the events: so how fast a process ran does
    not count."""
    out_of_memory: int
    where: str = ""
    """The call site that most of what is live at the end comes from; empty where unknown."""
    by_device: dict[int, int] = field(default_factory=dict)
    """The peak of what is reserved, by device."""
    pinned: str = ""
    """What pins most of what lies idle at the peak, as a sentence; empty where nothing does."""
    knows_reserved: bool = True
    """False where nothing tells what was reserved: in a log of RMM's, say."""

    @property
    def reserved_over_requested(self) -> float:
        """Peak reserved as a multiple of peak requested."""
        return self.reserved / self.requested if self.requested else 0.0


@dataclass(frozen=True)
class Spread:
    """One figure over all ranks."""

    what: str
    least: float
    median: float
    most: float
    worst: str
    """The rank that has the most."""


@dataclass(frozen=True)
class GpuTotal:
    """What the processes of a job reserve on one GPU."""

    device: int
    processes: int
    reserved: int
    """Bytes: the sum of their peaks."""


@dataclass(frozen=True)
class Job:
    """All ranks, in the order of their files, and what follows."""

    ranks: list[Rank]
    spreads: list[Spread] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    gpus: list[GpuTotal] = field(default_factory=list)
    """Each GPU's total, where processes have memory on several: only then they count them alike."""

    @property
    def worst(self) -> Rank:
        """Of the ranks that ran out of memory, or of all where none did, the one that reserves the most; that requests
        the most where of some is not known what they reserve."""
        return _worst([rank for rank in self.ranks if rank.out_of_memory] or self.ranks)


def rank_of(trace: Trace, summary: Summary) -> Rank:
    """The figures of one process, from its trace and what ``summarize`` made of all of it."""
    devices = summary.devices
    reserved = sum(device.reserved.nbytes for device in devices)
    sites = [site for device in devices for site in device.sites_of_live]
    unused = [device.unused_at_peak for device in sorted(devices, key=lambda one: -one.reserved.nbytes)]
    courses = [_course(trace, device.device) for device in devices]
    held = sum(course.held for course in courses)
    return Rank(
        summary.path,
        _name(summary.path),
        sum(device.requested.nbytes for device in devices),
        reserved,
        sum(device.live_bytes for device in devices),
        sum(course.growth for course in courses),
        sum(course.unused for course in courses) / held if held else 0.0,
        sum(len(device.out_of_memory) for device in devices),
        max(sites, key=lambda site: site.nbytes).where if sites else "",
        {device.device: device.reserved.nbytes for device in devices if device.reserved.nbytes},
        next((unused.pin.sentence() for unused in unused if unused is not None and unused.pin is not None), ""),
        all(device.knows_reserved for device in devices),
    )


def job_of(ranks: Sequence[Rank]) -> Job:
    """Compare the ranks of a job. What one does and most others do not is found, and named."""
    gpus = _totals(ranks)
    found = [_headline(ranks), *_leaks(ranks), *_fragmented(ranks), *_out_of_memory(ranks), *_shared(gpus)]
    known = _all_known(ranks)
    spreads = [_spread(what, ranks, figure) for what, figure in _FIGURES if known or "reserved" not in what]
    return Job(list(ranks), spreads, found if len(ranks) > 1 else [], gpus)


_FIGURES: tuple[tuple[str, Callable[[Rank], float]], ...] = (
    ("peak requested", lambda rank: rank.requested),
    ("peak reserved", lambda rank: rank.reserved),
    ("reserved for 1 requested", lambda rank: rank.reserved_over_requested),
    ("live at the end", lambda rank: rank.live),
    ("growth", lambda rank: rank.growth),
)


def _all_known(ranks: Sequence[Rank]) -> bool:
    return all(rank.knows_reserved for rank in ranks)


def _worst(ranks: Sequence[Rank]) -> Rank:
    known = _all_known(ranks)
    return max(ranks, key=lambda rank: rank.reserved if known else rank.requested)


def _headline(ranks: Sequence[Rank]) -> Finding:
    known = _all_known(ranks)
    verb, figures = ("reserve", [rank.reserved for rank in ranks]) if known else (
        "request", [rank.requested for rank in ranks],
    )  # fmt: skip
    told = (
        f"{len(ranks)} processes {verb} between {short_size(min(figures))} and {short_size(max(figures))} at their "
        f"peaks, in the median {short_size(int(median(figures)))}; {_worst(ranks).name} {verb}s the most."
    )
    return Finding("note", told)


def _spread(what: str, ranks: Sequence[Rank], figure: Callable[[Rank], float]) -> Spread:
    figures = [figure(rank) for rank in ranks]
    worst = max(ranks, key=figure)
    return Spread(what, min(figures), median(figures), max(figures), worst.name)


def _name(path: str) -> str:
    name = Path(path).name
    number = re.search(r"(?i)rank[-_. ]?(\d+)", name) or re.search(r"(?i)rank[-_. ]?(\d+)", Path(path).parent.name)
    return f"rank {int(number[1])}" if number else name


@dataclass(frozen=True)
class _Course:
    """How one device's memory went."""

    growth: int
    held: int
    unused: int
    """Reserved bytes, and those of them that no block used, summed over the events."""


def _course(trace: Trace, device: int) -> _Course:
    own = np.flatnonzero(trace.events["device"] == device)
    events = trace.events[own]
    begin, end = np.searchsorted(own, [trace.begin, trace.end]).tolist()
    memory = curves(events, find_blocks(events, completed_apart=trace.completed_apart))
    reserved, active = memory.reserved[begin:end], memory.active[begin:end]
    return _Course(
        rise_of_floor(memory.requested[begin:end]), int(reserved.sum()), int(np.maximum(reserved - active, 0).sum())
    )


def _others(ranks: Sequence[Rank], one: Rank, figure: Callable[[Rank], float]) -> float:
    return median(figure(rank) for rank in ranks if rank is not one)


def _leaks(ranks: Sequence[Rank]) -> list[Finding]:
    found = []
    for rank in ranks:
        growth = rank.growth - _others(ranks, rank, lambda other: other.growth)
        rest = rank.live - _others(ranks, rank, lambda other: other.live)
        if growth <= _NOTABLE_GROWTH * rank.requested and rest <= _NOTABLE_REST * rank.requested:
            continue
        grows = growth > _NOTABLE_GROWTH * rank.requested
        if grows:
            told = f"leaks ({rank.trace}): what it holds grows by {short_size(rank.growth)} over the run, steadily"
        else:  # longer contexts, or more layers: other work is no leak
            more = short_size(int(rest))
            told = f"holds more at its end ({rank.trace}): {short_size(rank.live)}, {more} more than most others"
        where = f" What it never frees is asked for above all at {rank.where}." if rank.where else ""
        do = f"See what is live at its end: cuplug-trace summary {quote(rank.trace)}"
        found.append(Finding("bad" if grows else "note", f"{rank.name} {told}.{where}", do))
    return found


def _fragmented(ranks: Sequence[Rank]) -> list[Finding]:
    found: list[Finding] = []
    for rank in ranks if _all_known(ranks) else ():
        ratio = _others(ranks, rank, lambda other: other.reserved_over_requested)
        share = _others(ranks, rank, lambda other: other.unused)
        by_peak = rank.reserved_over_requested > _NOTABLE_RATIO * max(ratio, 1.0)
        if not by_peak and rank.unused <= share + _NOTABLE_SHARE:
            continue
        told = (
            f"{rank.name} fragments ({rank.trace}): it reserves {rank.reserved_over_requested:.2f} for 1 requested, "
            f"most others {ratio:.2f}; {rank.unused:.0%} of it are unused on average, of theirs {share:.0%}."
        )
        told = f"{told} {rank.pinned}".rstrip()
        do = f"Try other allocators on its history: cuplug-trace advise {quote(rank.trace)}"
        found.append(Finding("bad", told, do))
    return found


def _out_of_memory(ranks: Sequence[Rank]) -> list[Finding]:
    return [
        Finding("bad", f"{rank.name} runs out of memory ({rank.trace}), {_times(rank.out_of_memory)}.")
        for rank in ranks
        if rank.out_of_memory
    ]


def _times(count: int) -> str:
    return f"{count} time{'s' * (count > 1)}"


def _totals(ranks: Sequence[Rank]) -> list[GpuTotal]:
    """Where every process sees one GPU alone, they all call theirs 0, and nothing follows."""
    if all(len(rank.by_device) < 2 for rank in ranks):
        return []
    devices = sorted({device for rank in ranks for device in rank.by_device})
    held = {device: [rank.by_device[device] for rank in ranks if device in rank.by_device] for device in devices}
    return [GpuTotal(device, len(each), sum(each)) for device, each in held.items()]


def _shared(gpus: Sequence[GpuTotal]) -> list[Finding]:
    """GPUs on which more processes have memory than on most others."""
    if not gpus:
        return []
    usual = median(gpu.processes for gpu in gpus)
    return [
        Finding(
            "bad",
            f"GPU {gpu.device} holds memory of {gpu.processes} processes, {short_size(gpu.reserved)} together at their "
            f"peaks; most others hold that of {int(usual)}.",
            "Let each process choose its GPU before it does anything else (torch.cuda.set_device(local_rank), or "
            "CUDA_VISIBLE_DEVICES), and load checkpoints with map_location.",
        )
        for gpu in gpus
        if gpu.processes > usual
    ]
