"""Events written out, in every form."""

from __future__ import annotations

import builtins
import csv
import io
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from cuplug.tools.reporters.event_rows import COLUMNS

from ..conftest import Command


def dumped(command: Command, *words: object) -> list[dict[str, object]]:
    result = command("dump", "--format", "jsonl", *words)
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return [row for row in rows if "event" in row]


def test_json_lines_hold_every_field(command: Command, small_trace: Path) -> None:
    rows = dumped(command, small_trace)
    assert len(rows) == 12
    assert rows[1] == {
        "event": 1,
        "time_ns": 1_000_000,
        "kind": "allocate",
        "device": 0,
        "stream": 0,
        "thread": 0,
        "address": 0x10000,
        "nbytes": 1024,
        "requested": 1000,
        "context": 1,
        "name": "",
        "library": "cuplug",
    }
    assert rows[5]["name"] == "iteration 1"


def test_json_lines_have_each_call_stack_once_before_the_first_event_that_names_it(
    command: Command, small_trace: Path
) -> None:
    rows = [json.loads(line) for line in command("dump", "-f", "jsonl", small_trace).stdout.splitlines()]
    stacks = {row["context"]: row["stack"] for row in rows if "event" not in row}
    assert len(stacks) == len(rows) - 12 == 2
    assert stacks[1] == [
        "call (/usr/lib/python3/site-packages/lib.py:5)", "forward (train.py:10)", "<module> (train.py:99)",
    ]  # fmt: skip
    known = {0}
    for row in rows:
        if "event" in row:
            assert row["context"] in known
        known.add(row["context"])


def test_csv_has_a_header_and_one_row_an_event(command: Command, small_trace: Path) -> None:
    result = command("dump", "-f", "csv", small_trace)
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert tuple(rows[0]) == COLUMNS
    assert [row["kind"] for row in rows][:3] == ["segment_reserve", "allocate", "allocate"]
    assert rows[2]["stack"] == "backward (train.py:20) < <module> (train.py:99)"


def test_text_is_one_line_an_event_below_a_heading(command: Command, small_trace: Path) -> None:
    lines = command("dump", small_trace).stdout.splitlines()
    assert len(lines) == 13
    assert lines[2].split()[:5] == ["1", "0.001000", "allocate", "0", "0x0"]
    assert lines[6].split()[3] == "all"
    assert lines[6].endswith("iteration 1")


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (["--kind", "allocate"], [1, 2, 7, 11]),
        (["--kind", "Allocate", "--kind", "FENCE-PASSED"], [1, 2, 6, 7, 11]),
        (["--device", "1"], [10, 11]),
        (["--stream", "5"], [2, 3]),
        (["--stream", "0x5", "--kind", "allocate"], [2]),
        (["--min-size", "3KiB", "--max-size", "1MiB"], [0, 2]),
        (["--since", "0.004", "--until", "0.006"], [4, 5, 6]),
        (["--limit", "2"], [0, 1]),
        (["--limit", "0"], []),
        (["--device", "9"], []),
    ],
)
def test_filters_pick_events(command: Command, small_trace: Path, words: list[str], places: list[int]) -> None:
    assert [row["event"] for row in dumped(command, small_trace, *words)] == places


def test_output_goes_to_a_file(command: Command, small_trace: Path, tmp_path: Path) -> None:
    result = command("dump", "-f", "jsonl", "-o", tmp_path / "out.jsonl", small_trace)
    assert result.stdout == ""
    assert "12 events written" in result.stderr
    assert (tmp_path / "out.jsonl").read_text().count('{"event": ') == 12


def test_a_cut_off_trace_is_dumped_with_a_remark(command: Command, small_trace: Path) -> None:
    small_trace.write_bytes(small_trace.read_bytes()[:-10])
    result = command("dump", "-f", "jsonl", small_trace)
    assert result.stdout.count('{"event": ') == 11
    assert "cut off" in result.stderr


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow")
def test_parquet_holds_the_same_rows(command: Command, small_trace: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    assert command("dump", "-f", "parquet", "-o", tmp_path / "out.parquet", small_trace).exit_code == 0
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert tuple(rows[0]) == COLUMNS
    assert [row["requested"] for row in rows] == [row["requested"] for row in dumped(command, small_trace)]
    assert command("dump", "-f", "parquet", "-o", tmp_path / "o", "--limit", 0, small_trace).exit_code == 0


def test_parquet_without_pyarrow_names_the_extra(
    refused: Callable[..., str], small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.setattr(builtins, "__import__", without)
    assert "cuplug[parquet]" in refused("dump", "-f", "parquet", "-o", tmp_path / "x", small_trace)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--format", "xml"], "no format 'xml'; the formats are text, csv, jsonl, parquet"),
        (["--format", "parquet"], "--output"),
        (["--kind", "explode"], "the kinds are allocate, free"),
        (["--stream", "seven"], "seven"),
        (["--min-size", "big"], "'big' is not a size"),
        (["--limit", "-1"], "--limit"),
        (["--output", "/nowhere/out"], "cannot write /nowhere/out"),
    ],
)
def test_wrong_options_give_one_line(
    refused: Callable[..., str], small_trace: Path, words: list[str], says: str
) -> None:
    assert says in refused("dump", small_trace, *words)
