"""Picks events out of a trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import Trace


@dataclass(frozen=True)
class Filter:
    """Which events are wanted. None and empty mean any. Sizes are requested bytes; times are seconds from the first."""

    kinds: tuple[EventKind, ...] = ()
    devices: tuple[int, ...] = ()
    streams: tuple[int, ...] = ()
    least: int | None = None
    most: int | None = None
    since: float | None = None
    until: float | None = None

    def places(self, trace: Trace) -> npt.NDArray[np.int64]:
        """The indices of the wanted events, in order."""
        events = trace.events
        wanted: npt.NDArray[np.bool_] = np.ones(len(events), np.bool_)
        wanted[: trace.begin] = False  # no event of the program's
        for name, values in (("kind", self.kinds), ("device", self.devices), ("stream", self.streams)):
            if values:
                wanted &= _among(events[name], values)
        if self.least is not None:
            wanted &= events["requested"] >= self.least
        if self.most is not None:
            wanted &= events["requested"] <= self.most
        if len(events) and (self.since is not None or self.until is not None):
            seconds = (events["time"] - events["time"][0]) / 1e9
            if self.since is not None:
                wanted &= seconds >= self.since
            if self.until is not None:
                wanted &= seconds <= self.until
        return np.flatnonzero(wanted)


def parse_kind(text: str) -> EventKind:
    """The kind of that name, in any case, ``-`` counting as ``_``.

    Raises:
        ValueError: there is none. The message lists them.
    """
    try:
        return EventKind[text.strip().upper().replace("-", "_")]
    except KeyError:
        known = ", ".join(kind.name.lower() for kind in EventKind)
        raise ValueError(f"there is no event kind {text!r}; the kinds are {known}") from None


def _among(column: npt.NDArray[Any], values: Iterable[int]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = np.zeros(len(column), np.bool_)
    for value in values:
        found |= column == value
    return found
