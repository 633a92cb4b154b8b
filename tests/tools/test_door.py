"""The command itself: how it starts, and what it says when it cannot."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cuplug.tools import trace as door

from .conftest import Command


def run(*words: str, cwd: Path, code: str = "") -> subprocess.CompletedProcess[str]:
    start = ["-c", code] if code else [door.__file__]
    return subprocess.run([sys.executable, *start, *words], cwd=cwd, capture_output=True, text=True, check=False)


def test_it_runs_as_a_file_from_anywhere(tmp_path: Path, small_trace: Path) -> None:
    done = run("summary", str(small_trace), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Device 0, allocator caching" in done.stdout


def test_a_wrong_file_gives_one_line_and_status_2_in_a_real_process(tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"x")
    done = run("summary", "odd", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("cuplug-trace: odd is neither a cuplug trace nor a PyTorch memory snapshot")


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_named(tmp_path: Path, missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from cuplug.tools.trace import main; main()"
    done = run("summary", "x", cwd=tmp_path, code=code)
    assert done.returncode == 2
    assert done.stderr == f"cuplug-trace: {missing} is not installed: pip install 'cuplug[tools]'\n"


def test_output_that_is_not_a_terminal_has_no_control_characters(tmp_path: Path, small_trace: Path) -> None:
    for words in (["summary", str(small_trace)], ["dump", str(small_trace)], ["allocators"]):
        done = run(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert "\x1b" not in done.stdout
        assert "\r" not in done.stdout


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    history = Path(door.__file__).parent / "data" / "resnet_multiscale.pickle.xz"
    command = f"{shlex.join([sys.executable, str(door.__file__), 'dump', str(history)])} | head -1"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("event")
    assert done.stderr == ""


def test_the_allocators_are_listed_with_their_options(command: Command) -> None:
    result = command("allocators")
    assert result.exit_code == 0
    for expected in ("direct", "bump", "caching", "chunk_size", "memory_limit"):
        assert expected in result.stdout


def test_the_list_is_there_as_json_too(command: Command) -> None:
    found = {entry["name"]: entry for entry in json.loads(command("allocators", "--json").stdout)}
    assert found["bump"]["plugin"] == "cuplug"
    options = {option["name"]: option for option in found["bump"]["options"]}
    assert options["chunk_size"]["default"] == 64 << 20
    drivers = {entry["name"] for entry in json.loads(command("allocators", "--drivers", "--json").stdout)}
    assert {"cuda", "sim"} <= drivers


def test_help_and_version_are_there(command: Command) -> None:
    assert "record" in command("--help").stdout
    assert command("--version").stdout.strip()
    names = ["record", "summary", "dump", "allocators", "demo", "report", "replay", "advise", "fit", "top", "compare"]
    for name in [*names, "diff", "export"]:
        assert "Usage: cuplug-trace" in command(name, "--help").stdout


def test_no_command_gives_the_help(command: Command) -> None:
    result = command()
    assert result.exit_code == 0
    assert "Usage: cuplug-trace" in result.stdout
    assert "summary" in result.stdout


def test_the_shell_completes_commands(tmp_path: Path) -> None:
    asked = {"_CUPLUG_TRACE_COMPLETE": "complete_bash", "COMP_WORDS": "cuplug-trace su", "COMP_CWORD": "1"}
    code = f"import os; os.environ.update({asked!r}); from cuplug.tools.trace import main; main()"
    assert run(cwd=tmp_path, code=code).stdout.split() == ["summary"]
