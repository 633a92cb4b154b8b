"""Finds the least memory on which an allocator completes a history."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..analysis.candidates import REFERENCE
from .one_replay import Work, history, run
from .replayer import ReplayResult

STEP = 2 << 20
"""Searched are multiples of this many bytes, what a GPU hands out, or of 1/4096 of what is reserved."""
_BEYOND = 8
_WASTEFUL = 4
"""An allocator that reserves more than this many times what is requested is fitted only roughly, to 1/64."""


@dataclass(frozen=True, slots=True)
class FitWork:
    """Which history to fit under which allocator."""

    trace: str
    allocator: str
    exact: bool = False
    """Whether to search to ``STEP``, whatever that takes."""
    device: int | None = None
    """The ordinal of the only device to fit; None for each."""
    plans_in_vain: bool = True
    """Whether to fit an allocator also where it follows plans, and none serves anything."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The least memory on which an allocator completes a history. Sizes are bytes, of each device."""

    allocator: str
    least: int
    """A replay completes on this much, and not on ``step`` less. 0 where none was found. It is never more than what is
    reserved with memory without end, where that suffices."""
    step: int
    peak_reserved: int
    """With memory without end."""
    peak_requested: int
    replays: int
    failure: str = ""
    """Why none was found."""
    trace: str = ""
    """The file."""
    note: str = ""
    """What is missing in it."""
    device: int = 0
    """The device's ordinal."""


def fit_one(work: FitWork) -> Fit | None:
    """Bisect between what was requested at the peak and what is reserved without a limit.

    Over several devices the answer is what each of them must have; see ``fit_each``.

    Returns:
        What was found; None where the allocator is not to be fitted, see ``FitWork.plans_in_vain``.

    Raises:
        TraceError, UsageError, PluginError: as ``workload.run``.
    """
    return _Search(work).fit()


def fit_each(work: FitWork) -> list[Fit]:
    """What ``fit_one`` finds, for each device by itself. Where there is no history, none is found, and it is said why.

    Raises:
        TraceError, UsageError, PluginError: as ``fit_one``.
    """
    past = history(work.trace)
    programs = past.programs_for(work.allocator, None, work.device)
    if past.private and work.allocator == REFERENCE:
        return []  # it keeps no memory for the graphs whose pools these are
    if past.state:
        why = past.state
        return [Fit(work.allocator, 0, STEP, 0, 0, 0, why, work.trace, past.note, one.device) for one in programs]
    found = (fit_one(replace(work, device=program.device)) for program in programs if len(program.steps))
    return [one for one in found if one is not None]


class _Search:
    def __init__(self, work: FitWork) -> None:
        self.work = work
        self.replays = 0
        self.step = STEP
        self.known: dict[int, ReplayResult] = {}

    def fit(self) -> Fit | None:
        free = self.replay(None)
        if free.follows_in_vain and not self.work.plans_in_vain:
            return None
        wasteful = free.peak_reserved_bytes > _WASTEFUL * free.peak_requested_bytes
        part = 1 if self.work.exact else free.peak_reserved_bytes // (64 if wasteful else 4096)
        self.step = step = -(-max(part, 1) // STEP) * STEP
        several = self.work.device is None and len(history(self.work.trace).programs) > 1
        least = 0 if several else free.peak_requested_bytes
        fails = max(self.up(least) - step, 0)  # nothing completes on less than was requested
        enough = max(self.up(free.peak_reserved_bytes), step)
        if free.failure:
            return self.found(0, free, free.failure)
        for _ in range(_BEYOND):
            if self.completes(enough):
                break
            fails, enough = enough, self.up(int(enough * 1.05) + step)
        else:
            return self.found(0, free, self.known[fails].failure)
        while True:
            while enough - fails > step:
                middle = self.up((fails + enough) // 2)
                if self.completes(middle):
                    enough = middle
                else:
                    fails = middle
            # More memory changes what an allocator does, and need not always help: look just above.
            above = enough + step
            if self.completes(above):
                return self.found(enough, free)
            fails, enough = above, self.up(int(above * 1.01) + step)
            while not self.completes(enough):
                fails, enough = enough, self.up(int(enough * 1.02) + step)

    def found(self, least: int, free: ReplayResult, failure: str = "") -> Fit:
        known = -(-free.peak_reserved_bytes // STEP) * STEP
        if known < least and self.completes(known):  # the step is rougher than what is known
            least = known
        return Fit(
            self.work.allocator,
            least,
            self.step,
            free.peak_reserved_bytes,
            free.peak_requested_bytes,
            self.replays,
            failure,
            self.work.trace,
            free.note,
            self.work.device or 0,
        )

    def completes(self, memory: int) -> bool:
        if memory not in self.known:
            self.known[memory] = self.replay(memory)
        return not self.known[memory].failure

    def replay(self, memory: int | None) -> ReplayResult:
        self.replays += 1
        work = Work(
            self.work.trace, self.work.allocator, memory, stop_at_failure=True, device=self.work.device, weight=0.1
        )
        return run(work).result

    def up(self, nbytes: int) -> int:
        return -(-nbytes // self.step) * self.step
