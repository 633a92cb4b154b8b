"""Tries allocators on a history and ranks them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...allocators.sizes import short_size
from ...plugins.manager import default_manager
from ..analysis.candidates import REFERENCE, RMM_POOL, candidates
from ..analysis.findings import HOLD_LESS, top_site
from ..analysis.pytorch_settings import AS_IT_IS, as_environment, in_pytorchs_words, is_pytorchs, levers
from ..analysis.summarize import summarize
from ..foreign.load import load
from .beside_device import OnHost, all_on_host, fit_on_host
from .one_replay import Work, has_native_form, history, only_replays, run, runs_in_the_core
from .replayer import ReplayResult
from .worker_pool import in_parallel

LARGEST_DEVICE = 288 << 30
"""The most bytes of memory that one GPU has (an NVIDIA B300). What would reserve more on a device is not ranked."""
_SIMILAR = 1.02
_DEFAULTS = ("caching", "expandable")
"""What a program gets that chooses nothing, and what the guide names next."""
_NOTICEABLE = 0.99
"""To be recommended, a selection reserves at most this part of what the program reserves on what it ran on."""


@dataclass(frozen=True)
class Advice:
    """What was tried, best first, and what follows from it."""

    trace: str
    memory: int | None
    """The capacity that was tried, in bytes."""
    duration: float
    """The recorded seconds."""
    reference: ReplayResult
    """One call of the driver for every block."""
    ranking: list[ReplayResult]
    """Those that complete come first; of them, those that reserve the least; of equals, those with the least time; of
    those that are equal in both, what the program would get without choosing."""
    note: str = ""
    """What is missing in the trace."""
    problems: dict[str, str] = field(default_factory=dict)
    """Allocators that are not ranked, and why."""
    verdict: str = ""
    """What another allocator does not help against, as a sentence; empty where there is nothing of the kind."""
    settings: str = ""
    """PyTorch's settings that the history was recorded with."""
    base: str = ""
    """The selection that predicts PyTorch with them; empty where PyTorch did not record the history."""
    private: bool = False
    """Whether some blocks lie in private pools: memory is then kept that nothing requests."""
    layer: str = ""
    """What holds most at the peak, as a sentence; empty where the history knows no modules."""
    ran_out: str = ""
    """Why a request failed when the history was recorded, as a sentence; empty where none did."""
    remedy: str = ""
    """What to do where it failed, and no choice of an allocator matters; empty where one may."""
    ran_on: str = ""
    """The selection of the allocator that the history was recorded on; empty where it is not known."""
    top: str = ""
    """Where the program holds more than the memory that was tried: the call site of most of it, where that is known."""
    had: int | None = None
    """How many bytes there were when the recorded run ran out of memory; None where that is not known."""
    on_host: OnHost | None = None
    """Where nothing completes on the memory that was tried, what memory of the host does about that."""

    @property
    def of_pytorch(self) -> bool:
        """Whether PyTorch's own allocator recorded the history."""
        return bool(self.base)

    @property
    def current(self) -> ReplayResult | None:
        """The replay on what the history ran on; None where that is not known, or was not tried."""
        return next((one for one in self.ranking if one.allocator == self.ran_on), None)

    @property
    def cause(self) -> str:
        """Why the program fails on the memory that was tried, in a sentence or two; that it does not where it does not.
        Empty without a limit, over several devices, where the history tells by itself, and where what it ran on was not
        tried."""
        now = self.current
        if self.memory is None or (self.had is not None and not self.remedy) or self.reference.devices > 1:
            return ""
        has = short_size(self.memory)
        if self.reference.shortage is not None and self.best is None:
            where = f", asked for above all at {self.top}" if self.top else ""
            held = short_size(self.reference.history_peak_bytes)
            return (
                f"The program itself needs more than there is: it holds {held} at its peak{where}, and there are "
                f"{has}. No allocator helps. {HOLD_LESS}"
            )
        if now is None or self.verdict:
            return ""
        name = in_pytorchs_words(now.allocator) if self.of_pytorch else now.allocator
        lacked = now.shortage
        if lacked is None:
            spare = f"{100 * (1 - now.peak_reserved_bytes / self.memory):.1f} % of it to spare"
            return "" if now.failure else f"{name} completes this history on {has}, with {spare}."
        free, outside = self.memory - lacked.active, self.memory - lacked.reserved
        asked = (
            f"on {has}, {name} fails when {short_size(lacked.requested)} are asked for and {short_size(free)} are free"
        )
        if free < lacked.requested:
            return f"It is too tight for the rounding of sizes: {asked}; the program itself would fit."
        if outside >= lacked.requested:
            return (
                f"It is too tight for the rounding of sizes: {asked}, {short_size(outside)} of them outside of what it "
                f"has reserved, but it rounds the request to more than that."
            )
        return (
            f"It was fragmentation: {asked}, but in pieces: {short_size(outside)} outside of what it has reserved, "
            f"{short_size(free - outside)} within."
        )

    @property
    def fails(self) -> bool:
        """Whether the program fails, on what it ran on, on the memory that was tried; or nothing completes."""
        return self.best is None or (self.current is not None and bool(self.current.failure))

    @property
    def recommended(self) -> ReplayResult | None:
        """The first that completes and that the program can choose; None where there is none, where it would
        reserve no less than what the history ran on does (to within 1 %), or where none matters (``remedy``). A
        program of PyTorch's can choose what has a native form, since it allocates from C++; what PyTorch does itself
        is its own setting (``pytorchs_own``)."""
        if self.remedy:
            return None
        first = next((one for one in self.ranking if not one.failure and _can_be_chosen(one, self)), None)
        now = self.current
        if first is None or now is None or now.failure:
            return first
        return first if reserves_noticeably_less(first, now) else None

    @property
    def cheaper(self) -> ReplayResult | None:
        """One that reserves at most 2 % more than what is recommended, or than what ran where nothing is, and spends
        at most half of its time in the driver."""
        best = self.recommended or self.current
        if best is None or best.failure or self.remedy:
            return None
        near = [
            one
            for one in self.ranking
            if not one.failure
            and _can_be_chosen(one, self)
            and one.peak_reserved_bytes <= _SIMILAR * best.peak_reserved_bytes
            and one.driver_time_us <= best.driver_time_us / 2
        ]
        return min(near, key=lambda one: one.driver_time_us, default=None)

    @property
    def under_pytorch(self) -> ReplayResult | None:
        """The first that a program of PyTorch's could choose. None where that does what PyTorch's own allocator does,
        where it is the one that ran, or where PyTorch recorded the history and nothing is recommended."""
        if self.of_pytorch or self.remedy:
            return self.recommended
        able = (one for one in self.ranking if not one.failure and has_native_form(one.allocator))
        first = next(able, None)
        if first is None or first.allocator == self.ran_on or is_pytorchs(first.allocator):
            return None
        return first

    @property
    def pytorchs_own(self) -> tuple[ReplayResult, ReplayResult] | None:
        """PyTorch's allocator as the history was recorded, and with the settings that do best; None where none were
        tried."""
        own = [one for one in self.ranking if one.allocator == AS_IT_IS or as_environment(one.allocator)]
        as_it_is = next((one for one in own if one.allocator == self.base), None)
        best = next((one for one in own if not one.failure and one is not as_it_is), None)
        return (as_it_is, best) if as_it_is is not None and best is not None else None

    @property
    def enough(self) -> tuple[ReplayResult, ReplayResult] | None:
        """``pytorchs_own``, where these settings reserve noticeably less, and what is recommended no less than they."""
        if self.pytorchs_own is None or self.recommended is None:
            return None
        as_it_is, best = self.pytorchs_own
        helps = bool(as_it_is.failure) or reserves_noticeably_less(best, as_it_is)
        return self.pytorchs_own if helps and not reserves_noticeably_less(self.recommended, best) else None

    @property
    def best(self) -> ReplayResult | None:
        """The first that completes."""
        return next((result for result in self.ranking if not result.failure), None)


