"""The figures of ``cuplug-trace summary``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...allocators.private_streams import STREAM_BITS
from ...allocators.served import Served
from ...plugins.tracing.trace_in_memory import EventArray, Trace
from .blocks import Blocks, Curves, curves, find_blocks
from .growth import Growth, growth_of
from .idle_memory import Held, Idle, Unused, held_after, idle_of, unused_of
from .module_use import ModuleUse, module_uses
from .private_pools import most_reserved, pool_names, pooled
from .segment_spans import segment_spans
from .sites import NO_STACK, Site, SiteNames, sites


@dataclass(frozen=True)
class Peak:
    """The largest value of a curve, in bytes, and when it was first reached, in seconds from the first event."""

    nbytes: int = 0
    seconds: float = 0.0
    event: int = -1


@dataclass(frozen=True)
class SizeClass:
    """Allocations of up to ``up_to`` requested bytes, and of more than half of it."""

    up_to: int
    allocations: int
    nbytes: int


@dataclass(frozen=True)
class Lifetimes:
    """How long freed blocks were in the program's hands, in microseconds."""

    blocks: int = 0
    median_us: float = 0.0
    percentile_90_us: float = 0.0
    percentile_99_us: float = 0.0
    longest_us: float = 0.0


@dataclass(frozen=True)
class StreamUse:
    """One stream's blocks. Sizes are requested bytes; the peak is the stream's own."""

    stream: int
    allocations: int
    nbytes: int
    peak_bytes: int
    used_by_others: int
    """RECORD_STREAM events of which this stream is the user."""


@dataclass(frozen=True)
class LibraryUse:
    """What one library asked for. Sizes are requested bytes; the peak is the library's own."""

    library: str
    allocations: int
    nbytes: int
    peak_bytes: int
    at_peak_bytes: int
    """Held when all libraries together held the most."""
    live_bytes: int
    """Not freed by the program's end."""


@dataclass(frozen=True)
class OutOfMemory:
    """An allocation that failed for good, and how much memory there was. Sizes are bytes."""

    seconds: float
    stream: int
    requested: int
    free: int | None
    """On the device, outside what is reserved. None where the history does not say."""
    reserved: int = 0
    active: int = 0
    """Of what is reserved, in use, or freed and still waiting for streams."""
    unused: Unused | None = None
    """Why the rest did not serve; None where the history does not tell."""
    where: str = ""
    """The call site; empty where there is no call stack."""
    most: Site | None = None
    """The call site of most of what was live at the first failure; None for others, and where it is not known."""
    waiting: int = 0
    """Of what is active, freed and still waiting for streams."""
    went_on: bool = False
    """Whether memory was asked for after it."""
    kept: bool = False
    """Whether nothing was freed since the first failure of what was live then."""


@dataclass(frozen=True)
class Sleep:
    """What was put to sleep of one memory tag. Sizes are bytes given back to the device."""

    tag: str
    times: int
    most_bytes: int
    at_end_bytes: int
    """Of what slept when the history ended."""


@dataclass(frozen=True)
class Moved:
    """What moved of one memory tag between the device and the host, at its addresses. Sizes are bytes taken there."""

    tag: str
    to_host: int
    """How often."""
    to_device: int
    most_bytes: int


@dataclass(frozen=True)
class PoolUse:
    """A private pool: its free memory serves nothing else. Sizes are bytes, when the most was reserved."""

    name: str
    reserved: int
    idle: int
    most: int = 0
    """The most that it ever had reserved."""


@dataclass(frozen=True)
class Fragmentation:
    """The share of reserved memory that no block uses, blocks that wait for streams counting as used."""

    at_peak_reserved: float = 0.0
    mean_over_time: float = 0.0
    reserved_over_requested: float = 0.0
    """Peak reserved by peak requested bytes."""


