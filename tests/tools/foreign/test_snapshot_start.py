"""Snapshots whose history is a window: figures at every event are those of the whole history."""

from __future__ import annotations

import json
import lzma
import pickle
import random
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.trace_in_memory import Trace
from cuplug.tools.analysis.blocks import curves, find_blocks
from cuplug.tools.foreign.load import load
from cuplug.tools.foreign.snapshot_start import _Ranges
from cuplug.tools.foreign.snapshot_writer import snapshot

from ..conftest import Command

TRACES = Path(__file__).parents[2] / "data" / "traces"


@lru_cache(1)
def whole(name: str) -> tuple[dict[str, Any], Trace]:
    """A snapshot with all of its history, and the trace of that, without the marks of the profiler."""
    data: dict[str, Any] = pickle.loads(lzma.decompress((TRACES / f"{name}.pickle.xz").read_bytes()))
    with TemporaryDirectory() as folder:
        return data, load(written(Path(folder) / "whole.pickle", data["device_traces"][0], data["segments"]))


def figures(trace: Trace, device: int = 0) -> list[list[int]]:
    """Requested, allocated, active and reserved bytes after each event of the history."""
    own = np.flatnonzero(trace.events["device"] == device)
    events = trace.events[own]
    memory = curves(events, find_blocks(events, completed_apart=trace.completed_apart))
    begin = int(np.searchsorted(own, trace.begin))
    return [curve[begin:].tolist() for curve in (memory.requested, memory.allocated, memory.active, memory.reserved)]


def written(path: Path, entries: list[Any], segments: list[Any]) -> Path:
    path.write_bytes(pickle.dumps({"device_traces": [entries], "segments": segments}, 4))
    return path


@pytest.mark.parametrize("name", ["stream_prefetch", "gpt2_varlen", "serving"])
@pytest.mark.parametrize("count", [2, 1000, 10_000])
def test_the_last_events_of_a_history_give_the_figures_of_the_whole(tmp_path: Path, name: str, count: int) -> None:
    data, trace = whole(name)
    window = load(written(tmp_path / "w.pickle", data["device_traces"][0][-count:], data["segments"]))
    assert figures(window) == [curve[-count:] for curve in figures(trace)]
    assert window.complete
    assert "the history begins late" in window.note


@pytest.mark.parametrize("at", [0.01, 0.1, 0.5, 0.9])
def test_events_from_the_middle_of_a_history_give_the_figures_of_the_whole(tmp_path: Path, at: float) -> None:
    data, trace = whole("stream_prefetch")
    end = int(at * len(trace.events))
    until = snapshot(Trace(trace.header, trace.events[:end]))
    begin = max(end - 3000, 0)
    entries = data["device_traces"][0][begin:end]
    window = load(written(tmp_path / "w.pickle", entries, until["segments"]))
    assert figures(window) == [curve[begin:end] for curve in figures(trace)]


def test_a_whole_history_has_nothing_before_it() -> None:
    for name in ("stream_prefetch", "gpt2_varlen"):
        _, trace = whole(name)
        assert (trace.begin, trace.note) == (0, "")


