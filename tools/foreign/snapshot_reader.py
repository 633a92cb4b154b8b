"""Reads PyTorch's memory snapshots as traces (``torch.cuda.memory._snapshot``, ``_dump_snapshot``).

What becomes what (the actions are described at ``TraceEntry::Action`` in ``c10/cuda/CUDACachingAllocator.h``):

============== ================== =====================================================================
action         event              sizes in bytes
============== ================== =====================================================================
alloc          ALLOCATE           ``requested`` as recorded, ``nbytes`` as set aside (see below)
free_requested FREE               the same
free_completed FENCE_PASSED       the same. PyTorch writes one for every block, also where nothing waits
segment_alloc  SEGMENT_RESERVE    exact
segment_free   SEGMENT_RELEASE    exact
segment_map    PAGE_MAP           exact; ``requested``, the page's handle, is 0
segment_unmap  PAGE_UNMAP         exact; the same
oom            OUT_OF_MEMORY      ``requested`` as recorded, ``nbytes`` free on the device
snapshot       MARKER "snapshot"
user_defined   MARKER             named by the metadata
(annotations)  MARKER             "NAME START" and "NAME END", on their device, sorted in by time
============== ================== =====================================================================

A history does not say how large a block PyTorch set aside: it is at least the request rounded up to 512 bytes
(``kMinBlockSize``), which is what ``nbytes`` holds; of blocks that are there at the end, the segments say it.
Addresses are reused: only an event's place in the order tells which block is meant. Times are microseconds since the
epoch, stored as nanoseconds. Stacks are those of the snapshot.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import zlib
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...allocators.errors import TraceError
from ...allocators.events import EventKind
from ...allocators.sizes import format_size
from ...plugins.tracing.trace_in_memory import EVENT_DTYPE, NOTES, EventArray, Frame, Header, Trace
from . import safe_pickles
from .safe_pickles import is_pickle
from .skipped_actions import with_whole_frees
from .snapshot_entries import Besides, besides, noted_beside
from .snapshot_start import state_before

XZ_MAGIC = b"\xfd7zXZ\x00"
GZIP_MAGIC = b"\x1f\x8b"
LARGEST = 4 << 30
"""Compressed files that grow beyond this many bytes are refused."""
MOST_TIMES = 250
"""So are those that grow beyond this many times their size: snapshots grow to some 10 to 30 times."""
ALWAYS_ALLOWED = 32 << 20
"""A file may grow to this many bytes, however small it is."""
_MEMORY_OF_XZ = 256 << 20  # what the decoder may take in bytes; xz -9 needs 65 MiB

_ROUND = 512
_ACTIONS = {
    "alloc": EventKind.ALLOCATE,
    "free_requested": EventKind.FREE,
    "free_completed": EventKind.FENCE_PASSED,
    "segment_alloc": EventKind.SEGMENT_RESERVE,
    "segment_free": EventKind.SEGMENT_RELEASE,
    "segment_map": EventKind.PAGE_MAP,
    "segment_unmap": EventKind.PAGE_UNMAP,
    "oom": EventKind.OUT_OF_MEMORY,
    "snapshot": EventKind.MARKER,
    "user_defined": EventKind.MARKER,
}
_ROUNDED_KINDS = (EventKind.ALLOCATE, EventKind.FREE, EventKind.FENCE_PASSED)


def read_snapshot(path: str | os.PathLike[str]) -> Trace:
    """Read a memory snapshot: ``.pickle``, or that compressed with gzip or xz. Nothing in it is executed.

    A list of segments by itself (``torch.cuda.memory_snapshot()``) is read too: the state at one moment.

    Raises:
        TraceError: there is no such file, it is damaged, or it is something else.
    """
    path = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None
    if data.startswith((XZ_MAGIC, GZIP_MAGIC)):
        data = _decompress(path, data)
    if not is_pickle(data[:8]):
        raise TraceError(f"{path} is not a PyTorch memory snapshot: it begins with {data[:8]!r}")
    snapshot = safe_pickles.loads(data, path)
    del data
    if _are_segments(snapshot):
        snapshot = {"segments": snapshot}  # torch.cuda.memory_snapshot()
    if isinstance(snapshot, dict) and _are_segments(snapshot.get("segments")):
        snapshot.setdefault("device_traces", [])  # those of the state alone may leave it out
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("device_traces"), list):
        several = snapshot.values() if isinstance(snapshot, dict) else snapshot
        inside = several if isinstance(snapshot, (dict, list, tuple)) else ()
        if any(isinstance(one, dict) and "device_traces" in one for one in inside):
            raise TraceError(
                f"{path} is a {type(snapshot).__name__} with PyTorch memory snapshots in it: pickle each into a file "
                "of its own; files in one folder are read as the processes of one job"
            )
        raise TraceError(
            f"{path} is not a PyTorch memory snapshot: it has no 'device_traces'. Take one with "
            "torch.cuda.memory._record_memory_history() and torch.cuda.memory._dump_snapshot()"
        )
    return _Import(path, snapshot).trace()


def _are_segments(entries: Any) -> bool:
    """Whether these are segments as PyTorch writes them: other programs' files have lists of that name, too."""
    return (
        isinstance(entries, list) and bool(entries) and all(isinstance(e, dict) and "total_size" in e for e in entries)
    )


