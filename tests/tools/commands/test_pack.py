"""``cuplug-trace pack``: MiniMalloc's CSV in and out."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from ..conftest import Command

FOUR = "id,lower,upper,size\na,0,4,6\nb,0,2,4\nc,2,6,4\nd,4,6,6\n"


def test_the_answer_is_the_input_with_offsets_and_the_bound_is_told(command: Command, tmp_path: Path) -> None:
    given, answer = tmp_path / "in.csv", tmp_path / "out.csv"
    given.write_text(FOUR)
    result = command("pack", given, "--capacity", "10", "-o", answer)
    assert result.exit_code == 0, result.stderr
    assert "4 buffers in 10 bytes" in result.stderr
    assert "as many as 10 live at once" in result.stderr
    with answer.open() as file:
        rows = list(csv.DictReader(file))
    assert [",".join(list(row.values())[:4]) for row in rows] == FOUR.split()[1:]
    assert {row["id"]: int(row["offset"]) for row in rows} in (
        {"a": 0, "b": 6, "c": 6, "d": 0},
        {"a": 4, "b": 0, "c": 0, "d": 4},
    )


def test_what_does_not_fit_gives_status_one_and_no_file(command: Command, tmp_path: Path) -> None:
    given, answer = tmp_path / "in.csv", tmp_path / "out.csv"
    given.write_text(FOUR)
    result = command("pack", given, "--capacity", "9", "-o", answer)
    assert result.exit_code == 1
    assert "cannot be packed into 9 bytes" in result.stderr
    assert not answer.exists()


def test_without_a_capacity_the_least_height_is_found(command: Command, tmp_path: Path) -> None:
    given, answer = tmp_path / "in.csv", tmp_path / "out.csv"
    given.write_text("id,lower,upper,size\n1,0,3,4\n2,2,5,4\n3,4,7,4\n")
    result = command("pack", given, "-o", answer)
    assert result.exit_code == 0, result.stderr
    assert "3 buffers in 8 bytes" in result.stderr


def test_a_file_that_is_none_is_refused_by_its_line(refused: Callable[..., str], tmp_path: Path) -> None:
    given = tmp_path / "in.csv"
    given.write_text("id,lower,size\n1,0,3\n")
    assert "has no column upper" in refused("pack", given, "-o", tmp_path / "out.csv")
    given.write_text("id,lower,upper,size\n1,0,3,4\n2,5,3,4\n")
    assert "line 3" in refused("pack", given, "-o", tmp_path / "out.csv")
    assert "cannot read" in refused("pack", tmp_path / "none.csv", "-o", tmp_path / "out.csv")


def test_a_trace_is_told_from_buffers(refused: Callable[..., str], small_trace: Path, tmp_path: Path) -> None:
    said = refused("pack", small_trace, "-o", tmp_path / "out.csv")
    assert "is no CSV file of the columns id,lower,upper,size; for a trace there is cuplug-trace plan" in said