@dataclass(frozen=True)
class DeviceSummary:
    """What happened on one device. Sizes are bytes. What is live was not freed before the runtime closed."""

    device: int
    events: int
    seconds: float
    older_blocks: int
    """Blocks that were there when the history began. Peaks and what is live count them; allocations, sizes and
    lifetimes do not."""
    older_bytes: int
    allocations: int
    frees: int
    unknown_frees: int
    requested: Peak
    allocated: Peak
    active: Peak
    reserved: Peak
    fragmentation: Fragmentation
    driver_calls: dict[str, int]
    sizes: list[SizeClass]
    lifetimes: Lifetimes
    streams: list[StreamUse]
    libraries: list[LibraryUse]
    live_blocks: int
    live_bytes: int
    out_of_memory: list[OutOfMemory]
    sleeps: list[Sleep]
    moves: list[Moved]
    served: Served | None
    """What a plan served; None where none was followed, or that is not known."""
    timed: bool = True
    """Whether times are known: without them, seconds, lifetimes and means over time mean nothing."""
    has_history: bool = True
    """Whether anything happened: without a history, peaks are those of the one moment that is known."""
    unused_at_peak: Unused | None = None
    """Why what lay idle then would not have served a large request of that stream."""
    unused_at_end: Unused | None = None
    """The same of what lay idle when the program ended."""
    waiting_at_peak: int = 0
    """Bytes that were freed by then and still waited for other streams (``record_stream``)."""
    idle_at_peak: Idle | None = None
    """What lay idle when the most was reserved, at its least; None where the history tells of no segments."""
    stream_at_peak: int = 0
    """The stream that had allocated last by then."""
    pools: list[PoolUse] = field(default_factory=list)
    """Private pools, such as those of CUDA graphs."""
    growth: Growth | None = None
    """What grows steadily, like a leak; None where nothing does."""
    idle_at_end: Idle | None = None
    """What lay idle in segments when the program ended; None where the history tells of none."""
    knows_reserved: bool = True
    """Whether the history tells what is reserved; a log of blocks alone does not."""
    on_host: Peak = field(default_factory=Peak)
    """Of what was reserved, what stood in the host's memory (``expandable:host=``)."""
    peak_where: str = ""
    """The call site of the request with which the peak of requested memory was reached; empty without call stacks."""
    sites_at_peak: list[Site] = field(default_factory=list)
    sites_of_live: list[Site] = field(default_factory=list)
    modules: list[ModuleUse] = field(default_factory=list)
    """Of a history that knows the modules of networks."""


@dataclass(frozen=True)
class Summary:
    """What a trace says. ``complete`` and ``note`` are the trace's."""

    path: str
    source: str
    driver: str
    allocators: dict[int, str]
    argv: list[str]
    complete: bool
    note: str
    events: int
    devices: list[DeviceSummary]
    has_stacks: bool = True
    """Whether it tells which lines asked."""


def summarize(trace: Trace, *, device: int | None = None, top: int = 10) -> Summary:
    """Compute the summary of a trace.

    Args:
        trace: what was read.
        device: only this device's ordinal.
        top: how many call sites to name.
    """
    header = trace.header
    wanted = [ordinal for ordinal in trace.devices if device is None or ordinal == device]
    devices = [_of_device(trace, ordinal, top) for ordinal in wanted]
    return Summary(
        trace.path, header.source, header.driver, header.allocators, header.argv,
        trace.complete, trace.note, len(trace.events) - trace.begin, devices,
        bool(trace.stacks),
    )  # fmt: skip


def _of_device(trace: Trace, device: int, top: int) -> DeviceSummary:
    own = np.flatnonzero(trace.events["device"] == device)
    events = trace.events[own]
    begin, end = np.searchsorted(own, [trace.begin, trace.end]).tolist()
    blocks = find_blocks(events, completed_apart=trace.completed_apart)
    memory = curves(events, blocks)
    with_pools = events.copy()
    with_pools["stream"] = pooled(trace, device, events)
    spans = segment_spans(with_pools)
    tightest = _tightest(memory)
    asked = np.flatnonzero(events["kind"][: tightest + 1] == EventKind.ALLOCATE)
    latest = int(with_pools["stream"][asked[-1]]) if len(asked) else 0
    held = held_after(with_pools, blocks, spans, tightest)
    idle = idle_of(held) if held is not None else None
    at_end = held_after(with_pools, blocks, spans, max(end - 1, 0))
    times = (events["time"] - events["time"][0]) / 1e9
    kinds = np.bincount(events["kind"][begin:], minlength=256)
    peak = _peak(memory.requested, times)
    at_peak = (blocks.allocated <= peak.event) & ((blocks.freed > peak.event) | (blocks.freed < 0))
    live = (blocks.freed < 0) | (blocks.freed >= end)  # the program never freed these
    requested = events["requested"][blocks.allocated]
    contexts = events["context"][blocks.allocated]
    ours = blocks.allocated >= begin
    has_stacks = bool(trace.stacks)
    return DeviceSummary(
        device=device,
        events=len(events) - begin,
        seconds=float(times[-1]),
        older_blocks=int(np.count_nonzero(~ours)),
        older_bytes=int(requested[~ours].sum()),
        allocations=int(np.count_nonzero(ours)),
        frees=int(np.count_nonzero(events["kind"][begin:end] == EventKind.FREE)),
        unknown_frees=blocks.unknown_frees,
        requested=peak,
        allocated=_peak(memory.allocated, times),
        active=_peak(memory.active, times),
        reserved=_peak(memory.reserved, times),
        on_host=_peak(memory.on_host, times),
        fragmentation=_fragmentation(memory, times),
        driver_calls={kind.name.lower(): int(kinds[kind]) for kind in _DRIVER_CALLS if kinds[kind]},
        sizes=_sizes(requested[ours]),
        lifetimes=_lifetimes(events, blocks, ~live & ours & trace.header.paired),
        streams=_streams(events, blocks, begin),
        libraries=_libraries(trace, events, blocks, begin, at_peak, live),
        live_blocks=int(np.count_nonzero(live)),
        live_bytes=int(requested[live].sum()),
        out_of_memory=_out_of_memory(
            trace, with_pools, times, memory, blocks, lambda at: held_after(with_pools, blocks, spans, at)
        ),
        sleeps=_sleeps(trace, events),
        moves=_moves(trace, events),
        served=trace.header.served.get(device),
        timed=trace.header.timed,
        knows_reserved=any(kinds[kind] for kind in _DRIVER_CALLS) or bool(memory.reserved.any()),
        has_history=trace.has_history(device),
        idle_at_peak=idle,
        stream_at_peak=latest,
        unused_at_peak=unused_of(trace, held, latest, 0) if held is not None else None,
        unused_at_end=unused_of(trace, at_end, latest, 0) if at_end is not None else None,
        waiting_at_peak=int((memory.active - memory.allocated)[tightest]),
        pools=_pools(trace, device, spans, tightest, idle),
        growth=growth_of(trace, device, blocks, memory.requested, memory.reserved),
        idle_at_end=idle_of(at_end) if at_end is not None else None,
        peak_where=SiteNames(trace).of(int(events["context"][peak.event])) if has_stacks and peak.event >= 0 else "",
        sites_at_peak=sites(trace, contexts[at_peak], requested[at_peak], top) if has_stacks else [],
        sites_of_live=sites(trace, contexts[live], requested[live], top) if has_stacks else [],
        modules=module_uses(trace, device),
    )