def test_blocks_from_before_keep_their_stacks_streams_and_states(tmp_path: Path) -> None:
    frames = [{"filename": "model.py", "line": 3, "name": "load"}]
    blocks = [
        {"size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": frames},
        {"size": 512, "requested_size": 0, "state": "inactive", "frames": []},
        {"size": 512, "requested_size": 500, "state": "active_pending_free", "frames": frames},
    ]
    segment = {"device": 0, "address": 4096, "total_size": 2 << 20, "stream": 7, "blocks": blocks}
    entry = {"size": 300, "stream": 7, "time_us": 5}
    entries = [
        {**entry, "action": "free_requested", "addr": 4096 + 8192},  # gone by the end
        {**entry, "action": "free_completed", "addr": 4096 + 8192},
        {**entry, "action": "free_completed", "addr": 4096 + 16384},  # was waiting when the history began
        {**entry, "action": "segment_free", "addr": 1 << 30, "size": 1 << 20},
    ]
    trace = load(written(tmp_path / "w.pickle", entries, [segment]))
    before = trace.events[: trace.begin]
    assert [
        (EventKind(kind).name, address, size) for kind, address, size in before[["kind", "address", "requested"]]
    ] == [
        ("SEGMENT_RESERVE", 4096, 2 << 20),
        ("SEGMENT_RESERVE", 1 << 30, 1 << 20),
        ("ALLOCATE", 4096, 1000),
        ("ALLOCATE", 4096 + 1536, 500),
        ("FREE", 4096 + 1536, 500),
        ("ALLOCATE", 4096 + 8192, 300),
        ("ALLOCATE", 4096 + 16384, 300),
        ("FREE", 4096 + 16384, 300),
    ]
    assert set(before["stream"]) == {7}
    assert set(before["time"]) == {5000}
    named = {int(event["address"]): trace.stack(event["context"]) for event in before if event["kind"] == 1}
    assert named[4096][0].function == "load"
    assert named[4096 + 8192] == ()  # the free's stack is not the allocation's


def test_expandable_segments_are_followed_back_by_ranges(tmp_path: Path) -> None:
    entry = {"stream": 0, "time_us": 5}
    page = 2 << 20
    entries = [
        {**entry, "action": "segment_unmap", "addr": 3 * page, "size": page},
        {**entry, "action": "segment_map", "addr": 9 * page, "size": 2 * page},
        {**entry, "action": "segment_unmap", "addr": 10 * page, "size": page},
    ]
    segments = [
        {"device": 0, "address": page, "total_size": 2 * page, "stream": 0, "is_expandable": True, "blocks": []},
        {"device": 0, "address": 4 * page, "total_size": 6 * page, "stream": 0, "is_expandable": True, "blocks": []},
    ]
    trace = load(written(tmp_path / "w.pickle", entries, segments))
    before = trace.events[: trace.begin]
    assert set(before["kind"]) == {EventKind.PAGE_MAP}
    assert [(int(a) // page, int(n) // page) for a, n in before[["address", "nbytes"]]] == [(1, 2), (3, 1), (4, 5)]
    assert figures(trace)[3] == [7 * page, 9 * page, 8 * page]


def test_ranges_are_sets_of_bytes() -> None:
    choose = random.Random(3)
    ranges, model = _Ranges(), np.zeros(100, bool)
    for _ in range(3000):
        first, end = sorted(choose.sample(range(101), 2))
        action = choose.randrange(3)
        if action == 0:
            ranges.add(first, end)
            model[first:end] = True
        elif action == 1:
            ranges.remove(first, end)
            model[first:end] = False
        missing = np.zeros(100, bool)
        for begin, until in ranges.missing(first, end):
            missing[begin:until] = True
        outside = ~model
        outside[:first] = outside[end:] = False
        assert (missing == outside).all()


def test_a_snapshot_of_segments_alone_has_a_summary_a_map_and_a_report(tmp_path: Path, command: Command) -> None:
    data, trace = whole("stream_prefetch")
    path = written(tmp_path / "w.pickle", [], data["segments"])
    told = json.loads(command("summary", path, "--json").stdout)
    (device,) = told["devices"]
    last = [curve[-1] for curve in figures(trace)]
    held = [device["requested"]["nbytes"], device["allocated"]["nbytes"], device["active"]["nbytes"]]
    assert [*held, device["reserved"]["nbytes"]] == last
    assert device["reserved"]["nbytes"] == sum(segment["total_size"] for segment in data["segments"])
    assert (told["events"], device["allocations"]) == (0, 0)
    assert device["older_blocks"] > 0
    shown = command("summary", path)
    assert "there is no history, only the state of" in " ".join(shown.stdout.split())
    assert command("report", path, "-o", tmp_path / "r.html").exit_code == 0
    for words in (("replay", "-j", "1"), ("dump",), ("export", "-o", tmp_path / "e.json")):
        result = command(words[0], path, *words[1:])
        assert result.exit_code == 0, result.stderr
        assert "there is no history" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "-j", "1"), ("fit", "-j", "1", "-a", "direct"), ("advise", "-j", "1"), ("summary",), ("compare",),
        ("dump", "--limit", "1"),
    ],
)  # fmt: skip
def test_what_depends_on_the_unknown_start_is_said_in_one_line(
    tmp_path: Path, command: Command, words: tuple[str, ...]
) -> None:
    data, _ = whole("stream_prefetch")
    path = written(tmp_path / "w.pickle", data["device_traces"][0][-200:], data["segments"])
    result = command(words[0], path, *words[1:])
    said = " ".join((result.stdout + result.stderr).split())
    assert said.count("the history begins late") == 1
    assert "replays begin with those blocks alone" in said


