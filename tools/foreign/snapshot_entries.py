"""What the entries of a PyTorch memory snapshot say beyond what an event holds, kept for an export of the same."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Any

_OF_EVENTS = frozenset({"action", "addr", "frames", "size", "stream", "time_us", "device_free"})
_USUAL = {"compile_context": "N/A", "user_metadata": ""}
_MARKS = ("snapshot", "user_defined")


@dataclass
class Besides:
    """Of one device's entries, by their places among those that became events."""

    shapes: list[tuple[str, ...]] = field(default_factory=list)
    """The names that entries have, in their order."""
    shape_of: bytearray = field(default_factory=bytearray)
    """For each entry, its shape's place."""
    values: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What is not usual, or cannot be told from the event."""
    unknown: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """Entries that became no event, each with the number of those before it that did."""

    def entry(self, place: int, told: dict[str, Any]) -> dict[str, Any]:
        """An entry as it was, from what its event tells."""
        values = {**_USUAL, **told, **self.values.get(place, {})}
        return {name: values[name] for name in self.shapes[self.shape_of[place]]}


def besides(entries: Iterable[dict[str, Any]], known: Container[str]) -> Besides | None:
    """What to keep of a device's entries, in their order. None where they have too many shapes to be PyTorch's.

    Args:
        entries: as in the snapshot.
        known: the actions that become events.
    """
    found, shapes = Besides(), dict[tuple[str, ...], int]()
    more_names: list[list[str]] = []  # of each shape, the names that events do not hold
    for entry in entries:
        if entry["action"] not in known:
            found.unknown.append((len(found.shape_of), entry))
            continue
        shape = tuple(entry)
        number = shapes.setdefault(shape, len(shapes))
        if number > 255:
            return None
        if number == len(more_names):
            more_names.append([name for name in shape if name not in _OF_EVENTS])
        names = more_names[number]
        marks = entry["action"] in _MARKS
        more = {name: entry[name] for name in names if marks or name not in _USUAL or entry[name] != _USUAL[name]}
        if marks:
            more |= {name: entry[name] for name in ("addr", "size") if name in entry}
        if more:
            found.values[len(found.shape_of)] = more
        found.shape_of.append(number)
    found.shapes = list(shapes)
    return found


def noted_beside(entry: dict[str, Any]) -> tuple[str, str] | None:
    """What PyTorch noted beside an entry's stack, as ``NOTES`` has it: of which compiled frame it is, and the
    program's own words."""
    compiled, words = entry.get("compile_context", "N/A"), entry.get("user_metadata", "")
    if (compiled in ("N/A", "") and not words) or entry["action"] in _MARKS:
        return None
    return ("" if compiled == "N/A" else str(compiled)), str(words)
