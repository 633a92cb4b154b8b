"""A trace as a PyTorch memory snapshot. Computes only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import NOTES, Trace
from ..analysis.blocks import find_blocks
from .snapshot_entries import Besides

_ACTIONS = {
    EventKind.ALLOCATE: "alloc",
    EventKind.FREE: "free_requested",
    EventKind.FENCE_PASSED: "free_completed",
    EventKind.SEGMENT_RESERVE: "segment_alloc",
    EventKind.SEGMENT_RELEASE: "segment_free",
    EventKind.PAGE_MAP: "segment_map",
    EventKind.PAGE_UNMAP: "segment_unmap",
    EventKind.OUT_OF_MEMORY: "oom",
}


def snapshot(trace: Trace) -> dict[str, Any]:
    """A PyTorch memory snapshot, as ``torch.cuda.memory._snapshot()`` gives it, made of builtin types only.

    Of an imported snapshot, segments, settings, annotations and what entries say besides are what the file had. Else
    what was freed without waiting gets ``free_completed`` at once, as PyTorch writes it for every block, and segments
    at the end, with the blocks in them, are made up from the events.
    """
    stacks: dict[int, list[dict[str, Any]]] = {}
    count = max([len(trace.kept.get("device_traces") or ()), *(device + 1 for device in trace.devices)])
    traces = [_entries(trace, device, stacks) for device in range(count)]
    if "segments" in trace.kept:
        return {**trace.kept, "device_traces": traces}
    segments = [segment for device in trace.devices for segment in _segments(trace, device, stacks)]
    return {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": {str(name): str(value) for name, value in trace.header.allocators.items()},
        "external_annotations": [],
    }


def _entries(trace: Trace, device: int, stacks: dict[int, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    events = trace.events[trace.events["device"] == device]
    blocks = find_blocks(events, completed_apart=trace.completed_apart)
    waits = set(blocks.freed[(blocks.reusable < 0) | (blocks.reusable > blocks.freed)].tolist())
    imported = trace.header.source == "pytorch"  # whose history says of every block when its free was completed
    kept = trace.kept.get("device_traces") or []
    besides: Besides | None = kept[device] if device < len(kept) else None
    annotations = trace.kept.get("external_annotations") or ()
    annotated = {f"{entry['name']} {entry['stage']}" for entry in annotations}
    offset = trace.header.wall_offset_ns
    entries: list[dict[str, Any]] = []
    unknown = iter(besides.unknown if besides else ())
    following = next(unknown, None)
    written = 0
    begin = int(np.searchsorted(np.flatnonzero(trace.events["device"] == device), trace.begin))
    for place, event in enumerate(events[begin:], begin):
        kind = int(event["kind"])
        action = _ACTIONS.get(EventKind(kind))
        name = trace.name(int(event["requested"])) if kind == EventKind.MARKER else ""
        if imported and name and name not in annotated:
            action = "snapshot" if name == "snapshot" else "user_defined"
        if action is None:
            continue
        while following is not None and following[0] == written:
            entries.append(following[1])
            following = next(unknown, None)
        of_block = kind <= EventKind.FENCE_PASSED or kind == EventKind.OUT_OF_MEMORY
        address = max(int(event["nbytes"]), 0) if kind == EventKind.OUT_OF_MEMORY else int(event["address"])
        entry: dict[str, Any] = {
            "action": action,
            "size": 0 if name else int(event["requested"] if of_block else event["nbytes"]),
            "stream": int(event["stream"]),
            "time_us": (int(event["time"]) + offset) // 1000,
            "compile_context": "N/A",
            "user_metadata": name if action == "user_defined" else "",
            "device_free" if kind == EventKind.OUT_OF_MEMORY else "addr": address,
        }
        if trace.stacks or not imported:
            entry["frames"] = _frames(trace, int(event["context"]), stacks)
        if besides is not None:
            entry = besides.entry(written, {"addr": address, "device_free": address, "frames": [], **entry})
        written += 1
        entries.append(entry)
        if kind == EventKind.FREE and place not in waits and not imported:
            entries.append({**entry, "action": "free_completed"})
    return entries + [entry for _, entry in ([following] if following else []) + list(unknown)]


def _frames(trace: Trace, context: int, stacks: dict[int, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    if context not in stacks:
        stacks[context] = [
            {"filename": frame.filename, "line": frame.line, "name": frame.function}
            for frame in trace.stack(context)
            if frame.filename not in NOTES
        ]
    return stacks[context]


def _segments(trace: Trace, device: int, stacks: dict[int, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    events = trace.events[trace.events["device"] == device]
    held: dict[int, Any] = {}
    for event in events[np.isin(events["kind"], (EventKind.SEGMENT_RESERVE, EventKind.SEGMENT_RELEASE,
                                                 EventKind.PAGE_MAP, EventKind.PAGE_UNMAP))]:  # fmt: skip
        if event["kind"] in (EventKind.SEGMENT_RESERVE, EventKind.PAGE_MAP):
            held[int(event["address"])] = event
        else:
            first, end = int(event["address"]), int(event["address"]) + int(event["nbytes"])
            for address in [address for address in held if first <= address < max(end, first + 1)]:
                del held[address]
    blocks = find_blocks(events, completed_apart=trace.completed_apart)
    live = events[blocks.allocated[blocks.reusable < 0]]
    freed = blocks.freed[blocks.reusable < 0] >= 0
    order = np.argsort(live["address"])
    live, freed = live[order], freed[order]
    addresses = live["address"].astype(np.int64)
    found = []
    for address, event in sorted(held.items()):
        total = int(event["nbytes"])
        first, last = np.searchsorted(addresses, [address, address + total]).tolist()
        pieces: list[dict[str, Any]] = []
        at = address
        for block, waiting in zip(live[first:last], freed[first:last], strict=True):
            if int(block["address"]) > at:
                pieces.append(_piece(at, int(block["address"]) - at, 0, "inactive", []))
            state = "active_pending_free" if waiting else "active_allocated"
            frames = _frames(trace, int(block["context"]), stacks)
            nbytes = min(int(block["nbytes"]), address + total - int(block["address"]))
            pieces.append(_piece(int(block["address"]), nbytes, int(block["requested"]), state, frames))
            at = int(block["address"]) + nbytes
        if at < address + total:
            pieces.append(_piece(at, address + total - at, 0, "inactive", []))
        used = [piece for piece in pieces if piece["state"] != "inactive"]
        found.append(
            {
                "device": device,
                "address": address,
                "total_size": total,
                "allocated_size": sum(piece["size"] for piece in used if piece["state"] == "active_allocated"),
                "active_size": sum(piece["size"] for piece in used),
                "requested_size": sum(piece["requested_size"] for piece in used),
                "stream": int(event["stream"]),
                "segment_type": "small" if total <= 2 << 20 else "large",
                "segment_pool_id": (0, 0),
                "is_expandable": bool(event["kind"] == EventKind.PAGE_MAP),
                "frames": _frames(trace, int(event["context"]), stacks),
                "blocks": pieces,
            }
        )
    return found


def _piece(address: int, nbytes: int, requested: int, state: str, frames: list[dict[str, Any]]) -> dict[str, Any]:
    return {"address": address, "size": nbytes, "requested_size": requested, "state": state, "frames": frames}
