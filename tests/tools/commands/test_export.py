"""Traces in other tools' forms, checked field by field."""

from __future__ import annotations

import csv
import json
import lzma
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cuplug.plugins.tracing.trace_in_memory import Trace
from cuplug.tools.analysis.blocks import curves, find_blocks
from cuplug.tools.analysis.summarize import summarize
from cuplug.tools.foreign.load import load

from ..conftest import Command

STACKS = Path(__file__).parents[1] / "data" / "resnet_multiscale_stacks.pickle.xz"
NEEDED = {"M": {"args"}, "C": {"ts", "args"}, "i": {"ts", "s"}, "b": {"ts", "id", "cat"}, "e": {"ts", "id", "cat"}}


@pytest.fixture
def export(command: Command, tmp_path: Path) -> Callable[[Path, str], Path]:
    def run(trace: Path, ending: str) -> Path:
        path = tmp_path / f"out.{ending}"
        result = command("export", trace, "-o", path)
        assert result.exit_code == 0, result.stderr
        return path

    return run


@pytest.mark.parametrize("real", [False, True])
def test_chrome_json_follows_the_trace_event_format(
    export: Callable[[Path, str], Path], small_trace: Path, real: bool
) -> None:
    path = STACKS if real else small_trace
    trace = json.loads(export(path, "json").read_text())
    assert trace["displayTimeUnit"] in ("ms", "ns")
    open_slices: dict[tuple[int, str, str], int] = {}
    most: dict[tuple[int, str], int] = {}
    for event in trace["traceEvents"]:
        assert NEEDED[event["ph"]] <= set(event)
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if "ts" in event:
            assert event["ts"] >= 0
        if event["ph"] == "i":
            assert event["s"] in "gpt"
        elif event["ph"] == "C":
            for name, value in event["args"].items():
                assert isinstance(value, int)
                most[event["pid"], name] = max(most.get((event["pid"], name), 0), value)
        elif event["ph"] in "be":
            key = event["pid"], event["cat"], event["id"]
            if event["ph"] == "b":
                assert key not in open_slices
                open_slices[key] = event["ts"]
            else:
                assert event["ts"] >= open_slices.pop(key)
    assert not open_slices
    for device in summarize(load(path)).devices:  # counter maxima are the summary's
        for name in ("requested", "allocated", "reserved"):
            assert most[device.device, name] == getattr(device, name).nbytes


def memory(trace: Trace, device: int) -> dict[str, Any]:
    events = trace.events[trace.events["device"] == device]
    found = curves(events, find_blocks(events))
    return {"requested": int(found.requested.max()), "reserved": int(found.reserved.max())}


@pytest.mark.parametrize("real", [False, True])
def test_an_exported_snapshot_tells_the_same_when_it_is_read_again(
    export: Callable[[Path, str], Path], small_trace: Path, real: bool
) -> None:
    path = STACKS if real else small_trace
    before, after = load(path), load(export(path, "pickle"))
    assert after.devices == before.devices
    for device in before.devices:
        assert memory(after, device) == memory(before, device)
    assert set(map(after.stack, after.stacks)) == {before.stack(number) for number in before.stacks}


@pytest.mark.parametrize("events", [0, 1000, None])
@pytest.mark.parametrize("name", ["stream_prefetch", "stacks"])
def test_a_snapshot_that_is_exported_again_is_the_same(
    export: Callable[[Path, str], Path], tmp_path: Path, name: str, events: int | None
) -> None:
    path = STACKS if name == "stacks" else STACKS.parents[2] / "data" / "traces" / f"{name}.pickle.xz"
    data = pickle.loads(lzma.decompress(path.read_bytes()))
    if events is not None:
        data["device_traces"] = [data["device_traces"][0][-events:] if events else []]
    data["device_traces"][0].append(
        {
            "action": "user_defined", "addr": 0, "size": 0, "stream": 0, "time_us": 1 << 51, "compile_context": "N/A",
            "user_metadata": "step 5", **({"frames": []} if name == "stacks" else {}),
        }
    )  # fmt: skip
    whole = tmp_path / "whole.pickle"
    whole.write_bytes(pickle.dumps(data))
    again = pickle.loads(export(whole, "again.pickle").read_bytes())
    assert set(again) == set(data)
    for part in ("segments", "allocator_settings", "external_annotations"):
        assert again[part] == data[part]
    assert again["device_traces"] == data["device_traces"]


def test_what_entries_say_besides_comes_back_as_it_was(export: Callable[[Path, str], Path], tmp_path: Path) -> None:
    """Of other versions of PyTorch: without times and metadata, with more names, and with actions nobody knows."""
    frames = [{"name": "f", "filename": "a.py", "line": 1}]
    old = [
        {"action": "alloc", "addr": 512, "size": 7, "stream": 0},
        {"action": "alloc", "addr": 1024, "size": 7, "stream": 0, "frames": frames},
        {"action": "oom", "addr": 900, "size": 70, "stream": 0, "frames": []},
    ]
    new = [
        {"action": "to come", "what": [1, 2]},
        {"stream": 3, "size": 600, "addr": 4096, "action": "alloc", "time_us": 5, "compile_context": "0/1",
         "user_metadata": "mine", "category": "weights", "version": 0},
        {"action": "snapshot", "addr": 8, "size": 600, "stream": 0, "time_us": 6, "user_metadata": ""},
        {"action": "to come", "what": None},
        {"action": "oom", "device_free": 900, "size": 70, "stream": 0, "time_us": 7},
        {"action": "to come"},
    ]  # fmt: skip
    for number, device_traces in enumerate(([old], [[], new], [new, []])):
        (tmp_path / f"{number}.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": device_traces}))
        again = pickle.loads(export(tmp_path / f"{number}.pickle", "again.pickle").read_bytes())
        assert again == {"segments": [], "device_traces": device_traces}
        assert [[list(entry) for entry in entries] for entries in again["device_traces"]] == [
            [list(entry) for entry in entries] for entries in device_traces
        ]


def test_a_snapshot_has_segments_filled_with_blocks(export: Callable[[Path, str], Path], small_trace: Path) -> None:
    found = pickle.loads(export(small_trace, "pickle").read_bytes())
    first, second = found["segments"]
    assert [block["state"] for block in first["blocks"]] == ["inactive", "active_allocated", "inactive"]
    for segment in (first, second):
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    assert second["requested_size"] == 2000
    assert first["allocated_size"] == 4096
    actions = [entry["action"] for entry in found["device_traces"][0]]
    assert actions.count("alloc") == 3
    assert actions.count("free_requested") == actions.count("free_completed") == 2


def test_tables_have_a_row_for_each_event(export: Callable[[Path, str], Path], small_trace: Path) -> None:
    with export(small_trace, "csv").open() as file:
        assert len(list(csv.DictReader(file))) == 12
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(export(small_trace, "parquet")).num_rows == 12


def test_an_unknown_ending_is_refused_with_the_known_formats(
    refused: Callable[..., str], small_trace: Path, tmp_path: Path
) -> None:
    assert "chrome, pytorch, parquet, csv" in refused("export", small_trace, "-o", tmp_path / "x.odd")
    assert "cannot write" in refused("export", small_trace, "-o", tmp_path / "no" / "x.csv")
