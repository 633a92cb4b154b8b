"""Packs what a report shows: columns of numbers, compressed, and a little text as JSON. Computes only."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.contents import EventArray, Trace
from .blocks import Blocks, find_blocks

__all__ = ["Payload", "pack"]

_TAKEN = (EventKind.SEGMENT_RESERVE, EventKind.PAGE_MAP)
_GIVEN = (EventKind.SEGMENT_RELEASE, EventKind.PAGE_UNMAP)


@dataclass(frozen=True)
class Payload:
    """One device's history for the page: ``meta`` describes ``data``, base64 of deflated columns, one after another."""

    meta: dict[str, Any]
    data: str


def pack(trace: Trace, device: int) -> Payload:
    """Columns of events, blocks and segments of one device.

    The address axis has no gaps: ``y`` counts only addresses that some block or segment ever lay at.
    """
    events = trace.events[trace.events["device"] == device]
    # Beyond these lies nothing but damage, which must not break the arithmetic.
    events["address"] = np.minimum(events["address"], 1 << 62)
    for name in ("nbytes", "requested"):
        events[name] = np.clip(events[name], 0, 1 << 53)
    blocks = find_blocks(events, completed_apart=trace.completed_apart)
    segments = _segments(events)
    own = events[blocks.allocated]
    begin = own["address"].astype(np.int64)
    starts, offsets = _without_gaps(
        np.concatenate([begin, segments["address"]]),
        np.concatenate([own["nbytes"], segments["nbytes"]]),
    )

    def flat(addresses: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        piece = np.searchsorted(starts, addresses, side="right") - 1
        return (addresses - starts[piece] + offsets[piece]).astype(np.float64)

    contexts, context = np.unique(own["context"], return_inverse=True)
    streams, stream = np.unique(own["stream"], return_inverse=True)
    last = len(events)
    columns: dict[str, npt.NDArray[Any]] = {
        "time": np.maximum.accumulate(events["time"] - events["time"][0]) / 1e9 if last else np.zeros(0),
        "y": flat(begin) if len(begin) else np.zeros(0),
        "address": begin.astype(np.float64),
        "nbytes": own["nbytes"].astype(np.float64),
        "requested": own["requested"].astype(np.float64),
        "from": blocks.allocated.astype(np.uint32),
        "until": np.where(blocks.reusable < 0, last, blocks.reusable).astype(np.uint32),
        "freed": np.where(blocks.freed < 0, last, blocks.freed).astype(np.uint32),
        "context": context.astype(np.uint32),
        "stream": stream.astype(np.uint32),
        "held": _held(events),
        "segment_y": flat(segments["address"]) if len(segments) else np.zeros(0),
        "segment_nbytes": segments["nbytes"].astype(np.float64),
        "segment_from": segments["from"].astype(np.uint32),
        "segment_until": segments["until"].astype(np.uint32),
    }
    raw = b"".join(column.astype(column.dtype.newbyteorder("<")).tobytes() for column in columns.values())
    meta = {
        "device": device,
        "columns": [
            [name, column.dtype.kind + str(column.dtype.itemsize), len(column)] for name, column in columns.items()
        ],
        "streams": [f"{handle:#x}" for handle in streams.tolist()],
        "stacks": [[str(frame) for frame in trace.stack(number)] for number in contexts.tolist()],
        "libraries": [trace.library(number) for number in contexts.tolist()],
        "extent": float(offsets[-1]) if len(offsets) else 0.0,
    }
    return Payload(json.loads(json.dumps(meta)), base64.b64encode(zlib.compress(raw, 6)).decode())


def _held(events: EventArray) -> npt.NDArray[np.float64]:
    from .blocks import curves

    nothing = np.zeros(0, np.int64)
    return curves(events, Blocks(nothing, nothing, nothing, 0)).reserved.astype(np.float64)


def _segments(events: EventArray) -> npt.NDArray[Any]:
    """Every segment and mapped page: address, bytes, and the events from and until which it was there."""
    found: list[tuple[int, int, int, int]] = []
    live: dict[int, tuple[int, int]] = {}
    places = np.flatnonzero(np.isin(events["kind"], _TAKEN + _GIVEN))
    for place, event in zip(places.tolist(), events[places], strict=True):
        address, nbytes = int(event["address"]), int(event["nbytes"])
        if event["kind"] in _TAKEN:
            live[address] = nbytes, place
        else:
            end = address + max(nbytes, 1)
            while address < end and address in live:  # one call may unmap several pages
                size, since = live.pop(address)
                found.append((address, size, since, place))
                address += max(size, 1)
    found += [(address, size, since, len(events)) for address, (size, since) in live.items()]
    return np.array(found, [("address", "<i8"), ("nbytes", "<i8"), ("from", "<i8"), ("until", "<i8")])


def _without_gaps(
    begin: npt.NDArray[np.int64], nbytes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The pieces of address space in use: where each starts, and its place when they are pushed together (one more
    entry: where the last ends)."""
    if not len(begin):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.argsort(begin, kind="stable")
    begin = begin[order]
    end = np.maximum.accumulate(begin + nbytes[order])
    first = np.append(True, begin[1:] > end[:-1])
    starts = begin[first]
    last = np.append(np.flatnonzero(first)[1:] - 1, len(begin) - 1)
    lengths = end[last] - starts
    return starts, np.concatenate([[0], np.cumsum(lengths)])
