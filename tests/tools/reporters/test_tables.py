"""Tables fit the terminal: columns that matter less go first, names stay whole, and no line ends in blanks."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuplug.tools.reporters.tables import Column, facts, table
from rich.text import Text

from ..conftest import Command

COLUMNS = (Column("Name", left=True), Column("bytes", rank=2), Column("size"), Column("calls", left=True, rank=1))
ROWS = [("short", "12345678", "11.8 MiB", "3 Alloc"), (Text("a long name"), "1", "1 B", "")]


def test_columns_go_by_rank_until_the_table_fits() -> None:
    assert table(COLUMNS, ROWS, 80).plain == (
        "Name            bytes      size  calls\n"
        "short        12345678  11.8 MiB  3 Alloc\n"
        "a long name         1       1 B"
    )
    assert table(COLUMNS, ROWS, 39).plain.splitlines()[0] == "Name             size  calls"
    assert table(COLUMNS, ROWS, 25).plain.splitlines() == [
        "Name             size", "short        11.8 MiB", "a long name       1 B",
    ]  # fmt: skip


def test_what_is_left_stays_whole_however_narrow_the_terminal() -> None:
    assert table(COLUMNS, ROWS, 5).plain == table(COLUMNS, ROWS, 25).plain


def test_a_table_without_rows_has_its_titles() -> None:
    assert table(COLUMNS, [], 80).plain == "Name  bytes  size  calls"


def test_characters_of_two_columns_count_as_two() -> None:
    lines = table((Column("a", left=True), Column("b")), [("日本", "1"), ("xx", "2")], 80).plain.splitlines()
    assert lines[1:] == ["日本  1", "xx    2"]


def test_facts_hang_beside_their_names_and_wrap_between_words() -> None:
    told = facts(
        [("events", "12 in one second and a half"), ("", "besides"), ("name", "/a/very/long/path/to-a-file")], 28
    )
    assert told.splitlines() == [
        "events  12 in one second and", "        a half", "        besides", "name    /a/very/long/path/to-a-file",
    ]  # fmt: skip


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize(
    "words",
    [
        ("summary", "{}"),
        ("replay", "{}", "-a", "caching:max_split_size=256MiB", "-a", "direct", "-j", "1"),
        ("advise", "{}", "-j", "1", "--memory", "1GiB"),
        ("fit", "{}", "-a", "direct", "-a", "caching:roundup_power2_divisions=16", "-j", "1"),
        ("compare", "{}", "-a", "direct", "-j", "1"),
        ("diff", "{}", "{}"),
        ("top", "{}", "--once"),
        ("allocators",),
        ("--help",),
    ],
)
def test_every_command_fits_the_terminal(
    command: Command, small_trace: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    trace = small_trace.rename(small_trace.parents[1] / "t")
    monkeypatch.chdir(trace.parent)
    result = command(*(word.format(trace.name) for word in words))
    assert result.exit_code == 0, result.output
    for line in result.stdout.splitlines():
        assert line == line.rstrip(), repr(line)
        assert len(line) <= columns, line
    for name in words:
        if ":" in name:
            assert name in result.stdout  # in one piece


def test_without_colour_nothing_but_text_is_printed(
    command: Command, small_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31m" in command("summary", small_trace).stdout  # the failed allocation is red
    assert "\x1b[31m" not in command("--no-color", "summary", small_trace).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in command("summary", small_trace).stdout
