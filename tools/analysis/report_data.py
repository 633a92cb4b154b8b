"""Packs what a report shows: an overview, and every detail in pieces that the page unpacks when they are looked at.

A piece (*chunk*) has some ten thousand events, the blocks that begin in it, and those that were there already
(*carried*), so that it can be drawn by itself. Blocks of one size, stream, library and call stack are of one *sort*,
and name it by a number. Computes only.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import EventArray, Trace
from .blocks import Blocks, Curves, curves, find_blocks
from .frame_kinds import kind_of
from .private_pools import pooled, stream_name
from .segment_spans import segment_spans
from .sites import SiteNames

CHUNK = 1 << 16
"""Events in a chunk, at least."""
EXACT = 1 << 21
"""Up to so many events, times are kept to the nanosecond."""
BINS = 1 << 13
"""Stretches of time of which the overview knows the extremes."""
LARGEST = 60_000
"""Blocks in the overview: those that take most room, as bytes times seconds."""

_MISCELLANEOUS = (
    EventKind.LIMIT, EventKind.RESET_PEAKS,
    EventKind.RECORD_STREAM, EventKind.SEGMENT_RESERVE, EventKind.SEGMENT_RELEASE, EventKind.PAGE_CREATE,
    EventKind.PAGE_MAP, EventKind.PAGE_UNMAP, EventKind.PAGE_RELEASE, EventKind.OUT_OF_MEMORY, EventKind.SLEEP,
    EventKind.WAKE, EventKind.EMPTY_CACHE, EventKind.HOST_PAGE_CREATE, EventKind.HOST_PAGE_RELEASE,
    EventKind.MOVE,
)  # fmt: skip
Column = npt.NDArray[Any]


@dataclass(frozen=True)
class Payload:
    """One device's history for the page. ``overview`` and each of ``chunks`` are base64 of deflated columns, one after
    another: of the names, types and lengths that ``meta`` has for them. Columns of type ``u4`` are stored byte by byte:
    the lowest bytes of all numbers first."""

    meta: dict[str, Any]
    overview: str
    chunks: list[str]


def pack(trace: Trace, device: int) -> Payload:
    """What a page needs of one device.

    The address axis has no gaps: ``y`` counts only addresses that some block or segment ever lay at.
    """
    own = np.flatnonzero(trace.events["device"] == device)
    events = trace.events[own]
    events["stream"] = pooled(trace, device, events)
    free = events["nbytes"].copy()  # when an allocation failed: what the device had, negative where nobody knows
    # Beyond these lies nothing but damage, which must not break the arithmetic.
    events["address"] = np.minimum(events["address"], 1 << 62)
    for name in ("nbytes", "requested"):
        events[name] = np.clip(events[name], 0, 1 << 53)
    blocks = find_blocks(events, completed_apart=trace.completed_apart)
    last = len(events)
    address = events["address"][blocks.allocated].astype(np.int64)
    segments = segment_spans(events)
    starts, offsets = _without_gaps(
        np.concatenate([address, segments["address"]]),
        np.concatenate([events["nbytes"][blocks.allocated], segments["nbytes"]]),
    )
    sorts, sort = _sorts(events, blocks)
    memory = curves(events, blocks)
    ns = np.maximum.accumulate(events["time"] - events["time"][0]) if last else np.zeros(0, np.int64)
    columns: dict[str, Column] = {
        "from": blocks.allocated,
        "freed": np.where(blocks.freed < 0, last, blocks.freed),
        "until": np.where(blocks.reusable < 0, last, blocks.reusable),
        "y": _flat(address, starts, offsets),
        "sort": sort,
    }
    counted = {
        "blocks": np.bincount(sort, minlength=len(sorts["nbytes"])),
        "at_peak": _at_peak(memory, columns, sorts),
    }
    overview = {
        **_bins(ns, memory),
        **_largest(ns, columns, sorts["nbytes"][sort] if len(sort) else sort),
        "segment_y": _flat(segments["address"], starts, offsets),
        "segment_nbytes": segments["nbytes"].astype(np.float64),
        "segment_kind": segments["paged"].astype(np.uint32) + segments["host"],  # 1: a page, 2: one of the host
        "segment_from": segments["from"].astype(np.uint32),
        "segment_until": segments["until"].astype(np.uint32),
        "segment_begun": _seconds(ns, segments["from"]),
        "segment_gone": _seconds(ns, segments["until"]),
        "piece_start": starts.astype(np.float64),
        "piece_y": offsets.astype(np.float64),
        **{f"sort_{name}": column.astype(np.float64) for name, column in {**sorts, **counted}.items()},
    }
    heads, chunks = [], []
    for head, data in _chunks(events, ns, columns, memory):
        heads.append(head)
        chunks.append(data)
    text, shapes = _packed(overview)
    markers = trace.events["kind"] == EventKind.MARKER
    places = np.flatnonzero(markers)
    meta = {
        "device": device,
        "events": last,
        "blocks": len(sort),
        "older": int(np.searchsorted(own, trace.begin)),
        "seconds": float(max(ns[-1], 1)) / 1e9 if last else 0.0,  # a state lasts for a moment, to be seen
        "axis": "moment" if not trace.has_history(device) else "seconds" if trace.header.timed else "events",
        "extent": float(offsets[-1]) if len(offsets) else 0.0,
        "kinds": {int(kind): kind.name.lower() for kind in _MISCELLANEOUS},
        "pages_created": bool(np.any(np.isin(events["kind"], (EventKind.PAGE_CREATE, EventKind.HOST_PAGE_CREATE)))),
        "failures": [
            {
                "event": place,
                "seconds": float(ns[place]) / 1e9,
                "requested": int(events["requested"][place]),
                "wanted": int(memory.active[place] + events["requested"][place]),
                "all": int(memory.reserved[place] + free[place]) if free[place] >= 0 else None,
            }
            for place in np.flatnonzero(events["kind"] == EventKind.OUT_OF_MEMORY)[:100].tolist()
        ],
        "overview": shapes,
        "chunks": heads,
        "markers": [
            [int(np.searchsorted(own, place)), (int(event["time"]) - int(events["time"][0])) / 1e9,
             trace.name(event["requested"])]
            for place, event in zip(places.tolist(), trace.events[places], strict=True)
        ] if last else [],
        **_texts(trace, device, events),
    }  # fmt: skip
    return Payload(meta, text, chunks)


# --- sorts and their names


def _sorts(events: EventArray, blocks: Blocks) -> tuple[dict[str, Column], Column]:
    """What distinguishes sorts, a column each, and every block's sort."""
    code = np.zeros(len(blocks.allocated), np.int64)
    first = code[:0]
    for name in ("requested", "nbytes", "context", "stream"):
        _, more = np.unique(events[name][blocks.allocated], return_inverse=True)
        _, first, code = np.unique(code * (int(more.max(initial=0)) + 1) + more, return_index=True, return_inverse=True)
    of = events[blocks.allocated[first]]
    _, stack = np.unique(of["context"], return_inverse=True)
    _, stream = np.unique(of["stream"], return_inverse=True)
    return {"requested": of["requested"], "nbytes": of["nbytes"], "stack": stack, "stream": stream}, code