class _Import:
    """One snapshot on its way to a trace."""

    def __init__(self, path: str, snapshot: dict[Any, Any]) -> None:
        self.path = path
        self.snapshot = snapshot
        self.names: dict[str, int] = {}
        self.frames: dict[Frame, int] = {}
        self.stacks: dict[tuple[int, ...], int] = {}
        self.timed = any(
            isinstance(entry, dict) and "time_us" in entry
            for entries in snapshot["device_traces"]
            if isinstance(entries, list)
            for entry in entries
        )
        """Whether events have times. Before PyTorch 2.1 they had none: they then get one microsecond each."""
        self.besides: list[Besides | None] = []
        """What the entries of each device say beyond their events."""
        self.of_another_moment: list[int] = []
        """Devices whose segments are not the state in which their history ended."""
        self.cut_to_one = False
        """Whether of a device's history one entry was kept, which tells no more than the segments do."""
        self._stack_of: dict[tuple[int, tuple[str, str] | None], int] = {}
        """By the identity of the snapshot's own, shared list of frames, and what is noted beside it."""

    def trace(self) -> Trace:
        parts: list[EventArray] = []
        older: list[EventArray] = []
        segments = self._segments()
        private = list(self._private(segments))
        for device, entries in enumerate(self.snapshot["device_traces"]):
            if not isinstance(entries, list) or device > 254:
                raise TraceError(f"{self.path} is damaged: the trace of device {device} is not a list")
            held = segments.pop(device, [])
            whole = with_whole_frees(entries, self.path)
            events = self._events(device, whole, known=() if _is_one_moment(entries, held) else _ACTIONS)
            before = self._before(device, events, held)
            if whole is not entries:
                self.besides[-1] = None
            private += self._given_back(device, whole if len(events) else [], len(before))
            both = np.concatenate([before, events])
            _set_aside(both, self._at_end(device, held))
            before, events = both[: len(before)], both[len(before) :]
            if len(events):
                parts.append(events)
            older.append(before)
        older += [self._before(device, np.zeros(0, EVENT_DTYPE), held) for device, held in segments.items()]
        markers = self._annotations()
        # Beside no event of memory they mark nothing: PyTorch notes the device that is current, used or not.
        markers = markers[np.isin(markers["device"], [part["device"][0] for part in parts])]
        if len(markers):
            parts.append(markers)
        events = np.concatenate(parts) if parts else np.zeros(0, EVENT_DTYPE)
        if len(parts) > 1:
            # Within a device the order is the truth, not the time, which may step back.
            ascending = np.concatenate([np.maximum.accumulate(part["time"]) for part in parts])
            events = events[np.argsort(ascending, kind="stable")]
        older = sorted((part for part in older if len(part)), key=lambda part: int(part["time"][0]))
        before = np.concatenate(older) if older else np.zeros(0, EVENT_DTYPE)
        settings = self.snapshot.get("allocator_settings")
        fields: dict[str, Any] = {"source": "pytorch", "pytorch": {str(k): str(v) for k, v in _pairs(settings)}}
        if private:
            fields["private_segments"] = private
        if not self.timed:
            fields["untimed"] = True
        if len(before):
            fields["older_events"] = len(before)
        return Trace(
            Header(fields=fields),
            np.concatenate([before, events]) if len(before) else events,
            names={number: name for name, number in self.names.items()},
            frames={number: frame for frame, number in self.frames.items()},
            stacks={number: stack for stack, number in self.stacks.items()},
            path=self.path,
            kept={**self.snapshot, "device_traces": self.besides},
            note="; ".join(filter(None, self._notes(before, len(events)))),
        )

    def _notes(self, before: EventArray, events: int) -> Iterator[str]:
        yield _what_is_older(before, events)
        if self.of_another_moment:
            yield (
                "its segments are not the state in which its history ended, and are passed over: what was there before "
                "the history is counted only as far as that shows it"
            )
        if self.cut_to_one:
            yield (
                "of the history one entry was kept, as _record_memory_history(True), enabled='state' and max_entries=1 "
                "do: call it without them, or, before PyTorch 2.1, with trace_alloc_max_entries=100000"
            )
        if events and not self.timed:
            yield "the snapshot has no times: events are taken to be 1 µs apart"

    def _segments(self) -> dict[int, list[dict[str, Any]]]:
        """The segments at the end, by device."""
        found: dict[int, list[dict[str, Any]]] = {}
        try:
            for segment in self.snapshot.get("segments") or ():
                device = int(segment.get("device", 0))
                if not 0 <= device <= 254:
                    raise ValueError(device)  # noqa: TRY301 - said better below
                found.setdefault(device, []).append(segment)
        except (TypeError, ValueError, AttributeError):
            raise TraceError(f"{self.path} is damaged: its segments are not as PyTorch writes them") from None
        return found

    def _private(self, segments: dict[int, list[dict[str, Any]]]) -> Iterator[list[Any]]:
        """The segments that private pools have at the end: device, address, bytes, and the pool's name."""
        for device, held in segments.items():
            for segment in held:
                pool = segment.get("segment_pool_id") or (0, 0)
                try:
                    if tuple(pool) != (0, 0):
                        first, second = map(int, pool)
                        row = [device, int(segment["address"]), int(segment["total_size"])]
                        if 0 <= row[1] < 1 << 62 and 0 <= row[2] < 1 << 53:
                            yield [*row, f"graph ({first}, {second})"]
                except (TypeError, ValueError, KeyError, OverflowError):
                    raise TraceError(f"{self.path} is damaged: its segments are not as PyTorch writes them") from None

    def _given_back(self, device: int, entries: list[Any], older: int) -> Iterator[list[Any]]:
        """The segments that private pools gave back: the same, and the events between which they were there, counted
        from the ``older`` ones on. PyTorch 2.14 notes beside each entry which pool it is of."""
        since: dict[int, int] = {}
        places = enumerate((entry for entry in entries if entry["action"] in _ACTIONS), older)
        try:
            for place, entry in places:
                first, second = map(int, entry.get("pool_id") or (0, 0))
                if first or second:
                    kind, address = _ACTIONS[entry["action"]], int(entry.get("addr", 0))
                    if kind in (EventKind.SEGMENT_RESERVE, EventKind.PAGE_MAP):
                        since[address] = place
                    elif kind in (EventKind.SEGMENT_RELEASE, EventKind.PAGE_UNMAP):
                        name = f"graph ({first}, {second})"
                        yield [device, address, int(entry["size"]), name, since.pop(address, 0), place]
        except (TypeError, ValueError, OverflowError):
            raise TraceError(f"{self.path} is damaged: {self._blame(device, entries)}") from None

    def _before(self, device: int, events: EventArray, segments: list[dict[str, Any]]) -> EventArray:
        try:
            before, fits = state_before(events, segments, device, self._stack)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
            raise TraceError(f"{self.path} is damaged: its segments are not as PyTorch writes them") from None
        if not fits:
            self.of_another_moment.append(device)
        return before

    def _at_end(self, device: int, segments: list[dict[str, Any]]) -> dict[int, int]:
        """The bytes of the blocks in the segments, by address; none where they are of another moment."""
        found: dict[int, int] = {}
        if device in self.of_another_moment:
            return found
        for segment in segments:
            at = int(segment["address"])
            for block in segment["blocks"]:
                at = int(block.get("address", at))
                if block["state"] != "inactive" and 0 <= int(block["size"]) < 1 << 53:
                    found[at] = int(block["size"])
                at += int(block["size"])
        return found

    def _events(self, device: int, entries: list[Any], known: Container[str]) -> EventArray:
        try:
            self.besides.append(besides(entries, known))
            self.cut_to_one |= bool(entries) and not known
            entries = [entry for entry in entries if entry["action"] in known]
            events = np.zeros(len(entries), EVENT_DTYPE)
            if not len(entries):
                return events
            kinds = [_ACTIONS[entry["action"]] for entry in entries]
            events["kind"] = kinds
            events["device"] = device
            if self.timed:
                events["time"] = [entry["time_us"] * 1000 for entry in entries]
            else:
                events["time"] = np.arange(len(entries), dtype=np.int64) * 1000
            events["stream"] = [entry["stream"] for entry in entries]
            events["address"] = [entry.get("addr", 0) for entry in entries]
            events["requested"] = events["nbytes"] = [entry["size"] for entry in entries]
            if (events["requested"] < 0).any() or (events["time"] < 0).any():
                raise ValueError("negative")  # noqa: TRY301 - said better below
            if any("frames" in entry or "user_metadata" in entry for entry in entries):
                events["context"] = [self._stack(entry.get("frames"), noted_beside(entry)) for entry in entries]
            rounded = np.isin(events["kind"], _ROUNDED_KINDS)
            events["nbytes"][rounded] = (events["nbytes"][rounded] + _ROUND - 1) // _ROUND * _ROUND
            for place, kind in enumerate(kinds):
                if kind >= EventKind.OUT_OF_MEMORY or kind in (EventKind.PAGE_MAP, EventKind.PAGE_UNMAP):
                    self._finish(events, place, entries[place])
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
            raise TraceError(f"{self.path} is damaged: {self._blame(device, entries)}") from None
        return events

    def _finish(self, events: EventArray, place: int, entry: dict[str, Any]) -> None:
        kind = events["kind"][place]
        if kind == EventKind.OUT_OF_MEMORY:
            events["nbytes"][place] = entry.get("device_free", entry.get("addr", 0))
            events["address"][place] = 0
        elif kind == EventKind.MARKER:
            name = str(entry.get("user_metadata") or entry["action"])
            events["requested"][place] = self.names.setdefault(name, len(self.names) + 1)
            events["nbytes"][place] = events["address"][place] = 0
        else:
            events["requested"][place] = 0

    def _annotations(self) -> EventArray:
        """The marks that PyTorch's profiler hooks left, such as the steps of optimisers."""
        annotations = self.snapshot.get("external_annotations") or []
        try:
            events = np.zeros(len(annotations), EVENT_DTYPE)
            for place, entry in enumerate(annotations):
                name = f"{entry['name']} {entry['stage']}"
                events["time"][place] = entry["time_us"] * 1000
                events["device"][place] = entry.get("device", 0)
                events["requested"][place] = self.names.setdefault(name, len(self.names) + 1)
            events["kind"] = EventKind.MARKER
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
            raise TraceError(f"{self.path} is damaged: its annotations are not as PyTorch writes them") from None
        return events

    def _stack(self, frames: Any, noted: tuple[str, str] | None = None) -> int:
        if not frames and noted is None:
            return 0
        key = (id(frames), noted)
        number = self._stack_of.get(key)
        if number is None:
            notes = [Frame(name, 0, text) for name, text in zip(NOTES, noted or (), strict=False) if text]
            beside = [self.frames.setdefault(note, len(self.frames) + 1) for note in notes]
            stack = (*beside, *(self._frame(frame) for frame in frames or ()))
            number = self._stack_of[key] = self.stacks.setdefault(stack, len(self.stacks) + 1)
        return number

    def _frame(self, entry: dict[str, Any]) -> int:
        frame = Frame(str(entry["filename"]), int(entry["line"]), str(entry["name"]))
        return self.frames.setdefault(frame, len(self.frames) + 1)

    def _blame(self, device: int, entries: list[Any]) -> str:
        """Which entry is at fault."""
        wanted = {"action": str, **({"time_us": int} if self.timed else {}), "stream": int, "size": int}
        for place, entry in enumerate(entries):
            if not isinstance(entry, dict):
                return f"event {place} of device {device} is not a dictionary"
            for name, kind in wanted.items():
                value = entry.get(name)
                if not isinstance(value, kind) or (isinstance(value, int) and not 0 <= value < 1 << 53):
                    return f"event {place} of device {device} has no valid {name!r}"
        return f"a value in the events of device {device} is out of range"


