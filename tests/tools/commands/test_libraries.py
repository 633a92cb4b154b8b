"""Which library asked: in a trace's summary, its report and its dump."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cuplug.allocators.events import EventKind
from cuplug.allocators.libraries import LIBRARIES, LIBRARY_SHIFT, library_number
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.writer import TraceWriter
from cuplug.tools.analysis.report_data import pack

from ..conftest import Command
from .test_report import columns


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """CuPy and RMM in one pool, and the program's own block; CuPy's with a call stack."""
    path = tmp_path / "shared.cuplug"
    writer = TraceWriter(path, {"libraries": {str(number): name for number, name in LIBRARIES.items()}})
    stack = writer.stack([("train.py", 3, "main")])
    steps = (
        ("cupy", EventKind.ALLOCATE, 0x1000, 4000, stack),
        ("rmm", EventKind.ALLOCATE, 0x3000, 1000, 0),
        ("cuplug", EventKind.ALLOCATE, 0x4000, 500, stack),
        ("cuplug", EventKind.FREE, 0x1000, 4000, 0),
        ("cupy", EventKind.ALLOCATE, 0x1000, 100, stack),
        ("rmm", EventKind.OUT_OF_MEMORY, 0, 1 << 40, 0),
    )
    for time, (library, kind, address, nbytes, number) in enumerate(steps):
        context = number | library_number(library) << LIBRARY_SHIFT
        writer.append(kind, 0, time, 0, 0, address, nbytes, nbytes, context)
    writer.close()
    return path


def test_a_summary_by_library_tells_who_held_how_much(command: Command, shared: Path) -> None:
    told = json.loads(command("summary", shared, "--json").stdout)["devices"][0]["libraries"]
    assert [tuple(use.values()) for use in told] == [
        ("cupy", 2, 4100, 4000, 4000, 100),
        ("rmm", 1, 1000, 1000, 1000, 1000),
        ("cuplug", 1, 500, 500, 500, 500),
    ]
    assert list(told[0]) == ["library", "allocations", "nbytes", "peak_bytes", "at_peak_bytes", "live_bytes"]
    table = command("summary", shared, "--by", "library").stdout
    rows = [line.split() for line in table.splitlines()]
    assert ["cupy", "3.91", "KiB", "4000"] in [row[:4] for row in rows]
    assert "lifetimes" not in table


def test_the_full_summary_shows_libraries_where_there_are_several(
    command: Command, shared: Path, small_trace: Path
) -> None:
    assert "Library" in command("summary", shared).stdout
    assert "Library" not in command("summary", small_trace).stdout


def test_a_summary_by_something_else_is_refused(refused: Callable[..., str], shared: Path) -> None:
    assert (
        refused("summary", shared, "--by", "colour")
        == "cannot summarise by 'colour'; write --by library, or --by module"
    )


def test_call_stacks_are_found_below_the_librarys_number(shared: Path) -> None:
    trace = read_trace(shared)
    stacks = [trace.stack(context) for context in trace.events["context"][:3].tolist()]
    assert [[frame.filename for frame in stack] for stack in stacks] == [["train.py"], [], ["train.py"]]


def test_a_trace_without_the_header_field_keeps_large_numbers_of_stacks(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "old.cuplug", {})
    writer.append(EventKind.ALLOCATE, 0, 0, 0, 0, 0x1000, 10, 10, 3 << LIBRARY_SHIFT | 1)
    writer.close()
    trace = read_trace(tmp_path / "old.cuplug")
    trace.stacks = {3 << LIBRARY_SHIFT | 1: (1,)}
    trace.frames = {1: ("old.py", 1, "f")}  # type: ignore[dict-item]
    assert trace.stack(trace.events["context"][0]) == (("old.py", 1, "f"),)
    assert trace.library(trace.events["context"][0]) == "cuplug"


def test_the_report_knows_the_library_of_every_block(shared: Path) -> None:
    packed = pack(read_trace(shared), 0)
    sorts = columns(packed.meta["overview"], packed.overview)["sort_stack"]
    blocks = columns(packed.meta["chunks"][0]["columns"], packed.chunks[0])["sort"]
    libraries = [packed.meta["libraries"][int(sorts[sort])] for sort in blocks]
    assert libraries == ["cupy", "rmm", "cuplug", "cupy"]


def test_a_dump_names_the_library_of_what_was_asked_for(command: Command, shared: Path) -> None:
    rows = [json.loads(line) for line in command("dump", shared, "--format", "jsonl").stdout.splitlines()]
    assert [row["library"] for row in rows if "event" in row] == ["cupy", "rmm", "cuplug", "", "cupy", "rmm"]


def test_a_pytorch_snapshot_is_all_pytorchs(command: Command) -> None:
    snapshot = next((Path(__file__).parents[1] / "data").rglob("*.pickle*"))
    told = json.loads(command("summary", snapshot, "--json").stdout)["devices"][0]["libraries"]
    assert [use["library"] for use in told] == ["torch"]
