"""Makes a plan for the allocator ``planned`` from a recorded history."""

from __future__ import annotations

from ...allocators.block import ALIGNMENT
from ...allocators.planning import Plan, Request, make_cycle
from .program import Program

__all__ = ["plan_of", "requests_of"]


def plan_of(program: Program, *, seconds: float = 8.0) -> Plan:
    """The plan of one device's history; without cycles where nothing repeats that could be planned.

    ``seconds``: for packing, in all.
    """
    streams = requests_of(program)
    made = [make_cycle(stream, asked, seconds=seconds / len(streams)) for stream, asked in streams.items()]
    return Plan([cycle for cycle in made if cycle is not None and cycle.planned_bytes])


def requests_of(program: Program) -> dict[int, list[Request]]:
    """By stream: its requests in order, each with its bytes as ``planned`` rounds them, and how many requests there had
    been on the stream when the block was freed; -1 if it never was."""
    sizes, streams = program.sizes.tolist(), program.streams.tolist()
    found: dict[int, list[Request]] = {}
    places: dict[int, int] = {}
    for step in program.steps.tolist():
        number = abs(step) - 1
        asked = found.setdefault(streams[number], [])
        if step > 0:
            places[number] = len(asked)
            asked.append((-(-sizes[number] // ALIGNMENT) * ALIGNMENT, -1))
        else:
            place = places[number]
            asked[place] = asked[place][0], len(asked)
    return found