def test_of_empty_segments_from_before_the_history_no_blocks_are_told(tmp_path: Path) -> None:
    base, size = 1 << 40, 2 << 20
    entries = [
        {"action": action, "addr": base, "size": 512, "stream": 0, "frames": [], "time_us": at}
        for at, action in enumerate(["alloc", "free_requested", "free_completed"])
    ]
    blocks = [{"address": base, "size": size, "requested_size": 0, "state": "inactive", "frames": []}]
    segment = {"device": 0, "address": base, "total_size": size, "stream": 0, "segment_type": "small", "blocks": blocks}
    window = load(written(tmp_path / "w.pickle", entries, [segment]))
    assert window.note.startswith(
        "the history begins late: segments of 2.00 MiB (2097152 bytes), in which nothing was live,"
    )


def test_a_difference_and_a_page_say_so_too(tmp_path: Path, command: Command) -> None:
    data, _ = whole("stream_prefetch")
    path = written(tmp_path / "w.pickle", data["device_traces"][0][-200:], data["segments"])
    other = written(tmp_path / "v.pickle", data["device_traces"][0][-100:], data["segments"])
    assert command("diff", path, other).stderr.count("the history begins late") == 2
    assert command("report", path, "-o", tmp_path / "r.html").exit_code == 0
    assert "the history begins late" in (tmp_path / "r.html").read_text()


def test_what_is_exported_again_has_the_history_and_the_segments_of_the_file(tmp_path: Path, command: Command) -> None:
    data, _ = whole("stream_prefetch")
    path = written(tmp_path / "w.pickle", data["device_traces"][0][-500:], data["segments"])
    assert command("export", path, "-o", tmp_path / "again.pickle").exit_code == 0
    again = pickle.loads((tmp_path / "again.pickle").read_bytes())
    told = [[(e["action"], e.get("addr"), e["size"]) for e in side["device_traces"][0]] for side in (again, data)]
    assert [entry for entry in told[0] if entry[0] != "free_completed"] == [
        entry for entry in told[1][-500:] if entry[0] != "free_completed"
    ]
    sizes = [
        sorted((segment["address"], segment["total_size"]) for segment in side["segments"]) for side in (again, data)
    ]
    assert sizes[0] == sizes[1]


DAMAGE: list[Callable[[dict[str, Any]], Any]] = [
    lambda segment: segment.pop("blocks"),
    lambda segment: segment.update(address="here"),
    lambda segment: segment.update(device=999),
    lambda segment: segment.update(total_size=1 << 70),
    lambda segment: segment["blocks"].append(5),
    lambda segment: segment["blocks"].append({"size": 5}),
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_segments_are_one_line(tmp_path: Path, damage: Callable[[dict[str, Any]], Any]) -> None:
    from cuplug.allocators.errors import TraceError

    segment: dict[str, Any] = {"device": 0, "address": 4096, "total_size": 512, "stream": 0, "blocks": []}
    damage(segment)
    with pytest.raises(TraceError, match="its segments are not as PyTorch writes them"):
        load(written(tmp_path / "w.pickle", [], [segment]))