def _is_one_moment(entries: list[Any], segments: list[Any]) -> bool:
    """Whether entries are no history, but the last one of it: older calls keep that alone by default."""
    if len(entries) != 1 or not isinstance(entries[0], dict):
        return False
    action = entries[0].get("action")
    return action in _ACTIONS and action != "oom" and (bool(segments) or action != "alloc")


def _what_is_older(before: EventArray, events: int) -> str:
    """What to know of a history that begins late."""
    if not len(before):
        return ""
    blocks = before[before["kind"] == EventKind.ALLOCATE]
    held = before[(before["kind"] == EventKind.SEGMENT_RESERVE) | (before["kind"] == EventKind.PAGE_MAP)]
    size = format_size(int(held["nbytes"].sum()))
    if events and not len(blocks):
        return (
            f"the history begins late: segments of {size}, in which nothing was live, are from before it, and are "
            "counted. Replays begin without them, but for those on caching:preset=torch"
        )
    what = (
        f"{len(blocks)} block{'s' * (len(blocks) != 1)} ({format_size(int(blocks['requested'].sum()))}) in segments of "
        f"{size}"
    )
    if not events:
        return f"there is no history, only the state of {what}; how it came about is not known"
    return (
        f"the history begins late: {what} are from before it, and are counted. How the free space between them came "
        "about is not known: replays begin with those blocks alone, and those on caching:preset=torch with the segments"
    )


