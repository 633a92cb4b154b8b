"""The command itself: how it starts, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cuplug.allocators.errors import TraceError
from cuplug.tools import trace as door
from cuplug.tools.commands import app
from cuplug.tools.commands.options import known_allocators, known_drivers
from cuplug.tools.foreign.load import load

from .conftest import Command, made_of


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


@pytest.mark.parametrize(
    ("begins", "says"),
    [
        (b"PK\3\4\0\0\10\10", "is a zip archive, as torch.save writes one too: unpack it"),
        (b"\x28\xb5\x2f\xfd\x64\x21", "is compressed with zstd: decompress it first"),
        (b"BZh91AY&SY", "is compressed with bzip2: decompress it first"),
        (b"PAR1\x15\0", "is a Parquet table"),
        (b"version https://git-lfs.github.com/spec/v1\n", "looks like a pointer of Git LFS: fetch"),
        (b"\n<!DOCTYPE html>", "is a page (HTML or XML): name the trace or the snapshot that it was made from"),
    ],
)
def test_a_file_of_a_familiar_kind_is_told_with_what_to_do(tmp_path: Path, begins: bytes, says: str) -> None:
    (tmp_path / "it").write_bytes(begins + bytes(100))
    with pytest.raises(TraceError, match=re.escape(f"it {says}")) as caught:
        load(tmp_path / "it")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_named(tmp_path: Path, missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from cuplug.tools.trace import main; main()"
    done = run("summary", "x", cwd=tmp_path, code=code)
    assert done.returncode == 2
    assert done.stderr == f"cuplug-trace: {missing} is not installed: pip install typer rich\n"


def test_a_file_in_place_of_a_command_is_told_the_command(refused: Callable[..., str], small_trace: Path) -> None:
    assert f"is a file, and no command: did you mean summary {small_trace}?" in refused(small_trace)
    assert "Did you mean 'summary'?" in refused("sumary")


def test_output_that_is_not_a_terminal_has_no_control_characters(tmp_path: Path, small_trace: Path) -> None:
    for words in (["summary", str(small_trace)], ["dump", str(small_trace)], ["allocators"]):
        done = run(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert "\x1b" not in done.stdout
        assert "\r" not in done.stdout


@pytest.mark.parametrize("words", [["dump", "small.cuplug"], ["summary", "small.cuplug"], ["--help"]])
@pytest.mark.usefixtures("small_trace")
def test_a_reader_that_has_gone_is_no_error_and_gives_status_141(tmp_path: Path, words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, str(door.__file__), *words]
        done = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 141


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
    assert re.fullmatch(r"cuplug \d+\.\d+\S*", command("--version").stdout.strip())
    names = ["record", "summary", "dump", "allocators", "demo", "report", "replay", "advise", "fit", "top", "compare"]
    for name in [*names, "diff", "export"]:
        told = command(name, "--help").stdout
        assert "Usage: cuplug-trace" in told
        assert "<" not in told, "a type of Python's says nothing to a user"


def test_the_help_has_the_commands_in_groups_and_no_sentence_is_cut_off(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = command("--help").stdout
    groups = re.findall(r"(?m)^(Record|Understand|Compare|Plan|Other|Commands):$", told)
    assert groups == ["Record", "Understand", "Compare", "Plan", "Other"]
    assert "..." not in told.replace("[ARGS]...", "")


def test_short_options_mean_the_same_in_every_command() -> None:
    meanings: dict[str, set[str]] = {}
    for one in made_of(app).commands.values():  # type: ignore[attr-defined]
        for option in one.params:
            for short in (name for name in option.opts if re.fullmatch("-[a-z]", name)):
                longs = {name for name in option.opts if name.startswith("--")}
                meanings.setdefault(short, set()).update(longs)
    assert meanings.pop("-m") == {"--memory"}  # of programs, as Python's own -m, which has no other name
    assert {short: len(found) for short, found in meanings.items()} == dict.fromkeys(meanings, 1)


def test_diff_says_which_of_its_files_is_which(command: Command) -> None:
    assert re.search(r"diff \[OPTIONS\] \{?BEFORE\}? \{?AFTER\}?\n", command("diff", "--help").stdout)


def test_no_command_gives_the_help(command: Command) -> None:
    result = command()
    assert result.exit_code == 0
    assert "Usage: cuplug-trace" in result.stdout
    assert "summary" in result.stdout


def completed(words: str, cwd: Path) -> list[str]:
    asked = {"_CUPLUG_TRACE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    code = f"import os; os.environ.update({asked!r}); from cuplug.tools.trace import main; main()"
    return run(cwd=cwd, code=code).stdout.split()


def test_the_shell_completes_commands_and_values(tmp_path: Path) -> None:
    assert completed("cuplug-trace su", tmp_path) == ["summary"]
    assert completed("cuplug-trace replay x -a exp", tmp_path) == ["expandable"]
    assert completed("cuplug-trace summary x --by l", tmp_path) == ["library"]
    assert known_allocators("bump:ch") == ["bump:chunk_size="]
    assert known_drivers("si") == ["sim"]