def _texts(trace: Trace, device: int, events: EventArray) -> dict[str, Any]:
    """Names: streams, frames and what kind each is, stacks as numbers of frames, each stack's site and library."""
    allocated = events["kind"] == EventKind.ALLOCATE
    contexts, streams = np.unique(events["context"][allocated]), np.unique(events["stream"][allocated])
    frames: dict[str, int] = {}
    kinds: list[int] = []
    names, found = SiteNames(trace), dict[str, int]()
    stacks, own = [], []
    for context in contexts.tolist():
        stack = trace.stack(context)
        for frame in stack:
            if frames.setdefault(str(frame), len(frames)) == len(kinds):
                kinds.append(int(kind_of(frame)))
        stacks.append([frames[str(frame)] for frame in stack])
        own.append(found.setdefault(names.of(context), len(found)))
    return {
        "streams": [stream_name(trace, device, handle) for handle in streams.tolist()],
        "frames": list(frames),
        "frame_kinds": kinds,
        "stacks": stacks,
        "sites": list(found),
        "site": own,
        "libraries": [trace.library(number) for number in contexts.tolist()],
        "modules": trace.header.has_modules,
    }


def _at_peak(memory: Curves, columns: dict[str, Column], sorts: dict[str, Column]) -> Column:
    """For each sort, how many blocks there are at the peak of what is requested."""
    peak = int(memory.requested.argmax()) if len(memory.requested) else 0
    there = (columns["from"] <= peak) & (columns["freed"] > peak)
    return np.bincount(columns["sort"][there], minlength=len(sorts["nbytes"]))