def _set_aside(events: EventArray, at_end: dict[int, int]) -> None:
    """Give the last blocks at some addresses the sizes that PyTorch set aside for them."""
    places = np.flatnonzero(events["kind"] == EventKind.ALLOCATE)
    last = dict(zip(events["address"][places].tolist(), places.tolist(), strict=True))
    for address in last.keys() & at_end.keys():
        events["nbytes"][last[address]] = at_end[address]


def _pairs(settings: Any) -> list[tuple[Any, Any]]:
    return list(settings.items()) if isinstance(settings, dict) else []


def _decompress(path: str, data: bytes) -> bytes:
    """What a compressed file holds, as long as it stays within what a snapshot may grow to.

    Raises:
        TraceError: it grows further, is damaged or cut off.
    """
    most = min(LARGEST, max(ALWAYS_ALLOWED, MOST_TIMES * len(data)))
    grown = io.BytesIO()
    try:
        for part in _parts(data):
            if grown.tell() + len(part) > most:
                raise TraceError(
                    f"{path} grows beyond {most} bytes when decompressed, from {len(data)}: no snapshot does, and it "
                    "is not read further. If you trust it, decompress it yourself and name the .pickle"
                )
            if not grown.tell() and not is_pickle(part):
                raise TraceError(f"{path} is not a PyTorch memory snapshot: decompressed, it begins with {part[:8]!r}")
            grown.write(part)
    except EOFError:
        raise TraceError(f"{path} is cut off: its compressed data has no end") from None
    except (OSError, lzma.LZMAError, zlib.error) as error:
        raise TraceError(f"{path} is damaged: {error}") from None
    return grown.getvalue()


def _parts(data: bytes) -> Iterator[bytes]:
    """The decompressed data in pieces of at most 4 MiB."""
    piece = 4 << 20
    if not data.startswith(XZ_MAGIC):
        with gzip.open(io.BytesIO(data)) as file:
            while part := file.read(piece):
                yield part
        return
    while data.strip(b"\0"):  # several streams may follow one another, with zeros between them
        stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_OF_XZ)
        part = stream.decompress(data.lstrip(b"\0"), piece)
        while True:
            if part:
                yield part
            if stream.eof:
                break
            if stream.needs_input:
                raise EOFError
            part = stream.decompress(b"", piece)
        data = stream.unused_data
