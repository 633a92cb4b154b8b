"""Makes a plan for the allocator ``planned`` from a recorded history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...allocators.block import ALIGNMENT
from ...allocators.planning import Plan, Request, make_cycle
from .program import LIMITS, Program

_PACKING_SECONDS = 8.0
"""For packing, in all."""


def plan_of(programs: Sequence[Program]) -> Plan:
    """The plan of a history on its devices; without cycles where nothing repeats that could be planned."""
    streams = [
        (program.device, stream, asked) for program in programs for stream, asked in requests_of(program).items()
    ]
    each = _PACKING_SECONDS / max(len(streams), 1)
    made = [(device, make_cycle(stream, asked, seconds=each)) for device, stream, asked in streams]
    return Plan([replace(cycle, device=device) for device, cycle in made if cycle is not None and cycle.planned_bytes])


def requests_of(program: Program) -> dict[int, list[Request]]:
    """By stream: its requests in order, each with its bytes as ``planned`` rounds them, and how many requests there had
    been on the stream when the block was freed; -1 if it never was."""
    sizes, streams = program.sizes.tolist(), program.streams.tolist()
    found: dict[int, list[Request]] = {}
    places: dict[int, int] = {}
    for step in program.steps.tolist():
        if not step or step < LIMITS:
            continue
        number = abs(step) - 1
        asked = found.setdefault(streams[number], [])
        if step > 0:
            places[number] = len(asked)
            asked.append((-(-sizes[number] // ALIGNMENT) * ALIGNMENT, -1))
        else:
            place = places[number]
            asked[place] = asked[place][0], len(asked)
    return found