def advise(
    traces: Sequence[str],
    *,
    memory: int | None,
    jobs: int,
    allocators: Sequence[str] = (),
    scheduler: str | None = None,
    device: int | None = None,
) -> list[Advice]:
    """Replay histories on the installed allocators and a grid of their options. Each history is tried by itself.

    Args:
        traces: the files.
        memory: each device's capacity in bytes; None for no limit.
        jobs: how many processes to use.
        allocators: selections to try besides.
        scheduler: what gives the work out (``in_parallel``).
        device: the ordinal of the only device to replay; None for all, whose figures are then sums.

    Raises:
        TraceError, UsageError: a file cannot be read, or there is nothing to replay in it.
        UnknownAllocatorError, PluginError: one of ``allocators`` is not to be had.
    """
    manager = default_manager()
    tried = list(dict.fromkeys([*candidates(manager.describe_allocators(), limited=memory is not None), *allocators]))
    if all(history(trace).of_pytorch for trace in traces):
        own = [history(trace).base for trace in traces]
        tried = list(dict.fromkeys([*tried, *levers(memory), *own]))
    if all(history(trace).of_rmm for trace in traces):
        tried = list(dict.fromkeys([*tried, RMM_POOL]))
    wanted = [*tried, REFERENCE]
    work = [
        Work(trace, selection, memory, stop_at_failure=True, device=device) for trace in traces for selection in wanted
    ]
    quick = all(runs_in_the_core(one.allocator) for one in work)
    tries = in_parallel(run, work, jobs=jobs, description="trying", threads=quick, scheduler=scheduler)
    results = [outcome.result for outcome in tries]
    each = len(wanted)
    return [
        _advice(trace, results[place * each : (place + 1) * each], memory, allocators)
        for place, trace in enumerate(traces)
    ]


