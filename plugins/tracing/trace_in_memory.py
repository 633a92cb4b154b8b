"""A trace in memory, wherever it came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...allocators.events import EventKind
from ...allocators.libraries import split_context
from ...allocators.served import Served
from .training_scope import PHASES

EVENT_DTYPE = np.dtype(
    [
        ("time", "<i8"),  # nanoseconds on the clock of time.perf_counter_ns
        ("address", "<u8"),
        ("nbytes", "<i8"),  # as the allocator rounded it
        ("requested", "<i8"),  # as the program asked
        ("stream", "<u8"),
        (
            "context",
            "<u4",
        ),  # a call stack's number in the side table, or 0; above it a library's (Header.libraries)
        ("thread", "<u2"),  # threads in order of their first event
        ("device", "u1"),  # NO_DEVICE for what concerns all
        ("kind", "u1"),  # an EventKind
    ]
)
EventArray: TypeAlias = "np.ndarray[Any, np.dtype[np.void]]"
NO_DEVICE = 255
"""The device of events that belong to none, such as markers."""
UNKNOWN = -1
"""The ``nbytes`` of an OUT_OF_MEMORY event of which nobody knows how much the device had free."""

_LIBRARY_OF_SOURCE = {"pytorch": "torch", "pytorch profiler": "torch", "nsight": "unknown"}

CLOSING = "cuplug: the runtime closes"
"""The name of the marker behind the program's own events. What follows, the runtime does while it closes."""


NOTES = ("<compile context>", "<user metadata>")
"""The file names of frames that are no call, but say what PyTorch noted beside a stack."""


class Frame(NamedTuple):
    """One level of a call stack."""

    filename: str
    line: int
    function: str

    def __str__(self) -> str:
        if not self.line and self.filename in PHASES:  # a module of a network: see ``stacks.ModuleStacks``
            return f"{self.function} ({self.filename})"
        if self.filename in NOTES:
            return f"{self.filename[1:-1]} {self.function}"
        return f"{self.function} ({self.filename}:{self.line})"


@dataclass(frozen=True)
class Header:
    """What a trace says of the run it was recorded from. ``fields`` is all of it, as written."""

    version: int = 1
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """``cuplug`` for a recording, ``pytorch`` for an imported memory snapshot."""
        return str(self.fields.get("source", "cuplug"))

    @property
    def driver(self) -> str:
        """The driver's selection, for example ``sim:devices=2``; empty where unknown."""
        return str(self.fields.get("driver") or "")

    @property
    def devices(self) -> list[dict[str, Any]]:
        """For each device its ``ordinal``, ``name`` and ``total_memory`` in bytes, as far as known."""
        devices = self.fields.get("devices")
        return [entry for entry in devices if isinstance(entry, dict)] if isinstance(devices, list) else []

    @property
    def allocators(self) -> dict[int, str]:
        """The allocator's selection for each device's ordinal."""
        found = self.fields.get("allocators")
        pairs = found.items() if isinstance(found, dict) else ()
        return {int(ordinal): str(selection) for ordinal, selection in pairs if str(ordinal).isdecimal()}

    @property
    def served(self) -> dict[int, Served]:
        """By a device's ordinal: what a plan served there until the runtime closed. Empty where none was followed."""
        found = self.fields.get("served")
        pairs = found.items() if isinstance(found, dict) else ()
        return {
            int(ordinal): Served(*figures)
            for ordinal, figures in pairs
            if str(ordinal).isdecimal() and isinstance(figures, list) and [type(one) for one in figures] == [int] * 4
        }

    @property
    def argv(self) -> list[str]:
        """The recorded program's command line."""
        argv = self.fields.get("argv")
        return [str(word) for word in argv] if isinstance(argv, list) else []

    @property
    def has_modules(self) -> bool:
        """Whether contexts are modules of networks and phases of a training, instead of call stacks."""
        return self.fields.get("stacks") == "modules"

    @cached_property
    def libraries(self) -> dict[int, str]:
        """Names of the libraries that may have asked, by number. Empty where contexts name none: older traces."""
        found = self.fields.get("libraries")
        pairs = found.items() if isinstance(found, dict) else ()
        return {int(number): str(name) for number, name in pairs if str(number).isdecimal()}

    @property
    def tags(self) -> dict[int, str]:
        """Names of what was put to sleep, by the numbers in its events."""
        found = self.fields.get("tags")
        pairs = found.items() if isinstance(found, dict) else ()
        return {int(number): str(name) for number, name in pairs if str(number).isdecimal()}

    @property
    def older_events(self) -> int:
        """How many events at the start build up what was there before the history began. No program caused them."""
        older = self.fields.get("older_events", 0)
        return max(older, 0) if isinstance(older, int) else 0

    def private_segments(self, device: int) -> list[tuple[int, int, str, int, int | None]]:
        """A device's segments in private pools: address, bytes, the pool's name, and the first and the last of the
        device's events at which it was there; None for those that are there at the end."""
        found = self.fields.get("private_segments")
        return [
            (int(at), int(nbytes), str(name), *(map(int, during) if during else (0, None)))
            for ordinal, at, nbytes, name, *during in (found if isinstance(found, list) else [])
            if ordinal == device
        ]

    @property
    def timed(self) -> bool:
        """Whether the events' times are when they happened; else they only keep the order."""
        return not self.fields.get("untimed")

    @property
    def paired(self) -> bool:
        """Whether it is known which block each free ends; else only how much is allocated is."""
        return not self.fields.get("unpaired")

    @property
    def wall_offset_ns(self) -> int:
        """What to add to an event's time to get nanoseconds since the epoch (``time.time_ns``)."""
        clock = self.fields.get("clock")
        clock = clock if isinstance(clock, dict) else {}
        wall, own = clock.get("time_ns", 0), clock.get("perf_counter_ns", 0)
        return wall - own if isinstance(wall, int) and isinstance(own, int) else 0


