"""A trace as Chrome's and Perfetto's JSON. Computes only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.contents import NO_DEVICE, EventArray, Trace
from ..analysis.blocks import Blocks, curves, find_blocks

__all__ = ["chrome_lines"]

Times = npt.NDArray[np.float64]
"""Microseconds, of each event."""

_INSTANTS = {
    EventKind.SEGMENT_RESERVE: "segment reserved",
    EventKind.SEGMENT_RELEASE: "segment released",
    EventKind.PAGE_CREATE: "page created",
    EventKind.PAGE_MAP: "page mapped",
    EventKind.PAGE_UNMAP: "page unmapped",
    EventKind.PAGE_RELEASE: "page released",
    EventKind.OUT_OF_MEMORY: "out of memory",
}


def chrome_lines(trace: Trace) -> Iterator[str]:
    """The trace event format's objects, each as a line of JSON: a process for each device, counters, instants, and a
    slice for each block.

    Blocks overlap in any order, so that each is a pair of asynchronous events (``b`` and ``e``), in a category for its
    stream. Times are microseconds from the first event. Counters have values in bytes.
    """
    origin = int(trace.events["time"][0]) if len(trace.events) else 0
    for device in trace.devices:
        yield _text({"name": "process_name", "ph": "M", "pid": device, "tid": 0, "args": {"name": f"device {device}"}})
        events = trace.events[trace.events["device"] == device]
        times = (events["time"] - origin) / 1e3
        blocks = find_blocks(events, completed_apart=trace.completed_apart)
        yield from _counters(events, blocks, times, device)
        yield from _instants(events, times, device)
        yield from _slices(trace, events, blocks, times, device)
    for event in trace.events[trace.events["kind"] == EventKind.MARKER]:
        device = int(event["device"])
        common = {"pid": 0 if device == NO_DEVICE else device, "tid": 0, "ts": (int(event["time"]) - origin) / 1e3}
        scope = "g" if device == NO_DEVICE else "p"
        yield _text({"name": trace.name(event["requested"]), "cat": "marker", "ph": "i", "s": scope, **common})


def _counters(events: EventArray, blocks: Blocks, times: Times, device: int) -> Iterator[str]:
    memory = curves(events, blocks)
    each = memory.requested, memory.allocated, memory.reserved
    changed = np.any([np.diff(curve, prepend=-1) != 0 for curve in each], axis=0)
    for part in _parts(np.flatnonzero(changed)):
        shown = zip(times[part].tolist(), *(curve[part].tolist() for curve in each), strict=True)
        for moment, requested, allocated, reserved in shown:
            yield (
                f'{{"name":"memory","ph":"C","pid":{device},"tid":0,"ts":{moment},"args":'
                f'{{"requested":{requested},"allocated":{allocated},"reserved":{reserved}}}}}'
            )


def _instants(events: EventArray, times: Times, device: int) -> Iterator[str]:
    for place in np.flatnonzero(np.isin(events["kind"], list(_INSTANTS))).tolist():
        event = events[place]
        args = {"address": f"{int(event['address']):#x}", "nbytes": int(event["nbytes"])}
        name = _INSTANTS[EventKind(int(event["kind"]))]
        yield _text({
            "name": name, "cat": "driver", "ph": "i", "s": "p", "pid": device, "tid": 0, "ts": float(times[place]),
            "args": {**args, "requested": int(event["requested"])},
        })  # fmt: skip


def _slices(trace: Trace, events: EventArray, blocks: Blocks, times: Times, device: int) -> Iterator[str]:
    end = float(times[-1]) if len(times) else 0.0
    told: dict[int, str] = {}  # by context, the end of what is said of a block: made once, for it may be long
    for numbers in _parts(np.arange(len(blocks.allocated))):
        allocated, freed = blocks.allocated[numbers], blocks.freed[numbers]
        moments = times[allocated].tolist(), np.where(freed < 0, end, times[freed]).tolist()
        own = events[allocated].tolist()
        for number, begin, until, event in zip(numbers.tolist(), *moments, own, strict=True):
            _, address, nbytes, requested, stream, context, *_ = event
            tail = told.get(context)
            if tail is None:
                stack = [str(frame) for frame in trace.stack(context)]
                args = {"library": trace.library(context), **({"stack": stack} if stack else {})}
                tail = told[context] = _text(args)[1:]
            common = (
                f'{{"name":"{requested} bytes","cat":"stream {stream:#x}","pid":{device},"tid":0,'
                f'"id":"{device}.{number}","ph":'
            )
            yield f'{common}"b","ts":{begin},"args":{{"address":"{address:#x}","nbytes":{nbytes},{tail}}}'
            yield f'{common}"e","ts":{until}}}'


def _parts(places: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    for start in range(0, len(places), 1 << 16):
        yield places[start : start + (1 << 16)]


def _text(entry: dict[str, Any]) -> str:
    return json.dumps(entry, separators=(",", ":"))
