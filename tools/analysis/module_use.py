"""What the modules of a network hold, in a history that was recorded with ``--stacks modules``. Computes only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...allocators.sizes import short_size
from ...plugins.tracing.trace_in_memory import EventArray, Trace
from ...plugins.tracing.training_scope import BACKWARD, FORWARD, ITERATION, NO_MODULE, OPTIMISER
from .blocks import Blocks, curves, find_blocks


@dataclass(frozen=True)
class ModuleUse:
    """What was allocated while one module computed, or while its gradients were. Sizes are requested bytes."""

    module: str
    """Its path; what no module asked for is ``outside modules``."""
    saved_bytes: int
    """Allocated in its forward and held when the backward begins: its activations, in the iteration with the most."""
    saved_iteration: int
    """That iteration, counted from 0: an iteration ends with an optimiser's step."""
    at_peak_bytes: int
    """Held when all together held the most."""
    forward_bytes: int
    backward_bytes: int
    optimiser_bytes: int
    other_bytes: int
    """In all, by phase."""
    allocations: int


Column = npt.NDArray[np.int64]


def module_uses(trace: Trace, device: int) -> list[ModuleUse]:
    """Every module that asked for memory of a device, those with the most saved activations first.

    Empty for a history that knows no modules.
    """
    if not trace.header.has_modules:
        return []
    own = np.flatnonzero(trace.events["device"] == device)
    events = trace.events[own]
    blocks = find_blocks(events, completed_apart=trace.completed_apart)
    contexts, place = np.unique(events["context"], return_inverse=True)
    found = [trace.stack(context) for context in contexts.tolist()]
    paths = [stack[0].function if stack else NO_MODULE for stack in found]
    phases = np.array([stack[0].filename if stack else "" for stack in found])
    modules = sorted(set(paths))
    numbers = {name: number for number, name in enumerate(modules)}
    module = np.array([numbers[name] for name in paths])[place][blocks.allocated]
    phase = phases[place]
    requested = events["requested"][blocks.allocated]
    starts = _backward_starts(events, phase)
    saved = _saved(blocks, module, requested, phase[blocks.allocated] == FORWARD, starts, len(modules))
    most = saved.argmax(axis=0) if len(starts) else np.zeros(len(modules), np.int64)
    iterations = np.searchsorted(_iteration_ends(trace), own[starts])
    held = _held_at_peak(events, blocks)

    def total(chosen: npt.NDArray[np.bool_]) -> Column:
        return np.bincount(module[chosen], requested[chosen], len(modules)).astype(np.int64)

    by_phase = {name: total(phase[blocks.allocated] == name) for name in (FORWARD, BACKWARD, OPTIMISER)}
    every, at_peak = total(np.ones(len(module), np.bool_)), total(held)
    counts = np.bincount(module, minlength=len(modules))
    uses = [
        ModuleUse(
            name,
            int(saved[most[number], number]) if len(starts) else 0,
            int(iterations[most[number]]) if len(starts) else 0,
            int(at_peak[number]),
            int(by_phase[FORWARD][number]),
            int(by_phase[BACKWARD][number]),
            int(by_phase[OPTIMISER][number]),
            int(every[number] - sum(each[number] for each in by_phase.values())),
            int(counts[number]),
        )
        for number, name in enumerate(modules)
        if counts[number]
    ]
    return sorted(uses, key=lambda use: (-use.saved_bytes, -use.at_peak_bytes, use.module))


def layer_at_peak(trace: Trace) -> str:
    """Which module holds most at the peak of the device that holds most, as a sentence. Empty where none is known."""
    if not trace.header.has_modules:
        return ""
    found: tuple[int, str] = (0, "")
    for device in trace.devices:
        uses = module_uses(trace, device)
        total = sum(use.at_peak_bytes for use in uses)
        layers = [use for use in uses if use.module != NO_MODULE]
        if not layers or total <= found[0]:
            continue
        top = max(layers, key=lambda use: use.at_peak_bytes)
        saved = f" It saves {top.saved_bytes} bytes of activations." if top.saved_bytes else ""
        found = (
            total,
            (
                f"At the peak of device {device} the layer {top.module} holds most: {top.at_peak_bytes} bytes "
                f"({short_size(top.at_peak_bytes)}, {top.at_peak_bytes / total:.1%}).{saved}"
            ),
        )
    return found[1]


def _backward_starts(events: EventArray, phase: npt.NDArray[np.str_]) -> Column:
    """The events with which a backward pass begins: first of the phase after another one."""
    told: Column = np.flatnonzero(np.isin(events["kind"], (EventKind.ALLOCATE, EventKind.FREE)))
    backward = phase[told] == BACKWARD
    begins: Column = told[backward & ~np.concatenate([[False], backward[:-1]])]
    return begins


def _saved(
    blocks: Blocks, module: Column, requested: Column, forward: npt.NDArray[np.bool_], starts: Column, count: int
) -> Column:
    """For each start of a backward pass, a row with what each module's forward has allocated and is still held."""
    change = np.zeros((len(starts) + 1, count), np.int64)
    first = np.searchsorted(starts, blocks.allocated[forward], side="right")
    freed = blocks.freed[forward]
    after = np.where(freed < 0, len(starts), np.searchsorted(starts, freed, side="right"))
    np.add.at(change, (first, module[forward]), requested[forward])
    np.add.at(change, (after, module[forward]), -requested[forward])
    held: Column = np.cumsum(change, axis=0)[: len(starts)]
    return held


def _held_at_peak(events: EventArray, blocks: Blocks) -> npt.NDArray[np.bool_]:
    curve = curves(events, blocks).requested
    peak = int(curve.argmax()) if len(curve) else 0
    held: npt.NDArray[np.bool_] = (blocks.allocated <= peak) & ((blocks.freed > peak) | (blocks.freed < 0))
    return held


def _iteration_ends(trace: Trace) -> Column:
    marks = [number for number, name in trace.names.items() if name == ITERATION]
    of_iterations = (trace.events["kind"] == EventKind.MARKER) & np.isin(trace.events["requested"], marks)
    return np.flatnonzero(of_iterations)
