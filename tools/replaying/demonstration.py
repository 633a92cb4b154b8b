"""The main job, on real input: a training run's allocations under each bundled allocator, recorded and compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from itertools import pairwise
from pathlib import Path

import numpy as np

from ...allocators.events import EventKind
from ...plugins.manager import default_manager
from ...plugins.tracing.reader import read_trace
from ...plugins.tracing.trace_in_memory import Trace
from ...runtime.machine.runtime import Runtime
from ..analysis.blocks import find_blocks
from ..analysis.summarize import summarize
from ..foreign.load import load
from .program import decode
from .replayer import replay

HISTORY = "resnet_multiscale.pickle.xz"
"""ResNet-50 training, 24 iterations of batch 32 at resolutions of 160 to 320, recorded with PyTorch on an H200."""


@dataclass(frozen=True)
class Outcome:
    """What one allocator did with the history. Sizes are bytes, taken from the trace that was recorded."""

    allocator: str
    peak_requested: int
    peak_allocated: int
    peak_reserved: int
    driver_calls: int
    seconds: float
    events: int
    trace: Path
    problem: str = ""
    """What went wrong: why it did not reach the end, or where trace and allocator disagree."""


@dataclass(frozen=True)
class LeftOut:
    """An allocator that the history does not suit, and why."""

    allocator: str
    reason: str


def history() -> Trace:
    """The recorded training run that the package brings."""
    with as_file(files(__package__.rpartition(".")[0]) / "data" / HISTORY) as path:
        return load(path)


def bundled_allocators() -> list[str]:
    """The names of the allocators that the package itself brings, but for those that cannot do without an option."""
    return [
        entry.name
        for entry in default_manager().describe_allocators()
        if entry.plugin == "cuplug" and entry.stands_alone
    ]


def run_one(trace: Trace, allocator: str, driver: str, directory: Path, done: Callable[[int], None]) -> Outcome:
    """Let a runtime carry out the history's allocations, each with real calls of the driver, and record them.

    Args:
        trace: the history.
        allocator: the selection.
        driver: the selection.
        directory: where the trace goes.
        done: told now and then how many more steps have been taken.
    """
    path = directory / f"{allocator.partition(':')[0]}.cuplug"
    with Runtime(allocator=allocator, driver=driver, trace=path) as runtime:

        def stream(device: int, recorded: int) -> int:
            with runtime.on_device(device):
                return runtime.driver.stream_create() if recorded else 0

        result = replay(
            decode(trace),
            lambda _upstream: runtime.allocator(0),
            allocator=allocator,
            make_upstream=lambda ordinal: runtime.device(ordinal).upstream,
            stream=stream,
            progress=done,
        )
    problem = result.failure
    recorded = summarize(read_trace(path))
    device = recorded.devices[0]
    in_trace = device.requested.nbytes, device.allocated.nbytes, device.reserved.nbytes
    counted = result.peak_requested_bytes, result.peak_allocated_bytes, result.peak_reserved_bytes
    if in_trace != counted and not problem:
        problem = f"the trace has the peaks {in_trace}, and the allocator counted {counted}"
    return Outcome(
        allocator,
        *in_trace,
        sum(device.driver_calls.values()),
        result.seconds,
        device.events,
        path,
        problem,
    )


def obstacle_to_resets(trace: Trace, marker: str = "zero_grad") -> str:
    """Why an arena cannot be reset at the end of each of the history's iterations. Empty if it can.

    Args:
        trace: the history.
        marker: an iteration ends at markers whose names hold this, and the word END.
    """
    events = trace.events
    blocks = find_blocks(events, completed_apart=trace.completed_apart)
    ends = [
        int(place)
        for place in np.flatnonzero(events["kind"] == EventKind.MARKER)
        if marker in (name := trace.name(events["requested"][place])) and name.endswith("END")
    ]
    survivors = []
    for begin, end in pairwise(ends):  # what is set up before the first end may well stay
        inside = (blocks.allocated > begin) & (blocks.allocated < end) & ((blocks.freed > end) | (blocks.freed < 0))
        survivors.append((int(np.count_nonzero(inside)), int(events["requested"][blocks.allocated[inside]].sum())))
    stuck = [count for count, _ in survivors if count]
    if not stuck:
        return ""
    least, most = min(size for _, size in survivors), max(size for _, size in survivors)
    without = int(events["nbytes"][blocks.allocated].sum())
    return (
        f"at the end of {len(stuck)} of the {len(survivors)} iterations after the first, {min(stuck)} blocks that were "
        f"allocated in it ({least / 2**20:.1f} to {most / 2**20:.1f} MiB: the batch and what belongs to it) are still "
        "live, so that an arena cannot be reset there; without resets the run would take "
        f"{without / 2**30:.0f} GiB"
    )
