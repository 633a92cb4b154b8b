"""A trace as Chrome's and Perfetto's JSON. Computes only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import NO_DEVICE, EventArray, Trace
from ..analysis.blocks import Blocks, curves, find_blocks
from .text_columns import Digits, Part, Texts, lines

Times = npt.NDArray[np.int64]
"""Nanoseconds from the first event, of each event."""

_INSTANTS = {
    EventKind.LIMIT: "limit changed",
    EventKind.RESET_PEAKS: "peaks reset",
    EventKind.SEGMENT_RESERVE: "segment reserved",
    EventKind.SEGMENT_RELEASE: "segment released",
    EventKind.PAGE_CREATE: "page created",
    EventKind.PAGE_MAP: "page mapped",
    EventKind.PAGE_UNMAP: "page unmapped",
    EventKind.PAGE_RELEASE: "page released",
    EventKind.OUT_OF_MEMORY: "out of memory",
    EventKind.SLEEP: "memory asleep",
    EventKind.WAKE: "memory awake",
    EventKind.MOVE: "memory moved",
    EventKind.EMPTY_CACHE: "empty_cache",
    EventKind.HOST_PAGE_CREATE: "page of the host created",
    EventKind.HOST_PAGE_RELEASE: "page of the host released",
}


def chrome_trace(trace: Trace) -> Iterator[bytes]:
    """The trace event format's JSON, in pieces: a process for each device, counters, instants, a slice for each block.

    Blocks overlap in any order, so that each is a pair of asynchronous events (``b`` and ``e``), in a category for its
    stream. Times are microseconds from the first event. Counters have values in bytes. Call stacks stand once each, in
    ``stackFrames``, where a block's ``sf`` is the innermost frame and each frame names the one that called it.
    """
    frames = _Frames(trace)
    origin = int(trace.events["time"][0]) if len(trace.events) else 0
    yield b'{"displayTimeUnit":"ms","traceEvents":[\n'
    for device in trace.devices:
        events = trace.events[trace.events["device"] == device]
        blocks = find_blocks(events, completed_apart=trace.completed_apart)
        times = events["time"] - origin
        yield from _counters(events, blocks, times, device)
        yield from _instants(events, times / 1e3, device)
        yield from _slices(trace, events, blocks, times, device, frames)
    for event in trace.events[trace.events["kind"] == EventKind.MARKER]:
        device = int(event["device"])
        common = {"pid": 0 if device == NO_DEVICE else device, "tid": 0, "ts": (int(event["time"]) - origin) / 1e3}
        scope = "g" if device == NO_DEVICE else "p"
        yield _text({"name": trace.name(event["requested"]), "cat": "marker", "ph": "i", "s": scope, **common}) + _NEXT
    yield (_NEXT).join(
        _text({"name": "process_name", "ph": "M", "pid": device, "tid": 0, "args": {"name": f"device {device}"}})
        for device in trace.devices or [0]
    )
    yield b'\n],"stackFrames":' + json.dumps(frames.told, separators=(",", ":")).encode() + b"}\n"


_NEXT = b",\n"


class _Frames:
    """The tree of frames: stacks that begin alike share it."""

    def __init__(self, trace: Trace) -> None:
        self.told: dict[str, dict[str, str]] = {}
        self._trace = trace
        self._known: dict[tuple[str, str], str] = {}
        self._of: dict[int, str] = {}

    def of(self, context: int) -> str:
        """The number of a context's innermost frame; empty where there is no stack."""
        found = self._of.get(context)
        if found is None:
            found = ""
            for frame in reversed(self._trace.stack(context)):
                key = found, str(frame)
                if key not in self._known:
                    number = self._known[key] = str(len(self._known) + 1)
                    caller = {"parent": found} if found else {}
                    self.told[number] = {"category": frame.filename, "name": str(frame), **caller}
                found = self._known[key]
            self._of[context] = found
        return found


def _counters(events: EventArray, blocks: Blocks, times: Times, device: int) -> Iterator[bytes]:
    memory = curves(events, blocks)
    each = memory.requested, memory.allocated, memory.reserved
    changed = np.any([np.diff(curve, prepend=-1) != 0 for curve in each], axis=0)
    for part in _parts(np.flatnonzero(changed)):
        requested, allocated, reserved = (curve[part] for curve in each)
        yield lines(
            [
                f'{{"name":"memory","ph":"C","pid":{device},"tid":0,"ts":'.encode(), *_microseconds(times[part]),
                b',"args":{"requested":', requested, b',"allocated":', allocated, b',"reserved":', reserved, b"}},\n",
            ],
            len(part),
        )  # fmt: skip


def _microseconds(times: Times) -> list[Part]:
    return [times // 1000, b".", Digits(times % 1000, 3)]


def _instants(events: EventArray, times: npt.NDArray[np.float64], device: int) -> Iterator[bytes]:
    for place in np.flatnonzero(np.isin(events["kind"], list(_INSTANTS))).tolist():
        event = events[place]
        args = {"address": f"{int(event['address']):#x}", "nbytes": int(event["nbytes"])}
        name = _INSTANTS[EventKind(int(event["kind"]))]
        yield _text({
            "name": name, "cat": "driver", "ph": "i", "s": "p", "pid": device, "tid": 0, "ts": float(times[place]),
            "args": {**args, "requested": int(event["requested"])},
        }) + _NEXT  # fmt: skip


def _slices(
    trace: Trace, events: EventArray, blocks: Blocks, times: Times, device: int, frames: _Frames
) -> Iterator[bytes]:
    end = times[-1] if len(times) else 0
    for numbers in _parts(np.arange(len(blocks.allocated))):
        allocated, freed = blocks.allocated[numbers], blocks.freed[numbers]
        own = events[allocated]
        contexts, context = np.unique(own["context"], return_inverse=True)
        streams, stream = np.unique(own["stream"], return_inverse=True)
        tails = [_tail(trace, number, frames) for number in contexts.tolist()]
        common: list[Part] = [
            b'{"name":"', own["requested"], b' bytes","cat":"stream ',
            Texts(stream, [f"{handle:#x}".encode() for handle in streams.tolist()]),
            f'","pid":{device},"tid":0,"id":"{device}.'.encode(), numbers,
        ]  # fmt: skip
        yield lines(
            [
                *common, b'","ph":"b","ts":', *_microseconds(times[allocated]), b',"args":{"address":"0x',
                *_hexadecimal(own["address"]), b'","nbytes":', own["nbytes"], b",", Texts(context, tails), b"},\n",
            ],
            len(numbers),
        )  # fmt: skip
        until = np.where(freed < 0, end, times[freed])
        yield lines([*common, b'","ph":"e","ts":', *_microseconds(until), b"},\n"], len(numbers))


def _tail(trace: Trace, context: int, frames: _Frames) -> bytes:
    frame = frames.of(context)
    told = f'"library":{json.dumps(trace.library(context))}}}'
    return (told + (f',"sf":{frame}' if frame else "")).encode()


def _hexadecimal(addresses: npt.NDArray[Any]) -> list[Part]:
    """Sixteen digits, in pairs."""
    pairs = [f"{pair:02x}".encode() for pair in range(256)]
    return [
        Texts((addresses >> np.uint64(8 * place) & np.uint64(255)).astype(np.int64), pairs)
        for place in range(7, -1, -1)
    ]


def _parts(places: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    for start in range(0, len(places), 1 << 15):
        yield places[start : start + (1 << 15)]


def _text(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode()