_DRIVER_CALLS = (
    EventKind.SEGMENT_RESERVE,
    EventKind.SEGMENT_RELEASE,
    EventKind.PAGE_CREATE,
    EventKind.PAGE_MAP,
    EventKind.PAGE_UNMAP,
    EventKind.PAGE_RELEASE,
    EventKind.HOST_PAGE_CREATE,
    EventKind.HOST_PAGE_RELEASE,
)


def _peak(curve: npt.NDArray[np.int64], times: npt.NDArray[np.float64]) -> Peak:
    at = int(curve.argmax())
    return Peak(int(curve[at]), float(times[at]), at) if curve[at] > 0 else Peak()


def _fragmentation(memory: Curves, times: npt.NDArray[np.float64]) -> Fragmentation:
    at = int(memory.reserved.argmax())
    most = int(memory.reserved[at])
    if most <= 0:
        return Fragmentation()
    # The peak of reserved memory lasts; its least unused share is what fragmentation cost there.
    unused_bytes = np.maximum(memory.reserved - memory.active + memory.asleep, 0)
    least_unused = int(unused_bytes[memory.reserved == most].min())
    seconds = np.diff(times, append=times[-1])
    held = float((memory.reserved * seconds).sum())
    unused = float((unused_bytes * seconds).sum())
    peak = int(memory.requested.max())
    return Fragmentation(least_unused / most, unused / held if held > 0 else 0.0, most / peak if peak > 0 else 0.0)


def _tightest(memory: Curves) -> int:
    """The event after which, of when the most is reserved, the least of it is unused."""
    most = np.flatnonzero(memory.reserved == memory.reserved.max())
    return int(most[(memory.reserved - memory.active)[most].argmin()])


def _pools(trace: Trace, device: int, spans: npt.NDArray[Any], place: int, idle: Idle | None) -> list[PoolUse]:
    held = spans[(spans["from"] <= place) & (spans["until"] > place)]
    numbers = held["stream"].astype(np.uint64) >> np.uint64(STREAM_BITS)
    free = (idle.by_stream if idle is not None else None) or {}
    most = most_reserved(trace, device, spans)
    return [
        PoolUse(
            name,
            int(held["nbytes"][numbers == number].sum()),
            sum(nbytes for stream, nbytes in free.items() if stream >> STREAM_BITS == number),
            most[name],
        )
        for number, name in enumerate(pool_names(trace, device), 1)
    ]


def _sizes(requested: npt.NDArray[np.int64]) -> list[SizeClass]:
    classes = np.ceil(np.log2(np.maximum(requested, 512))).astype(np.int64)
    return [
        SizeClass(1 << int(power), int(np.count_nonzero(classes == power)), int(requested[classes == power].sum()))
        for power in np.unique(classes)
    ]


def _lifetimes(events: EventArray, blocks: Blocks, freed: npt.NDArray[np.bool_]) -> Lifetimes:
    if not freed.any():
        return Lifetimes()
    times = events["time"]
    microseconds = (times[blocks.freed[freed]] - times[blocks.allocated[freed]]) / 1e3
    median, most, nearly_all = np.percentile(microseconds, (50, 90, 99))
    return Lifetimes(len(microseconds), float(median), float(most), float(nearly_all), float(microseconds.max()))


