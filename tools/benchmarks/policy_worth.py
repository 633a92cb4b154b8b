"""What each figure of the strategies is worth: histories replayed without it, and with it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import exp, log
from pathlib import Path
from zlib import crc32

import numpy as np

from ...allocators.constants import FIGURES
from ...plugins.manager import default_manager
from ..foreign.load import load
from ..replaying.one_replay import null_upstream
from ..replaying.perturbed import PERTURBATIONS, followed_by, repeated, scaled
from ..replaying.program import Program, decode
from ..replaying.replayer import replay

HELD = (1.05, 1.1, 1.3)
"""Devices with so many times what a program asks for at its peak."""
HELD_REPEATED = (1.07, 1.13)
"""The same, for parts that repeat."""
_SMALL_PEAK = 200_000_000
_NATIVE = "caching:preset=torch"
_OPTIONS = {"SLACK": "slack", "ALIASES": "aliases"}
"""Figures that an allocator takes as an option."""
_OF_HOST = {"VALLEY", "LAP_PATIENCE", "PATIENT_LAPS", "SHORTAGE_PARTS", "COUNTED_LIFE"}
"""Figures that ``expandable`` uses with its option ``host`` alone."""
_MOST_REPEATED = 20_000  # steps of a part that is repeated
_TIMES, _AT_REST = 10, 2  # how often it is, and the last of these, where nothing should happen any more
_TIMES_HELD = 6  # the same on little memory, where a round takes longer
_PASSES = "three passes"
"""A whole history three times in one process. Its figures are of the second and third pass: a rule that costs a
repeating program time before it comes to rest shows there alone."""
_known: dict[str, tuple[Program, float]] = {}  # by name: the program, and the seconds that it ran


@dataclass(frozen=True, slots=True)
class Case:
    """One history as recorded, or as changed."""

    history: str
    kind: str
    seed: int = 0
    held: float = 0.0
    """The device's memory in parts of what is asked for at the peak; 0 for more than enough."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an allocator did with a case."""

    case: Case
    allocator: str
    figure: str
    """The figure that was left out; empty for none."""
    ratio: float
    """The bytes reserved for one asked for, at the peaks; 0 where memory ran out."""
    share: float
    """The driver's calls, as a share of the time that the program ran."""
    calls: int
    """Calls of the driver in the last rounds of what repeats."""
    passes: int = 0
    """Calls of the driver in the second and third pass of a whole history."""


@dataclass(slots=True)
class Summary:
    """Over several cases."""

    count: int = 0
    failed: int = 0
    """Cases for which the memory did not suffice. All other figures are of the others."""
    mean: float = 0.0
    """Geometric mean of the ratios."""
    worst: float = 0.0
    above: int = 0
    """Ratios above 1.10."""
    share: float = 0.0
    calls: int = 0
    passes: int = 0
    by_history: dict[str, float] = field(default_factory=dict)
    """The geometric mean by history."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What leaving a figure out changes. All but the first two: over the cases that end with it and without it, since
    one that ends only with it would take its figures along."""

    lost: int
    """Cases for which the memory suffices only with the figure."""
    gained: int
    """Cases for which it suffices only without."""
    ratio: float
    """How much more is reserved, as a share."""
    by_history: dict[str, float]
    """The same by history."""
    share: float
    """How much more of the time are calls of the driver."""
    calls: int
    """How many more calls there are in what repeats on more than enough memory."""
    calls_held: int
    """The same on little memory."""
    passes: int
    """How many more calls there are in the second and third pass of whole histories."""


def half_of(name: str) -> str:
    """Whether a history is for ``choosing`` rules, or only for ``judging`` them: fixed by its name."""
    return ("choosing", "judging")[crc32(name.encode()) % 2]


def histories(paths: Sequence[Path]) -> list[str]:
    """Read recorded histories, and return their names.

    Raises:
        TraceError: a file cannot be read.
    """
    for path in paths:
        trace = load(path)
        times = trace.events["time"]
        (program, *_) = decode(trace)
        _known[path.name.partition(".")[0]] = program, float(times[-1] - times[0]) / 1e9
    return list(_known)


def cases(names: Sequence[str], seeds: int) -> list[Case]:
    """Each history whole, three times in a row, small, on little memory, repeated, repeated on little memory, and
    perturbed by ``seeds``.

    Of each perturbation, and of one program after another, each history gets every sixth seed.
    """
    found = []
    for name in names:
        found += [Case(name, kind) for kind in ("whole", _PASSES, "small")]
        found += [Case(name, "repeated", 1), Case(name, "repeated", 2)]
        found += [Case(name, f"held to {part}", 0, part) for part in HELD]
        found += [Case(name, f"repeated, held to {part}", 0, part) for part in HELD_REPEATED]
        kinds = [*PERTURBATIONS, "after another"]
        found += [Case(name, kinds[seed % len(kinds)], seed) for seed in range(seeds)]
    return found


def figures_of(allocator: str) -> list[str]:
    """The names of the figures that an allocator's rules use."""
    name = allocator.partition(":")[0]
    uses = {"caching": {"caching", "both"}, "expandable": {"expandable", "both"}}.get(name, set(FIGURES))
    unused = set() if "host=" in allocator else _OF_HOST
    return [figure.name for figure in FIGURES.values() if figure.strategy in uses and figure.name not in unused]


