"""PyTorch's training programs under four allocators, each in a process of its own, in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ...allocators.errors import CuplugError

__all__ = ["CONTENDERS", "Outcome", "race"]

CONTENDERS = ("PyTorch", "PyTorch expandable", "cuplug caching", "cuplug expandable")
"""The allocators, the first of which is what the others are compared with."""
_PROGRAM = Path(__file__).with_name("torch_workloads.py")


@dataclass
class Outcome:
    """One workload under one allocator. Times are seconds, sizes bytes."""

    workload: str
    contender: str
    cold: float
    warm: float
    """The median of the warm passes of every process."""
    requested: int
    reserved: int
    taken: float
    """How often memory was taken from the driver in a warm pass; pages that only move are not counted."""


def race(
    workloads: list[str], *, passes: int, processes: int, busy: bool, also: Sequence[str] = ()
) -> Iterator[list[Outcome]]:
    """The outcomes of each workload, in the order of ``CONTENDERS``, then of ``also``.

    Args:
        workloads: names out of ``torch_workloads.py``.
        passes: warm passes in each process.
        processes: how many processes each contender gets, in turn with the others.
        busy: whether a Python thread computes meanwhile.
        also: more of cuplug's allocators, with options: ``caching:preset=torch``.

    Raises:
        CuplugError: a process failed; the message has the end of its output.
    """
    contenders = [*CONTENDERS, *(f"cuplug {allocator}" for allocator in also)]
    for workload in workloads:
        found: dict[str, list[dict[str, float | list[float]]]] = {contender: [] for contender in contenders}
        for _ in range(processes):
            for contender in contenders:
                found[contender].append(_run(workload, contender, passes, busy=busy))
        yield [_outcome(workload, contender, found[contender]) for contender in contenders]


def _outcome(workload: str, contender: str, found: list[dict[str, float | list[float]]]) -> Outcome:
    warm = [seconds for each in found for seconds in _list(each["warm"])]
    return Outcome(
        workload,
        contender,
        cold=median(_number(each["cold"]) for each in found),
        warm=median(warm),
        requested=int(max(_number(each["requested"]) for each in found)),
        reserved=int(max(_number(each["reserved"]) for each in found)),
        taken=median(_number(each["taken"]) for each in found),
    )


def _run(workload: str, contender: str, passes: int, *, busy: bool) -> dict[str, float | list[float]]:
    library, _, allocator = contender.partition(" ")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTORCH_", "CUPLUG_TORCH"))}
    command = [sys.executable]
    if library == "cuplug":
        command += ["-m", "cuplug.interop.torch", "-a", allocator]
    elif allocator:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    command += [str(_PROGRAM), workload, str(passes), *(["busy"] if busy else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CuplugError(f"{workload} under {contender} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    result: dict[str, float | list[float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def _number(value: float | list[float]) -> float:
    assert not isinstance(value, list)
    return value


def _list(value: float | list[float]) -> list[float]:
    assert isinstance(value, list)
    return value