# --- the overview


def _bins(ns: Column, memory: Curves) -> dict[str, Column]:
    """For equal stretches of time, the least and the most of each curve, and how many events have begun by its end."""
    count = min(BINS, max(len(ns), 1))
    edges = np.linspace(0, float(ns[-1]) if len(ns) else 0.0, count + 1)
    first = np.searchsorted(ns, edges[:-1], side="left")
    after = np.searchsorted(ns, edges[1:], side="left")
    if len(ns):
        after[-1] = len(ns)
    found: dict[str, Column] = {"bin_events": after.astype(np.uint32)}
    for name in ("requested", "allocated", "active", "reserved"):
        curve = getattr(memory, name)
        if not len(curve):
            found[f"{name}_least"] = found[f"{name}_most"] = np.zeros(count)
            continue
        # What was there before a stretch begins is part of it.
        begin = np.maximum(first - 1, 0)
        pairs = np.stack([begin, np.maximum(after, begin + 1)], axis=1).ravel()
        pairs = np.minimum(pairs, len(curve) - 1)
        least, most = np.minimum.reduceat(curve, pairs)[::2], np.maximum.reduceat(curve, pairs)[::2]
        found[f"{name}_least"] = least.astype(np.float64)
        found[f"{name}_most"] = most.astype(np.float64)
    if len(ns):  # reduceat leaves the last event out
        for name in ("requested", "allocated", "active", "reserved"):
            final = float(getattr(memory, name)[-1])
            found[f"{name}_least"][-1] = min(found[f"{name}_least"][-1], final)
            found[f"{name}_most"][-1] = max(found[f"{name}_most"][-1], final)
    return found


def _largest(ns: Column, columns: dict[str, Column], nbytes: Column) -> dict[str, Column]:
    """The blocks that take most room on the whole, in order, with their times in seconds."""
    if len(nbytes) > LARGEST:
        room = nbytes * (_seconds(ns, columns["until"]) - _seconds(ns, columns["from"]) + 1e-9)
        chosen = np.sort(np.argpartition(room, -LARGEST)[-LARGEST:])
    else:
        chosen = np.arange(len(nbytes))
    if len(ns) <= CHUNK * 16:  # the page has every chunk at hand, and needs none of this
        chosen = chosen[:0]
    found: dict[str, Column] = {f"large_{name}": _seconds(ns, columns[name][chosen]).astype(np.float32)
                                for name in ("from", "freed", "until")}  # fmt: skip
    return {
        **found,
        "large_y": columns["y"][chosen],
        "large_sort": columns["sort"][chosen].astype(np.uint32),
        "large_id": chosen.astype(np.uint32),
    }


def _seconds(ns: Column, places: Column) -> Column:
    """Times of events; of the place behind the last, the last one's."""
    return np.append(ns, ns[-1] if len(ns) else 0)[places] / 1e9


# --- chunks