@dataclass
class Trace:
    """A trace in memory: recorded by cuplug, or imported."""

    header: Header
    events: EventArray
    """Of ``EVENT_DTYPE``. The events of one device stand in the order in which they took effect."""
    names: dict[int, str] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)
    frames: dict[int, Frame] = field(default_factory=dict)
    stacks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    path: str = ""
    complete: bool = True
    """Whether the recording was closed and every record of it is here."""
    note: str = ""
    """What is missing, for people; empty where nothing is."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What another library's file said besides, for an export in its own form. Not part of a trace file."""

    def stack(self, number: int) -> tuple[Frame, ...]:
        """The call stack of that number (an event's ``context``), innermost frame first. Empty where unknown."""
        number = split_context(int(number))[0] if self.header.libraries else int(number)
        known = (self.frames.get(frame) for frame in self.stacks.get(number, ()))
        return tuple(frame for frame in known if frame is not None)

    def library(self, context: int) -> str:
        """The name of the library that asked, by an event's ``context``: ``cuplug`` for the program itself.

        In a history that names none, all is of the one that it came from.
        """
        known = self.header.libraries
        if not known:
            return _LIBRARY_OF_SOURCE.get(self.header.source, self.header.source)
        number = split_context(int(context))[1]
        return known.get(number, f"library {number}")

    def tag(self, number: int) -> str:
        """The memory tag of that number (``requested`` of SLEEP, WAKE and MOVE)."""
        return self.header.tags.get(int(number), f"tag {int(number)}")

    def name(self, number: int) -> str:
        """The name of that number (a marker's ``requested``)."""
        return self.names.get(int(number), f"name {int(number)}, which is missing")

    @property
    def devices(self) -> list[int]:
        """The ordinals of the devices that have events."""
        return [int(device) for device in np.unique(self.events["device"]) if device != NO_DEVICE]

    @property
    def completed_apart(self) -> bool:
        """Whether FENCE_PASSED follows every free, also where nothing waited: so it is in PyTorch's histories."""
        return self.header.source == "pytorch"

    def has_history(self, device: int | None = None) -> bool:
        """Whether anything happens on a device, or on any, behind what builds up the state that was there."""
        devices = self.events["device"][self.begin :]
        return bool(np.any(devices != NO_DEVICE if device is None else devices == device))

    @property
    def begin(self) -> int:
        """The place of the history's first event: those before it build up what was there by then."""
        return min(self.header.older_events, len(self.events))

    @property
    def end(self) -> int:
        """The place of the first event that the program did not cause: the number of events, where it caused all."""
        closing = [number for number, name in self.names.items() if name == CLOSING]
        marks = np.flatnonzero((self.events["kind"] == EventKind.MARKER) & np.isin(self.events["requested"], closing))
        return int(marks[0]) if len(marks) else len(self.events)

    def canonical(self) -> bytes:
        """What two recordings of one program with one seed have in common: everything but when it ran, and as what.

        Event times, and the header's ``clock``, ``pid`` and ``family``, are left out.
        """
        events = self.events.copy()
        events["time"] = 0
        fields = {name: value for name, value in self.header.fields.items() if name not in ("clock", "pid", "family")}
        side = [fields, self.names, self.threads, self.frames, self.stacks]
        table = json.dumps(side, sort_keys=True).encode()
        return table + bytes(events.tobytes())
