"""``summary`` begins with what follows from it, for whoever brings the file of a job that died."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ..conftest import Command
from ..made_snapshots import BASE, MIB, MadeSnapshot, saved, snapshot_of, split_for_small_blocks

FORWARD = ("forward", "/home/u/model.py", 39)


@pytest.fixture
def little(tmp_path: Path) -> Path:
    """One line of the program and one operation hold as much as one another."""
    made = MadeSnapshot()
    for number, frames in enumerate(((("at::_ops::bmm::call(at::Tensor)", "??", 0),), (FORWARD,))):
        made.reserve(BASE + number * 1024 * MIB, 384 * MIB)
        made.allocate(BASE + number * 1024 * MIB, 384 * MIB, *frames)
    return saved(tmp_path / "little.pickle", snapshot_of(made))


def test_a_little_history_ends_in_a_conclusion_and_asks_for_the_memory(command: Command, little: Path) -> None:
    text = " ".join(command("summary", little).stdout.split())
    conclusion, _, figures = text.partition(" Peak bytes")
    assert figures
    assert "Hardly anything is wasted: 768.00 MiB are reserved for 768.00 MiB asked for." in conclusion
    assert "Most is held by forward (model.py:39)." in conclusion
    assert "It is little history, 4 events. No request of device 0 failed in this file." in conclusion
    assert f"give the memory that it had: cuplug-trace advise {little} --memory SIZE" in conclusion


def test_most_is_half_and_more_and_the_line_that_reaches_the_peak_is_named(command: Command, tmp_path: Path) -> None:
    made = MadeSnapshot()
    for number, size in enumerate((400, 300, 300)):
        made.reserve(BASE + number * 1024 * MIB, size * MIB)
        made.allocate(BASE + number * 1024 * MIB, size * MIB, (f"layer{number}", "/home/u/model.py", number + 1))
    text = " ".join(command("summary", saved(tmp_path / "three.pickle", snapshot_of(made))).stdout.split())
    assert "The largest part is held by layer0 (model.py:1)." in text
    assert "peak of what is requested: reached at layer2 (model.py:3)" in text


@pytest.mark.parametrize(
    ("reserved", "told"),
    [(1050, "Hardly anything is wasted: 1.03 GiB"), (1060, "Little is wasted, 60.00 MiB: 1.04 GiB")],
)
def test_from_a_twentieth_on_how_much_is_wasted_is_told(
    command: Command, tmp_path: Path, reserved: int, told: str
) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, reserved * MIB)
    made.allocate(BASE, 1000 * MIB)
    text = " ".join(command("summary", saved(tmp_path / "made.pickle", snapshot_of(made))).stdout.split())
    assert f"{told} are reserved for 1000.00 MiB asked for." in text


def test_a_program_smaller_than_a_segment_is_not_sent_to_other_allocators(command: Command, tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 20 * MIB)
    made.allocate(BASE, 8 * MIB, FORWARD)
    text = command("summary", saved(tmp_path / "toy.pickle", snapshot_of(made))).stdout
    assert "Little is wasted, 12.00 MiB: 20.00 MiB are reserved for 8.00 MiB asked for." in text
    assert "Try other allocators" not in text


def test_who_holds_most_is_told_beside_what_is_idle(command: Command, tmp_path: Path) -> None:
    made = MadeSnapshot()
    for number, frames in enumerate(((), (FORWARD,))):
        made.reserve(BASE + number * 1024 * MIB, 384 * MIB)
        made.allocate(BASE + number * 1024 * MIB, (300 + number) * MIB, *frames)
        if not frames:
            made.free(BASE)
    text = command("summary", saved(tmp_path / "idle.pickle", snapshot_of(made))).stdout
    assert "Try other allocators" in text
    assert text.index("Most is held by forward (model.py:39).") < text.index("Peak  ")


def test_what_is_unused_is_a_list_whose_points_have_verbs(command: Command, tmp_path: Path) -> None:
    path = saved(tmp_path / "split.pickle", split_for_small_blocks())
    text = command("summary", path).stdout
    points = re.findall(r"(?m)^- (.*)$", text)
    assert points == ["600.00 MiB is a segment that is free as a whole"]
    assert text.index("Of 600.00 MiB unused:") < text.index("Peak  ")


def test_a_request_that_failed_is_not_denied(command: Command, tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 600 * MIB)
    made.allocate(BASE, 600 * MIB, FORWARD)
    made.entry("oom", 0, 700 * MIB, device_free=90 * MIB)
    path = saved(tmp_path / "failed.pickle", snapshot_of(made))
    for name in ("summary", "advise"):
        text = command(name, path).stdout
        assert "No request of device" not in text
        assert "needs more than there is" in text


def test_a_command_to_copy_stands_on_a_line_of_its_own_and_names_the_file_as_a_shell_reads_it(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "the runs of May"
    folder.mkdir()
    path = saved(folder / "it's.pickle", split_for_small_blocks())
    commands = re.findall(r"(?m)^cuplug-trace .*$", command("summary", path).stdout)
    assert {tuple(shlex.split(one)) for one in commands} == {
        ("cuplug-trace", "advise", str(path)),
        ("cuplug-trace", "advise", str(path), "--memory", "SIZE"),
    }