def outcomes(
    chosen: Sequence[Case], allocators: Sequence[str], figures: Sequence[str], processes: int, values: dict[str, int]
) -> Iterator[list[Outcome]]:
    """Of each case: what every allocator does with it, as it is and without each of ``figures`` that it uses.

    Args:
        chosen: the cases.
        allocators: selections that have a native form.
        figures: names of figures.
        processes: how many replay beside each other.
        values: figures that have another value throughout, by name.
    """
    work = partial(_outcomes_of, allocators=allocators, figures=figures, values=values)
    if processes == 1:
        yield from map(work, chosen)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:  # which has read the histories
        yield from pool.imap(work, chosen)


def summary(found: Sequence[Outcome]) -> Summary:
    """The figures over several outcomes of one allocator."""
    ended = [one for one in found if one.ratio]
    told = Summary(len(found), len(found) - len(ended))
    if not ended:
        return told
    told.mean = _geometric([one.ratio for one in ended])
    told.worst = max(one.ratio for one in ended)
    told.above = sum(one.ratio > 1.10 for one in ended)
    told.share = sum(one.share for one in ended) / len(ended)
    told.calls, told.passes = sum(one.calls for one in ended), sum(one.passes for one in ended)
    names = {one.case.history for one in ended}
    told.by_history = {name: _geometric([one.ratio for one in ended if one.case.history == name]) for name in names}
    return told


def worth(whole: Sequence[Outcome], without: Sequence[Outcome]) -> Worth:
    """What leaving a figure out changes, of one allocator's outcomes as it is and its outcomes without the figure."""
    as_it_is = {one.case: one for one in whole}
    pairs = [(as_it_is[one.case], one) for one in without]
    both = [pair for pair in pairs if pair[0].ratio and pair[1].ratio]
    before, after = (summary(found) for found in zip(*both, strict=True)) if both else (Summary(), Summary())
    return Worth(
        sum(bool(one.ratio) for one, _ in pairs) - len(both),
        sum(bool(one.ratio) for _, one in pairs) - len(both),
        after.mean / before.mean - 1 if both else 0.0,
        {name: mean / before.by_history[name] - 1 for name, mean in after.by_history.items()},
        after.share - before.share,
        sum(other.calls - one.calls for one, other in both if not one.case.held),
        sum(other.calls - one.calls for one, other in both if one.case.held),
        after.passes - before.passes,
    )


def _geometric(ratios: Sequence[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def _made(case: Case) -> tuple[Program, float]:
    """The program of a case, and how many seconds it would have run."""
    program, seconds = _known[case.history]
    chance = np.random.default_rng(crc32(f"{case.history}, {case.kind}, {case.seed}".encode()))
    steps = len(program.steps)
    if case.kind == "small":
        return scaled(program, _SMALL_PEAK / program.peak_requested), seconds
    if case.kind == _PASSES:
        return repeated(program, 0, steps, before=0, after=2), 2 * seconds
    if case.kind.startswith("repeated"):
        length = min(_MOST_REPEATED, steps // 3)
        begin = int(chance.integers(steps // 10, steps - length))
        times = _TIMES_HELD if case.held else _TIMES
        program = repeated(program, begin, begin + length, times - _AT_REST, _AT_REST)
        return program, seconds * _AT_REST * length / steps  # figures are of what follows the set-up
    if case.kind == "after another":
        other, more = _known[str(chance.choice([name for name in _known if name != case.history] or list(_known)))]
        return followed_by(other, program), seconds + more
    if case.kind in PERTURBATIONS:
        program = PERTURBATIONS[case.kind](program, chance)
    return program, seconds


def _outcomes_of(
    case: Case, *, allocators: Sequence[str], figures: Sequence[str], values: dict[str, int]
) -> list[Outcome]:
    program, seconds = _made(case)
    memory = int(case.held * program.peak_before(len(program.steps))) if case.held else None
    found = [_replayed(case, _NATIVE, "", program, seconds, None, values)]
    for allocator in allocators:
        used = set(figures_of(allocator))
        for figure in ("", *(name for name in figures if name in used)):
            changed = values | ({figure: FIGURES[figure].without} if figure else {})
            found.append(_replayed(case, allocator, figure, program, seconds, memory, changed))
    return found


def _replayed(
    case: Case,
    allocator: str,
    figure: str,
    program: Program,
    seconds: float,
    memory: int | None,
    values: dict[str, int],
) -> Outcome:
    from ...allocators import _native

    selection = allocator
    for name, value in values.items():
        _native.set_figure(name, value)
        if name in _OPTIONS and allocator.startswith("expandable"):
            selection += f"{',' if ':' in selection else ':'}{_OPTIONS[name]}={value}"
    try:
        result = replay(
            [program],
            partial(default_manager().make_allocator, selection),
            allocator=allocator,
            make_upstream=partial(null_upstream, selection, memory),
            stop_at_failure=True,
        )
    finally:
        for name in values:
            _native.set_figure(name, FIGURES[name].value)
    peak = program.peak_before(len(program.steps))  # of what is repeated, the figures are of the last rounds alone
    ratio = 0.0 if result.failure else result.peak_reserved_bytes / peak
    share = result.driver_time_us / 1e6 / seconds if seconds else 0.0
    counted = sum(result.driver_calls.values()) if program.setup else 0
    calls, passes = (0, counted) if case.kind == _PASSES else (counted, 0)
    return Outcome(case, allocator, figure, ratio, share, calls, passes)
