"""Tries allocators on a history and ranks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...allocators.sizes import short_size
from ...plugins.manager import default_manager
from ..analysis.candidates import REFERENCE, candidates
from .jobs import in_parallel
from .replayer import ReplayResult
from .workload import Work, has_native_form, history, run, runs_in_the_core

__all__ = ["Advice", "advise"]


LARGEST_DEVICE = 288 << 30
"""The most bytes of memory that one GPU has (an NVIDIA B300). What would reserve more on a device is not ranked."""
_SIMILAR = 1.02


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
    """Those that complete come first; of them, those that reserve the least; of equals, those with the least time."""
    cheaper: ReplayResult | None = None
    """One that reserves at most 2 % more than the first and spends at most half of its time in the driver."""
    note: str = ""
    """What is missing in the trace."""
    problems: dict[str, str] = field(default_factory=dict)
    """Allocators that are not ranked, and why."""

    @property
    def under_pytorch(self) -> ReplayResult | None:
        """The first that completes and that PyTorch can take, which allocates from C++: one with a native form."""
        return next((one for one in self.ranking if not one.failure and has_native_form(one.allocator)), None)

    @property
    def best(self) -> ReplayResult | None:
        """The first that completes."""
        return next((result for result in self.ranking if not result.failure), None)


def advise(trace: str, *, memory: int | None, jobs: int, allocators: Sequence[str] = ()) -> Advice:
    """Replay a history on the installed allocators and a grid of their options.

    Args:
        trace: the file.
        memory: each device's capacity in bytes; None for no limit.
        jobs: how many processes to use.
        allocators: selections to try besides.

    Raises:
        TraceError, UsageError: the file cannot be read, or there is nothing to replay in it.
        UnknownAllocatorError, PluginError: one of ``allocators`` is not to be had.
    """
    past = history(trace)
    manager = default_manager()
    tried = list(dict.fromkeys([*candidates(manager.describe_allocators(), limited=memory is not None), *allocators]))
    work = [Work(trace, selection, memory, stop_at_failure=True) for selection in tried]
    work.append(Work(trace, REFERENCE, memory, stop_at_failure=True))
    quick = all(runs_in_the_core(one.allocator) for one in work)
    tries = in_parallel(run, work, jobs=jobs, description="trying", threads=quick)
    *results, reference = (outcome.result for outcome in tries)
    ranking = sorted(results, key=lambda one: (bool(one.failure), one.peak_reserved_bytes, one.driver_time_us))
    most = LARGEST_DEVICE * len(past.programs)
    problems = {
        one.allocator: f"is left out: it would reserve {short_size(one.peak_reserved_bytes)}, more than any device has."
        for one in ranking
        if one.peak_reserved_bytes > most and one.allocator not in allocators
    }
    ranking = [one for one in ranking if one.allocator not in problems]
    best = ranking[0] if ranking and not ranking[0].failure else None
    cheaper = _cheaper(best, ranking) if best else None
    return Advice(trace, memory, past.duration, reference, ranking, cheaper, past.note, problems)


def _cheaper(best: ReplayResult, ranking: list[ReplayResult]) -> ReplayResult | None:
    near = [
        one
        for one in ranking
        if not one.failure
        and one.peak_reserved_bytes <= _SIMILAR * best.peak_reserved_bytes
        and one.driver_time_us <= best.driver_time_us / 2
    ]
    return min(near, key=lambda one: one.driver_time_us, default=None)
