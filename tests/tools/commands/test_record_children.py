"""``cuplug-trace record`` of programs with child processes: each writes a trace of its own, and they stand together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.reader import family_members, read_trace

from ..conftest import Command

SPAWNED = """
import multiprocessing
import sys
import cuplug

def work(nbytes):
    cuplug.init()
    held = cuplug.cuda.alloc(nbytes)
    return cuplug.cuda.memory_allocated()

if __name__ == "__main__":
    if "early" in sys.argv:
        cuplug.init()
        held = cuplug.cuda.alloc(1000)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(work, [5000])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(work, [9000])
"""


def record(directory: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    (directory / "program.py").write_text(program)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CUPLUG_")}
    command = [sys.executable, "-m", "cuplug.tools.trace", "record", "-d", "sim", "-o", "run.cuplug", "program.py"]
    done = subprocess.run([*command, *words], cwd=directory, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def peaks(paths: list[str]) -> list[int]:
    return [int(read_trace(path).events["requested"].max()) for path in paths]


def test_spawned_workers_write_their_own_traces_and_the_first_one_stands_for_all(
    tmp_path: Path, command: Command
) -> None:
    done = record(tmp_path, SPAWNED, "early")
    first = str(tmp_path / "run.cuplug")
    members = family_members(first)
    assert members[0] == first
    assert len(members) == 3
    assert [read_trace(path).header.argv[-1] for path in members[:1]] == ["early"]
    for path in members[1:]:
        number = read_trace(path).header.fields["pid"]
        assert Path(path).name == f"run.{number}.cuplug"
        assert f"events recorded in run.{number}.cuplug" in done.stderr
    requested = [{int(n) for n in read_trace(path).events["requested"]} for path in members]
    assert 1000 in requested[0]
    assert 5000 in requested[1]
    assert 9000 in requested[2]

    told = json.loads(command("summary", first, "--json").stdout)
    assert [entry["path"] for entry in told["histories"]] == members
    assert "A job of 3 processes" in command("summary", tmp_path / "run*.cuplug").stdout
    assert command("summary", tmp_path).stdout == command("summary", tmp_path / "run*.cuplug").stdout
    replayed = json.loads(command("replay", first, "--json").stdout)
    assert [entry["trace"] for entry in replayed] == members
    advised = json.loads(command("advise", first, "--json", "-j", "1").stdout)
    assert [entry["trace"] for entry in advised["histories"]] == members
    fitted = json.loads(command("fit", first, "--json", "-a", "direct", "-j", "1").stdout)
    assert {entry["trace"] for entry in fitted} == set(members)
    shown = command("dump", first, "--limit", "1")
    assert "its program's other processes are not in it; they wrote" in shown.stderr


def test_traces_of_an_earlier_run_are_no_members(tmp_path: Path) -> None:
    record(tmp_path, SPAWNED, "early")
    earlier = set(family_members(tmp_path / "run.cuplug"))
    record(tmp_path, SPAWNED, "early")
    later = set(family_members(tmp_path / "run.cuplug"))
    assert len(later) == 3
    assert earlier & later == {str(tmp_path / "run.cuplug")}
    assert all(Path(path).is_file() for path in earlier)  # and none of them was overwritten


def test_where_only_children_use_cuplug_their_traces_are_found_by_the_name_that_was_asked_for(
    tmp_path: Path, command: Command
) -> None:
    done = record(tmp_path, SPAWNED)
    assert "did not use cuplug" not in done.stderr
    assert not (tmp_path / "run.cuplug").exists()
    told = json.loads(command("summary", tmp_path / "run.cuplug", "--json").stdout)
    assert [entry["devices"][0]["allocations"] for entry in told["histories"]] == [1, 1]


def test_forked_children_that_use_cuplug_themselves_are_recorded_too(tmp_path: Path) -> None:
    program = """
import os
import cuplug
for nbytes in (5000, 6000):
    if not os.fork():
        held = cuplug.cuda.alloc(nbytes)
        cuplug.shutdown()
        os._exit(0)
    assert os.wait()[1] == 0
held = cuplug.cuda.alloc(1000)
"""
    record(tmp_path, program)
    traces = [read_trace(path) for path in family_members(tmp_path / "run.cuplug")]
    largest = [max(trace.events["requested"][trace.events["kind"] == EventKind.ALLOCATE]) for trace in traces]
    assert largest == [1000, 5000, 6000]


def test_a_pattern_and_a_folder_that_stand_for_nothing_are_named(tmp_path: Path, command: Command) -> None:
    for word, says in ((tmp_path / "x*.cuplug", "no file matches"), (tmp_path, "has no traces in it: *.cuplug")):
        result = command("summary", word)
        assert result.exit_code == 2
        assert says in result.stderr


@pytest.mark.parametrize("command_name", ["summary", "advise", "fit", "replay", "compare", "report", "export", "top"])
def test_every_command_says_what_is_missing_in_a_trace(
    tmp_path: Path, command: Command, small_trace: Path, command_name: str
) -> None:
    """Here the header says what a full disk makes the writer say."""
    data = bytearray(small_trace.read_bytes())
    data[28:36] = ((1 << 64) - 2).to_bytes(8, "little")
    small_trace.write_bytes(data)
    words = {
        "report": ["-o", tmp_path / "r.html"], "export": ["-o", tmp_path / "e.csv"], "top": ["--once"],
        "advise": ["-j", "1"], "fit": ["-j", "1", "-a", "direct"],
    }.get(command_name, [])  # fmt: skip
    result = command(command_name, small_trace, *words)
    assert "the trace is cut off here, since the disk had no room" in " ".join((result.stdout + result.stderr).split())
    if command_name == "report":
        assert "the trace is cut off here" in (tmp_path / "r.html").read_text()