def _streams(events: EventArray, blocks: Blocks, begin: int) -> list[StreamUse]:
    owner = events["stream"][blocks.allocated]
    recorded = events["stream"][events["kind"] == EventKind.RECORD_STREAM]
    found = []
    for stream in np.unique(np.concatenate([owner, recorded])):
        mine = owner == stream
        own = Blocks(blocks.allocated[mine], blocks.freed[mine], blocks.reusable[mine], 0)
        ours = own.allocated[own.allocated >= begin]
        nbytes = int(events["requested"][ours].sum())
        peak = int(curves(events, own).requested.max())
        others = int(np.count_nonzero(recorded == stream))
        found.append(StreamUse(int(stream), len(ours), nbytes, peak, others))
    return found


def _libraries(
    trace: Trace,
    events: EventArray,
    blocks: Blocks,
    begin: int,
    at_peak: npt.NDArray[np.bool_],
    live: npt.NDArray[np.bool_],
) -> list[LibraryUse]:
    """Those that asked for anything, the largest at the common peak first."""
    contexts, place = np.unique(events["context"][blocks.allocated], return_inverse=True)
    names = np.array([trace.library(context) for context in contexts.tolist()], dtype=object)
    asked = names[place] if len(place) else np.zeros(0, dtype=object)
    requested = events["requested"][blocks.allocated]
    found = []
    for name in dict.fromkeys(names.tolist()):
        mine = asked == name
        own = Blocks(blocks.allocated[mine], blocks.freed[mine], blocks.reusable[mine], 0)
        ours = mine & (blocks.allocated >= begin)
        found.append(
            LibraryUse(
                name,
                int(np.count_nonzero(ours)),
                int(requested[ours].sum()),
                int(curves(events, own).requested.max()),
                int(requested[mine & at_peak].sum()),
                int(requested[mine & live].sum()),
            )
        )
    return sorted(found, key=lambda use: (-use.at_peak_bytes, -use.nbytes, use.library))


def _sleeps(trace: Trace, events: EventArray) -> list[Sleep]:
    of_sleep = events[np.isin(events["kind"], (EventKind.SLEEP, EventKind.WAKE))]
    found = []
    for tag in np.unique(of_sleep["requested"]).tolist():
        own = of_sleep[of_sleep["requested"] == tag]
        slept = own["nbytes"][own["kind"] == EventKind.SLEEP]
        ends_asleep = own["kind"][-1] == EventKind.SLEEP
        found.append(Sleep(trace.tag(tag), len(slept), int(slept.max(initial=0)), int(slept[-1]) if ends_asleep else 0))
    return found


def _moves(trace: Trace, events: EventArray) -> list[Moved]:
    moved = events[events["kind"] == EventKind.MOVE]
    found = []
    for tag in np.unique(moved["requested"]).tolist():
        own = moved[moved["requested"] == tag]
        to_host = int(np.count_nonzero(own["address"]))
        found.append(Moved(trace.tag(tag), to_host, len(own) - to_host, int(own["nbytes"].max())))
    return found


def _out_of_memory(
    trace: Trace,
    events: EventArray,
    times: npt.NDArray[np.float64],
    memory: Curves,
    blocks: Blocks,
    held: Callable[[int], Held | None],
) -> list[OutOfMemory]:
    places = np.flatnonzero(events["kind"] == EventKind.OUT_OF_MEMORY).tolist()
    found = []
    names = SiteNames(trace)
    older = blocks.allocated < places[0] if places else blocks.allocated < 0
    for number, at in enumerate(places):
        there = held(at) if not number else None  # the first is looked at closely
        live = (
            blocks.allocated[older & ((blocks.freed > at) | (blocks.freed < 0))] if not number else blocks.allocated[:0]
        )
        largest = sites(trace, events["context"][live], events["requested"][live], 2)
        requested, stream = int(events["requested"][at]), int(events["stream"][at])
        found.append(
            OutOfMemory(
                float(times[at]),
                stream,
                requested,
                int(events["nbytes"][at]) if events["nbytes"][at] >= 0 else None,
                int(memory.reserved[at]),
                int(memory.active[at]),
                unused_of(trace, there, stream, requested) if there is not None else None,
                names.of(int(events["context"][at])) if events["context"][at] else "",
                next((site for site in largest if site.where != NO_STACK), None),
                int(memory.active[at] - memory.allocated[at]),
                bool((blocks.allocated > at).any()),
                bool(number) and not (older & (blocks.freed > places[0]) & (blocks.freed < at)).any(),
            )
        )
    return found
