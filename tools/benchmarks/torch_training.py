"""PyTorch's programs under four allocators, each in a process of its own, in turn."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median

from ...allocators.errors import CuplugError
from .told_process import ToldProcess

CONTENDERS = ("PyTorch", "PyTorch expandable", "cuplug caching", "cuplug expandable")
"""The allocators, the first of which is what the others are compared with."""
HELD = ", held"
"""The end of a contender's name that has only so much memory."""
Figures = dict[str, float | list[float]] | None
"""What a process prints, None where memory ran out: see ``torch_workloads.py``."""
_PROGRAM = Path(__file__).with_name("torch_workloads.py")


@dataclass
class Outcome:
    """One workload under one allocator. Times are seconds, infinite where memory ran out in any round; sizes bytes."""

    workload: str
    contender: str
    rounds: int
    """How many processes it had, each in turn with the others'."""
    cold: float
    cold_ratio: float
    """By the first contender's time: the median of the rounds' own ratios. A machine's speed drifts from minute to
    minute, and what runs next to each other sees the same of it."""
    warm: float
    """The median of the warm passes of every process."""
    warm_ratio: float
    """As ``cold_ratio``, of the medians of the warm passes."""
    requested: int
    reserved: int
    taken: float
    """How often memory was taken from the driver in a warm pass; pages that only move are not counted."""


def race(
    workloads: list[str],
    *,
    passes: int,
    processes: int,
    busy: bool,
    also: Sequence[str] = (),
    held: float | None = None,
) -> Iterator[list[Outcome]]:
    """The outcomes of each workload, in the order of ``CONTENDERS``, then of ``also``.

    Args:
        workloads: names out of ``torch_workloads.py``.
        passes: warm passes in each process.
        processes: how many processes each contender gets, in turn with the others.
        busy: whether a Python thread computes meanwhile.
        also: more of cuplug's allocators, with options: ``caching:preset=torch``.
        held: every contender may take only so many times what the program asks for at its peak; the first is there
            once more, before the others and with all memory, for they are compared with it. None: no limit.

    An interrupt gives the rounds of the workload that were complete, and is raised then.

    Raises:
        CuplugError: a process failed, or memory ran out without a limit; the message has the end of its output.
    """
    contenders = [*CONTENDERS, *(f"cuplug {allocator}" for allocator in also)]
    if held is not None:
        contenders = [contenders[0], *(each + HELD for each in contenders)]
    for workload in workloads:
        rounds: list[list[Figures]] = []
        try:
            rounds.extend(_rounds(workload, contenders, passes, processes, busy=busy, held=held))
        except KeyboardInterrupt:
            if rounds:
                yield _outcomes(workload, contenders, rounds)
            raise
        yield _outcomes(workload, contenders, rounds)


def _outcomes(workload: str, contenders: list[str], rounds: list[list[Figures]]) -> list[Outcome]:
    firsts = [each[0] for each in rounds]
    return [
        _outcome(workload, contender, found, firsts)
        for contender, found in zip(contenders, (list(each) for each in zip(*rounds, strict=True)), strict=True)
    ]


def _outcome(workload: str, contender: str, found: Sequence[Figures], firsts: Sequence[Figures]) -> Outcome:
    complete = [each for each in found if each is not None]
    if len(complete) < len(found):
        return Outcome(workload, contender, len(found), inf, inf, inf, inf, requested=0, reserved=0, taken=0.0)
    beside = [(each, first) for each, first in zip(complete, firsts, strict=True) if first is not None]
    return Outcome(
        workload,
        contender,
        rounds=len(found),
        cold=median(_cold(each) for each in complete),
        cold_ratio=median(_cold(each) / _cold(first) for each, first in beside),
        warm=median(seconds for each in complete for seconds in _warm(each)),
        warm_ratio=median(median(_warm(each)) / median(_warm(first)) for each, first in beside),
        requested=int(max(_number(each["requested"]) for each in complete)),
        reserved=int(max(_number(each["reserved"]) for each in complete)),
        taken=median(_number(each["taken"]) for each in complete),
    )


def _rounds(
    workload: str, contenders: list[str], passes: int, count: int, *, busy: bool, held: float | None
) -> Iterator[list[Figures]]:
    """``count`` times the figures of a process of each contender. All of them import side by side, which takes longest,
    and then work strictly in turn."""
    rounds = [[_Contender(workload, each, passes, busy=busy) for each in contenders] for _ in range(count)]
    try:
        for started in rounds:
            for each in started:
                each.wait_until_ready()
        for started in rounds:
            yield _round(started, held)
    finally:
        for started in rounds:
            for each in started:
                each.end()


def _round(started: list[_Contender], held: float | None) -> list[Figures]:
    first = started[0].figures()
    if first is None:
        raise CuplugError(f"{started[0].name} ran out of memory")
    limit = None if held is None else int(held * _number(first["requested"]))
    rest = [each.figures(limit) for each in started[1:]]
    if limit is None and None in rest:
        raise CuplugError(f"{started[1 + rest.index(None)].name} ran out of memory")
    return [first, *rest]


class _Contender(ToldProcess):
    """A process that runs one workload under one allocator once it is told to."""

    def __init__(self, workload: str, contender: str, passes: int, *, busy: bool) -> None:
        library, _, allocator = contender.removesuffix(HELD).partition(" ")
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTORCH_", "CUPLUG_TORCH"))
        }
        command = [sys.executable]
        if library == "cuplug":
            command += ["-m", "cuplug.interop.torch", "-a", allocator]
        elif allocator:
            environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        command += [str(_PROGRAM), workload, str(passes), *(["busy"] if busy else [])]
        super().__init__(f"{workload} under {contender}", command, environment)

    def wait_until_ready(self) -> None:
        """Wait until the process has imported what it needs and uses neither processor nor GPU."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line == "ready\n":
                return
        self.failed()

    def figures(self, limit: int | None = None) -> Figures:
        """Let the process work, with ``limit`` bytes of the device's memory at most, and give what it found."""
        said, _ = self._process.communicate("\n" if limit is None else f"{limit}\n")
        if self._process.returncode:
            self.failed()
        result: Figures = json.loads(said.strip().splitlines()[-1])
        return result


def _number(value: float | list[float]) -> float:
    assert not isinstance(value, list)
    return value


def _cold(figures: dict[str, float | list[float]]) -> float:
    return _number(figures["cold"])


def _warm(figures: dict[str, float | list[float]]) -> list[float]:
    seconds = figures["warm"]
    assert isinstance(seconds, list)
    return seconds