def _advice(trace: str, tries: list[ReplayResult], memory: int | None, allocators: Sequence[str]) -> Advice:
    past = history(trace)
    *tried, reference = tries
    # Where nothing repeats, a plan serves nothing, and what serves instead is tried by its own name.
    results = [one for one in tried if one.allocator in allocators or not one.follows_in_vain]
    by_choice = {name: place for place, name in enumerate(dict.fromkeys((past.ran_on, *_DEFAULTS)))}
    ranking = sorted(
        results,
        key=lambda one: (
            bool(one.failure),
            one.peak_reserved_bytes,
            one.driver_time_us,
            by_choice.get(one.allocator, len(by_choice)),
        ),
    )
    most = LARGEST_DEVICE * reference.devices
    problems = {
        one.allocator: f"is left out: it would reserve {short_size(one.peak_reserved_bytes)}, more than any device has."
        for one in ranking
        if one.peak_reserved_bytes > most and one.allocator not in allocators
    }
    ranking = [one for one in ranking if one.allocator not in problems]
    held = summarize(load(trace), top=1).devices if reference.failure and reference.devices == 1 else []
    top = next((site.where for one in held if (site := top_site(one)) is not None), "")
    on_host = None
    if memory is not None and all(one.failure for one in ranking):
        on_host = all_on_host([fit_on_host(trace, memory, program.device) for program in past.programs])
    now = next((one for one in ranking if one.allocator == past.ran_on), None)
    # On another device a choice may matter; not where a limit refused what the device had, and that device is tried.
    alike = memory is None or (past.limited and now is not None and not now.failure)
    return Advice(
        trace,
        memory,
        past.duration,
        reference,
        ranking,
        past.note,
        problems,
        past.verdict,
        past.settings,
        past.base,
        past.private,
        past.layer,
        past.ran_out,
        past.remedy if alike else "",
        past.ran_on,
        top,
        past.had,
        on_host,
    )


def reserves_noticeably_less(one: ReplayResult, other: ReplayResult) -> bool:
    """Whether one reserves at most 99 % of what the other reserves."""
    return one.peak_reserved_bytes <= _NOTICEABLE * other.peak_reserved_bytes


def _can_be_chosen(result: ReplayResult | JobResult, advice: Advice | JobAdvice) -> bool:
    if advice.of_pytorch:
        return has_native_form(result.allocator) and not is_pytorchs(result.allocator)
    return not only_replays(result.allocator)


@dataclass(frozen=True)
class JobResult:
    """One allocator over all processes of a job. Sizes are bytes."""

    allocator: str
    worst: str
    """The trace whose process reserves the most."""
    peak_reserved: int
    """Of that."""
    least_reserved: int
    """Of the process that reserves the least."""
    driver_time_us: float
    """Of the process that spends the most in the driver."""
    failures: int
    """How many processes do not complete."""


@dataclass(frozen=True)
class JobAdvice:
    """One choice for all processes of a job."""

    ranking: list[JobResult]
    """Those with which all complete come first; of them, those whose worst process reserves the least."""
    ran_on: str = ""
    """What all processes ran on; empty where it is not known or differs."""
    of_pytorch: bool = False
    """Whether PyTorch's own allocator recorded every history."""
    helpless: bool = False
    """Whether a process failed for which no choice of an allocator matters (``Advice.remedy``)."""

    @property
    def best(self) -> JobResult | None:
        """The first with which every process completes."""
        return next((one for one in self.ranking if not one.failures), None)

    @property
    def recommended(self) -> JobResult | None:
        """As ``Advice.recommended``, for all processes: the one that reserves the most decides."""
        first = next((one for one in self.ranking if not one.failures and _can_be_chosen(one, self)), None)
        now = next((one for one in self.ranking if one.allocator == self.ran_on), None)
        if self.helpless:
            return None
        if first is None or now is None or now.failures:
            return first
        return first if first.peak_reserved <= _NOTICEABLE * now.peak_reserved else None


def for_job(advices: Iterable[Advice]) -> JobAdvice:
    """What suits all processes of a job: its worst process decides, since that runs out of memory first."""
    by_allocator: dict[str, list[ReplayResult]] = {}
    told = list(advices)
    for advice in told:
        for result in advice.ranking:
            by_allocator.setdefault(result.allocator, []).append(result)
    found = []
    for allocator, results in by_allocator.items():
        if len(results) < len(told):
            continue  # no device could hold one of them, or a plan would serve nothing in one
        worst = max(results, key=lambda one: one.peak_reserved_bytes)
        found.append(
            JobResult(
                allocator,
                worst.trace,
                worst.peak_reserved_bytes,
                min(one.peak_reserved_bytes for one in results),
                max(one.driver_time_us for one in results),
                sum(bool(one.failure) for one in results),
            )
        )
    ran_on = {advice.ran_on for advice in told}
    ranking = sorted(found, key=lambda one: (one.failures, one.peak_reserved, one.driver_time_us))
    of_pytorch = all(advice.of_pytorch for advice in told)
    helpless = any(advice.remedy for advice in told)
    return JobAdvice(ranking, ran_on.pop() if len(ran_on) == 1 else "", of_pytorch, helpless)