def _chunks(
    events: EventArray, ns: Column, columns: dict[str, Column], memory: Curves
) -> Iterator[tuple[dict[str, Any], str]]:
    count = len(events)
    live = np.zeros(count + 2, np.int64)
    np.add.at(live, columns["from"], 1)
    np.add.at(live, columns["until"] + 1, -1)
    length = max(CHUNK, 4 * int(np.cumsum(live)[:count].max(initial=0)))
    kinds = events["kind"]
    miscellaneous = np.flatnonzero(np.isin(kinds, _MISCELLANEOUS))
    carried: Column = np.zeros(0, np.int64)
    for begin in range(0, count, length):
        end = min(begin + length, count)
        first, after = np.searchsorted(columns["from"], [begin, end]).tolist()
        own = np.arange(first, after)
        tick = _tick(ns[begin:end], count)
        ticks = np.rint((ns[begin:end] - ns[begin]) / tick).astype(np.int64)
        other = miscellaneous[slice(*np.searchsorted(miscellaneous, [begin, end]))]
        found: dict[str, Column] = {
            "time": np.diff(ticks, prepend=0).astype(np.uint32),
            "from": np.diff(columns["from"][own], prepend=begin).astype(np.uint32),
            **_lives(columns, own, ""),
            "carried_id": carried.astype(np.uint32),
            "carried_from": columns["from"][carried].astype(np.uint32),
            "carried_time": ns[columns["from"][carried]] / 1e9,
            **_lives(columns, carried, "carried_"),
            "other_event": other.astype(np.uint32),
            "other_kind": kinds[other].astype(np.uint32),
            "other_nbytes": events["nbytes"][other].astype(np.float64),
            "other_requested": events["requested"][other].astype(np.float64),
            "other_address": events["address"][other].astype(np.float64),
        }
        data, shapes = _packed(found)
        before = begin - 1
        yield {
            "first": begin,
            "events": end - begin,
            "block": first,
            "seconds": float(ns[begin]) / 1e9,
            "tick": tick / 1e9,
            "before": [int(getattr(memory, name)[before]) if begin else 0
                       for name in ("requested", "allocated", "active", "reserved")],
            "columns": shapes,
        }, data  # fmt: skip
        both = np.concatenate([carried, own])
        carried = both[columns["until"][both] >= end]


def _tick(ns: Column, count: int) -> float:
    """What times are multiples of, in nanoseconds: 1, but in long histories a quarter of what events are apart."""
    span = float(ns[-1] - ns[0]) if len(ns) else 0.0
    wanted = span / len(ns) / 4 if count > EXACT else 1.0
    widest = float(np.diff(ns).max(initial=0))
    return max(1.0, wanted, widest / (2**32 - 2))


def _lives(columns: dict[str, Column], blocks: Column, prefix: str) -> dict[str, Column]:
    begun, freed = columns["from"][blocks], columns["freed"][blocks]
    return {
        f"{prefix}life": (freed - begun).astype(np.uint32),
        f"{prefix}wait": (columns["until"][blocks] - freed).astype(np.int64).astype(np.uint32),
        **_places(columns["y"][blocks], prefix),
        f"{prefix}sort": columns["sort"][blocks].astype(np.uint32),
    }


def _places(y: Column, prefix: str) -> dict[str, Column]:
    """Places on the address axis, in two halves: most are multiples of 512 bytes."""
    high, low = np.divmod(y, 512)
    return {f"{prefix}y": np.minimum(high, 2**32 - 1).astype(np.uint32), f"{prefix}y_low": low.astype(np.uint32)}


def _packed(columns: dict[str, Column]) -> tuple[str, list[list[Any]]]:
    parts, shapes = [], []
    for name, column in columns.items():
        kind = column.dtype.kind + str(column.dtype.itemsize)
        raw = np.ascontiguousarray(column.astype(column.dtype.newbyteorder("<")))
        if kind == "u4" and len(raw):
            raw = np.ascontiguousarray(raw.view(np.uint8).reshape(-1, 4).T)
        parts.append(raw.tobytes())
        shapes.append([name, kind, len(column)])
    return base64.b64encode(zlib.compress(b"".join(parts), 6)).decode(), shapes


# --- addresses


def _flat(addresses: Column, starts: Column, offsets: Column) -> Column:
    if not len(addresses):
        return np.zeros(0)
    piece = np.searchsorted(starts, addresses, side="right") - 1
    place: Column = (addresses - starts[piece] + offsets[piece]).astype(np.float64)
    return place


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
