"""Whether what a program holds grows steadily: what a leak looks like. Computes only."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, takewhile
from statistics import mode

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...allocators.sizes import short_size
from ...plugins.tracing.trace_in_memory import EventArray, Trace
from .blocks import Blocks
from .frame_kinds import FrameKind, is_native, kind_of
from .sites import NO_STACK, SiteNames, without_noise

_PARTS = 12
_WARM_UP, _END = 3, 1
"""Of so many parts of a history, those left out at its beginning and at its end when growth is looked for."""
_MOSTLY = 0.75
_NOTABLE = 0.02
"""The share of the peak that growth must reach to be told."""
_LATE = (0, 1 / 2, 3 / 4)
"""The shares of a history from which on growth is looked for, in this order: a leak may begin in mid-run."""
_FEWEST = 8
"""What is kept fewer times than this is no steady growth."""


@dataclass(frozen=True)
class Growth:
    """Memory that is kept again and again. Sizes are bytes."""

    nbytes: int
    """Kept over the whole history at that site."""
    times: int
    """How often."""
    where: str
    """The call site; empty where there are no call stacks."""
    seconds: float
    """From the first time to the last; 0 where that is not known."""
    stepwise: bool = False
    """Whether something else is asked for as often: a step of the program then keeps it once."""
    room: int | None = None
    """What the device had left at its peak; None where that is not known."""

    alone: bool = False
    """Whether nothing is freed meanwhile: then it may be something large that is loaded."""
    caller: str = ""
    """Where the site is called from when it keeps what it asks for, if what it asks for elsewhere goes."""
    besides: str = ""
    """The site that keeps most besides, and how much, where that is much; else empty."""

    @property
    def _asked(self) -> str:
        called = f", called at {self.caller}" if self.caller else ""
        return f", asked for at {self.where}{called}" if self.where else ""

    @property
    def each(self) -> int:
        """Bytes kept each time, on average."""
        return self.nbytes // max(self.times, 1)

    def verdict(self) -> str:
        """What was found, in short."""
        step = "a step" if self.stepwise else "each time"
        return f"It leaks: what is live grows by {short_size(self.each)} {step}{self._asked}."

    def sentence(self) -> str:
        """What was found."""
        pace = f" within {self.seconds:.3g} s" if self.seconds > 0 and not self.stepwise else ""
        full = ""
        if self.room is not None and 0 < self.each <= self.room:
            full = f" The device is full after {self.room // self.each} more."
        step = f"a step, for {self.times} steps" if self.stepwise else f"each time, {self.times} times"
        means = f"That is a leak, unless it is meant to be kept.{full}"
        if self.alone:
            means = "Nothing is freed meanwhile: something large is loaded, or what is not needed any more is kept."
        return (
            f"What is live grows steadily, by {short_size(self.each)} {step}{self._asked}: {short_size(self.nbytes)} "
            f"in all{pace}{self.besides}. {means}"
        )


def rise_of_floor(requested: npt.NDArray[np.int64]) -> int:
    """By how much the floor of what is requested rises, from after the warm-up until before the end, if it does so
    steadily."""
    return _rise(requested[_floors(requested)])


def _floors(requested: npt.NDArray[np.int64], warm_up: int = _WARM_UP, at_end: int = _END) -> npt.NDArray[np.int64]:
    """Where the least is requested in each part, but for so many of the warm-up and at the end; nowhere where the
    history is too short."""
    if len(requested) < 4 * _PARTS:
        return np.zeros(0, np.int64)
    edges = np.linspace(0, len(requested), _PARTS + 1).astype(np.int64).tolist()
    parts = list(pairwise(edges))[warm_up : _PARTS - at_end]
    return np.array([begin + int(requested[begin:end].argmin()) for begin, end in parts], np.int64)


def _rise(held: npt.NDArray[np.int64]) -> int:
    """By how much a curve rises, of which these are the values in the parts of a history. 0 where it mostly stays, or
    falls as well. At the end it may fall: a program that ends frees what it kept."""
    steps = np.diff(held)
    ups, downs = np.count_nonzero(steps > 0), np.count_nonzero(steps < 0)
    if ups < max(len(steps) / 2, 1) or ups < _MOSTLY * (ups + downs):
        return 0
    return max(int(held[-1] - held[0]), 0)


def _steady_rise(held: npt.NDArray[np.int64]) -> int:
    """By how much a site's curve rises. 0 where it does not rise within any two parts: what fills and is emptied again,
    or rests for longer, is no growth."""
    return max(int(held[-1] - held[0]), 0) if (held[2:] > held[:-2]).all() else 0


def growth_of(
    trace: Trace, device: int, blocks: Blocks, requested: npt.NDArray[np.int64], reserved: npt.NDArray[np.int64]
) -> Growth | None:
    """The site that keeps most again and again, if what one device holds grows steadily. None if it does not.

    Args:
        trace: the history.
        device: the device's ordinal.
        blocks: its allocations.
        requested: bytes requested after each of its events.
        reserved: bytes reserved after each.
    """
    own = np.flatnonzero(trace.events["device"] == device)
    events = trace.events[own]
    begin, end = np.searchsorted(own, [trace.begin, trace.end]).tolist()
    asked = np.flatnonzero(np.isin(events["kind"][:end], (EventKind.ALLOCATE, EventKind.OUT_OF_MEMORY)))
    last = int(asked[-1]) + 1 if len(asked) else end
    if np.count_nonzero(blocks.freed >= last) >= _FEWEST:
        end = last  # the program has ended: what goes then was kept until then
    for late in _LATE:
        since = begin + int(late * (end - begin))
        found = _growth_since(trace, device, events, blocks, requested, reserved, (begin, since, end))
        if found is not None and not (late and found.alone):  # what is loaded at last is no growth
            return found
    return None


def _growth_since(
    trace: Trace,
    device: int,
    events: EventArray,
    blocks: Blocks,
    requested: npt.NDArray[np.int64],
    reserved: npt.NDArray[np.int64],
    window: tuple[int, int, int],
) -> Growth | None:
    """The same of a device's events, of which the ``window`` says where the history begins, where growth is looked for
    from, and where the history ends."""
    start, begin, end = window
    floors = begin + _floors(requested[begin:end])
    rise = _rise(requested[floors])
    if rise <= _NOTABLE * int(requested.max(initial=0)):
        return None
    names = SiteNames(trace)
    asked_at, site_of = np.unique(events["context"][blocks.allocated], return_inverse=True)
    earlier = start + _floors(requested[start : int(floors[0])], 0, 0)
    held, before = (
        np.array([_held(events, blocks, site_of, len(asked_at), place) for place in places.tolist()])
        for places in (floors, earlier if begin > start else earlier[:0])
    )
    kept = ((blocks.freed < 0) | (blocks.freed >= end)) & (blocks.allocated >= begin)
    places, kept_of = blocks.allocated[kept], site_of[kept]
    of_site: dict[str, list[int]] = {}
    for number in np.unique(kept_of).tolist():
        of_site.setdefault(names.of(int(asked_at[number])), []).append(number)
    gone = (blocks.freed >= start) & (blocks.freed < end)
    passing = events["context"][blocks.allocated[gone]]
    lives = (blocks.freed - blocks.allocated)[gone]
    # Of a whole history, what lives longer than a part of it is kept, too, and goes when something ends.
    longest = (end - begin) // _PARTS if begin == start else end
    found: list[tuple[int, str, npt.NDArray[np.int64]]] = []
    for name, numbers in of_site.items():
        mine = places[np.isin(kept_of, numbers)]
        if (own_lives := lives[np.isin(passing, asked_at[numbers])]).size:  # what it asked for last may still go
            mine = mine[mine < end - min(int(own_lives.max()), longest)]
        one_pass = name.endswith(("in backward", "in the optimiser"))  # gradients and states come about in one
        grown = held[:, numbers].sum(axis=1)
        own_rise = _steady_rise(grown)
        # What it held before, but not when it begins to grow, filled up and was emptied already.
        emptied = int(before[:, numbers].sum(axis=1).max()) - int(grown[0]) if len(before) else 0
        rising = mine[(mine > floors[0]) & (mine <= floors[-1])]
        by_kept = int(events["requested"][rising].sum())  # where something else made it grow, all this was loaded
        if len(mine) >= _FEWEST and not one_pass and own_rise > 4 * max(emptied, 0) and by_kept >= own_rise / 4:
            found.append((int(events["requested"][mine].sum()), name, mine))
    if not found:
        return None
    # A line of the program says more than blocks without a call stack, such as those of a backward pass.
    nbytes, name, mine = max(found, key=lambda one: (one[1] != NO_STACK and one[0] >= rise / 4, one[0]))
    if nbytes < rise / 4:
        return None
    if _within_one_pass(trace, events, blocks, mine):
        return None
    times = events["time"][mine]
    seconds = float(times[-1] - times[0]) / 1e9 if trace.header.timed else 0.0
    others = np.array([names.of(context) != name for context in asked_at.tolist()], bool)
    between = np.searchsorted(np.sort(blocks.allocated[others[site_of]]), mine)
    meanwhile = (blocks.allocated >= mine[0]) & (blocks.allocated <= mine[-1])
    every = np.bincount(site_of[meanwhile], minlength=len(asked_at))
    often, stepwise = _how_often(events[mine], 1 + int(np.count_nonzero(np.diff(between))), every[others])
    elsewhere = dict(zip(asked_at[others].tolist(), every[others].tolist(), strict=True))
    most = _most_of(events[mine])
    theirs = mine[events["context"][mine] == most]
    going = blocks.allocated[(blocks.freed > mine[0]) & (blocks.freed < end)]
    going = going[events["context"][going] == most]
    if np.isin(events["requested"][going], events["requested"][theirs]).any():
        # A queue: what a step adds is not what of it is there at the end.
        often, stepwise = len(theirs), False
    elif stepwise:
        often = _passes(trace, most, elsewhere, often)
        stepwise = _spread_evenly(mine, often)
    where = "" if name == NO_STACK else name
    caller = _caller(trace, names, events[mine], np.unique(passing).tolist())
    second = max((one for one in found if one[1] not in (name, NO_STACK)), default=None, key=lambda one: one[0])
    besides = ""
    if second is not None and second[0] >= rise / 4:
        besides = f", and {short_size(second[0])} asked for at {second[1]}"
    alone = not _in_most_parts(blocks.freed[(blocks.freed >= begin) & (blocks.freed < end)], begin, end)
    return Growth(nbytes, often, where, seconds, stepwise, _room(trace, device, reserved), alone, caller, besides)


def _held(
    events: EventArray, blocks: Blocks, site_of: npt.NDArray[np.int64], sites: int, place: int
) -> npt.NDArray[np.int64]:
    """Bytes that each of so many call stacks holds after an event, where ``site_of`` numbers those of the blocks."""
    live = (blocks.allocated <= place) & ((blocks.freed > place) | (blocks.freed < 0))
    nbytes = events["requested"][blocks.allocated[live]]
    return np.bincount(site_of[live], nbytes, minlength=sites).astype(np.int64)


def _caller(trace: Trace, names: SiteNames, kept: EventArray, passing: list[int]) -> str:
    """The innermost line of the program that calls the site of what is kept, and that no stack has by which the same
    site asks for what goes. Empty where nothing tells them apart."""
    most = _most_of(kept)
    name = names.of(most)
    stack = without_noise(trace.stack(most))
    site = 1 + next((at for at, frame in enumerate(stack) if kind_of(frame) == FrameKind.PROGRAM), 0)
    alike = (trace.stack(one) for one in passing if names.of(one) == name)
    others = {frame for one in alike if without_noise(one)[:site] == stack[:site] for frame in one}
    calls = [at for at, frame in enumerate(stack) if frame not in others and kind_of(frame) == FrameKind.PROGRAM]
    callers = (names.of_stack(stack[at:]) for at in calls)
    return next((caller for caller in callers if caller != name), "") if others else ""


def _how_often(kept: EventArray, passes: int, elsewhere: npt.NDArray[np.int64]) -> tuple[int, bool]:
    """How often a line was run that keeps these blocks, and whether something else is asked for as often, of what is
    asked for ``elsewhere`` how often: then that is how many steps there were. One run of a line may keep several
    blocks, which differ in their call stack, or in their size alone, or follow each other: nothing else is asked for
    between them, which makes so many ``passes``."""
    often, steps = 0, [passes]
    for alike in (["context", "requested"], ["context"]):
        which, counts = np.unique(kept[alike], return_inverse=True, return_counts=True)[1:]
        nbytes = np.bincount(which, kept["requested"])
        often = int(counts[nbytes.argmax()])
        if nbytes[abs(counts - often) <= 1].sum() >= _MOSTLY * nbytes.sum():
            steps.append(often)
    found = [count for count in steps if count >= _FEWEST and (abs(elsewhere - count) <= 1).any()]
    return (min(found), True) if found else (often, False)


def _most_of(kept: EventArray) -> int:
    """The call stack of most of what is kept."""
    contexts, which = np.unique(kept["context"], return_inverse=True)
    return int(contexts[np.bincount(which, kept["requested"]).argmax()])


def _passes(trace: Trace, context: int, elsewhere: dict[int, int], often: int) -> int:
    """How often the outermost ``forward`` ran that keeps something so ``often``: a loop over layers keeps it several
    times in each. What the same ``forward`` asks for on its other lines, of what is asked for ``elsewhere`` how often,
    tells."""
    mine = [frame for frame in reversed(trace.stack(context)) if not is_native(frame)]
    found: dict[int, list[int]] = {}
    for other, count in elsewhere.items():
        theirs = (frame for frame in reversed(trace.stack(other)) if not is_native(frame))
        level = next((at for at, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]), len(mine))
        layers = round(often / max(count, 1))
        if (
            level < len(mine)
            and mine[level].function.rpartition(".")[2] == "forward"
            and layers > 1
            and count >= _FEWEST
            and abs(often - layers * count) <= layers
        ):
            found.setdefault(level, []).append(layers)
    return round(often / mode(found[min(found)])) if found else often  # a line may ask several times at once


def _spread_evenly(places: npt.NDArray[np.int64], often: int) -> bool:
    """Whether what happens so ``often``, at these places, is not bunched, as batches of a validation are between the
    steps of a training."""
    gaps = np.diff(places[np.arange(often) * len(places) // often])
    return bool(2 * gaps[gaps > 3 * np.median(gaps)].sum() <= gaps.sum())


def _in_most_parts(places: npt.NDArray[np.int64], begin: int, end: int) -> bool:
    """Whether the events at these places are spread over the history."""
    parts = np.minimum((places - begin) * _PARTS // max(end - begin, 1), _PARTS - 1)
    return len(np.unique(parts)) >= _MOSTLY * _PARTS


def _within_one_pass(trace: Trace, events: EventArray, blocks: Blocks, mine: npt.NDArray[np.int64]) -> bool:
    """Whether all that is asked for meanwhile comes from one line of one ``forward``: a loop over layers in a single
    pass, whose activations pile up for the backward pass to come."""
    first, last = np.quantile(mine, (0.1, 0.9))
    meanwhile = blocks.allocated[(blocks.allocated >= first) & (blocks.allocated <= last)]
    stacks = [trace.stack(context) for context in np.unique(events["context"][meanwhile]).tolist()]
    in_python = [[frame for frame in without_noise(stack) if not is_native(frame)] for stack in stacks if stack]
    known = [tuple(reversed(stack)) for stack in in_python]
    if not known:
        return False
    common = takewhile(lambda level: len(set(level)) == 1, zip(*known, strict=False))
    return any(level[0].function.rpartition(".")[2] == "forward" for level in common)


def _room(trace: Trace, device: int, reserved: npt.NDArray[np.int64]) -> int | None:
    """What the device had left at the peak of what is reserved, where the history tells."""
    most = int(reserved.max(initial=0))
    for entry in trace.header.devices:
        total = entry.get("total_memory")
        if entry.get("ordinal") == device and isinstance(total, int) and total > 0:
            return max(total - most, 0)
    own = trace.events[trace.events["device"] == device]
    failed = np.flatnonzero(own["kind"] == EventKind.OUT_OF_MEMORY)
    # Where the device had what was asked for, a limit refused it, and how far that is off is not known.
    if len(failed) and 0 <= own["nbytes"][failed[-1]] < own["requested"][failed[-1]]:
        return max(int(reserved[failed[-1]]) + int(own["nbytes"][failed[-1]]) - most, 0)
    return None
