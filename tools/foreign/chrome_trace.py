"""A trace as Chrome's and Perfetto's JSON. Computes only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...allocators.events import EventKind
from ...plugins.tracing.contents import NO_DEVICE, EventArray, Trace
from ..analysis.blocks import curves, find_blocks

__all__ = ["chrome_events"]

_INSTANTS = {
    EventKind.SEGMENT_RESERVE: "segment reserved",
    EventKind.SEGMENT_RELEASE: "segment released",
    EventKind.PAGE_CREATE: "page created",
    EventKind.PAGE_MAP: "page mapped",
    EventKind.PAGE_UNMAP: "page unmapped",
    EventKind.PAGE_RELEASE: "page released",
    EventKind.OUT_OF_MEMORY: "out of memory",
}


def chrome_events(trace: Trace) -> Iterator[dict[str, Any]]:
    """The trace event format's objects: a process for each device, counters, instants, and a slice for each block.

    Blocks overlap in any order, so that each is a pair of asynchronous events (``b`` and ``e``), in a category for its
    stream. Times are microseconds from the first event. Counters have values in bytes.
    """
    origin = int(trace.events["time"][0]) if len(trace.events) else 0
    for device in trace.devices:
        yield {"name": "process_name", "ph": "M", "pid": device, "tid": 0, "args": {"name": f"device {device}"}}
        events = trace.events[trace.events["device"] == device]
        yield from _of_device(trace, events, device, origin)
    for event in trace.events[trace.events["kind"] == EventKind.MARKER]:
        device = int(event["device"])
        common = {"pid": 0 if device == NO_DEVICE else device, "tid": 0, "ts": (int(event["time"]) - origin) / 1e3}
        scope = "g" if device == NO_DEVICE else "p"
        yield {"name": trace.name(event["requested"]), "cat": "marker", "ph": "i", "s": scope, **common}


def _of_device(trace: Trace, events: EventArray, device: int, origin: int) -> Iterator[dict[str, Any]]:
    blocks = find_blocks(events)
    memory = curves(events, blocks)
    times = ((events["time"] - origin) / 1e3).tolist()
    shown = zip(memory.requested.tolist(), memory.allocated.tolist(), memory.reserved.tolist(), strict=True)
    last: tuple[int, int, int] | None = None
    for moment, values in zip(times, shown, strict=True):
        if values != last:
            last = values
            args = dict(zip(("requested", "allocated", "reserved"), values, strict=True))
            yield {"name": "memory", "ph": "C", "pid": device, "tid": 0, "ts": moment, "args": args}
    for place in np.flatnonzero(np.isin(events["kind"], list(_INSTANTS))).tolist():
        event = events[place]
        args = {"address": f"{int(event['address']):#x}", "nbytes": int(event["nbytes"])}
        name = _INSTANTS[EventKind(int(event["kind"]))]
        yield {
            "name": name, "cat": "driver", "ph": "i", "s": "p", "pid": device, "tid": 0, "ts": times[place],
            "args": {**args, "requested": int(event["requested"])},
        }  # fmt: skip
    end = times[-1] if times else 0.0
    for number, (begin, until) in enumerate(zip(blocks.allocated.tolist(), blocks.freed.tolist(), strict=True)):
        event = events[begin]
        stack = [str(frame) for frame in trace.stack(event["context"])]
        common = {
            "name": f"{int(event['requested'])} bytes", "cat": f"stream {int(event['stream']):#x}", "pid": device,
            "tid": 0, "id": f"{device}.{number}",
        }  # fmt: skip
        args = {
            "address": f"{int(event['address']):#x}",
            "nbytes": int(event["nbytes"]),
            "library": trace.library(event["context"]),
        }
        yield {**common, "ph": "b", "ts": times[begin], "args": {**args, **({"stack": stack} if stack else {})}}
        yield {**common, "ph": "e", "ts": times[until] if until >= 0 else end}
