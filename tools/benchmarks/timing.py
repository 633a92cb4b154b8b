"""Timing several contenders fairly in one process: in turn, round after round, so that drift meets all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
Repeat = Callable[[int], None]
"""Does something as often as its argument says."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One contender's time per call, in nanoseconds, over all rounds."""

    median_ns: float
    least_ns: float
    most_ns: float


def time_in_turn(
    contenders: Mapping[str, Repeat],
    *,
    calls: int,
    rounds: int,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> dict[str, Timing]:
    """Time each contender ``rounds`` times, in turn, after one round that does not count.

    Args:
        contenders: by name, a function that repeats its operation as many times as its argument says.
        calls: how many times, in each round.
        rounds: how many rounds count.
        clock: gives nanoseconds. ``time.process_time_ns`` counts the processor's time alone, so that what other
            programs take of a machine is no part of it; nor is waiting for a device.

    Returns:
        The time of one operation of each contender, by name.
    """
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for counts in range(rounds + 1):
        for name, repeat in contenders.items():
            start = clock()
            repeat(calls)
            if counts:
                spent[name].append((clock() - start) / calls)
    return {name: Timing(statistics.median(times), min(times), max(times)) for name, times in spent.items()}


def repeated(operation: Callable[[], object], wait: Callable[[], object] = lambda: None) -> Repeat:
    """Repeats an operation, and then waits once for what it has queued."""

    def repeat(times: int) -> None:
        for _ in range(times):
            operation()
        wait()

    return repeat


def made_by(makers: Mapping[str, Callable[..., T]], *arguments: Any) -> tuple[dict[str, T], dict[str, str]]:
    """What each function makes of the arguments, by its name; and why those that raise are left out."""
    found: dict[str, T] = {}
    missing: dict[str, str] = {}
    for name, make in makers.items():
        try:
            found[name] = make(*arguments)
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {error}"
    return found, missing
